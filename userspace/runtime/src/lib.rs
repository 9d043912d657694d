// SPDX-License-Identifier: GPL-2.0-or-later
//! What every program needs while it runs: its log, what it waits for, the watchdog's
//! pulse, and how it reads and prints sizes, times and texts.

pub mod grid;
pub mod log;
pub mod own;
pub mod pages;
pub mod panic;
pub mod pulse;
pub mod sizes;
pub mod text;
pub mod time;
pub mod wake;
pub mod whole;
