// SPDX-License-Identifier: GPL-2.0-or-later
//! dsm-exporter beside a dsmd.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A dsmd whose device is not there, publishing in a directory of its own.
struct Dsmd {
    child: Child,
    dir: tempfile::TempDir,
}

impl Dsmd {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("no-such-device.toml");
        std::fs::write(&config, "dbpath = '/nonexistent'\n").unwrap();
        // Tests of the whole workspace have built it.
        let program = Path::new(env!("CARGO_BIN_EXE_dsm-exporter")).with_file_name("dsmd");
        let child = Command::new(&program)
            .arg("--config")
            .arg(&config)
            .arg("--run-dir")
            .arg(dir.path())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|e| panic!("{}: {e}: build dsmd first", program.display()));
        Self { child, dir }
    }

    /// Ends it as a service manager does.
    fn end(mut self) -> tempfile::TempDir {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
        std::mem::replace(&mut self.dir, tempfile::tempdir().unwrap())
    }
}

impl Drop for Dsmd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A dsm-exporter at a port that is free.
struct Exporter {
    child: Child,
    address: String,
}

impl Exporter {
    fn start(run_dir: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_dsm-exporter"))
            .args(["--listen", "0", "--run-dir"])
            .arg(run_dir)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = log
            .find(|l| l.as_ref().unwrap().contains("info serving"))
            .unwrap();
        let (_, address) = line.as_ref().unwrap().trim().split_once("address=").unwrap();
        let address = address.to_owned();
        std::thread::spawn(move || log.for_each(drop));
        Self { child, address }
    }

    fn get(&self, request: &str) -> String {
        let mut s = TcpStream::connect(&self.address).unwrap();
        write!(s, "{request}\r\nHost: localhost\r\n\r\n").unwrap();
        let mut reply = String::new();
        s.read_to_string(&mut reply).unwrap();
        reply
    }

    /// Asks until the reply has this.
    fn until(&self, request: &str, what: &str) -> String {
        let end = std::time::Instant::now() + Duration::from_secs(600);
        loop {
            let reply = self.get(request);
            if reply.contains(what) {
                return reply;
            }
            assert!(std::time::Instant::now() < end, "{what} never came: {reply}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn metrics_are_served() {
    let dsmd = Dsmd::start();
    let exporter = Exporter::start(dsmd.dir.path());
    assert!(exporter.address.starts_with("127.0.0.1:"));
    let reply = exporter.until("GET /metrics HTTP/1.1", "\ndsm_up{");
    assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply}");
    for line in [
        "\ndsm_up{device=\"no-such-device\"} 0\n",
        "\ndsm_agent_up{device=\"no-such-device\"} 0\n",
    ] {
        assert!(reply.contains(line), "{reply}");
    }
    assert!(reply.contains("\nprocess_resident_memory_bytes "), "{reply}");
    assert!(exporter.get("GET / HTTP/1.1").contains("\r\n\r\n<!doctype html>"));
    exporter.until("GET /history HTTP/1.1", "\"name\":\"no-such-device\"");
    assert!(exporter.get("GET /else HTTP/1.1").starts_with("HTTP/1.1 404 "));
    assert!(exporter
        .get("POST /metrics HTTP/1.1")
        .starts_with("HTTP/1.1 405 "));
    assert!(exporter.get("x").starts_with("HTTP/1.1 400 "));

    // dsmd ends: it is said, and it comes back.
    let run_dir = dsmd.end();
    let end = std::time::Instant::now() + Duration::from_secs(600);
    let mut reply = exporter.get("GET /metrics HTTP/1.1");
    while reply.contains("\ndsm_up{") && std::time::Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
        reply = exporter.get("GET /metrics HTTP/1.1");
    }
    assert!(!reply.contains("\ndsm_up{"), "{reply}");
    assert!(
        reply.contains("\ndsm_agent_up{device=\"no-such-device\"} 0\n"),
        "{reply}"
    );
    assert!(reply.contains("\nprocess_resident_memory_bytes 0\n"), "{reply}");
    std::fs::remove_file(run_dir.path().join("no-such-device.json")).unwrap();
    exporter.until("GET /history HTTP/1.1", "\"last_error\":\"no dsmd runs: ");
}
