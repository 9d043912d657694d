// SPDX-License-Identifier: GPL-2.0-or-later
//! Entries of a dbpath that were logged, so that each is logged once, and not too many are.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use database::walk::Skipped;
use runtime::log;

/// How many are logged: who owns the dbpath can make as many as he likes.
const MOST: usize = 1000;

#[derive(Default)]
pub(crate) struct Logged(HashSet<(PathBuf, Skipped)>);

impl Logged {
    /// Whether to log an entry.  That no other will be is logged with the last one.
    pub(crate) fn is_new(&mut self, path: &Path, why: Skipped) -> bool {
        if self.0.len() == MOST || !self.0.insert((path.to_owned(), why)) {
            return false;
        }
        if self.0.len() == MOST {
            log!(
                Warn,
                "if more files are skipped or cannot be read, they are not logged",
                logged = MOST
            );
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_once_and_not_too_many() {
        log::of_device("logged");
        let mut logged = Logged::default();
        let mut is_new = |n: usize, why| logged.is_new(Path::new(&n.to_string()), why);
        assert!(is_new(0, Skipped::Symlink));
        assert!(!is_new(0, Skipped::Symlink));
        assert!(is_new(0, Skipped::Unreadable));
        for n in 1..MOST - 2 {
            assert!(is_new(n, Skipped::Special));
        }
        assert_eq!(log::last_error("logged"), None);
        assert!(is_new(MOST - 2, Skipped::Special));
        let said = log::last_error("logged").unwrap().message;
        assert!(said.ends_with("they are not logged"), "{said}");
        log::clear_error("logged");
        for n in [MOST, MOST + 1, 0] {
            assert!(!is_new(n, Skipped::Special));
        }
        assert_eq!(log::last_error("logged"), None, "it is said once");
    }
}
