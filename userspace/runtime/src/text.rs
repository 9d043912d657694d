// SPDX-License-Identifier: GPL-2.0-or-later
//! Texts of others, for people.

/// Whether a character commands a terminal, or makes a text look like another one: controls,
/// and Unicode's format characters (category Cf) and separators of lines and paragraphs.
///
/// By hand: tables of all of Unicode's categories are larger than what they are for here.
pub(crate) fn deceives(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}'
            | '\u{8e2}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}'
            | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e007f}')
}

/// File names come from other people's directories: none may command the terminal, or
/// look like another one.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if deceives(c) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// An error and what it comes from, without the numbers that the library puts behind the kernel's
/// words.
pub fn error(e: &anyhow::Error) -> String {
    let text = format!("{e:#}");
    let mut parts = text.split(" (os error ");
    let mut said = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        said.push_str(part.split_once(')').map_or(part, |(_, rest)| rest));
    }
    printable(&said)
}

/// Lines of at most that many characters, where words are not longer.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ').filter(|w| !w.is_empty()) {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_they_look_like() {
        for (name, shown) in [
            ("collection-0-17.wt", "collection-0-17.wt"),
            (
                "größe \u{65e5}\u{672c} \u{1f600}",
                "größe \u{65e5}\u{672c} \u{1f600}",
            ),
            ("a\u{1b}[2J", "a\\u{1b}[2J"),
            ("a\r\nb\u{85}", "a\\u{d}\\u{a}b\\u{85}"),
            ("a\u{202e}txt.exe", "a\\u{202e}txt.exe"),
            ("\u{2066}a\u{2069}\u{200b}", "\\u{2066}a\\u{2069}\\u{200b}"),
            ("\u{2028}\u{feff}\u{e0041}", "\\u{2028}\\u{feff}\\u{e0041}"),
        ] {
            assert_eq!(printable(name), shown);
        }
    }

    #[test]
    fn errors_have_words_and_no_numbers() {
        let e = anyhow::Error::new(std::io::Error::from_raw_os_error(2))
            .context("a\u{7}")
            .context("b");
        assert_eq!(error(&e), "b: a\\u{7}: No such file or directory");
    }

    #[test]
    fn lines_are_cut_between_words() {
        assert_eq!(wrap("", 10), Vec::<String>::new());
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("a verylongword b", 5), ["a", "verylongword", "b"]);
    }
}
