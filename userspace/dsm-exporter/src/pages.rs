// SPDX-License-Identifier: GPL-2.0-or-later
//! The page, the metrics and the history, from what `dsmd` has published.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use dsm_exporter::metrics;
use dsm_exporter::page_history::{History, ROOM};
use proto::snapshot::{Snapshot, Unavailable};
use runtime::log;

use crate::http::{AnswerRoom, HttpAnswer, RequestHead};

/// Between two looks at the file.
const LOOK: Duration = Duration::from_millis(500);

const PAGE: &str = include_str!("dashboard.html");

pub(crate) struct ServedPages {
    run_dir: PathBuf,
    /// Whether only this machine can ask.
    loopback: bool,
    answers: Arc<AnswerRoom>,
    seen: Mutex<SeenSnapshot>,
}

#[derive(Default)]
struct SeenSnapshot {
    /// The last that was understood.
    snapshot: Option<Snapshot>,
    unavailable: Option<Unavailable>,
    history: History,
}

impl SeenSnapshot {
    fn look(&mut self, run_dir: &Path) {
        match Snapshot::current(run_dir) {
            Ok(snapshot) => {
                if self.unavailable.take().is_some() {
                    log!(Info, "dsmd publishes");
                }
                self.history.add(&snapshot);
                self.snapshot = Some(snapshot);
            }
            Err(unavailable) => {
                if self.unavailable.is_none() {
                    log!(Warn, "there is nothing to show", reason = unavailable);
                }
                self.unavailable = Some(unavailable);
            }
        }
    }
}

impl ServedPages {
    pub(crate) fn new(run_dir: &Path, loopback: bool) -> Self {
        let pages = Self {
            run_dir: run_dir.to_owned(),
            loopback,
            answers: Arc::default(),
            seen: Mutex::default(),
        };
        pages.seen().look(run_dir);
        pages
    }

    fn seen(&self) -> MutexGuard<'_, SeenSnapshot> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the file in a thread of its own.
    pub(crate) fn follow(self: &Arc<Self>) -> Result<()> {
        let pages = Arc::clone(self);
        thread::Builder::new()
            .name("follow".into())
            .spawn(move || loop {
                thread::sleep(LOOK);
                pages.seen().look(&pages.run_dir);
            })
            .map(drop)
            .context("cannot start a thread")
    }

    fn metrics(&self) -> String {
        let seen = self.seen();
        metrics::text(seen.snapshot.as_ref(), seen.unavailable.as_ref())
    }

    pub(crate) fn answer(&self, head: &RequestHead) -> HttpAnswer {
        if !["GET", "HEAD"].contains(&head.method.as_str()) {
            return HttpAnswer::refusal("405 Method Not Allowed", "only GET and HEAD are allowed");
        }
        if self.loopback && !head.host.as_deref().is_none_or(is_this_machine) {
            return HttpAnswer::refusal(
                "403 Forbidden",
                "the name of the host must be localhost or an address",
            );
        }
        let (path, query) = head.target.split_once('?').unwrap_or((&head.target, ""));
        match path {
            "/" => HttpAnswer::ok("text/html; charset=utf-8", PAGE.to_owned()),
            "/metrics" => HttpAnswer::ok("text/plain; version=0.0.4; charset=utf-8", self.metrics()),
            "/history" => {
                let Ok(after) = query.strip_prefix("after=").unwrap_or("0").parse() else {
                    return HttpAnswer::refusal("400 Bad Request", "after= takes the number of a point");
                };
                let seen = self.seen();
                let Some(share) = self.answers.share(seen.history.bytes(after), ROOM) else {
                    let reason = "others are being answered at length: ask again";
                    return HttpAnswer::refusal("503 Service Unavailable", reason);
                };
                let json = seen.history.json(after, seen.unavailable.as_ref());
                HttpAnswer {
                    _share: Some(share),
                    ..HttpAnswer::ok("application/json", json)
                }
            }
            _ => HttpAnswer::refusal("404 Not Found", "there are /, /metrics and /history"),
        }
    }
}

/// The page of another site, whose name was made to lead to here, may not read
/// along.
fn is_this_machine(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, port)| {
        if port.bytes().all(|b| b.is_ascii_digit()) {
            name
        } else {
            host
        }
    });
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http;
    use proto::device::{DeviceView, Service};
    use proto::snapshot::{self, Moment};

    fn pages(loopback: bool) -> ServedPages {
        ServedPages::new(Path::new("/nonexistent"), loopback)
    }

    fn ask(pages: &ServedPages, head: &str) -> HttpAnswer {
        pages.answer(&http::parse(head.as_bytes()).unwrap().unwrap())
    }

    fn get(pages: &ServedPages, target: &str) -> String {
        let a = ask(pages, &format!("GET {target} HTTP/1.0\n\n"));
        assert_eq!(a.status, "200 OK");
        a.text
    }

    #[test]
    fn what_is_there() {
        let p = pages(true);
        for (head, code) in [
            ("GET / HTTP/1.1\r\nHost: localhost:19187\r\n\r\n", "200"),
            ("GET / HTTP/1.1\r\nhost: 127.0.0.1:19187\r\n\r\n", "200"),
            ("GET / HTTP/1.1\r\nHost: [::1]:19187\r\n\r\n", "200"),
            ("HEAD / HTTP/1.1\r\nHost: [::1]:19187\r\n\r\n", "200"),
            ("GET /metrics HTTP/1.0\r\n\r\n", "200"),
            ("GET /metrics HTTP/1.1\r\nHost: evil.example:19187\r\n\r\n", "403"),
            ("GET /metrics HTTP/1.0\r\nHost: evil.example:19187\r\n\r\n", "403"),
            ("GET /history?after=3 HTTP/1.0\r\n\r\n", "200"),
            ("GET /history?after=x HTTP/1.0\r\n\r\n", "400"),
            ("GET /etc/passwd HTTP/1.0\r\n\r\n", "404"),
            ("POST / HTTP/1.0\r\n\r\n", "405"),
        ] {
            assert_eq!(&ask(&p, head).status[..3], code, "{head}");
        }
        let named = "GET / HTTP/1.1\r\nHost: db7.example:19187\r\n\r\n";
        assert_eq!(
            ask(&pages(false), named).status,
            "200 OK",
            "other machines use names"
        );
    }

    #[test]
    fn dsmd_comes_and_goes() {
        let dir = tempfile::tempdir().unwrap();
        let pages = ServedPages::new(dir.path(), true);
        let look = || pages.seen().look(dir.path());
        assert!(get(&pages, "/metrics").contains("\ndsm_agent_up 0\n"));
        let reason = format!(
            "no dsmd runs: there is no file of one in {}",
            dir.path().display()
        );
        assert!(get(&pages, "/metrics").contains(&format!("# {reason}\n")));

        let publish = |at| {
            let view = DeviceView {
                name: "no-such-device".into(),
                at,
                service: Some(Service::default()),
                ..DeviceView::default()
            };
            snapshot::publish(dir.path(), &view).unwrap();
        };
        let first = Moment::now();
        publish(first);
        look();
        let metrics = get(&pages, "/metrics");
        assert!(
            metrics.contains("\ndsm_up{device=\"no-such-device\"} 0\n"),
            "{metrics}"
        );
        let published = metrics
            .lines()
            .find_map(|l| l.strip_prefix("dsm_snapshot_timestamp_seconds "));
        let published: f64 = published.unwrap().parse().unwrap();
        assert!((published - first.wall).abs() < 0.001, "{published}");
        let history =
            |p: &ServedPages| serde_json::from_str::<serde_json::Value>(&get(p, "/history")).unwrap();
        let said = history(&pages);
        assert_eq!(said["devices"][0]["name"], "no-such-device");
        assert_eq!(said["devices"][0]["view"]["kernel"], serde_json::Value::Null);
        assert!(said["last_error"].is_null());

        // dsmd is stuck: what it said last is no longer said.
        let mut old = Moment::now();
        old.monotonic = old.monotonic.saturating_sub(Duration::from_secs(31));
        publish(old);
        look();
        let metrics = get(&pages, "/metrics");
        assert!(
            metrics.contains("\ndsm_agent_up{device=\"no-such-device\"} 0\n"),
            "{metrics}"
        );
        assert!(!metrics.contains("\ndsm_up{"), "{metrics}");
        assert!(
            metrics.contains("\ndsm_agent_state{device=\"no-such-device\",state=\"stuck\"} 1\n"),
            "{metrics}"
        );
        snapshot::remove(dir.path(), "no-such-device");
        look();
        assert_eq!(history(&pages)["last_error"], reason);
    }

    #[test]
    fn the_page_needs_nothing_from_elsewhere() {
        // The name of SVG's language is the one address in it.
        let rest = PAGE.replace("http://www.w3.org/2000/svg", "");
        for outside in ["http:", "https:", "src=", "@import", "url(", "<link"] {
            assert!(!rest.contains(outside), "{outside}");
        }
    }
}
