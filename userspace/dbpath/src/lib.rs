// SPDX-License-Identifier: GPL-2.0-or-later
//! A database's directory: its files and their extents, who is what, the checkpoint's file,
//! the lists of free extents, the rules for files, and the server that may be asked.

pub mod avail;
pub mod fiemap;
pub mod ident;
pub mod mongo;
pub mod place;
pub mod rules;
pub mod turtle;
pub mod walk;
pub mod watch;
