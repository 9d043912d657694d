// SPDX-License-Identifier: GPL-2.0-or-later
//! What a panic is to a program of several threads.

/// A thread that panics leaves its database unserved, or nobody to answer: the service
/// manager starts all of dsmd anew.
pub fn abort_on_panic() {
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        told(info);
        std::process::abort();
    }));
}
