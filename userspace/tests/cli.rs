// SPDX-License-Identifier: GPL-2.0-only
//! The command lines, as far as they need no device.

use std::process::{Command, Output};

fn run(program: &str, words: &str) -> Output {
    Command::new(program)
        .args(words.split_whitespace())
        .env("DSMD_RUN_DIR", "/nonexistent")
        .output()
        .unwrap()
}

fn dsmctl(words: &str) -> Output {
    run(env!("CARGO_BIN_EXE_dsmctl"), words)
}

fn said(o: &Output) -> String {
    String::from_utf8(o.stderr.clone()).unwrap()
}

#[test]
fn wrong_usage_ends_with_2() {
    for words in [
        "",
        "boil",
        "create",
        "create n",
        "create n d --groups 17",
        "create n d --groups 1",
        "create n d --policy best",
        "create n d --threshold1 ten",
        "create n d --streams 256",
        "create n d --stream-base 0",
        "create n d --size 0",
        "load n",
        "load n --dbpath d f",
        "load n --dbpath d --class index",
        "load n f --class indexes",
        "load n f --boundary half",
        "drop n",
        "status --dbpath d",
        "status n --dbpath d",
        "boundary",
        "boundary mark",
        "verify",
        "status -o xml",
    ] {
        let o = dsmctl(words);
        assert_eq!(o.status.code(), Some(2), "{words}: {}", said(&o));
        assert!(o.stdout.is_empty(), "{words}");
    }
    let o = run(env!("CARGO_BIN_EXE_dsmd"), "--device d");
    assert_eq!(o.status.code(), Some(2));
}

#[test]
fn errors_are_one_sentence() {
    for words in [
        "create n /dev/null",
        "create n /nonexistent",
        "status no-such-device",
        "load no-such-device /etc/passwd",
        "checkpoint no-such-device",
        "set no-such-device groups 3",
        "set no-such-device threshold1 x",
        "remove no-such-device",
        "boundary show no-such-device",
        "verify no-such-device",
    ] {
        let o = dsmctl(words);
        let text = said(&o);
        assert_eq!(o.status.code(), Some(1), "{words}: {text}");
        assert!(text.starts_with("dsmctl: "), "{words}: {text}");
        assert_eq!(text.lines().count(), 1, "{words}: {text}");
        assert!(o.stdout.is_empty(), "{words}");
    }
    assert_eq!(
        said(&dsmctl("create n /dev/null")),
        "dsmctl: /dev/null: it is not a block device; nothing was changed\n"
    );
}

#[test]
fn help_explains_units() {
    let help = |words| String::from_utf8(dsmctl(words).stdout).unwrap();
    assert!(help("--help").contains("A sector is 512 bytes"));
    assert!(help("create --help").contains("--threshold2 <PERCENT>"));
    assert!(help("status --help").contains("MiB are 1048576 bytes"));
}
