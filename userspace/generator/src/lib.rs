// SPDX-License-Identifier: GPL-2.0-or-later
//! When the system starts: `/etc/dsmtab`, and the names of systemd's units.

pub mod dsmtab;
pub mod unit_name;
