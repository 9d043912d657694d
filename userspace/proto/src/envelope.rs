// SPDX-License-Identifier: GPL-2.0-or-later
//! What control, feed and snapshot have in common: JSON, and the first object that each side
//! writes has the number of the protocol.
//!
//! The number is read before the rest is looked at, so that a program of another version is
//! told about that, and not about the first field that it does not know.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Of everything that the programs of one package say to each other.
pub const PROTOCOL: u32 = 1;

#[derive(Serialize)]
struct Envelope<'a, T> {
    protocol: u32,
    #[serde(flatten)]
    content: &'a T,
}

#[derive(Deserialize)]
struct Head {
    protocol: Option<u32>,
}

/// Why the content is not what was expected.
#[derive(Debug, Error)]
pub enum Strange {
    #[error("speaks protocol {0}, and {PROTOCOL} is understood: are all programs of dm-dsm of one version?")]
    Protocol(u32),
    #[error("does not say which protocol it speaks: {PROTOCOL} is understood")]
    None,
    #[error("is not understood: {0}")]
    Content(#[from] serde_json::Error),
}

/// A line with its end, without the number.
pub fn line(content: &impl Serialize) -> String {
    let mut text = serde_json::to_string(content).expect("keys are strings");
    text.push('\n');
    text
}

/// The first line.
pub fn first_line(content: &impl Serialize) -> String {
    line(&Envelope {
        protocol: PROTOCOL,
        content,
    })
}

/// What a first line has in it.  `T` must not deny unknown fields.
pub fn open<T: DeserializeOwned>(text: &str) -> Result<T, Strange> {
    match serde_json::from_str::<Head>(text)?.protocol {
        Some(PROTOCOL) => Ok(serde_json::from_str(text)?),
        Some(other) => Err(Strange::Protocol(other)),
        None => Err(Strange::None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Content {
        many: u128,
    }

    #[test]
    fn the_number_is_read_first() {
        let content = Content { many: u128::MAX };
        let text = first_line(&content);
        assert_eq!(text, format!("{{\"protocol\":1,\"many\":{}}}\n", u128::MAX));
        assert_eq!(open::<Content>(&text).unwrap(), content);
        let said = |text: &str| open::<Content>(text).unwrap_err().to_string();
        assert_eq!(
            said("{\"protocol\":2,\"few\":[]}"),
            "speaks protocol 2, and 1 is understood: are all programs of dm-dsm of one version?"
        );
        assert_eq!(
            said("{\"many\":1}"),
            "does not say which protocol it speaks: 1 is understood"
        );
        for strange in ["", "[]", "{\"protocol\":-1}", "{\"protocol\":1}", "SSH-2.0"] {
            assert!(said(strange).starts_with("is not understood: "), "{strange}");
        }
    }
}
