// SPDX-License-Identifier: GPL-2.0-or-later
//! dsmd, as far as it needs no device.

use std::io::{BufRead, BufReader, Read, Seek};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::process::{ChildStderr, Command, Output, Stdio};
use std::time::Duration;

fn run(words: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dsmd"))
        .args(words.split_whitespace())
        .env("DSMD_RUN_DIR", "/nonexistent")
        .output()
        .unwrap()
}

fn said(o: &Output) -> String {
    String::from_utf8(o.stderr.clone()).unwrap()
}

#[test]
fn wrong_usage_ends_with_2() {
    for words in ["", "-o dbpath=/d", "--config c d", "d --dbpath /d"] {
        let o = run(words);
        assert_eq!(o.status.code(), Some(2), "{words}");
    }
}

/// A dsmd whose device is not there, with a service manager.
struct Waiting {
    child: std::process::Child,
    manager: UnixDatagram,
    dir: tempfile::TempDir,
    log: BufReader<ChildStderr>,
}

impl Waiting {
    fn start(words: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("notify");
        let manager = UnixDatagram::bind(&socket).unwrap();
        manager.set_read_timeout(Some(Duration::from_secs(600))).unwrap();
        let config = dir.path().join("no-such-device.toml");
        std::fs::write(&config, "dbpath = '/nonexistent'\n").unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_dsmd"))
            .args(words.split_whitespace())
            .arg("--config")
            .arg(&config)
            .arg("--run-dir")
            .arg(dir.path())
            .env("NOTIFY_SOCKET", &socket)
            .env("WATCHDOG_USEC", "300000")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            log: BufReader::new(child.stderr.take().unwrap()),
            child,
            manager,
            dir,
        }
    }

    fn notified(&self) -> String {
        let mut buf = [0; 256];
        // A socket with a timeout is not waited for again after SIGCHLD.
        let n = loop {
            match self.manager.recv(&mut buf) {
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                received => break received.unwrap(),
            }
        };
        String::from_utf8(buf[..n].to_vec()).unwrap().trim().to_owned()
    }

    /// The next line of its log that has this.
    fn logged(&mut self, what: &str) -> String {
        let mut line = String::new();
        while !line.contains(what) {
            line.clear();
            assert!(
                self.log.read_line(&mut line).unwrap() > 0,
                "{what} was not logged"
            );
        }
        line
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_service_manager_is_notified() {
    let mut dsmd = Waiting::start("-o log-format=json");
    let mut ready = 0;
    let mut alive = 0;
    while ready < 1 || alive < 3 {
        for news in dsmd.notified().lines() {
            match news {
                "READY=1" => ready += 1,
                "WATCHDOG=1" => alive += 1,
                other => assert!(other.starts_with("STATUS="), "{other}"),
            }
        }
    }
    assert_eq!(ready, 1);
    let line = dsmd.logged("waiting");
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["device"], "no-such-device");
    let pid = rustix::process::Pid::from_child(&dsmd.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(dsmd.child.wait().unwrap().success());
    let published = std::fs::read_to_string(dsmd.dir.path().join("no-such-device.json")).unwrap();
    assert!(published.contains("\"state\":\"ended\""), "{published}");
}

#[test]
fn a_wrong_configuration_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let check = |text: &str| {
        std::fs::write(at("c.toml"), text).unwrap();
        run(&format!("--config {}", at("c.toml")))
    };
    let good = format!("dbpath = '/d'\nrules = '{}'\n", at("rules"));
    std::fs::write(at("rules"), "a.wt indices\n").unwrap();
    assert_eq!(
        said(&check(&good)),
        format!(
            "dsmd: {}: line 1: class 'indices': must be collection, index, primary, journal, oplog or other\n",
            at("rules")
        )
    );
    let o = check(&good.replace("dbpath", "path"));
    assert_eq!(o.status.code(), Some(1));
    assert_eq!(said(&o).lines().count(), 1, "{}", said(&o));
    assert!(
        said(&o).contains("c.toml: line 1: unknown field `path`"),
        "{}",
        said(&o)
    );
    // What may have a password in it is refused, and not shown.
    let o = check(&format!("{good}uri = 'mongodb://u:geheim@db1'\n"));
    assert!(
        said(&o).contains("c.toml: line 3: unknown field `uri`"),
        "{}",
        said(&o)
    );
    assert_eq!(o.status.code(), Some(1));
    assert_eq!(said(&o).lines().count(), 1, "{}", said(&o));
    assert!(!said(&o).contains("geheim"), "{}", said(&o));
    let o = run("d -o dbpath=/d -o uri=mongodb://u:geheim@db1");
    assert!(
        said(&o).contains("/etc/dsm/d.toml: uri: unknown field"),
        "{}",
        said(&o)
    );
    assert!(!said(&o).contains("geheim"), "{}", said(&o));
}

/// What dsmd logs before it ends, to a file that is journald's or not.
fn logged(words: &str, journal: bool) -> String {
    let dir = tempfile::tempdir().unwrap();
    let mut file = tempfile::tempfile().unwrap();
    let meta = file.metadata().unwrap();
    let stream = match journal {
        true => format!("{}:{}", meta.dev(), meta.ino()),
        false => format!("{}:{}", meta.dev(), meta.ino() + 1),
    };
    let status = Command::new(env!("CARGO_BIN_EXE_dsmd"))
        .args("no-such-device -o dbpath=/nonexistent -o wait=false".split(' '))
        .args(words.split_whitespace())
        .env("DSMD_RUN_DIR", dir.path())
        .env("JOURNAL_STREAM", stream)
        .stderr(file.try_clone().unwrap())
        .status()
        .unwrap();
    assert!(!status.success());
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn the_log_is_for_who_reads_it() {
    let is_time = |text: &str| text.len() == 24 && text.starts_with("20") && text.ends_with('Z');
    let text = logged("", false);
    let (time, line) = text.lines().last().unwrap().split_once(' ').unwrap();
    assert!(is_time(time), "{text}");
    assert!(
        line.starts_with("error ended device=no-such-device reason="),
        "{text}"
    );

    let text = logged("", true);
    let line = text.lines().last().unwrap();
    assert!(
        line.starts_with("<3>error ended device=no-such-device reason="),
        "{text}"
    );

    for journal in [false, true] {
        let text = logged("-o log-format=json", journal);
        let line = text.lines().last().unwrap();
        assert_eq!(line.starts_with("<3>{"), journal, "{text}");
        let line = line.strip_prefix("<3>").unwrap_or(line);
        let v: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(is_time(v["time"].as_str().unwrap()), "{text}");
        assert_eq!(
            (&v["level"], &v["message"], &v["device"]),
            (&"error".into(), &"ended".into(), &"no-such-device".into())
        );
    }
}
