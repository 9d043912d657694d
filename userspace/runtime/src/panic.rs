// SPDX-License-Identifier: GPL-2.0-or-later
//! What a panic is to a program of several threads.

/// A thread that panics leaves its database unserved, or nobody to answer: the service
/// manager restarts all of dsmd.
pub fn abort_on_panic() {
    let reported = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        reported(info);
        std::process::abort();
    }));
}
