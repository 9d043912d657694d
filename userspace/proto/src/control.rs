// SPDX-License-Identifier: GPL-2.0-or-later
//! How `dsmctl` talks with the `dsmd` of a device: over a Unix socket, one
//! JSON object a line in each direction.
//!
//! ```text
//! -> {"protocol":1,"request":"boundary-mark"}
//! <- {"protocol":1,"reply":{"marked":12,"boundaries":40}}
//! <- {"protocol":1,"error":"<reason>"}
//! ```

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{anyhow, bail, Context, Result};
use rustix::fd::OwnedFd;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::envelope;
use crate::feed::ServerInfo;
use crate::left_out::LeftOut;
use crate::reason::{Reason, ReasonKind};
use dm::class::Class;
use dm::mode::Mode;
use runtime::own;

/// Of each device its socket, its lock and what is published of it.
pub const RUN_DIR: &str = "/run/dsm";
/// A client that sends more than this is no dsmctl.
const MAX_REQUEST: u64 = 64 * 1024;
/// A client that is slower than this is let go, so that it keeps no one waiting.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long a client may have the table to itself without asking again.
pub const HOLD: Duration = Duration::from_secs(10);
/// How long a trial may have discards withheld without asking again.
pub const TRIAL: Duration = Duration::from_secs(300);
/// Between two looks whether the device is another dsmd's.
const LOCKED: Duration = Duration::from_millis(20);
/// How long the agent may be busy with something else.
const BUSY: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub enum Request {
    /// Who serves the device: [`Info`].
    Info,
    /// The files of the table: a list of [`FileInfo`].
    Files,
    /// Gives files without a boundary their present size: [`Marked`].
    BoundaryMark,
    /// Gives files with these paths, or all that have outgrown theirs, a
    /// boundary at their present size: [`Marked`].
    BoundaryMove {
        paths: Vec<String>,
    },
    /// Reads all extents again: [`Refreshed`].
    Refresh,
    /// Leaves the table alone until `release`, or for [`HOLD`]; a probe has discards and their
    /// switch as well, until it releases them itself.
    Hold {
        probe: bool,
    },
    Release {
        probe: bool,
    },
    /// Turns discards off, to `Watch` or on, for a person, who means it.
    Discard {
        mode: Mode,
        who: String,
    },
    /// A trial has nothing discarded, for [`TRIAL`] unless it asks again; or no longer.
    Trial {
        withheld: bool,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Info {
    pub dbpath: String,
    pub pid: u32,
    pub version: String,
    /// `auto`, `manual` or `attach`.
    pub boundary: String,
    /// Whether new files get a boundary by themselves.
    pub marked: bool,
    pub files: u64,
    /// Of all files.
    pub bytes: u64,
    pub boundaries: u64,
    pub outgrown: u64,
    pub checkpoints: u64,
    /// How long the last window was that a checkpoint ended.
    pub last_window_ms: Option<u64>,
    /// What had been written to the device when the present window was seen to begin, or
    /// dsmd began.
    pub window_from_bytes: u64,
    pub uploads: u64,
    pub refusals: u64,
    /// Why the kernel does not take what differs now.
    pub refused: Option<String>,
    pub last_refresh_ms: u64,
    /// Extents of the last look that have no place yet.
    pub delalloc: u64,
    pub shared: u64,
    /// The database's server, when it is asked.
    pub server: Option<ServerInfo>,
    pub auto: Option<AutoInfo>,
    pub discard: Option<DiscardInfo>,
    /// What rules give a stream or a lifetime.
    pub objects: Vec<ObjectInfo>,
    /// Of the last look at the files.
    pub left_out: Vec<LeftOut>,
}

/// Of discards, where they are to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiscardInfo {
    /// Why nothing is discarded.
    pub off: Option<Reason>,
    pub warning: Option<String>,
    /// So many more checkpoints are waited for.
    pub waiting: u32,
    /// Files whose list of free blocks is known, and files that have one which is not.
    pub files: u64,
    pub listless: u64,
    pub looks: u64,
    /// Since something was last sent: looks, and what they found freed.
    pub idle_looks: u64,
    pub idle_bytes: u64,
    /// Looks at checkpoints that completed faster than they could be read.
    pub torn: u64,
    /// How often all that was known was forgotten.
    pub resets: u64,
    /// What checkpoints have freed.
    pub freed_bytes: u64,
    /// Of what was listed at the last look, and not sent before: less than the drive discards at
    /// a time; and without a place of its own, or written meanwhile.
    pub short_bytes: u64,
    pub unplaced_bytes: u64,
    /// What is to be sent after this checkpoint or a later one.
    pub waiting_bytes: u64,
    /// What the target was asked to discard, and when last, in seconds since 1970.
    pub last_sent: Option<u64>,
    pub sent_ranges: u64,
    pub sent_bytes: u64,
    /// How long the last look took, and the last sending.
    pub look_ms: u64,
    pub send_ms: u64,
    /// Commands of 256 ranges that the drive gets in a second, at most.
    pub commands_per_second: u32,
    /// The target's feature was off before dsmd.
    pub switched_on: bool,
    /// `Audit`, `On`, or nothing while nothing is followed.
    pub mode: Mode,
    pub audit: AuditInfo,
}

/// Whether the database writes what is discarded before it uses it again, in pages of 4 KiB.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AuditInfo {
    /// Why nothing is sent, whatever is seen.
    pub only: Option<Reason>,
    /// Enough was seen.
    pub passed: bool,
    /// So many have to be seen, at three checkpoints; so many were, since the database was
    /// opened.
    pub wanted_pages: u64,
    pub seen_pages: u64,
    pub seen_checkpoints: u32,
    /// Since dsmd began: what would have been sent in audit; what was used again of what was
    /// sent, or would have been; and what of that was seen to be written first.
    pub named_pages: u64,
    pub taken_pages: u64,
    pub written_pages: u64,
    /// In use, and not written yet.
    pub suspect_pages: u64,
    pub violations: u64,
    /// There was one, and nobody has allowed discards since.
    pub failed: bool,
}

impl DiscardInfo {
    /// A trial has them off for a period.
    pub fn withheld(&self) -> Option<&Reason> {
        let only = self.audit.only.as_ref();
        only.filter(|why| why.kind == ReasonKind::Trial)
    }
}

impl AuditInfo {
    /// How far it is.
    pub fn progress(&self) -> String {
        let (seen, checkpoints) = (self.seen_pages, self.seen_checkpoints);
        let suspects = match self.suspect_pages {
            0 => String::new(),
            n => format!("; {n} are in use and not written yet"),
        };
        let wanted = match self.wanted_pages {
            0 => String::new(),
            n => format!(" of {n}"),
        };
        format!("{seen}{wanted} pages were seen to be written before they were used again, at {checkpoints} checkpoints{suspects}")
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectInfo {
    pub name: String,
    /// 0 for none.
    pub stream: u8,
    pub hint: u8,
}

/// Of automatic mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AutoInfo {
    /// Files that are open for writing.
    pub open: u64,
    /// The streams that files get; the mapper has the first so many.
    pub streams: Vec<u8>,
    pub mapper_streams: u8,
    /// How often events were lost.
    pub lost: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileInfo {
    pub id: u64,
    /// Relative to the dbpath; bytes that are no UTF-8 are replaced.
    pub path: String,
    pub class: Class,
    /// What rules say that the file is, or this part of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    pub size: u64,
    pub boundary: Option<u64>,
    /// More of the file lies above its boundary than below.
    pub outgrown: bool,
    pub extents: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marked {
    /// Files that got a boundary now, and files that have one.
    pub marked: u64,
    pub boundaries: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refreshed {
    pub files: u64,
    pub extents: u64,
    pub changed: u64,
    pub dropped: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Answer {
    #[serde(default, skip_serializing_if = "Value::is_null")]
    reply: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// A request that waits for the agent.
pub struct Pending {
    pub request: Request,
    answer: Sender<Result<Value>>,
}

impl Pending {
    /// Answers; a client that is gone meanwhile does not matter.
    pub fn answer(self, reply: Result<Value>) {
        let _ = self.answer.send(reply);
    }
}

/// A device's name as a file name: it has no '/'.
fn socket_path(dir: &Path, device: &str) -> PathBuf {
    dir.join(format!("{device}.sock"))
}

/// Takes the requests in a thread of its own.  The socket goes with it.
pub struct Server {
    path: PathBuf,
    requests: Receiver<Pending>,
    /// The thread's.
    listener: UnixListener,
    /// Held as long as this dsmd serves the device.
    _lock: OwnedFd,
}

impl Server {
    /// Starts to serve `device`, which is locked.  `wake` is called after each request.
    pub fn start(lock: OwnedFd, dir: &Path, device: &str, wake: impl Fn() + Send + 'static) -> Result<Self> {
        let path = socket_path(dir, device);
        // Left by a dsmd that was killed; the lock says that it is gone.
        match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(e).with_context(|| format!("cannot replace {}", path.display()))
            }
            _ => {}
        }
        let listener =
            UnixListener::bind(&path).with_context(|| format!("cannot listen at {}", path.display()))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        let (sender, requests) = mpsc::channel();
        let end = listener.try_clone().context("cannot duplicate a descriptor")?;
        thread::Builder::new()
            .name("control".into())
            .stack_size(256 * 1024)
            .spawn(move || {
                for stream in listener.incoming() {
                    match stream {
                        Ok(stream) => {
                            // A client's failure is its own.
                            let _ = serve(&stream, &sender, &wake);
                        }
                        // What a shutdown leaves of a socket that listens.
                        Err(e) if e.kind() == io::ErrorKind::InvalidInput => return,
                        // Out of descriptors, most likely: do not spin.
                        Err(_) => thread::sleep(Duration::from_millis(100)),
                    }
                }
            })
            .context("cannot start the control thread")?;
        Ok(Self {
            path,
            requests,
            listener: end,
            _lock: lock,
        })
    }

    /// The next request, if one is there.
    pub fn next(&self) -> Option<Pending> {
        self.requests.try_recv().ok()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        // Ends the thread, which otherwise would wait for clients for ever.
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
    }
}

/// Takes the lock of a device's dsmd.  Waits a little for one that was killed and is about to end.
pub fn lock(dir: &Path, device: &str) -> Result<OwnedFd> {
    own::folder(dir, 0o755).context("cannot make the directory")?;
    let path = dir.join(format!("{device}.lock"));
    let file = own::file(&path).with_context(|| format!("cannot open {}", path.display()))?;
    for _ in 0..20 {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file.into()),
            Err(rustix::io::Errno::WOULDBLOCK) => thread::sleep(LOCKED),
            Err(e) => return Err(e).with_context(|| format!("cannot lock {}", path.display())),
        }
    }
    bail!("another dsmd serves the device {device}")
}

fn serve(stream: &UnixStream, requests: &Sender<Pending>, wake: &impl Fn()) -> Result<()> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut line = String::new();
    BufReader::new(stream.take(MAX_REQUEST)).read_line(&mut line)?;
    let (reply, error) = match answer(&line, requests, wake) {
        Ok(reply) => (reply, None),
        Err(e) => (Value::Null, Some(format!("{e:#}"))),
    };
    let mut stream = stream;
    stream.write_all(envelope::first_line(&Answer { reply, error }).as_bytes())?;
    Ok(())
}

fn answer(line: &str, requests: &Sender<Pending>, wake: &impl Fn()) -> Result<Value> {
    let request = envelope::open(line).map_err(|e| anyhow!("the request {e}"))?;
    let (answer, reply) = mpsc::channel();
    let gone = || anyhow!("dsmd is about to end");
    requests.send(Pending { request, answer }).map_err(|_| gone())?;
    wake();
    reply.recv_timeout(BUSY).map_err(|_| gone())?
}

/// Asks the dsmd of a device.
pub fn ask<T: for<'de> Deserialize<'de>>(dir: &Path, device: &str, request: Request) -> Result<T> {
    ask_within(BUSY, dir, device, request)
}

/// The same, for those who would rather have no answer than a late one.
pub fn ask_within<T: for<'de> Deserialize<'de>>(
    timeout: Duration,
    dir: &Path,
    device: &str,
    request: Request,
) -> Result<T> {
    let path = socket_path(dir, device);
    let mut stream = match UnixStream::connect(&path) {
        Ok(s) => s,
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
            ) =>
        {
            let text = format!(
                "{device}: no dsmd serves this device (nothing answers at {})",
                path.display()
            );
            return Err(Reason::new(ReasonKind::NotServed, text).into());
        }
        Err(e) => {
            return Err(e).with_context(|| format!("{device}: cannot reach dsmd at {}", path.display()))
        }
    };
    stream.set_read_timeout(Some(timeout))?;
    stream.write_all(envelope::first_line(&request).as_bytes())?;
    let mut line = String::new();
    BufReader::new(stream)
        .read_line(&mut line)
        .with_context(|| format!("{device}: dsmd does not answer"))?;
    let answer: Answer = envelope::open(&line).map_err(|e| anyhow!("{device}: dsmd's answer {e}"))?;
    if let Some(why) = answer.error {
        bail!("{device}: {why}");
    }
    Ok(serde_json::from_value(answer.reply)?)
}

/// The dsmd of a device, which leaves the table alone until this is dropped, however long
/// that takes; when the process is killed, for [`HOLD`].  One that starts meanwhile does, too.
pub struct Holding {
    dir: PathBuf,
    device: String,
    probe: bool,
    again: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Holding {
    /// Asks it, if there is one, and waits for the answer.
    pub fn begin(dir: &Path, device: &str, probe: bool) -> Result<Self> {
        Self::renewed(dir, device, probe, HOLD / 5)
    }

    fn renewed(dir: &Path, device: &str, probe: bool, every: Duration) -> Result<Self> {
        match ask::<Value>(dir, device, Request::Hold { probe }) {
            Err(e) if Reason::of(&e).kind == ReasonKind::NotServed => {}
            asked => drop(asked?),
        }
        let (end, ended) = mpsc::channel();
        let (dir, device) = (dir.to_owned(), device.to_owned());
        let holding = (dir.clone(), device.clone());
        let renew = move || {
            while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                // One that does not answer now may do so the next time.
                let _ = ask_within::<Value>(every, &holding.0, &holding.1, Request::Hold { probe });
            }
        };
        let again = Some((end, thread::spawn(renew)));
        Ok(Self {
            dir,
            device,
            probe,
            again,
        })
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.again.take() {
            drop(end);
            let _ = thread.join();
        }
        // It finds out by itself, a little later.
        let release = Request::Release { probe: self.probe };
        let _ = ask::<Value>(&self.dir, &self.device, release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn started(dir: &Path, wake: impl Fn() + Send + 'static) -> Server {
        Server::start(lock(dir, "d").unwrap(), dir, "d", wake).unwrap()
    }

    #[test]
    fn a_hold_lasts_as_long_as_it_is_wanted() {
        let dir = tempfile::tempdir().unwrap();
        let (woken, wakes) = mpsc::channel();
        let server = started(dir.path(), move || woken.send(()).unwrap());
        let (heard, hears) = mpsc::channel();
        let agent = thread::spawn(move || loop {
            wakes.recv().unwrap();
            while let Some(p) = server.next() {
                let last = p.request == Request::Release { probe: true };
                heard.send(p.request.clone()).unwrap();
                p.answer(Ok(Value::Null));
                if last {
                    return;
                }
            }
        });
        let hold = Request::Hold { probe: true };
        let holding = Holding::renewed(dir.path(), "d", true, Duration::from_millis(10)).unwrap();
        for _ in 0..4 {
            assert_eq!(hears.recv().unwrap(), hold);
        }
        drop(holding);
        agent.join().unwrap();
        let rest: Vec<_> = hears.iter().collect();
        let (last, holds) = rest.split_last().unwrap();
        assert_eq!(last, &Request::Release { probe: true });
        assert!(holds.iter().all(|r| *r == hold));
    }

    #[test]
    fn who_starts_to_serve_meanwhile_is_held_as_well() {
        let dir = tempfile::tempdir().unwrap();
        let _holding = Holding::renewed(dir.path(), "d", false, Duration::from_millis(10)).unwrap();
        let (woken, wakes) = mpsc::channel();
        let server = started(dir.path(), move || woken.send(()).unwrap());
        wakes.recv_timeout(Duration::from_secs(60)).unwrap();
        let pending = server.next().unwrap();
        assert_eq!(pending.request, Request::Hold { probe: false });
        pending.answer(Ok(Value::Null));
        drop(server);
    }

    #[test]
    fn every_name_fits_into_the_path_of_a_socket() {
        let longest = "a".repeat(80);
        assert!(dm::name::check(&longest).is_ok() && dm::name::check(&format!("{longest}a")).is_err());
        let path = socket_path(Path::new(RUN_DIR), &longest);
        assert!(path.as_os_str().len() <= 107, "{}", path.display());
    }

    fn raw(dir: &Path, text: &str) -> String {
        let mut s = UnixStream::connect(socket_path(dir, "d")).unwrap();
        s.write_all(text.as_bytes()).unwrap();
        s.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        BufReader::new(s).read_line(&mut answer).unwrap();
        answer
    }

    #[test]
    fn requests_and_replies() {
        let dir = tempfile::tempdir().unwrap();
        let (woken, wakes) = mpsc::channel();
        let server = started(dir.path(), move || woken.send(()).unwrap());
        let mode = fs::metadata(socket_path(dir.path(), "d"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        // Who may open it could keep dsmd from the device.
        let of_lock = fs::metadata(dir.path().join("d.lock")).unwrap();
        assert_eq!(of_lock.permissions().mode() & 0o777, 0o600);

        // Only one dsmd for a device.
        let second = lock(dir.path(), "d").err().unwrap();
        assert_eq!(second.to_string(), "another dsmd serves the device d");

        let agent = thread::spawn(move || {
            for n in 0..2 {
                wakes.recv().unwrap();
                let p = server.next().unwrap();
                assert_eq!(p.request, Request::BoundaryMark);
                p.answer(if n == 0 {
                    Ok(json!({"marked": 2, "boundaries": 3}))
                } else {
                    Err(anyhow!("not now"))
                });
            }
            server
        });
        let marked: Marked = ask(dir.path(), "d", Request::BoundaryMark).unwrap();
        assert_eq!((marked.marked, marked.boundaries), (2, 3));
        assert_eq!(
            raw(dir.path(), "{\"protocol\":1,\"request\":\"boundary-mark\"}\n"),
            "{\"protocol\":1,\"error\":\"not now\"}\n"
        );
        let server = agent.join().unwrap();
        let other = raw(dir.path(), "{\"protocol\":2,\"request\":[\"new\"]}\n");
        assert!(
            other.contains(
                "the request speaks protocol 2, and 1 is understood: are all programs of dm-dsm of one version?"
            ),
            "{other}"
        );
        let none = raw(dir.path(), "{\"request\":\"boundary-mark\"}\n");
        assert!(
            none.contains("the request does not say which protocol it speaks"),
            "{none}"
        );
        for strange in [
            "\n",
            "{\"protocol\":1,\"request\":\"boil\"}\n",
            &"x".repeat(70_000),
        ] {
            assert!(raw(dir.path(), strange).contains("the request is not understood"));
        }
        assert!(server.next().is_none());
        drop(server);
        let none = ask::<Marked>(dir.path(), "d", Request::BoundaryMark).unwrap_err();
        assert!(none.to_string().starts_with("d: no dsmd serves this device"));
    }
}
