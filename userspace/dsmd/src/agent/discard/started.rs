// SPDX-License-Identifier: GPL-2.0-or-later
//! How the process that has a database open was started.
//!
//! mongod passes WiredTiger what `--wiredTigerEngineConfigString` says, or `configString`
//! in its file of configuration, and keeps it in no file of the database; WiredTiger adds
//! `WIREDTIGER_CONFIG` of the environment.  What cannot be read may say that checkpoints are
//! not synced: nothing is discarded then.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::process::Process;
use database::wiredtiger::avail::config::unsynced;

const VARIABLE: &[u8] = b"WIREDTIGER_CONFIG=";
/// mongod takes one file of configuration.
const FILES: usize = 4;
/// As the kernel's PATH_MAX.
const LONGEST: usize = 4096;
/// By which a configuration has parts from elsewhere.
const EXPANSIONS: [&str; 2] = ["__exec", "__rest"];
/// By which YAML has a word otherwise than it is spelled.
const ESCAPES: [&str; 5] = ["\\x", "\\u", "\\U", "\\\n", "!!binary"];
/// Salvage reads blocks that the list of free ones has.
const REPAIR: [&[u8]; 2] = [b"--repair", b"-repair"];

/// Why the checkpoints of a process may not be durable, if they may not be, or what else it reads
/// free blocks for.  `uid`: whose the database is.
pub(super) fn check(proc: &Path, pid: i32, uid: u32) -> Result<(), String> {
    let cannot = |what: &str, e: &dyn std::fmt::Display| {
        format!("cannot tell whether checkpoints are synced: {what}: {e}")
    };
    let whose = |what: &str| format!("{what} of process {pid}");
    let refused = |place: &str| {
        Err(format!(
            "the database has checkpoint_sync=false, by {place}: its checkpoints are not durable"
        ))
    };
    let process = Process::of(proc, pid, uid).map_err(|e| cannot(&whose("the user"), &e))?;
    let own = |name: &str, shown: &str| process.own(name).map_err(|e| cannot(&whose(shown), &e));
    let words = own("cmdline", "the command line")?;
    if words.is_empty() {
        return Err(cannot(&whose("the command line"), &"it is empty"));
    }
    if unsynced(&String::from_utf8_lossy(&words)) {
        return refused(&whose("the command line"));
    }
    let repairs = |place: &str| {
        Err(format!(
            "the database is repaired, by {place}: that reads free blocks, too"
        ))
    };
    if words.split(|b| *b == 0).any(|word| REPAIR.contains(&word)) {
        return repairs(&whose("the command line"));
    }
    let environment = own("environ", "the environment")?;
    let variables = environment.split(|b| *b == 0);
    for value in variables.filter_map(|v| v.strip_prefix(VARIABLE)) {
        if unsynced(&String::from_utf8_lossy(value)) {
            return refused(&whose("WIREDTIGER_CONFIG in the environment"));
        }
    }
    let files = configurations(&words);
    if files.len() > FILES {
        let more = format!("it has more than {FILES} configuration files");
        return Err(cannot(&whose("the command line"), &more));
    }
    for file in files {
        let cannot = |e: &dyn std::fmt::Display| cannot(&file.display().to_string(), e);
        if file.as_os_str().len() > LONGEST {
            let longer = format!("a path is longer than {LONGEST} bytes");
            return Err(format!("cannot tell whether checkpoints are synced: {longer}"));
        }
        if !file.is_absolute() {
            return Err(cannot(&format!("process {pid} was started with a relative path")));
        }
        let text = process.file(&file).map_err(|e| cannot(&e))?;
        let text = String::from_utf8_lossy(&text);
        if unsynced(&text) {
            return refused(&file.display().to_string());
        }
        if repaired(&text) {
            return repairs(&file.display().to_string());
        }
        if let Some(word) = EXPANSIONS.iter().find(|word| text.contains(**word)) {
            return Err(cannot(&format!("{word} has parts of it from elsewhere")));
        }
        if let Some(escape) = ESCAPES.iter().find(|escape| text.contains(**escape)) {
            return Err(cannot(&format!("{escape:?} hides what it says")));
        }
    }
    Ok(())
}

/// Whether a configuration has `repair`, as YAML or as an option, and not as false.
fn repaired(text: &str) -> bool {
    let bare = text.replace(['"', '\''], "");
    let lines = bare
        .lines()
        .map(|line| line.split(" #").next().unwrap_or_default());
    let entries = lines.flat_map(|line| line.split(['{', ',', '}']));
    entries
        .filter_map(|e| e.split_once([':', '=']))
        .any(|(key, value)| {
            let key = key.rsplit('.').next().unwrap_or_default().trim();
            key == "repair" && !["false", "0"].contains(&value.trim())
        })
}

/// The files of configuration that a command line names.  mongod takes long options with
/// one hyphen, too.
fn configurations(words: &[u8]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut words = words.split(|b| *b == 0);
    while let Some(word) = words.next() {
        let named = match word {
            b"-f" | b"-config" | b"--config" => words.next(),
            _ => [&b"--config="[..], b"-config=", b"-f="]
                .iter()
                .find_map(|option| word.strip_prefix(*option))
                // Not -fork
                .or_else(|| word.strip_prefix(b"-f").filter(|path| path.starts_with(b"/"))),
        };
        let named = named.filter(|path| !path.is_empty());
        found.extend(named.map(|path| PathBuf::from(OsStr::from_bytes(path))));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::process::tests::{own_uid, pretend};
    use super::*;
    use std::fs;
    use std::io::{BufRead, BufReader, Read};
    use std::os::fd::FromRawFd;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    const HELPER: &str = "DSM_TEST_HELPER";

    #[test]
    fn files_of_configuration_on_a_command_line() {
        let of = |line: &str| {
            let found = configurations((line.replace(' ', "\0") + "\0").as_bytes());
            found.iter().map(|p| p.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(
            of("mongod --config /etc/mongod.conf --fork"),
            ["/etc/mongod.conf"]
        );
        assert_eq!(
            of("mongod -f /a --config=/b -f/c -config /d -config=/e -f=/f"),
            ["/a", "/b", "/c", "/d", "/e", "/f"]
        );
        assert_eq!(of("mongod -f relative --config=other"), ["relative", "other"]);
        assert!(of("mongod --dbpath /d -fork --fork --configExpand none --config").is_empty());
    }

    #[test]
    fn checkpoints_that_are_not_synced() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("mongod.conf");
        let said = |line: &str, environ: &str, text: &str| {
            pretend(
                dir.path(),
                7,
                line.replace(' ', "\0").as_bytes(),
                environ.as_bytes(),
            );
            fs::write(&file, text).unwrap();
            check(dir.path(), 7, own_uid())
        };
        let plain = format!("mongod --config {} --dbpath /d", file.display());
        let environ = "HOME=/\0WIREDTIGER_CONFIG=cache_size=1G\0X_WIREDTIGER_CONFIG=checkpoint_sync=false\0";
        assert_eq!(said(&plain, environ, "storage:\n  dbPath: /d\n"), Ok(()));
        let by = |place: &str| {
            Err(format!(
                "the database has checkpoint_sync=false, by {place}: its checkpoints are not durable"
            ))
        };
        assert_eq!(
            said(
                "mongod --wiredTigerEngineConfigString checkpoint_sync=false,x=1",
                "",
                ""
            ),
            by("the command line of process 7")
        );
        assert_eq!(
            said(&plain, "A=b\0WIREDTIGER_CONFIG=checkpoint_sync=false", ""),
            by("WIREDTIGER_CONFIG in the environment of process 7")
        );
        let text = "storage:\n  wiredTiger:\n    engineConfig:\n      configString: \"cache_size=1G, checkpoint_sync = false\"\n";
        assert_eq!(said(&plain, "", text), by(&file.display().to_string()));
    }

    #[test]
    fn a_process_that_repairs() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("mongod.conf");
        let said = |line: &str, text: &str| {
            pretend(dir.path(), 7, line.replace(' ', "\0").as_bytes(), b"");
            fs::write(&file, text).unwrap();
            check(dir.path(), 7, own_uid())
        };
        let by = |place: &str| {
            Err(format!(
                "the database is repaired, by {place}: that reads free blocks, too"
            ))
        };
        for option in ["--repair", "-repair"] {
            let line = format!("mongod --dbpath /d {option}");
            assert_eq!(said(&line, ""), by("the command line of process 7"));
        }
        let line = format!(
            "mongod --config {} --dbpath /repair --repairpath x",
            file.display()
        );
        for text in [
            "storage:\n  repair: true\n",
            "storage: {dbPath: /d, \"repair\" : true}\n",
            "storage.repair: yes # now\n",
            "dbpath = /d\nrepair = true\n",
        ] {
            assert_eq!(said(&line, text), by(&file.display().to_string()), "{text}");
        }
        for text in [
            "storage:\n  dbPath: /repair\n  # repair: true\n  repair: false\n",
            "storage:\n  repairPath: /x\n",
        ] {
            assert_eq!(said(&line, text), Ok(()), "{text}");
        }
    }

    /// With ids as of su, which waits for a password: what its caller names is read with the
    /// rights of root otherwise.
    #[test]
    fn a_setuid_program_lends_no_rights() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        if own_uid() != 0 {
            eprintln!("skipped: only root can act as another user");
            return;
        }
        let secret = dir.path().join("secret");
        fs::create_dir(&secret).unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(secret.join("there"), "port: __rest\n").unwrap();
        let mut answers = ["there", "absent"].map(|name| {
            let mut held = Command::new("cat");
            held.arg0(format!("--config={}", secret.join(name).display()))
                .env_clear()
                .stdin(Stdio::piped());
            // SAFETY: setresuid may be called between fork and exec.
            unsafe {
                held.pre_exec(|| match libc::setresuid(65534, 0, 0) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                });
            }
            let mut held = held.spawn().unwrap();
            let pid = held.id();
            let said = check(Path::new("/proc"), pid as i32, 65534).unwrap_err();
            drop(held.stdin.take());
            held.wait().unwrap();
            said.replace(&pid.to_string(), "PID")
        });
        answers.sort();
        assert_eq!(answers[0], answers[1]);
        assert!(
            answers[0].ends_with("it has the rights of another one, too"),
            "{answers:?}"
        );
    }

    #[test]
    fn what_cannot_be_known_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let said = |line: &str| {
            pretend(dir.path(), 7, line.replace(' ', "\0").as_bytes(), b"");
            let why = check(dir.path(), 7, own_uid()).unwrap_err();
            let why = why.strip_prefix("cannot tell whether checkpoints are synced: ");
            why.unwrap().to_owned()
        };
        assert_eq!(said(""), "the command line of process 7: it is empty");
        assert_eq!(
            said("mongod -f mongod.conf"),
            "mongod.conf: process 7 was started with a relative path"
        );
        let file = dir.path().join("mongod.conf").display().to_string();
        let line = format!("mongod -f {file}");
        assert!(said(&line).starts_with(&format!("{file}: No such file")));
        fs::write(&file, "net:\n  port:\n    __exec: 'cat port'\n").unwrap();
        assert_eq!(
            said(&line),
            format!("{file}: __exec has parts of it from elsewhere")
        );
        // "checkpoint_sync"
        fs::write(&file, "configString: \"checkpoint\\u005fsync=false\"\n").unwrap();
        assert_eq!(said(&line), format!("{file}: \"\\\\u\" hides what it says"));
        assert_eq!(said("mongod -f /dev/null"), "/dev/null: it is no regular file");
        assert_eq!(
            said(&format!("mongod -f /{}", "x".repeat(5000))),
            "a path is longer than 4096 bytes"
        );
        assert_eq!(
            said(&format!("mongod{}", " -f /x".repeat(5))),
            "the command line of process 7: it has more than 4 configuration files"
        );
        pretend(dir.path(), 7, b"mongod", b"");
        fs::remove_file(dir.path().join("7/environ")).unwrap();
        let why = check(dir.path(), 7, own_uid()).unwrap_err();
        assert!(
            why.contains("the environment of process 7: No such file"),
            "{why}"
        );
        // Another one, or none
        assert!(check(dir.path(), 8, own_uid())
            .unwrap_err()
            .contains("the user of process 8: No such file"));
    }

    /// A test of this program, as a process of its own, that does what it is asked to.
    fn helper(test: &str, asked: &str) -> Command {
        let mut helper = Command::new(std::env::current_exe().unwrap());
        helper
            .args([
                "--exact",
                "--nocapture",
                &format!("agent::discard::started::tests::{test}"),
            ])
            .env(HELPER, asked)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        helper
    }

    /// Makes itself a command line of so many bytes, and waits until its input ends.
    #[test]
    fn helper_of_a_long_command_line() {
        let Ok(asked) = std::env::var(HELPER) else { return };
        let length: usize = asked.parse().unwrap();
        let stat = fs::read_to_string("/proc/self/stat").unwrap();
        let stat: Vec<u64> = stat
            .rsplit_once(')')
            .unwrap()
            .1
            .split_whitespace()
            .map(|word| word.parse().unwrap_or(0))
            .collect();
        // The fields of proc(5), from the third on
        let field = |number: usize| stat[number - 3];
        // SAFETY: memory that nobody else has, which is never touched; and a call that takes
        // a struct prctl_mm_map, whose fields these are.
        let done = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            let at = libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, flags, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            let (begin, end) = (at as u64, at as u64 + length as u64);
            let map = [
                field(26),
                field(27),
                field(45),
                field(46),
                field(47),
                libc::sbrk(0) as u64,
                field(28),
                begin,
                end,
                field(50),
                field(51),
                0,
                // No auxiliary vector: its size is 0, and no program's descriptor
                u64::from(u32::MAX) << 32,
            ];
            libc::prctl(
                libc::PR_SET_MM,
                libc::PR_SET_MM_MAP,
                map.as_ptr(),
                size_of_val(&map),
                0,
            )
        };
        println!("done {done}");
        let _ = std::io::stdin().read(&mut [0]);
    }

    #[test]
    fn a_command_line_of_gigabytes() {
        let mut child = helper("helper_of_a_long_command_line", &(8_usize << 30).to_string())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said = lines.by_ref().map_while(Result::ok);
        let done = said.find(|l| l.contains("done ")).unwrap();
        let said = check(Path::new("/proc"), child.id() as i32, own_uid());
        drop(child.stdin.take());
        child.wait().unwrap();
        if !done.ends_with("done 0") {
            eprintln!("skipped: this kernel lets nobody set his command line");
            return;
        }
        let said = said.unwrap_err();
        assert!(said.ends_with("it is longer than 1 MiB"), "{said}");
    }

    /// Leads a session without a terminal, as a service does, and checks a process.
    #[test]
    fn helper_without_a_terminal() {
        let Ok(asked) = std::env::var(HELPER) else { return };
        let said = check(Path::new(&asked), 7, own_uid()).unwrap_err();
        let stat = fs::read_to_string("/proc/self/stat").unwrap();
        let (_, after) = stat.rsplit_once(')').unwrap();
        println!("terminal {}: {said}", after.split_whitespace().nth(4).unwrap());
    }

    /// Who has it could end dsmd by ^C.
    #[test]
    fn a_terminal_does_not_become_its_own() {
        // SAFETY: a new descriptor, which nobody else has; a name that is copied at once.
        let (_master, name) = unsafe {
            let master = libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY);
            assert!(master >= 0 && libc::grantpt(master) == 0 && libc::unlockpt(master) == 0);
            let name = std::ffi::CStr::from_ptr(libc::ptsname(master));
            (fs::File::from_raw_fd(master), name.to_str().unwrap().to_owned())
        };
        let dir = tempfile::tempdir().unwrap();
        pretend(dir.path(), 7, format!("mongod\0-f\0{name}\0").as_bytes(), b"");
        let mut helper = helper("helper_without_a_terminal", dir.path().to_str().unwrap());
        // SAFETY: setsid may be called between fork and exec.
        unsafe {
            helper.pre_exec(|| rustix::process::setsid().map(|_| ()).map_err(Into::into));
        }
        let done = helper.output().unwrap();
        let text = String::from_utf8(done.stdout).unwrap();
        let said = text.lines().find_map(|l| l.split_once("terminal ")).unwrap();
        assert_eq!(
            said.1,
            format!("0: cannot tell whether checkpoints are synced: {name}: it is no regular file")
        );
    }
}
