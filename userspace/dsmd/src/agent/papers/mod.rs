// SPDX-License-Identifier: GPL-2.0-or-later
//! What only the policies of the papers need: the boundaries of files, the end of the load
//! phase, and the file that keeps both.  Under the other policies they change nothing.

pub(crate) mod boundaries;
pub(crate) mod load_phase;
pub mod state;
