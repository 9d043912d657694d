// SPDX-License-Identifier: GPL-2.0-or-later
//! Looks at devices: asks the kernel, the drive and dsmd, and takes what dsmd publishes for
//! who may not ask.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use anyhow::Result;
use rustix::io::Errno;

use crate::cli as args;
use dm::device::{Device, Target};
use dm::devno::DevNo;
use dm::ioctl::{Dm, DmError};
use dm::reply::TableLine;
use dm::streams::{self, LiveTables};
use dm::sysfs::Sysfs;
use drive::{below, media, switch};
use policies::layout::{self, Layout};
use proto::control::{Info, Request};
use proto::device::{DeviceView, Kernel, State};
use proto::reason::{Reason, ReasonKind};
use proto::snapshot::{Moment, Snapshot};
use runtime::text::printable;

/// What costs something to ask.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asks {
    pub regions: bool,
    /// What the drive counts.
    pub drive: bool,
}

pub(crate) struct Viewer {
    pub sysfs: Sysfs,
    pub dm: Result<Dm, DmError>,
    /// What each dsmd publishes.
    pub published: Vec<DeviceView>,
}

fn denied_dm(e: &DmError) -> bool {
    matches!(e.errno(), Some(Errno::ACCESS | Errno::PERM))
}

/// Whether what failed is a question of permission.
pub(crate) fn denied(e: &anyhow::Error) -> bool {
    e.chain().any(|cause| {
        let io = cause.downcast_ref::<io::Error>();
        let dm = cause.downcast_ref::<DmError>();
        io.is_some_and(|e| e.kind() == io::ErrorKind::PermissionDenied) || dm.is_some_and(denied_dm)
    })
}

impl Viewer {
    pub(crate) fn new() -> Self {
        let published = Snapshot::current(&args::run_dir());
        let mut viewer = Self {
            published: published.map_or_else(|_| Vec::new(), |s| s.devices),
            sysfs: Sysfs::default(),
            dm: Dm::open(),
        };
        // One that was killed leaves what it published; others may not see its process.
        let permitted = viewer.permitted();
        for d in viewer.published.iter_mut().filter(|d| permitted && !d.over) {
            let gone = |pid: &u32| !Path::new("/proc").join(pid.to_string()).exists();
            if let Some(pid) = d.service.as_ref().and_then(|s| s.pid).filter(gone) {
                d.end(State::Ended, Some(format!("there is no process {pid} any more")));
            }
        }
        viewer
    }

    /// Whether device-mapper may be asked.
    pub(crate) fn permitted(&self) -> bool {
        !matches!(&self.dm, Err(e) if denied_dm(e))
    }

    /// The devices that there are, as far as that can be seen.
    pub(crate) fn names(&self) -> Result<BTreeSet<String>> {
        if self.permitted() {
            return Ok(Device::all()?.into_iter().collect());
        }
        let seen = self.published.iter().filter(|d| d.kernel.is_some());
        Ok(seen.map(|d| d.name.clone()).collect())
    }

    /// What lies below a device, which is itself none of the volumes between.
    pub(crate) fn stack(&self, table: &TableLine, devno: DevNo) -> Result<streams::LowerStack, String> {
        let below = table.below.parse().unwrap_or(devno);
        let tables: &dyn LiveTables = match &self.dm {
            Ok(dm) => dm,
            Err(_) => &streams::Unknown,
        };
        streams::below(&self.sysfs, tables, below).map_err(|e| format!("{e:#}"))
    }

    /// A device as it is seen now.
    pub(crate) fn view(&self, name: &str, asks: Asks) -> DeviceView {
        let published = self.published.iter().find(|d| d.name == name);
        let mut v = published.cloned().unwrap_or_default();
        v.name = name.to_owned();
        let asked = Device::open(name).and_then(|device| self.ask_kernel(&device, &mut v, asks));
        match asked {
            Ok(()) => {}
            Err(_) if !self.permitted() && v.kernel.is_some() => {}
            Err(_) if !self.permitted() => {
                v.unseen = Some(Reason::new(ReasonKind::Hidden, "only root can look at it"));
            }
            Err(e) => (v.kernel, v.unseen) = (None, Some(Reason::of(&e))),
        }
        let Some(kernel) = &v.kernel else {
            v.agent = None;
            return v;
        };
        let (sysfs, stack) = (&self.sysfs, self.stack(&kernel.table, kernel.devno));
        v.affords = stack.ok().map(|stack| below::of_stack(sysfs, &stack, &|all| all));
        v.barred = switch::marked(Path::new(switch::DIR), sysfs, name, kernel.devno);
        // One that is stuck would not answer.
        if v.state() != Some(State::Stuck) {
            match crate::ask_soon::<Info>(name, Request::Info) {
                Ok(info) => v.agent = Some(info),
                Err(e) if denied(&e) => {}
                Err(e) => (v.agent, v.silent) = (None, Some(Reason::of(&e))),
            }
        }
        add_uses(&mut v);
        v
    }

    fn ask_kernel(&self, device: &Device, v: &mut DeviceView, asks: Asks) -> Result<()> {
        let published = v.kernel.take();
        v.at = Moment::now();
        let mut kernel = Kernel::at(device)?;
        kernel.uses = layout::uses(&Layout::of(&kernel.table, &kernel.status));
        if asks.drive {
            kernel.media = media::of(&self.sysfs, device.devno);
        } else if let Some(published) = published {
            kernel.media = published.media;
        }
        let s = &kernel.status;
        kernel.last_checkpoint = (s.windows > 0).then(|| v.at.wall - s.window_ms as f64 / 1000.0);
        if asks.regions {
            v.regions = Some(device.regions()?);
        }
        (v.kernel, v.unseen) = (Some(kernel), None);
        Ok(())
    }
}

/// What the agent uses streams for, beside the layout.
fn add_uses(v: &mut DeviceView) {
    let (Some(kernel), Some(agent)) = (&mut v.kernel, &v.agent) else {
        return;
    };
    let mut add = |stream: u8, what: String| kernel.uses.entry(stream.into()).or_default().push(what);
    for o in agent.objects.iter().filter(|o| o.stream > 0) {
        add(o.stream, printable(&o.name));
    }
    if let Some(auto) = &agent.auto {
        for (n, stream) in auto.streams.iter().enumerate() {
            let comes = n < usize::from(auto.mapper_streams);
            let what = if comes {
                "files that come"
            } else {
                "files that stay open"
            };
            add(*stream, what.to_owned());
        }
    }
}
