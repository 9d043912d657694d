// SPDX-License-Identifier: GPL-2.0-or-later
//! The command line of `dsm-exporter`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Parser;

use proto::control::RUN_DIR;
use runtime::log::Format;

/// Serve dsmd's data: a web page, and metrics for Prometheus
///
/// It needs no privileges, and queries neither dsmd nor the drive: every answer comes from
/// the file that dsmd writes into its run directory.
#[derive(Debug, Parser)]
#[command(
    name = "dsm-exporter",
    version,
    after_long_help = "Example:\n  dsm-exporter --listen 127.0.0.1:19187"
)]
pub struct Args {
    /// Where to listen: a port of the loopback interface, or an address and a port
    #[arg(
        long,
        value_name = "[ADDRESS:]PORT",
        env = "DSM_EXPORTER_LISTEN",
        default_value = "19187",
        value_parser = address
    )]
    pub listen: SocketAddr,
    /// Format of the log on stderr
    #[arg(long, value_enum, env = "DSM_EXPORTER_LOG_FORMAT", default_value = "text")]
    pub log_format: Format,
    /// Directory in which dsmd publishes
    #[arg(long, value_name = "DIR", env = "DSMD_RUN_DIR", default_value = RUN_DIR, hide = true)]
    pub run_dir: PathBuf,
}

/// On the loopback interface by default.
fn address(s: &str) -> Result<SocketAddr, &'static str> {
    let port = s
        .parse()
        .map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    port.or_else(|_| s.parse())
        .map_err(|_| "it must be a port, or an address and a port such as 127.0.0.1:19187")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn metrics_stay_on_the_loopback_interface() {
        let listen = |words: &str| Args::parse_from(words.split(' ')).listen.to_string();
        assert_eq!(listen("dsm-exporter"), "127.0.0.1:19187");
        assert_eq!(listen("dsm-exporter --listen 1234"), "127.0.0.1:1234");
        assert_eq!(listen("dsm-exporter --listen [::]:1"), "[::]:1");
    }

    #[test]
    fn an_address_is_a_port_or_both() {
        for (s, a) in [("19187", "127.0.0.1:19187"), ("0.0.0.0:1", "0.0.0.0:1")] {
            assert_eq!(address(s).unwrap().to_string(), a);
        }
        for s in ["", "x", "70000", "localhost:1", ":1"] {
            assert!(address(s).is_err(), "{s}");
        }
    }
}
