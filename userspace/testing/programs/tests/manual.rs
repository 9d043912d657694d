// SPDX-License-Identifier: GPL-2.0-or-later
//! Man pages have what one looks for in them, and their examples are right.

use std::fs;
use std::process::Command;

use clap::CommandFactory;
use dsmctl::cli::Args;

fn pages() -> Vec<(String, String)> {
    let dir = tempfile::tempdir().unwrap();
    let made = Command::new(env!("CARGO_BIN_EXE_manual"))
        .arg(dir.path())
        .status()
        .unwrap();
    assert!(made.success());
    let files = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().path());
    let pages = files.filter(|p| p.extension().is_some_and(|e| e == "8" || e == "5"));
    let read = |p: std::path::PathBuf| (p.display().to_string(), fs::read_to_string(&p).unwrap());
    pages.map(read).collect()
}

/// What a section has, as it is in the page.
fn section<'a>(page: &'a str, title: &str) -> &'a str {
    let rest = page
        .split_once(&format!("\n.SH {title}\n"))
        .map_or("", |(_, rest)| rest);
    rest.split("\n.SH ").next().unwrap_or_default()
}

#[test]
fn every_page_has_all_sections() {
    let pages = pages();
    assert!(pages.len() > 30, "{}", pages.len());
    for (name, page) in &pages {
        let programs = ["\"EXIT STATUS\"", "FILES"];
        let of_programs = programs.iter().filter(|_| name.ends_with(".8"));
        for title in of_programs.chain(&["EXAMPLES", "\"SEE ALSO\""]) {
            assert!(section(page, title).len() > 10, "{name} has no {title}:\n{page}");
        }
    }
    let doctor = pages
        .iter()
        .find(|(name, _)| name.ends_with("/dsmctl-doctor.8"))
        .unwrap();
    assert!(section(&doctor.1, "\"EXIT STATUS\"").contains("1 when something is wrong"));
    assert!(!section(&doctor.1, "DESCRIPTION").contains("exit status"));
}

/// What a page leads to is there: dsmctl-create(8) and others of ours.
#[test]
fn every_page_that_is_named_exists() {
    let pages = pages();
    let mut named = 0;
    for (name, page) in &pages {
        let page = page.replace('\\', "");
        let words = page.split(|c: char| c.is_whitespace() || c == ',');
        for word in words.filter(|w| w.starts_with("dsm") && w.ends_with("(8)")) {
            let file = format!("/{}.8", &word[..word.len() - 3]);
            assert!(
                pages.iter().any(|(name, _)| name.ends_with(&file)),
                "{name}: {word}"
            );
            named += 1;
        }
    }
    assert!(named > 25, "{named}");
}

#[test]
fn every_key_of_the_configuration_is_on_its_page() {
    let pages = pages();
    let page = &pages
        .iter()
        .find(|(name, _)| name.ends_with("/dsm.toml.5"))
        .unwrap()
        .1;
    for key in [
        "discard",
        "audit\\-pages",
        "rules",
        "boundary",
        "log\\-format",
        "wait",
    ] {
        assert!(page.contains(&format!("\n.B {key} = ")), "{key}:\n{page}");
    }
}

fn examples_of(command: &clap::Command, words: &str) {
    let below: Vec<_> = command.get_subcommands().collect();
    for c in &below {
        examples_of(c, &format!("{words} {}", c.get_name()));
    }
    if !below.is_empty() {
        return;
    }
    let help = command
        .get_after_long_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    let lines: Vec<&str> = help.lines().filter_map(|l| l.strip_prefix("  ")).collect();
    assert!(!lines.is_empty(), "{words} has no example");
    for line in lines {
        assert!(
            line.starts_with(&format!("{words} ")) || line == words,
            "{words}: {line}"
        );
        let parsed = Args::command().try_get_matches_from(line.split(' '));
        assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
    }
}

#[test]
fn every_command_has_examples_that_it_takes() {
    examples_of(&Args::command(), "dsmctl");
}
