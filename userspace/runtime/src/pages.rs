// SPDX-License-Identifier: GPL-2.0-or-later
//! Where the pages of Documentation are on this system.

/// As `make install` has been told.
pub const DIR: &str = match option_env!("DSM_DOCDIR") {
    Some(dir) => dir,
    None => "/usr/share/doc/dm-dsm",
};

/// The path of a page, which may have "#SECTION" behind it.
pub fn page(name: &str) -> String {
    format!("{DIR}/{name}")
}

/// What the help of each program ends with.
pub fn help() -> String {
    format!("The pages that this names are in {DIR}.")
}
