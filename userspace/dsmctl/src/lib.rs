// SPDX-License-Identifier: GPL-2.0-or-later
//! The command line of `dsmctl`, as the manual and a line of /etc/dsmtab use it.

pub mod cli;
pub mod tab;
