// SPDX-License-Identifier: GPL-2.0-or-later
//! Compiles the module's policies, unchanged, for the simulator.

fn main() {
    let source = "../dm-dsm/policies.c";
    for path in [source, "../dm-dsm/policies.h", "shim"] {
        println!("cargo:rerun-if-changed={path}");
    }
    cc::Build::new()
        .file(source)
        .include("shim")
        .warnings(true)
        .extra_warnings(true)
        .compile("dsm_policies");
    println!("cargo:rustc-link-lib=m");
}
