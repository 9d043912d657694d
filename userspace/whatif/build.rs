// SPDX-License-Identifier: GPL-2.0-or-later
//! Compiles the module's policies, unchanged, for the simulator.

fn main() {
    let sources = ["../../dm-dsm/policies.c", "../../dm-dsm/life.c", "shim/sizes.c"];
    for path in sources.into_iter().chain(["../../dm-dsm/policies.h", "shim"]) {
        println!("cargo:rerun-if-changed={path}");
    }
    cc::Build::new()
        .files(sources)
        .include("shim")
        .warnings(true)
        .extra_warnings(true)
        .compile("dsm_policies");
    println!("cargo:rustc-link-lib=m");
}
