// SPDX-License-Identifier: GPL-2.0-or-later
//! Prints Documentation/metrics.md, all metrics as the code has them: `tests/cargo userspace run
//! --release -p testing-programs --bin metrics`.

use dsm_exporter::metrics::families::{Section, DEVICES, PUBLISHED, USED};
use proto::left_out::Omission;

const HEAD: &str = "<!-- SPDX-License-Identifier: GPL-2.0-only -->
<!-- Made from userspace/dsm-exporter/src/metrics/families.rs by
     tests/cargo userspace run --release -p testing-programs --bin metrics >Documentation/metrics.md -->
# Metrics

All that `dsm-exporter` serves at `/metrics`, for Prometheus. How to get at it, and the
alerts, are in [dashboard.md](dashboard.md); where the figures come from, and how old they
may be, in [dsmd.rst](dsmd.rst).

Counters begin at zero when what counts them restarts: those of the target when the
device is made, those of dsmd when it starts. Every moment is a time since 1970, not an age,
so that it says the same whenever it is looked at: `time() -
dsm_last_checkpoint_timestamp_seconds` is how long ago the last checkpoint was. What is not
known is absent, and not 0.
";

const LEFT_OUT: &str = "
## Reasons of `dsm_left_out`

`dsmctl status` has them in its line *left out*, and `dsmctl doctor` those that need attention.

| reason | what is counted |
|---|---|
";

fn section<T>(s: &Section<T>, common: &[&str]) -> String {
    let rows = s.families.iter().map(|f| {
        let labels = common.iter().chain(f.labels).map(|l| format!("`{l}`"));
        let labels: Vec<String> = labels.collect();
        format!(
            "| `{}` | {} | {} | {} |\n",
            f.name,
            f.kind,
            labels.join(", "),
            f.help
        )
    });
    let rows: Vec<String> = rows.collect();
    format!(
        "\n## {}\n\n{}\n\n| name | type | labels | meaning |\n|---|---|---|---|\n{}",
        s.title,
        s.about,
        rows.concat()
    )
}

fn page() -> String {
    let devices = DEVICES.iter().map(|s| section(s, &["device"]));
    let others = [&PUBLISHED, &USED].map(|s| section(s, &[]));
    let sections: Vec<String> = devices.chain(others).collect();
    let reason = |r: &Omission| format!("| `{}` | {} |\n", r.name(), r.text());
    let reasons: String = Omission::ALL.iter().map(reason).collect();
    HEAD.to_owned() + &sections.concat() + LEFT_OUT + &reasons
}

fn main() {
    print!("{}", page());
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../Documentation/metrics.md");
    const AGAIN: &str = "Documentation/metrics.md is not what the code has; generate it again: \
                         tests/cargo userspace run --release -p testing-programs --bin metrics >Documentation/metrics.md";

    #[test]
    fn the_page_has_what_the_code_has() {
        let there = std::fs::read_to_string(PAGE).unwrap();
        let made = page();
        let (mut old, mut new) = (there.lines(), made.lines());
        while let (Some(a), Some(b)) = (old.next(), new.next()) {
            assert_eq!(a, b, "{AGAIN}");
        }
        assert_eq!(there, made, "{AGAIN}");
    }
}
