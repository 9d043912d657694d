// SPDX-License-Identifier: GPL-2.0-or-later
//! The kernel as it is: device-mapper, the target's messages and answers, the table of
//! extents, sysfs, udev, and what the underlying devices can do.  Documentation/dsm.rst describes
//! the target's side.

pub mod bytes;
pub mod class;
pub mod device;
pub mod devno;
pub mod diskstat;
pub mod exchange;
pub mod ioctl;
pub mod journal;
pub mod kmsg;
pub mod lvm;
pub mod memory;
pub mod mode;
pub mod module;
pub mod mounts;
pub mod name;
pub mod node;
pub mod reply;
pub mod segments;
pub mod stack;
pub mod streams;
pub mod sysfs;
pub mod table;
pub mod udev;
pub mod unit_name;
