// SPDX-License-Identifier: GPL-2.0-or-later
//! Serves metrics for Prometheus, and a page for people with the last hour.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};

use dsm::base::log;
use dsm::daemon::config::Config;
use dsm::show::host::Host;
use dsm::show::metrics;
use dsm::show::page_history::{self, History, INTERVAL};
use dsm::show::sample::Sample;

/// A client that is slower than this is let go.
const PATIENCE: Duration = Duration::from_secs(5);
/// A longer head is neither Prometheus's nor a browser's.
const LONGEST: usize = 16 * 1024;
/// Clients at a time; browsers open connections that they do not use.
const CLIENTS: usize = 16;

const PAGE: &str = include_str!("dashboard.html");

struct Web {
    devices: Vec<String>,
    run_dir: PathBuf,
    /// Whether only this machine can ask.
    loopback: bool,
    history: Mutex<History>,
}

pub fn start(address: SocketAddr, config: &Config) -> Result<()> {
    let listener =
        TcpListener::bind(address).with_context(|| format!("cannot serve metrics at {address}"))?;
    log!(Info, "metrics", address = listener.local_addr()?);
    let web = Arc::new(Web {
        devices: config.databases.iter().map(|d| d.device.clone()).collect(),
        run_dir: config.run_dir.clone(),
        loopback: address.ip().is_loopback(),
        history: Mutex::default(),
    });
    let historian = Arc::clone(&web);
    thread::Builder::new()
        .name("history".into())
        .spawn(move || historian.remember())
        .context("cannot start the history thread")?;
    thread::Builder::new()
        .name("metrics".into())
        .spawn(move || serve(&listener, &web))
        .context("cannot start the metrics thread")?;
    Ok(())
}

fn serve(listener: &TcpListener, web: &Arc<Web>) {
    let here = Arc::new(());
    for stream in listener.incoming() {
        let client = (Arc::clone(web), Arc::clone(&here));
        let started = stream.and_then(|stream| {
            if Arc::strong_count(&client.1) > CLIENTS + 1 {
                return Ok(());
            }
            let answer = move || {
                // A client's failure is its own.
                let _ = client.0.answer(stream);
                drop(client.1);
            };
            thread::Builder::new()
                .name("client".into())
                .spawn(answer)
                .map(drop)
        });
        if started.is_err() {
            // Out of descriptors, most likely: do not spin.
            thread::sleep(Duration::from_millis(100));
        }
    }
}

struct Answer {
    status: &'static str,
    kind: &'static str,
    text: String,
}

impl Answer {
    fn ok(kind: &'static str, text: String) -> Self {
        Self {
            status: "200 OK",
            kind,
            text,
        }
    }

    fn refusal(status: &'static str, sentence: &str) -> Self {
        Self {
            status,
            kind: "text/plain; charset=utf-8",
            text: format!("{sentence}\n"),
        }
    }
}

impl Web {
    fn samples(&self) -> Vec<Sample> {
        let take = |d: &String| Sample::take(d, &self.run_dir);
        self.devices.iter().map(take).collect()
    }

    /// Takes a point an interval.
    fn remember(&self) {
        let began = Instant::now();
        loop {
            let now = page_history::Instant {
                wall: SystemTime::now()
                    .duration_since(SystemTime::UNIX_EPOCH)
                    .unwrap_or_default()
                    .as_secs_f64(),
                monotonic: began.elapsed(),
            };
            let (host, samples) = (Host::now(), self.samples());
            self.history().add(now, host, samples);
            let into = began.elapsed().as_nanos() % INTERVAL.as_nanos();
            thread::sleep(INTERVAL - Duration::from_nanos(into as u64));
        }
    }

    fn history(&self) -> std::sync::MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        stream.set_write_timeout(Some(PATIENCE))?;
        let a = self.answer_to(&head(&mut stream)?);
        write!(
            stream,
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\
             Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
             Content-Security-Policy: default-src 'none'; connect-src 'self'; \
             style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n\r\n{}",
            a.status,
            a.kind,
            a.text.len(),
            a.text
        )
    }

    fn answer_to(&self, head: &str) -> Answer {
        let mut lines = head.lines();
        let words: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
        let ["GET", target, _] = words[..] else {
            return Answer::refusal("405 Method Not Allowed", "there is nothing here but to GET");
        };
        let host = lines.find_map(|l| {
            let (name, value) = l.split_once(':')?;
            name.eq_ignore_ascii_case("host").then(|| value.trim())
        });
        if self.loopback && !host.is_none_or(is_this_machine) {
            return Answer::refusal(
                "403 Forbidden",
                "the name of the host must be localhost or an address",
            );
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        match path {
            "/" => Answer::ok("text/html; charset=utf-8", PAGE.to_owned()),
            "/metrics" => Answer::ok(
                "text/plain; version=0.0.4; charset=utf-8",
                metrics::text(&self.samples(), &Host::now()),
            ),
            "/history" => {
                let after = query.strip_prefix("after=").unwrap_or("0").parse();
                let Ok(after) = after else {
                    return Answer::refusal("400 Bad Request", "after= takes the number of a point");
                };
                Answer::ok("application/json", self.history().json(after).to_string())
            }
            _ => Answer::refusal("404 Not Found", "there are /, /metrics and /history"),
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

/// The request line and the headers.
fn head(stream: &mut TcpStream) -> std::io::Result<String> {
    let end = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut buf = [0u8; 1024];
    while !head.windows(4).any(|w| w == b"\r\n\r\n") && head.len() < LONGEST {
        let left = end.saturating_duration_since(Instant::now());
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        match stream.read(&mut buf)? {
            0 => break,
            n => head.extend_from_slice(&buf[..n]),
        }
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn web(loopback: bool) -> Web {
        Web {
            devices: vec!["no-such-device".into()],
            run_dir: "/nonexistent".into(),
            loopback,
            history: Mutex::default(),
        }
    }

    fn status(web: &Web, head: &str) -> String {
        web.answer_to(head).status[..3].to_owned()
    }

    #[test]
    fn what_is_there() {
        let w = web(true);
        for (head, code) in [
            ("GET / HTTP/1.1\r\nHost: localhost:9187\r\n\r\n", "200"),
            ("GET / HTTP/1.1\r\nhost: 127.0.0.1:9187\r\n\r\n", "200"),
            ("GET / HTTP/1.1\r\nHost: [::1]:9187\r\n\r\n", "200"),
            ("GET /metrics HTTP/1.0\r\n\r\n", "200"),
            ("GET /metrics HTTP/1.1\r\nHost: evil.example:9187\r\n\r\n", "403"),
            ("GET /history?after=3 HTTP/1.1\r\n\r\n", "200"),
            ("GET /history?after=x HTTP/1.1\r\n\r\n", "400"),
            ("GET /etc/passwd HTTP/1.1\r\n\r\n", "404"),
            ("POST / HTTP/1.1\r\n\r\n", "405"),
            ("", "405"),
        ] {
            assert_eq!(status(&w, head), code, "{head}");
        }
        let named = "GET / HTTP/1.1\r\nHost: db7.example:9187\r\n\r\n";
        assert_eq!(status(&web(false), named), "200", "other machines use names");
    }

    #[test]
    fn a_device_that_is_not_there_is_told() {
        let w = web(true);
        w.history().add(
            page_history::Instant {
                wall: 0.0,
                monotonic: Duration::ZERO,
            },
            Host::default(),
            w.samples(),
        );
        let a = w.answer_to("GET /history HTTP/1.1\r\n\r\n");
        let said: serde_json::Value = serde_json::from_str(&a.text).unwrap();
        assert_eq!(said["devices"][0]["name"], "no-such-device");
        assert_eq!(said["devices"][0]["about"]["up"], false);
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
