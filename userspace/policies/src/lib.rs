// SPDX-License-Identifier: GPL-2.0-or-later
//! What userspace has of the module's own source, dm-dsm/policies/, compiled in unchanged:
//! the names of the policies and the layout of streams here, the policies themselves in
//! whatif.

pub mod layout;

use std::ffi::{c_char, CStr};

const COUNT: usize = 5;

extern "C" {
    // Behind the last is a null pointer.
    static dsm_policy_names: [*const c_char; COUNT + 1];
}

/// The names of the target's policies, in the order of `enum dsm_policy_id`.
pub fn names() -> [&'static str; COUNT] {
    std::array::from_fn(|n| {
        // SAFETY: the array is constant, as are the strings, which end with a null.
        let name = unsafe { CStr::from_ptr(dsm_policy_names[n]) };
        name.to_str().expect("the names are ASCII")
    })
}

/// The `enum dsm_policy_id` of a name; of another, that of `none`.
pub fn number(name: &str) -> u32 {
    names().iter().position(|n| *n == name).unwrap_or(0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_modules() {
        assert_eq!(names(), ["none", "file", "boundary", "dsm", "life"]);
        assert_eq!(["none", "dsm", "life", "best"].map(number), [0, 3, 4, 0]);
    }
}
