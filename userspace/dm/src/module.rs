// SPDX-License-Identifier: GPL-2.0-or-later
//! The running kernel, and whether it has the module.

use std::fs;
use std::path::{Path, PathBuf};

/// Where a kernel says what it is.
#[derive(Clone, Debug)]
pub struct System {
    pub sys: PathBuf,
    pub proc: PathBuf,
    pub modules: PathBuf,
}

impl Default for System {
    fn default() -> Self {
        Self {
            sys: "/sys".into(),
            proc: "/proc".into(),
            modules: "/lib/modules".into(),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelRelease {
    pub release: String,
    /// Whether block devices can have write streams; unknown without a block device.
    pub write_streams: Option<bool>,
    pub module: Module,
    /// Modules without a signature that it trusts are refused: Secure Boot, or a lockdown.
    pub signed_only: bool,
    /// The whole disks, but for what is made of others.
    pub disks: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Module {
    /// Not even built for this kernel.
    #[default]
    Missing,
    /// Built, and not loaded.
    Installed,
    Loaded,
}

impl KernelRelease {
    pub fn of(system: &System) -> Self {
        let text = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
        let release = text(system.proc.join("sys/kernel/osrelease")).trim().to_owned();
        let lockdown = text(system.sys.join("kernel/security/lockdown"));
        let enforced = text(system.sys.join("module/module/parameters/sig_enforce"));
        let module = module(system, &release);
        let mut kernel = Self {
            release,
            module,
            signed_only: lockdown.contains('[') && !lockdown.contains("[none]") || enforced.starts_with('Y'),
            ..Self::default()
        };
        let Ok(entries) = fs::read_dir(system.sys.join("block")) else {
            return kernel;
        };
        for entry in entries.flatten() {
            let streams = entry.path().join("queue/max_write_streams").exists();
            kernel.write_streams = Some(streams || kernel.write_streams == Some(true));
            let name = entry.file_name().to_string_lossy().into_owned();
            let hidden = fs::read_to_string(entry.path().join("hidden"));
            let path_of_another = hidden.is_ok_and(|h| h.trim() == "1");
            // Those of loop, ram, dm, md and zram have none.
            let device = entry.path().join("device").exists();
            if device && !path_of_another && !name.starts_with("sr") {
                kernel.disks.push(name);
            }
        }
        kernel.disks.sort();
        kernel
    }

    /// Its version is at least that.
    pub fn is_from(&self, major: u32, minor: u32) -> bool {
        let mut numbers = self.release.split(|c: char| !c.is_ascii_digit());
        let mut next = || numbers.next().and_then(|n| n.parse::<u32>().ok());
        next().zip(next()).is_some_and(|v| v >= (major, minor))
    }
}

fn module(system: &System, release: &str) -> Module {
    if system.sys.join("module/dm_dsm").exists() {
        return Module::Loaded;
    }
    let lists = |name: &str, directory: &Path| {
        fs::read_to_string(directory.join(name)).is_ok_and(|text| {
            text.lines().any(|line| {
                let file = line.split(':').next().unwrap_or_default();
                file.rsplit('/')
                    .next()
                    .is_some_and(|f| f.starts_with("dm-dsm.ko"))
            })
        })
    };
    let directory = system.modules.join(release);
    if lists("modules.builtin", &directory) {
        Module::Loaded
    } else if lists("modules.dep", &directory) {
        Module::Installed
    } else {
        Module::Missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(at: PathBuf, text: &str) {
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::write(at, text).unwrap();
    }

    #[test]
    fn what_a_kernel_is() {
        let dir = tempfile::tempdir().unwrap();
        let system = System {
            sys: dir.path().join("sys"),
            proc: dir.path().join("proc"),
            modules: dir.path().join("modules"),
        };
        write(system.proc.join("sys/kernel/osrelease"), "6.12.48-x\n");
        let k = KernelRelease::of(&system);
        assert_eq!((k.release.as_str(), k.write_streams), ("6.12.48-x", None));
        assert_eq!(k.module, Module::Missing);
        assert!(k.is_from(6, 12) && k.is_from(5, 19) && !k.is_from(6, 16));

        write(system.sys.join("block/dm-0/queue/rotational"), "0\n");
        assert_eq!(KernelRelease::of(&system).write_streams, Some(false));
        write(system.sys.join("block/nvme0n1/queue/max_write_streams"), "0\n");
        write(system.sys.join("block/nvme0n1/device/model"), "X\n");
        write(system.sys.join("block/zram0/queue/rotational"), "0\n");
        write(system.sys.join("block/nvme0c0n1/hidden"), "1\n");
        write(system.sys.join("block/nvme0c0n1/device/model"), "X\n");
        let k = KernelRelease::of(&system);
        assert_eq!(k.write_streams, Some(true));
        assert_eq!(k.disks, ["nvme0n1"]);

        let lockdown = system.sys.join("kernel/security/lockdown");
        for (text, signed_only) in [
            ("[none] integrity confidentiality\n", false),
            ("none [integrity] confidentiality\n", true),
            ("", false),
        ] {
            write(lockdown.clone(), text);
            assert_eq!(KernelRelease::of(&system).signed_only, signed_only);
        }
        write(system.sys.join("module/module/parameters/sig_enforce"), "Y\n");
        assert!(KernelRelease::of(&system).signed_only);

        let list = system.modules.join("6.12.48-x/modules.dep");
        write(list.clone(), "kernel/dm-dsm-not.ko:\nkernel/x.ko: a/dm-dsm.ko\n");
        assert_eq!(KernelRelease::of(&system).module, Module::Missing);
        write(list, "updates/dkms/dm-dsm.ko.xz: kernel/dm-mod.ko\n");
        assert_eq!(KernelRelease::of(&system).module, Module::Installed);
        fs::create_dir_all(system.sys.join("module/dm_dsm")).unwrap();
        assert_eq!(KernelRelease::of(&system).module, Module::Loaded);
    }
}
