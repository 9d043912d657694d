// SPDX-License-Identifier: GPL-2.0-or-later
//! The dashboard for Grafana goes with the metrics.  That its queries have
//! results is for `tests/check dashboard`, where a Prometheus runs them.

use std::collections::{BTreeSet, HashSet};

use serde_json::Value;

use dsm_exporter::metrics::families::{Family, DEVICES, PUBLISHED, USED};

const DASHBOARD: &str = include_str!("../../grafana/dm-dsm.json");

/// All metrics, and whether the dashboard for Grafana shows them.
fn with_panels() -> impl Iterator<Item = (&'static str, bool)> {
    fn of<T>(f: &Family<T>) -> (&'static str, bool) {
        (f.name, f.panel)
    }
    let others = [&PUBLISHED, &USED].into_iter().flat_map(|s| s.families).map(of);
    DEVICES.iter().flat_map(|s| s.families).map(of).chain(others)
}

fn panels() -> Vec<Value> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    dashboard["panels"].as_array().unwrap().clone()
}

fn targets(panel: &Value) -> &[Value] {
    panel["targets"].as_array().unwrap()
}

/// The words of all queries that are names of metrics.
fn used() -> BTreeSet<String> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut used = BTreeSet::new();
    for panel in panels() {
        for target in targets(&panel) {
            let expr = target["expr"].as_str().unwrap();
            let words = expr.split(|c| !word(c));
            let metrics: Vec<&str> = words
                .filter(|w| w.starts_with("dsm_") || w.starts_with("process_"))
                .collect();
            assert!(!metrics.is_empty(), "{expr}");
            used.extend(metrics.into_iter().map(str::to_owned));
        }
    }
    used
}

#[test]
fn every_metric_that_it_shows_is_exported() {
    let exported: BTreeSet<String> = with_panels().map(|f| f.0.to_owned()).collect();
    let unknown: Vec<_> = used().difference(&exported).cloned().collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn every_metric_is_shown_or_known_not_to_be() {
    let used = used();
    let not_shown: Vec<_> = with_panels()
        .map(|f| f.0)
        .filter(|n| !used.contains(*n))
        .collect();
    let known: Vec<_> = with_panels().filter(|f| !f.1).map(|f| f.0).collect();
    assert_eq!(not_shown, known);
}

#[test]
fn its_form_is_right() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let variables: Vec<&str> = dashboard["templating"]["list"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v["name"].as_str().unwrap())
        .collect();
    assert_eq!(variables, ["datasource", "instance", "device"]);
    assert!(
        dashboard["id"].is_null(),
        "Grafana gives a number to what it imports"
    );
    let (mut ids, mut cells) = (HashSet::new(), HashSet::new());
    for panel in panels() {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}");
        assert!(
            ["stat", "timeseries"].contains(&panel["type"].as_str().unwrap()),
            "{title}"
        );
        assert!(panel["description"].as_str().unwrap().ends_with('.'), "{title}");
        assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{title}");
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        let at = |side: &str| panel["gridPos"][side].as_u64().unwrap();
        assert!(at("x") + at("w") <= 24, "{title}");
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(cells.insert((x, y)), "{title} lies on another panel");
            }
        }
        let mut names = HashSet::new();
        for target in targets(&panel) {
            assert!(names.insert(target["refId"].as_str().unwrap()), "{title}");
            // Devices of two hosts may have one name.
            let expr = target["expr"].as_str().unwrap();
            let metrics = expr.matches("dsm_").count() - expr.matches("|dsm_").count();
            assert!(
                expr.matches("instance=~\"$instance\"").count() >= metrics.max(1),
                "{expr}"
            );
            assert!(!expr.contains("by (device"), "{expr}");
            assert!(
                target["legendFormat"].as_str().unwrap().contains("{{instance}}"),
                "{title}"
            );
        }
    }
    let bottom = cells.iter().map(|c| c.1).max().unwrap() + 1;
    assert_eq!(cells.len() as u64, 24 * bottom, "there are no gaps");
}
