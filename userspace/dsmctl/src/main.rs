// SPDX-License-Identifier: GPL-2.0-or-later

fn main() -> std::process::ExitCode {
    dsmctl::main()
}
