// SPDX-License-Identifier: GPL-2.0-or-later
//! Prints Documentation/metrics.md: `tests/cargo userspace run --release -p dsm-manual --bin metrics`.

fn main() {
    print!("{}", show::metrics::page());
}
