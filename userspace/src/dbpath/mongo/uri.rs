// SPDX-License-Identifier: GPL-2.0-or-later
//! The address of a mongod, which may have a password in it: only
//! [`Uri::secret`] gives that away.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer};

use super::client;

#[derive(Clone, PartialEq, Eq)]
pub struct Uri {
    text: String,
    shown: String,
    has_password: bool,
}

/// What the driver finds in it.
pub(super) struct Parsed {
    pub hosts: Vec<String>,
    pub has_password: bool,
}

impl Uri {
    /// The whole of it, for the driver.
    pub fn secret(&self) -> &str {
        &self.text
    }

    pub fn has_password(&self) -> bool {
        self.has_password
    }
}

impl FromStr for Uri {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if !text.starts_with("mongodb://") {
            return Err("the uri must begin with mongodb://".into());
        }
        // What the driver does not understand may be a part of the password.
        let parsed = client::parse(text).map_err(|e| {
            if text.contains('@') {
                "the uri is not one of MongoDB; are user and password percent-encoded?".into()
            } else {
                format!("the uri is not one of MongoDB: {e}")
            }
        })?;
        match parsed.hosts.as_slice() {
            [one] => Ok(Self {
                text: text.to_owned(),
                shown: one.clone(),
                has_password: parsed.has_password,
            }),
            _ => Err("the uri must name one server, the one of this data directory".into()),
        }
    }
}

impl<'de> Deserialize<'de> for Uri {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
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

#[cfg(all(test, feature = "mongodb"))]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_shown() {
        let uri: Uri = "mongodb://dsmd:geheim@db1:27018/?authSource=admin"
            .parse()
            .unwrap();
        assert_eq!(format!("{uri} {uri:?}"), "db1:27018 Uri(db1:27018)");
        assert!(uri.has_password() && uri.secret().contains("geheim"));
        let uri: Uri = "mongodb://localhost".parse().unwrap();
        assert_eq!(uri.to_string(), "localhost:27017");
        assert!(!uri.has_password());
        let uri: Uri = "mongodb://%2Frun%2Fmongod.sock".parse().unwrap();
        assert_eq!(uri.to_string(), "/run/mongod.sock");
    }

    #[test]
    fn what_is_wrong_with_it() {
        for (text, sentence) in [
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
            assert_eq!(text.parse::<Uri>().unwrap_err(), sentence, "{text}");
        }
        let said = "mongodb://db1:0".parse::<Uri>().unwrap_err();
        assert!(
            said.starts_with("the uri is not one of MongoDB: ") && said.contains("port"),
            "{said}"
        );
    }
}
