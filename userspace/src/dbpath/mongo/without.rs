// SPDX-License-Identifier: GPL-2.0-or-later
//! In place of `client` when dsmd is built without the driver.

use super::uri::{Parsed, Uri};
use super::Shared;

#[derive(Default)]
pub struct Bell(());

impl Bell {
    pub fn notify_one(&self) {}
}

pub(super) fn parse(_: &str) -> Result<Parsed, String> {
    Err("this dsmd was built without the feature `mongodb`".into())
}

pub(super) fn follow(_: &Uri, _: &Shared) {
    unreachable!("there is no Uri without the feature");
}
