// SPDX-License-Identifier: GPL-2.0-or-later
//! The directory of state that dsmd and `dsmctl trial` share.

use dsmctl::trial::state::Store;
use dsmd::agent::papers::state::{Directory, Keeper, State};

/// dsmd moves away what it does not understand.
#[test]
fn boundaries_and_trials_are_in_no_ones_way() {
    let dir = tempfile::tempdir().unwrap();
    let state = |name: &str| State::new(name, Directory::default(), true, Vec::new());
    for name in ["trial-x", "trial", "x.old", "x"] {
        assert!(Keeper::new(dir.path(), name).save(&state(name)));
    }
    for name in ["x", "x.old", "trial-x"] {
        assert!(Store::of(dir.path(), name).load().unwrap().is_none(), "{name}");
    }
    for name in ["trial-x", "trial", "x.old", "x"] {
        assert_eq!(Keeper::new(dir.path(), name).load(), Some(state(name)));
    }
}
