// SPDX-License-Identifier: GPL-2.0-or-later
//! Prints Documentation/metrics.md: `cargo run --example metrics >../Documentation/metrics.md`.

fn main() {
    print!("{}", dsm::show::metrics::page());
}
