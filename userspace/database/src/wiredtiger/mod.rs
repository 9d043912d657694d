// SPDX-License-Identifier: GPL-2.0-or-later
//! What WiredTiger writes: the checkpoint's file, and the lists of free blocks.

pub mod avail;
pub mod turtle;
pub mod varint;
