// SPDX-License-Identifier: GPL-2.0-or-later
//! Names of dsm devices.  A name is an instance of systemd's templates as it is
//! (`dsm-mongo@vg-db`), a word of a command line, a file, and a part of a socket's path: what
//! would have to be escaped in one of these, or would be taken for something else, is none.

/// As an error message has it.
const RULE: &str = "it must be 1 to 80 letters, digits and -.:@_, of which at most 49 are - or @, \
                        begin with a letter, a digit or _, and end like no unit of systemd's";

/// A socket's path has 107 bytes.
const LONGEST: usize = 80;
/// In the names of units of the node these take four characters each.  With so many of them
/// `blockdev@dev-mapper-NAME.target` is as long as a unit's name may be, 255 characters.
const MOST_ESCAPED: usize = 49;
/// `systemctl start dsm@x.service` is about the device x.
const UNITS: [&str; 11] = [
    ".automount",
    ".device",
    ".mount",
    ".path",
    ".scope",
    ".service",
    ".slice",
    ".socket",
    ".swap",
    ".target",
    ".timer",
];

/// Whether a device can have the name.
pub fn check(name: &str) -> Result<(), &'static str> {
    let good = |c: char| c.is_ascii_alphanumeric() || "-.:@_".contains(c);
    let begins = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let escaped = name.bytes().filter(|b| b"-@".contains(b)).count();
    let right = name.starts_with(begins)
        && name.chars().all(good)
        && name.len() <= LONGEST
        && escaped <= MOST_ESCAPED
        && !UNITS.iter().any(|suffix| name.ends_with(suffix));
    match name {
        "control" => Err("that node is device-mapper's own"),
        _ if right => Ok(()),
        _ => Err(RULE),
    }
}

/// The same, for an argument.
pub fn parse(name: &str) -> Result<String, &'static str> {
    check(name).map(|()| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let longest = format!("{}{}", "a".repeat(31), "-".repeat(49));
        for name in [
            "d",
            "rs0",
            "vg-db",
            "my--vg-lv.1",
            "a:b_c@d",
            "_x",
            "7",
            "x.services",
            &longest,
        ] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
        let too_long = "a".repeat(81);
        let too_many = format!("a{}", "-".repeat(50));
        for name in [
            "",
            "-x",
            "--check",
            ".",
            "..",
            ".a",
            "@a",
            ":a",
            "a/b",
            "a b",
            "a+b",
            "a#b",
            "a=b",
            r"a\x2db",
            "a%b",
            "a\n",
            "ä",
            "a.service",
            "a.target",
            &too_long,
            &too_many,
        ] {
            assert_eq!(check(name), Err(RULE), "{name}");
        }
        assert!(check("control").is_err());
    }
}
