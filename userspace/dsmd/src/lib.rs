// SPDX-License-Identifier: GPL-2.0-or-later
//! The daemon's life: a thread for each database, which waits for it, serves it, loses
//! it and finds it again, and a supervisor that reports to the service manager.

pub mod agent;
pub mod cli;
mod host;
pub mod mongo;
mod publish;
mod serve;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use sd_notify::NotifyState;

use crate::agent::discard::{self, Plan};
use dm::device::{Device, Target};
use dm::devno::DevNo;
use dm::ioctl::Dm;
use dm::sysfs::Sysfs;
use drive::below::{self, Affords};
use drive::media;
use files::config::Config;
use files::fiemap::{Fiemap, Mapper};
use files::place;
use files::walk::Root;
use proto::drive::Media;
use proto::sample::Look;
use runtime::log;
use runtime::pulse::{Pulse, Pulses};
use runtime::wake::Signals;

use publish::{Board, Publisher};
use serve::Served;

/// The devices and file systems that there are; others in tests.
pub trait Machine: Send + Sync + 'static {
    type Target: Target;
    type Mapper: Mapper;

    fn open(&self, device: &str) -> Result<Self::Target>;
    /// Where the files of a directory lie on a device.
    fn mapper(&self, root: &Root, target: &Self::Target) -> Result<Self::Mapper>;
    /// Begins to discard what the checkpoints of a database free.
    fn discards(&self, root: &Root, device: &str, plan: Plan, pulse: Pulse) -> Result<discard::Link>;
    /// What the kernel says of a device.
    fn look(&self, device: &str) -> Result<Look>;
    /// The streams that the drive below a device affords.
    fn affords(&self, target: &Self::Target) -> Result<Affords>;
    /// What the drive below a device says, or why it does not.
    fn ask_drive(&self, device: DevNo) -> Result<Media, String>;
}

/// This machine.
pub struct Local;

impl Machine for Local {
    type Target = Device;
    type Mapper = Fiemap;

    fn open(&self, device: &str) -> Result<Device> {
        Device::open(device)
    }

    fn mapper(&self, root: &Root, target: &Device) -> Result<Fiemap> {
        let found = place::of_root(root, &target.name, target.devno, target.sectors)?;
        if let Some(warning) = &found.warning {
            log!(Warn, warning);
        }
        let (root, name) = (root.clone(), target.name.clone());
        let (devno, sectors) = (target.devno, target.sectors);
        let again = move || Some(place::of_root(&root, &name, devno, sectors).ok()?.place);
        Ok(Fiemap::new(found.place).following(again))
    }

    fn discards(&self, root: &Root, device: &str, plan: Plan, pulse: Pulse) -> Result<discard::Link> {
        let target = Device::open(device)?;
        let disk = discard::Disk::new(root.clone(), device, target.devno, target.sectors, pulse.clone());
        discard::Link::start(&target.name.clone(), plan, target, disk, pulse)
    }

    fn look(&self, device: &str) -> Result<Look> {
        Look::at(device)
    }

    fn affords(&self, target: &Device) -> Result<Affords> {
        below::of(&Sysfs::default(), &Dm::open()?, target.devno)
    }

    fn ask_drive(&self, device: DevNo) -> Result<Media, String> {
        media::of(&Sysfs::default(), device)
    }
}

/// What a thread reports of its database.
enum ServeEvent {
    /// It is served, or waited for.
    Ready,
    Ended(Result<()>),
}

/// Serves until all databases are given up, or a signal comes; whether none
/// failed.
pub fn serve_all<M: Machine>(machine: &Arc<M>, config: &Config, show_regions: bool) -> Result<bool> {
    let spawn = |name: &str, body: Body| {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(body);
        thread.map(drop)
    };
    serve_with(machine, config, show_regions, &spawn)
}

type Body = Box<dyn FnOnce() + Send>;

/// With threads from `spawn`: a database whose thread cannot start is given up alone.
fn serve_with<M: Machine>(
    machine: &Arc<M>,
    config: &Config,
    show_regions: bool,
    spawn: &dyn Fn(&str, Body) -> io::Result<()>,
) -> Result<bool> {
    let (sender, events) = mpsc::channel();
    let several = config.databases.len() > 1;
    let board = Arc::<Board>::default();
    let devices = config.databases.iter().map(|d| d.device.clone()).collect();
    // What is shown is no reason not to serve.
    let _publisher = Publisher::start(machine, &board, &config.run_dir, devices).inspect_err(|e| {
        log!(
            Warn,
            "dsm-exporter has nothing to show",
            reason = format!("{e:#}")
        )
    });
    let mut pulses = Vec::new();
    for (number, database) in config.databases.iter().enumerate() {
        let its = Pulses::default();
        pulses.push(its.clone());
        let (machine, sender, told) = (Arc::clone(machine), sender.clone(), sender.clone());
        let served = Served {
            database: database.clone(),
            state_dir: config.state_dir.clone(),
            run_dir: config.run_dir.clone(),
            mongo_dir: config.mongo_dir.clone(),
            board: Arc::clone(&board),
            show_regions,
            pulses: its,
            signals: Signals::new()?,
            pace: serve::ServePace::default(),
        };
        let body = move || {
            log::of_device(&served.database.device, several);
            // The receiver lives as long as the threads.
            let tell = |event| drop(sender.send((number, event)));
            let result = serve::serve(&*machine, &served, &|| tell(ServeEvent::Ready));
            tell(ServeEvent::Ended(result));
        };
        if let Err(e) = spawn(&database.device, Box::new(body)) {
            let why = "cannot start a thread: see TasksMax= of dsmd.service";
            let _ = told.send((number, ServeEvent::Ended(Err(e).context(why))));
        }
    }
    drop(sender);
    let watchdog = sd_notify::watchdog_enabled();
    let names: Vec<&str> = config.databases.iter().map(|d| d.device.as_str()).collect();
    Ok(supervise(&events, &pulses, &names, watchdog, &mut tell))
}

/// Which databases are decided: served, waited for, or given up.
struct Decided {
    open: Vec<bool>,
    reported: bool,
}

impl Decided {
    fn new(databases: usize) -> Self {
        Self {
            open: vec![true; databases],
            reported: false,
        }
    }

    /// Whether this is the moment at which all are.
    fn decide(&mut self, number: usize) -> bool {
        self.open[number] = false;
        let all = !self.open.contains(&true);
        all && !std::mem::replace(&mut self.reported, true)
    }
}

fn supervise(
    events: &mpsc::Receiver<(usize, ServeEvent)>,
    pulses: &[Pulses],
    names: &[&str],
    watchdog: Option<Duration>,
    tell: &mut dyn FnMut(NotifyState<'_>),
) -> bool {
    let period = watchdog.map_or(Duration::from_secs(3600), |w| w / 3);
    let mut decided = Decided::new(pulses.len());
    let (mut served, mut all_well) = (0, true);
    loop {
        let decides = match events.recv_timeout(period) {
            Ok((number, ServeEvent::Ready)) => {
                served += 1;
                Some(number)
            }
            Ok((number, ServeEvent::Ended(result))) => {
                if let Err(e) = result {
                    all_well = false;
                    log!(Error, "ended", device = names[number], reason = format!("{e:#}"));
                }
                Some(number)
            }
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return all_well,
        };
        // One that is given up at once does not keep the others from being ready.
        if decides.is_some_and(|number| decided.decide(number)) && served > 0 {
            tell(NotifyState::Ready);
        }
        // A thread that is stuck takes the process down, after which all are
        // served again.
        let stuck = |w: Duration| pulses.iter().any(|p| p.busy() > w);
        if watchdog.is_some_and(|w| !stuck(w)) {
            tell(NotifyState::Watchdog);
        }
    }
}

fn tell(state: NotifyState<'_>) {
    if let Err(e) = sd_notify::notify(&[state]) {
        log!(Warn, "cannot notify the service manager", reason = e);
    }
}
