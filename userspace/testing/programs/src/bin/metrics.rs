// SPDX-License-Identifier: GPL-2.0-or-later
//! Prints Documentation/metrics.md: `tests/cargo userspace run --release -p testing-programs --bin metrics`.

fn main() {
    print!("{}", dsm_exporter::metrics::page());
}
