// SPDX-License-Identifier: GPL-2.0-or-later
//! Compiles the module's policies, unchanged, for the simulator and for what is shown of streams.

fn main() {
    const MODULE: &str = "../../dm-dsm/policies";
    for path in [MODULE, "shim"] {
        println!("cargo:rerun-if-changed={path}");
    }
    let files = std::fs::read_dir(MODULE).expect("the module's source is beside");
    let files = files.map(|file| file.expect("it can be read").path());
    let module = files.filter(|path| path.extension().is_some_and(|e| e == "c"));
    cc::Build::new()
        .files(module)
        .file("shim/sizes.c")
        .include("shim")
        .warnings(true)
        .extra_warnings(true)
        .compile("dsm_policies");
    println!("cargo:rustc-link-lib=m");
}
