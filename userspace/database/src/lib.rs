// SPDX-License-Identifier: GPL-2.0-or-later
//! A database's directory: its files and their extents, which file is what, the rules for
//! them, and the configuration that says whose directory is where.

pub mod config;
pub mod fiemap;
pub mod ident;
pub mod mount;
pub mod place;
pub mod rules;
pub mod walk;
pub mod watch;
pub mod wiredtiger;
