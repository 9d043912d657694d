// SPDX-License-Identifier: GPL-2.0-or-later
//! The command lines of the programs: here, and not with them, so that their man
//! pages and completions can be made from what they are.

pub mod dsmctl;
pub mod dsmd;
pub mod exporter;
pub mod mongo;
