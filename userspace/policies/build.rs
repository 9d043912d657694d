// SPDX-License-Identifier: GPL-2.0-or-later
//! Compiles the module's policies, unchanged, for the simulator and for what is shown of streams.

fn main() {
    const MODULE: &str = "../../dm-dsm/policies";
    for path in [MODULE, "shim"] {
        println!("cargo:rerun-if-changed={path}");
    }
    let module = ["policies", "life", "layout"].map(|name| format!("{MODULE}/{name}.c"));
    cc::Build::new()
        .files(module)
        .file("shim/sizes.c")
        .include("shim")
        .warnings(true)
        .extra_warnings(true)
        .compile("dsm_policies");
    println!("cargo:rustc-link-lib=m");
}
