// SPDX-License-Identifier: GPL-2.0-or-later
//! What would be: traces and recordings of a workload, a model of flash, the policies on it,
//! and the two ways to choose streams, by the writes (filestream) and by objects (group).

pub mod flash;
pub mod group;
pub mod record;
pub mod sim;
pub mod trace;
