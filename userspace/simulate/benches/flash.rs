// SPDX-License-Identifier: GPL-2.0-or-later
//! How fast the flash model is, on one core, under uniform random writes:
//! `tests/cargo userspace bench --workspace --bench flash`.

use std::time::Instant;

use simulate::flash::{Config, Destination, Flash, Gc};

fn main() {
    for (gib, op, gc) in [
        (1, 0.07, Gc::Greedy),
        (1, 0.28, Gc::Greedy),
        (1, 0.28, Gc::CostBenefit),
        (16, 0.07, Gc::Greedy),
        (16, 0.28, Gc::Greedy),
        (16, 0.28, Gc::CostBenefit),
    ] {
        let mut f = Flash::new(&Config {
            pages: gib << 18,
            unit: 4096,
            op,
            streams: 1,
            gc,
            destination: Destination::Shared,
            keep_free: 0.0,
        })
        .unwrap();
        let pages = u64::from(f.pages());
        for page in 0..f.pages() {
            f.write(page, 0);
        }
        let mut x = 1u64;
        let mut run = |f: &mut Flash, n: u64| {
            for _ in 0..n {
                x ^= x >> 12;
                x ^= x << 25;
                x ^= x >> 27;
                let page = ((x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) * pages) >> 32;
                f.write(page as u32, 0);
            }
        };
        run(&mut f, pages);
        let start = f.counts().clone();
        let clock = Instant::now();
        run(&mut f, 2 * pages);
        let seconds = clock.elapsed().as_secs_f64();
        let host = 2.0 * pages as f64 / seconds / 1e6;
        let waf = f.counts().waf_since(&start);
        println!(
            "{gib:3} GiB, op {op}, {gc:?}: {host:.1} M host writes/s at WAF {waf:.2}, {:.1} M page writes/s",
            host * waf
        );
    }
}
