// SPDX-License-Identifier: GPL-2.0-or-later
//! A room of src/ uses those above it in src/lib.rs, and none below: no two call each other
//! in a circle.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// At the root beside the rooms.
const MACROS: [&str; 1] = ["log"];

/// The rooms, as src/lib.rs lists them.
fn rooms() -> Vec<String> {
    let lib = fs::read_to_string("src/lib.rs").unwrap();
    let name = |line: &str| Some(line.strip_prefix("pub mod ")?.strip_suffix(';')?.to_owned());
    lib.lines().filter_map(name).collect()
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// The names that a line of code takes from the crate's root.
fn from_root(line: &str) -> Vec<&str> {
    let code = line.split("//").next().unwrap_or_default();
    let word = |rest: &str| rest.find(|c: char| c != '_' && !c.is_ascii_alphanumeric());
    code.split("crate::")
        .skip(1)
        .map(|rest| &rest[..word(rest).unwrap_or(rest.len())])
        .collect()
}

/// What is wrong with a line in `room`, and the rooms that it uses.
fn look<'a>(order: &[String], room: &str, line: &'a str) -> Result<Vec<&'a str>, String> {
    let place = |name: &str| order.iter().position(|r| r == name);
    let used = from_root(line);
    for name in &used {
        match place(name) {
            Some(at) if Some(at) <= place(room) => {}
            Some(_) => return Err(format!("{room} is above {name} in src/lib.rs and uses it")),
            None if MACROS.contains(name) && room == order[0] => {}
            None => return Err(format!("crate::{name} is no room of src/lib.rs")),
        }
    }
    if line.contains("super::super::super::") {
        return Err("a path through three modules up is written from the root, crate::".to_owned());
    }
    Ok(used)
}

#[test]
fn arrows_only_go_up_the_list() {
    let order = rooms();
    let mut wrong = Vec::new();
    let mut arrows: BTreeMap<(String, String), usize> = BTreeMap::new();
    for room in &order {
        let mut files = Vec::new();
        sources(&Path::new("src").join(room), &mut files);
        assert!(!files.is_empty(), "{room} is empty");
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            for (n, line) in text.lines().enumerate() {
                match look(&order, room, line) {
                    Ok(used) => {
                        for name in used.into_iter().filter(|name| name != room) {
                            *arrows.entry((room.clone(), name.to_owned())).or_default() += 1;
                        }
                    }
                    Err(why) => wrong.push(format!("{}:{}: {why}", file.display(), n + 1)),
                }
            }
        }
    }
    for ((from, to), lines) in &arrows {
        println!("{from} -> {to}: {lines}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // It has seen what there is.
    assert!(arrows.contains_key(&("agent".to_owned(), "kernel".to_owned())));
}

/// Nothing is beside the rooms but the programs and the list of rooms.
#[test]
fn every_module_is_in_a_room() {
    let order = rooms();
    for entry in fs::read_dir("src").unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(
            name == "bin" || name == "lib.rs" || order.contains(&name),
            "src/{name} is in no room"
        );
    }
}

#[test]
fn what_is_wrong_is_found() {
    let order: Vec<String> = ["base", "kernel", "agent"].map(String::from).into();
    assert_eq!(
        look(&order, "agent", "use crate::kernel::table;"),
        Ok(vec!["kernel"])
    );
    assert_eq!(look(&order, "base", "pub use crate::log;"), Ok(vec!["log"]));
    assert_eq!(look(&order, "kernel", "// crate::agent::Agent"), Ok(vec![]));
    for (room, line) in [
        ("kernel", "use crate::agent::Agent;"),
        ("kernel", "    let a: crate::kernel::Dm = crate::agent::of(b);"),
        ("kernel", "use crate::log;"),
        ("agent", "use crate::table::Extent;"),
        ("agent", "use crate::{kernel, base};"),
        ("agent", "use super::super::super::kernel::dm;"),
    ] {
        assert!(look(&order, room, line).is_err(), "{line}");
    }
}
