// SPDX-License-Identifier: GPL-2.0-or-later
//! What `dsmctl` and `dsmd` share.  The interface of the kernel's side is
//! described in Documentation/dsm.rst.

pub mod agent;
pub mod avail;
pub mod class;
pub mod cli;
pub mod config;
pub mod control;
pub mod daemon;
pub mod device;
pub mod devno;
pub mod diskstat;
pub mod dm;
pub mod fiemap;
pub mod filestream;
pub mod flash;
pub mod group;
pub mod history;
pub mod host;
pub mod ident;
pub mod kmsg;
pub mod layout;
pub mod log;
pub mod media;
pub mod metrics;
#[cfg(test)]
mod model;
#[cfg_attr(not(feature = "mongodb"), allow(dead_code))]
pub mod mongo;
pub mod node;
pub mod nvme;
pub mod place;
pub mod record;
pub mod report;
pub mod rules;
pub mod sample;
pub mod sim;
mod sizes;
pub mod status;
pub mod streams;
pub mod sysfs;
pub mod tab;
pub mod table;
mod text;
pub mod top;
pub mod trace;
pub mod turtle;
pub mod udev;
pub mod unit_name;
pub mod walk;
