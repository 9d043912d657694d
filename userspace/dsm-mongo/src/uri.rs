// SPDX-License-Identifier: GPL-2.0-or-later
//! The address of a mongod, which may have a password in it: only
//! [`Uri::secret`] gives that away.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{anyhow, bail, Context, Result};
use mongodb::options::{ConnectionString, HostInfo};

use crate::client::reason;

/// The name of systemd's credential.
const CREDENTIAL: &str = "uri";
const LONGEST: u64 = 16 * 1024;

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Uri {
    text: String,
    shown: String,
}

impl Uri {
    /// The whole of it, for the driver.
    pub(crate) fn secret(&self) -> &str {
        &self.text
    }
}

impl FromStr for Uri {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if !text.starts_with("mongodb://") {
            return Err("the uri must begin with mongodb://".into());
        }
        // What the driver does not understand may be a part of the password.
        let parsed = ConnectionString::parse(text).map_err(|e| {
            if text.contains('@') {
                "the uri is not one of MongoDB; are user and password percent-encoded?".into()
            } else {
                format!("the uri is not one of MongoDB: {}", reason(&e))
            }
        })?;
        match parsed.host_info {
            HostInfo::HostIdentifiers(hosts) if hosts.len() == 1 => Ok(Self {
                text: text.to_owned(),
                shown: hosts[0].to_string(),
            }),
            _ => Err("the uri must name one server, the one of this data directory".into()),
        }
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.shown)
    }
}

impl fmt::Debug for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Uri({})", self.shown)
    }
}

/// The one in `file`, or in systemd's credential.
pub(crate) fn find(file: Option<&Path>) -> Result<Uri> {
    if let Some(path) = file {
        return read(path, true);
    }
    match std::env::var_os("CREDENTIALS_DIRECTORY") {
        // Its files are for the service alone; an access list of theirs looks like a group's.
        Some(dir) => read(&PathBuf::from(dir).join(CREDENTIAL), false),
        None => {
            bail!("there is neither --uri-file nor a credential of systemd: where is the server's address?")
        }
    }
}

fn read(path: &Path, private: bool) -> Result<Uri> {
    let shown = path.display();
    let file = File::open(path).with_context(|| format!("{shown}: cannot open it"))?;
    let stat = file
        .metadata()
        .with_context(|| format!("{shown}: cannot stat it"))?;
    if private && stat.mode() & 0o077 != 0 {
        bail!(
            "{shown}: others than its owner may read or change it (mode {:o}): `chmod 600` it",
            stat.mode() & 0o777
        );
    }
    let mut text = String::new();
    file.take(LONGEST)
        .read_to_string(&mut text)
        .with_context(|| format!("{shown}: cannot read it"))?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    if text.contains(char::is_control) {
        bail!("{shown}: there must be one line with the server's address, and nothing else");
    }
    text.parse()
        .map_err(|reason: String| anyhow!("{shown}: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_password_is_not_shown() {
        let uri: Uri = "mongodb://dsmd:geheim@db1:27018/?authSource=admin"
            .parse()
            .unwrap();
        assert_eq!(format!("{uri} {uri:?}"), "db1:27018 Uri(db1:27018)");
        assert!(uri.secret().contains("geheim"));
        let uri: Uri = "mongodb://localhost".parse().unwrap();
        assert_eq!(uri.to_string(), "localhost:27017");
        let uri: Uri = "mongodb://%2Frun%2Fmongod.sock".parse().unwrap();
        assert_eq!(uri.to_string(), "/run/mongod.sock");
    }

    #[test]
    fn what_is_wrong_with_it() {
        for (text, reason) in [
            ("localhost:27017", "the uri must begin with mongodb://"),
            (
                "mongodb+srv://cluster.example",
                "the uri must begin with mongodb://",
            ),
            (
                "mongodb://a,b/",
                "the uri must name one server, the one of this data directory",
            ),
            (
                "mongodb://u:geh@eim@db1",
                "the uri is not one of MongoDB; are user and password percent-encoded?",
            ),
            (
                "mongodb://u:geheim@db1:x",
                "the uri is not one of MongoDB; are user and password percent-encoded?",
            ),
        ] {
            assert_eq!(text.parse::<Uri>().unwrap_err(), reason, "{text}");
        }
        let said = "mongodb://db1:0".parse::<Uri>().unwrap_err();
        assert!(
            said.starts_with("the uri is not one of MongoDB: ") && said.contains("port"),
            "{said}"
        );
    }

    #[test]
    fn only_a_file_that_is_private_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("uri");
        let write = |text: &str, mode| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            find(Some(&path)).map_err(|e| format!("{e:#}"))
        };
        let with = "mongodb://u:geheim@db1\n";
        assert_eq!(write(with, 0o600).unwrap().to_string(), "db1:27017");
        assert_eq!(write(with.trim(), 0o400).unwrap().secret(), with.trim());
        for mode in [0o640, 0o604, 0o620, 0o601] {
            let said = write(with, mode).unwrap_err();
            assert!(
                said.ends_with(&format!("(mode {mode:o}): `chmod 600` it")),
                "{said}"
            );
        }
        for text in [
            "",
            "mongodb://u:geheim@db1\n\n",
            "mongodb://u:geheim@db1\nx",
            "u:geheim@db1",
        ] {
            let said = write(text, 0o600).unwrap_err();
            assert!(
                said.starts_with(path.to_str().unwrap()) && !said.contains("geheim"),
                "{said}"
            );
        }
        let said = format!("{:#}", find(Some(&dir.path().join("none"))).unwrap_err());
        assert!(said.contains("cannot open it: No such file"), "{said}");
    }
}
