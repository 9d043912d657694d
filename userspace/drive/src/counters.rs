// SPDX-License-Identifier: GPL-2.0-or-later
//! What a drive counts of host writes and flash writes, wherever it says so: FDP statistics,
//! the SMART log of OCP's datacenter specification, Intel's and Solidigm's additional SMART
//! log, or attributes of SATA drives whose meaning is known.

use std::io;
use std::path::Path;
use std::process::Command;

use anyhow::{bail, Context, Result};
use serde_json::Value;

use crate::nvme::{Namespace, FDP_STATISTICS};
use dm::bytes;
use proto::drive::{Counters, Source};

/// SMART / Health Information: data units written, of 512,000 bytes.
pub const SMART: u32 = 0x02;
const DATA_UNITS_WRITTEN: usize = 48;
const DATA_UNIT: u128 = 512_000;
const FDP_SIZE: usize = 64;
/// OCP's SMART / Health Information Extended: physical media units written, in bytes, and
/// its GUID, AFD514C9-7C6F-4F9C-A4F2-BFEA2810AFC5.
pub const OCP_SMART: u32 = 0xc0;
const OCP_GUID: usize = 496;
const OCP: u128 = 0xafd5_14c9_7c6f_4f9c_a4f2_bfea_2810_afc5;
/// Intel's additional SMART log: items of 12 bytes, a key and six bytes from the sixth on,
/// of NAND and of host bytes written, in 32 MiB.
pub const ADDITIONAL_SMART: u32 = 0xca;
const ITEM: usize = 12;
const NAND_WRITTEN: u8 = 0xf4;
const HOST_WRITTEN: u8 = 0xf5;
const MIB32: u64 = 32 << 20;

/// Of the drive behind a node.
pub fn of_drive(node: &Path) -> Result<Counters> {
    checked(match Namespace::open(node)? {
        Some(namespace) => of_nvme(&|page, data| namespace.log(page, data))?,
        None if is_scsi(node) => of_sata(&smartctl(node)?)?,
        None => bail!("it is no NVMe drive and no SATA drive"),
    })
}

fn checked(counters: Counters) -> Result<Counters> {
    match counters.impossible_for_life() {
        Some(why) => bail!("{why}"),
        None => Ok(counters),
    }
}

/// Of an NVMe drive; `read` fills in a log page, and says whether the drive has it.
pub fn of_nvme(read: &dyn Fn(u32, &mut [u8]) -> io::Result<bool>) -> Result<Counters> {
    let page = |number, length| -> Result<Option<Vec<u8>>> {
        let mut data = vec![0; length];
        Ok(read(number, &mut data)?.then_some(data))
    };
    if let Some(found) = page(FDP_STATISTICS, FDP_SIZE)?.and_then(|data| fdp(&data)) {
        return Ok(found);
    }
    if let (Some(ocp), Some(smart)) = (page(OCP_SMART, 512)?, page(SMART, 512)?) {
        if let Some(found) = ocp_smart(&ocp, &smart) {
            return Ok(found);
        }
    }
    let found = page(ADDITIONAL_SMART, 512)?.and_then(|data| additional_smart(&data));
    found.context("it has no FDP statistics, no OCP SMART log and no additional SMART log")
}

/// `None`: the namespace is in no endurance group with FDP.
pub(crate) fn of_fdp(namespace: &Namespace) -> io::Result<Option<Counters>> {
    let mut data = [0; FDP_SIZE];
    let known = namespace.log(FDP_STATISTICS, &mut data)?;
    Ok(known.then(|| fdp(&data)).flatten())
}

/// What a shell command prints: "HOST MEDIA", in bytes.
pub fn of_command(command: &str) -> Result<Counters> {
    let said = Command::new("sh")
        .args(["-c", command])
        .output()
        .context("cannot run sh")?;
    if !said.status.success() {
        bail!(
            "'{command}' ended with {}: {}",
            said.status,
            String::from_utf8_lossy(&said.stderr).trim()
        );
    }
    let text = String::from_utf8_lossy(&said.stdout);
    let numbers: Option<Vec<u128>> = text.split_whitespace().map(|w| w.parse().ok()).collect();
    let Some(&[host, media]) = numbers.as_deref() else {
        bail!(
            "'{command}' printed '{}', and not two numbers of bytes, HOST MEDIA",
            text.trim()
        );
    };
    checked(counters(Source::Command, host, media, 1)).with_context(|| format!("'{command}'"))
}

/// Of what smartctl prints; its names of attributes say what they count.
pub fn of_sata(said: &Value) -> Result<Counters> {
    const GIB: u64 = 1 << 30;
    const HOST: [(&str, u64); 5] = [
        ("Host_Writes_32MiB", MIB32),
        ("Host_Writes_GiB", GIB),
        ("Lifetime_Writes_GiB", GIB),
        ("Total_Host_Sector_Write", 512),
        ("Total_LBAs_Written", 512),
    ];
    const FLASH: [(&str, u64); 4] = [
        ("NAND_Writes_1GiB", GIB),
        ("NAND_Writes_32MiB", MIB32),
        ("NAND_Writes_GiB", GIB),
        ("Total_NAND_Writes_GiB", GIB),
    ];
    /// The size of these pages is not said, and does not matter for a ratio.
    const PAGE: u64 = 16 << 10;

    if said["in_smartctl_database"] == false {
        bail!("smartctl does not know this drive, so that the names of its attributes are guesses");
    }
    let table = said["ata_smart_attributes"]["table"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let raw = |name: &str| {
        table.iter().find(|a| a["name"] == name)?["raw"]["value"]
            .as_u64()
            .map(u128::from)
    };
    let of = |known: &[(&str, u64)]| {
        let found = |&(name, unit): &(&str, u64)| Some((raw(name)? * u128::from(unit), unit));
        known.iter().find_map(found)
    };
    let by_pages = || {
        let host = raw("Host_Program_Page_Count")?;
        let own = raw("FTL_Program_Page_Count").or_else(|| raw("Bckgnd_Program_Page_Cnt"))?;
        let page = u128::from(PAGE);
        Some(((host * page, PAGE), ((host + own) * page, PAGE)))
    };
    let Some(((host, a), (media, b))) = by_pages().or_else(|| of(&HOST).zip(of(&FLASH))) else {
        let why = said["smartctl"]["messages"][0]["string"].as_str();
        bail!(
            "{}",
            why.unwrap_or("it has no SATA attributes that are known to count host and flash writes")
        );
    };
    Ok(counters(Source::SataAttributes, host, media, a.max(b)))
}

/// Of a drive that does not say what it erased.
fn counters(source: Source, host: u128, media: u128, unit: u64) -> Counters {
    Counters {
        source,
        host,
        media,
        erased: None,
        unit,
    }
}

/// What hosts wrote to the endurance group (HBMW), what it wrote to its media (MBMW), and what
/// it erased (MBE).
fn fdp(data: &[u8]) -> Option<Counters> {
    let number = |at| bytes::at(data, at).map(u128::from_le_bytes);
    Some(Counters {
        erased: number(32),
        ..counters(Source::Fdp, number(0)?, number(16)?, 1)
    })
}

fn ocp_smart(ocp: &[u8], smart: &[u8]) -> Option<Counters> {
    let number = |data, at| bytes::at(data, at).map(u128::from_le_bytes);
    (number(ocp, OCP_GUID)? == OCP).then_some(())?;
    let host = number(smart, DATA_UNITS_WRITTEN)? * DATA_UNIT;
    Some(counters(
        Source::OcpSmart,
        host,
        number(ocp, 0)?,
        DATA_UNIT as u64,
    ))
}

fn additional_smart(data: &[u8]) -> Option<Counters> {
    let of = |key: u8| {
        let item = data.chunks_exact(ITEM).find(|item| item[0] == key)?;
        let mut raw = [0; 8];
        raw[..6].copy_from_slice(&item[5..11]);
        Some(u128::from(u64::from_le_bytes(raw)) * u128::from(MIB32))
    };
    let (host, media) = (of(HOST_WRITTEN)?, of(NAND_WRITTEN)?);
    Some(counters(Source::AdditionalSmart, host, media, MIB32))
}

fn is_scsi(node: &Path) -> bool {
    let node = node.canonicalize().unwrap_or_else(|_| node.to_owned());
    let name = node.file_name().unwrap_or_default();
    name.as_encoded_bytes().starts_with(b"sd")
}

fn smartctl(node: &Path) -> Result<Value> {
    let said = Command::new("smartctl")
        .args(["--json=c", "-i", "-A"])
        .arg(node)
        .output();
    let said = said.context("smartctl, which reads SATA's attributes, cannot be run")?;
    // The status has bits for warnings of old age, too.
    serde_json::from_slice(&said.stdout).context("smartctl has not printed JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fdp_statistics() {
        let mut data = [0; 64];
        (data[0], data[8], data[17], data[32]) = (5, 1, 3, 9);
        let found = fdp(&data).unwrap();
        assert_eq!(
            (found.host, found.media, found.erased),
            ((1 << 64) + 5, 3 << 8, Some(9))
        );
        assert_eq!(fdp(&data[..24]), None);
    }

    #[test]
    fn the_first_page_that_counts_is_taken() {
        let mut additional = [0; 512];
        (additional[0], additional[5], additional[12], additional[17]) = (HOST_WRITTEN, 1, NAND_WRITTEN, 2);
        let source = |has: &[u32]| {
            let read = |page, data: &mut [u8]| {
                match page {
                    OCP_SMART => data[OCP_GUID..].copy_from_slice(&OCP.to_le_bytes()),
                    ADDITIONAL_SMART => data.copy_from_slice(&additional),
                    _ => {}
                }
                Ok(has.contains(&page))
            };
            of_nvme(&read).map(|c| c.source).map_err(|e| e.to_string())
        };
        let none = "it has no FDP statistics, no OCP SMART log and no additional SMART log";
        assert_eq!(source(&[SMART]), Err(none.into()));
        assert_eq!(source(&[SMART, ADDITIONAL_SMART]), Ok(Source::AdditionalSmart));
        assert_eq!(
            source(&[OCP_SMART, ADDITIONAL_SMART]),
            Ok(Source::AdditionalSmart)
        );
        assert_eq!(
            source(&[SMART, OCP_SMART, ADDITIONAL_SMART]),
            Ok(Source::OcpSmart)
        );
        assert_eq!(
            source(&[FDP_STATISTICS, SMART, OCP_SMART, ADDITIONAL_SMART]),
            Ok(Source::Fdp)
        );
        let fails = |_, _: &mut [u8]| Err(io::Error::other("x"));
        assert!(of_nvme(&fails).is_err());
    }

    #[test]
    fn ocp() {
        let (mut ocp, mut smart) = (vec![0; 512], vec![0; 512]);
        ocp[1] = 7;
        smart[DATA_UNITS_WRITTEN] = 3;
        assert_eq!(ocp_smart(&ocp, &smart), None, "another vendor's page");
        ocp[OCP_GUID..].copy_from_slice(&OCP.to_le_bytes());
        let found = ocp_smart(&ocp, &smart).unwrap();
        assert_eq!((found.host, found.media, found.unit), (1_536_000, 1792, 512_000));
    }

    #[test]
    fn items_of_the_additional_log() {
        let mut data = vec![0; 512];
        (data[0], data[12], data[17], data[22]) = (0xab, NAND_WRITTEN, 9, 1);
        assert_eq!(additional_smart(&data), None);
        (data[24], data[29], data[30]) = (HOST_WRITTEN, 4, 1);
        let found = additional_smart(&data).unwrap();
        assert_eq!(found.media, (9 + (1 << 40)) << 25);
        assert_eq!(found.host, 260 << 25);
    }

    #[test]
    fn attributes() {
        let said = |attributes: &[(&str, u64)]| {
            let table = attributes
                .iter()
                .map(|(name, raw)| serde_json::json!({"name": name, "raw": {"value": raw}}));
            of_sata(&serde_json::json!({"ata_smart_attributes": {"table": table.collect::<Vec<_>>()}}))
        };
        let found = said(&[("Total_LBAs_Written", 4096), ("NAND_Writes_1GiB", 3)]).unwrap();
        assert_eq!((found.host, found.media, found.unit), (2 << 20, 3 << 30, 1 << 30));
        let pages = said(&[
            ("Host_Program_Page_Count", 10),
            ("FTL_Program_Page_Count", 5),
            ("Total_LBAs_Written", 1),
        ]);
        let pages = pages.unwrap();
        assert_eq!(pages.media * 2, pages.host * 3);
        assert!(said(&[("Total_LBAs_Written", 1)]).is_err());
        assert!(of_sata(&Value::Null).is_err());
        let mut unknown = serde_json::json!({"ata_smart_attributes": {"table": [
            {"name": "Total_LBAs_Written", "raw": {"value": 4096}}, {"name": "NAND_Writes_1GiB", "raw": {"value": 3}}]}});
        unknown["in_smartctl_database"] = true.into();
        assert!(of_sata(&unknown).is_ok());
        unknown["in_smartctl_database"] = false.into();
        assert!(of_sata(&unknown)
            .unwrap_err()
            .to_string()
            .contains("does not know this drive"));
    }

    #[test]
    fn commands() {
        let found = of_command("echo 5 7").unwrap();
        assert_eq!((found.host, found.media), (5, 7));
        let said = of_command("echo 631296000 61203283968000").unwrap_err();
        assert!(
            format!("{said:#}").contains("': its counters say 631296000 bytes from hosts"),
            "{said:#}"
        );
        for command in ["echo 5", "echo 5 x", "echo 5 6 7", "exit 3", "echo -1 2"] {
            assert!(of_command(command).is_err(), "{command}");
        }
    }

    #[test]
    fn drives_of_other_kinds() {
        let of = |node: &str| of_drive(Path::new(node)).unwrap_err().to_string();
        assert_eq!(of("/dev/null"), "it is no NVMe drive and no SATA drive");
        assert!(of("/nonesuch").starts_with("No such file"));
        assert!(is_scsi(Path::new("/dev/sdb")) && !is_scsi(Path::new("/dev/vda")));
        let said =
            serde_json::json!({"smartctl": {"messages": [{"string": "open device: /dev/sda failed"}]}});
        let error = of_sata(&said).unwrap_err().to_string();
        assert_eq!(error, "open device: /dev/sda failed");
    }
}
