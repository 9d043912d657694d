// SPDX-License-Identifier: GPL-2.0-only
//! Serves metrics for Prometheus: one thread, one request at a time.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use dsm::config::Config;
use dsm::control::{self, Request};
use dsm::device::{Device, Target};
use dsm::log;
use dsm::metrics::{self, Sample};

/// A client that is slower than this is let go.
const PATIENCE: Duration = Duration::from_secs(5);
/// A longer head is not Prometheus's.
const LONGEST: usize = 8192;

pub fn start(address: SocketAddr, config: &Config) -> Result<()> {
    let listener =
        TcpListener::bind(address).with_context(|| format!("cannot serve metrics at {address}"))?;
    log!(Info, "metrics", address = listener.local_addr()?);
    let devices: Vec<String> = config.databases.iter().map(|d| d.device.clone()).collect();
    let run_dir = config.run_dir.clone();
    thread::Builder::new()
        .name("metrics".into())
        .spawn(move || {
            for stream in listener.incoming() {
                match stream {
                    Ok(stream) => {
                        // A client's failure is its own.
                        let _ = answer(stream, &devices, &run_dir);
                    }
                    // Out of descriptors, most likely: do not spin.
                    Err(_) => thread::sleep(Duration::from_millis(100)),
                }
            }
        })
        .context("cannot start the metrics thread")?;
    Ok(())
}

fn answer(mut stream: TcpStream, devices: &[String], run_dir: &Path) -> std::io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let (status, text) = match request(&mut stream)?.split(' ').collect::<Vec<_>>()[..] {
        ["GET", "/metrics", _] => ("200 OK", metrics::text(&samples(devices, run_dir))),
        ["GET", ..] => ("404 Not Found", "metrics are at /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", String::new()),
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    )
}

/// The request line; what follows it is read and does not matter.
fn request(stream: &mut TcpStream) -> std::io::Result<String> {
    let end = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut buf = [0u8; 1024];
    while !head.windows(4).any(|w| w == b"\r\n\r\n") && head.len() < LONGEST {
        let left = end.saturating_duration_since(Instant::now());
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        match stream.read(&mut buf)? {
            0 => break,
            n => head.extend_from_slice(&buf[..n]),
        }
    }
    let text = String::from_utf8_lossy(&head);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

fn samples(devices: &[String], run_dir: &Path) -> Vec<Sample> {
    let of = |device: &String| Sample {
        device: device.clone(),
        kernel: Device::open(device)
            .and_then(|d| Ok((d.table_line()?, d.status()?)))
            .ok(),
        agent: control::ask(run_dir, device, Request::Info).ok(),
    };
    devices.iter().map(of).collect()
}
