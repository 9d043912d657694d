// SPDX-License-Identifier: GPL-2.0-or-later
//! Places in texts, for sentences.

pub fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|&b| b == b'\n').count() + 1
}

/// What is wrong with a text that is not TOML, or not the TOML that it must be.
pub fn toml_error(text: &str, e: &toml::de::Error) -> String {
    let what = e.message().replace('\n', ", ");
    format!("line {}: {what}", e.span().map_or(1, |s| line_of(text, s.start)))
}
