// SPDX-License-Identifier: GPL-2.0-or-later
//! Entries of a dbpath that were logged, so that each is logged once, and not too many are.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use database::walk::Skipped;
use runtime::log;

/// How many are logged: who owns the dbpath can make as many as he likes.
const MOST: usize = 1000;

#[derive(Default)]
pub(crate) struct Logged {
    known: HashSet<(PathBuf, Skipped)>,
    /// It was said that there are more.
    full: bool,
}

/// What to do about an entry.
#[derive(Debug, PartialEq, Eq)]
enum Say {
    It,
    /// That no other will be logged.
    Last,
    Nothing,
}

impl Logged {
    /// Whether to log an entry.  That no others are logged is logged here.
    pub(crate) fn is_new(&mut self, path: &Path, why: Skipped) -> bool {
        let say = self.say(path, why);
        if say == Say::Last {
            log!(
                Warn,
                "more files are skipped or cannot be read; they are not logged any longer",
                logged = MOST
            );
        }
        say == Say::It
    }

    fn say(&mut self, path: &Path, why: Skipped) -> Say {
        let entry = (path.to_owned(), why);
        if self.known.contains(&entry) {
            return Say::Nothing;
        }
        if self.known.len() < MOST {
            self.known.insert(entry);
            return Say::It;
        }
        match std::mem::replace(&mut self.full, true) {
            false => Say::Last,
            true => Say::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_once_and_not_too_many() {
        let mut logged = Logged::default();
        let mut say = |n: usize, why| logged.say(Path::new(&n.to_string()), why);
        assert_eq!(say(0, Skipped::Symlink), Say::It);
        assert_eq!(say(0, Skipped::Symlink), Say::Nothing);
        assert_eq!(say(0, Skipped::Unreadable), Say::It);
        for n in 1..MOST - 1 {
            assert_eq!(say(n, Skipped::Special), Say::It);
        }
        assert_eq!(say(MOST, Skipped::Special), Say::Last);
        for n in [MOST, MOST + 1, 0] {
            assert_eq!(say(n, Skipped::Special), Say::Nothing);
        }
    }
}
