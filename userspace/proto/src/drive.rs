// SPDX-License-Identifier: GPL-2.0-or-later
//! What a drive reports of what it has written.

use serde::{Deserialize, Serialize};

/// Of all namespaces of the drive's endurance group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Media {
    /// The kernel's name of the disk.
    pub drive: String,
    pub statistics: Statistics,
}

/// What an endurance group has written since it was made, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// HBMW: by the host, with metadata.
    pub host: u128,
    /// MBMW: to the media, by the host and by garbage collection.
    pub media: u128,
    /// MBE: erased on the media.
    pub erased: u128,
}
