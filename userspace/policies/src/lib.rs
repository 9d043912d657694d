// SPDX-License-Identifier: GPL-2.0-or-later
//! What userspace has of the module's own source, dm-dsm/policies/, compiled in unchanged:
//! the names of the policies, the layout of streams and the length of discards here, the
//! policies themselves in simulate.

pub mod filestream;
pub mod granule;
pub mod layout;

use std::ffi::{c_char, CStr};

extern "C" {
    // The first of several; behind the last is a null pointer.
    static dsm_policy_names: *const c_char;
}

/// The names of the target's policies, in the order of `enum dsm_policy_id`.
pub fn names() -> Vec<&'static str> {
    let first = &raw const dsm_policy_names;
    let name = |n| {
        // SAFETY: the array is constant and ends with a null pointer, behind which nothing
        // is read: the first null ends the iteration.
        let name = unsafe { *first.add(n) };
        // SAFETY: it is a constant string that ends with a null.
        (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) })
    };
    let names = (0..).map_while(name);
    names.map(|n| n.to_str().expect("the names are ASCII")).collect()
}

/// The `enum dsm_policy_id` of a name.
pub fn number(name: &str) -> Option<u32> {
    let at = names().iter().position(|n| *n == name)?;
    u32::try_from(at).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_modules() {
        assert_eq!(names()[..5], ["none", "file", "boundary", "dsm", "life"]);
        let known = ["none", "dsm", "life", "best"].map(number);
        assert_eq!(known, [Some(0), Some(3), Some(4), None]);
    }
}
