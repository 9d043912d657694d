// SPDX-License-Identifier: GPL-2.0-or-later
//! Writes the man pages, one a command and one for /etc/dsm/NAME.toml, and the completions
//! of shells: `make man`.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, io};

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use runtime::pages;

const FILES: &[(&str, &str)] = &[
    ("/etc/dsm/NAME.toml", "all of a device"),
    (
        "/run/dsm",
        "what is published of devices, and the sockets of their dsmd",
    ),
    ("/var/lib/dsmd", "boundaries and trials"),
    (
        "/var/lib/dm-dsm",
        "marks of drives and devices on which nothing is discarded",
    ),
    (pages::DIR, "documentation"),
];
const STATUS: &str =
    "0 when it was done, 1 when it was refused or has failed, and 2 when the command line is wrong.";
const EXIT: &str = "The exit status is ";

/// A line that roff takes as it is.
fn plain(text: &str) -> String {
    let text = text
        .replace('\\', "\\e")
        .replace('-', "\\-")
        .replace('"', "\\(dq");
    match text.starts_with(['.', '\'']) {
        true => format!("\\&{text}"),
        false => text,
    }
}

/// Those of a command, or of all below it.
fn examples(command: &Command) -> Vec<String> {
    let help = command.get_after_long_help().map(ToString::to_string);
    let own = help.unwrap_or_default();
    let lines = own.lines().filter_map(|l| l.strip_prefix("  "));
    match own.contains("Example") {
        true => lines.map(str::to_owned).collect(),
        false => command.get_subcommands().flat_map(examples).collect(),
    }
}

/// The sections that are not in the library's form: `parent` is that of a subcommand.
fn sections(command: &Command, parent: Option<&str>, status: Option<&str>) -> String {
    let mut text = String::from(".SH \"EXIT STATUS\"\n");
    let _ = writeln!(text, "{}\n.SH FILES", plain(status.unwrap_or(STATUS)));
    for (file, what) in FILES {
        let _ = writeln!(text, ".TP\n.I {}\n{}", plain(file), plain(what));
    }
    text += ".SH EXAMPLES\n.EX\n";
    for line in examples(command) {
        let _ = writeln!(text, "{}", plain(&line));
    }
    text += ".EE\n.SH \"SEE ALSO\"\n";
    let below = command.get_subcommands().filter(|c| c.get_name() != "help");
    let mut others: Vec<String> = below
        .filter_map(|c| c.get_display_name().map(|name| format!("{name} (8)")))
        .collect();
    others.extend(parent.map(|name| format!("{name} (8)")));
    others.extend(["dsmctl (8)", "dsmd (8)", "dsm-exporter (8)", "dsm.toml (5)"].map(str::to_owned));
    let own = format!("{} (8)", command.get_display_name().unwrap_or(command.get_name()));
    let mut seen = vec![own];
    others.retain(|o| {
        !seen.contains(o) && {
            seen.push(o.clone());
            true
        }
    });
    let last = others.len() - 1;
    for (n, other) in others.iter().enumerate() {
        let comma = if n < last { "," } else { "" };
        let _ = writeln!(text, ".BR {}{comma}", plain(other));
    }
    text
}

fn pages(command: &Command, parent: Option<&str>, dir: &Path) -> io::Result<()> {
    let name = command
        .get_display_name()
        .unwrap_or(command.get_name())
        .to_owned();
    // The paragraph of the help that has a section here
    let long = command
        .get_long_about()
        .map(ToString::to_string)
        .unwrap_or_default();
    let (status, rest): (Vec<&str>, Vec<&str>) = long.split("\n\n").partition(|p| p.starts_with(EXIT));
    let status = status
        .first()
        .map(|p| p.replace('\n', " "))
        .map(|p| p[EXIT.len()..].to_owned());
    let shown = match rest.is_empty() || long.is_empty() {
        true => command.clone(),
        false => command.clone().long_about(rest.join("\n\n")),
    };
    let man = Man::new(shown).section("8").manual("dm-dsm");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        // It has no page.
        let command = command.clone().mut_subcommand("help", |c| c.hide(true));
        let man = Man::new(command).section("8");
        man.render_subcommands_section(&mut page)?;
    }
    page.extend(sections(command, parent, status.as_deref()).into_bytes());
    fs::write(dir.join(man.get_filename()), page)?;
    command
        .get_subcommands()
        .filter(|c| c.get_name() != "help")
        .try_for_each(|c| pages(c, Some(&name), dir))
}

/// What the file itself does not say.
const NOTES: &str = r#".SH NOTES
A name has 1 to 80 letters, digits and \-.:@_, of which at most 49 are \- or @, begins with a letter, a digit or
_, and does not end in the suffix of a systemd unit. It is in the names of the units as it is, without the
escaping of
.BR systemd\-escape (1).
.PP
.B drive
is preferably a path in /dev/disk/by\-id that only this drive has, such as nvme\-eui.* or nvme\-uuid.* (a drive
with two namespaces has one nvme\-MODEL_SERIAL for both), or one in /dev/disk/by\-partuuid. Other keys of a device
that is made here are
.BR start ,
.BR size ,
.BR policy ,
.BR groups ,
.BR streams ,
.BR discard\-granularity ,
.B discard\-alignment
and the table
.BR features ,
as the options of
.BR dsmctl\-create (8).
.PP
dsm\-generator makes the units when the system starts and at "systemctl daemon\-reload". A mount of
/dev/mapper/NAME waits for dsm@NAME.service, and that for the drive. In
.BR fstab (5)
the file system must be named by /dev/mapper/NAME, not by UUID= or LABEL=: those are the same on the drive. A root
file system on a dsm device is not supported: the initramfs does not read these files.
"#;

/// The page of the configuration, from the comments of the file that is installed: what is said
/// before a key is about it.
fn configuration() -> String {
    let file = include_str!("../../../../systemd/device.toml");
    let mut text = String::from(
        ".TH dsm.toml 5 \"\" dm-dsm\n.SH NAME\ndsm.toml \\- all of a dsm device\n\
         .SH SYNOPSIS\n.I /etc/dsm/NAME.toml\n.SH DESCRIPTION\n",
    );
    let mut said = String::new();
    // Less the line of the licence
    for line in file.lines().skip(1) {
        let comment = line.strip_prefix("# ");
        match comment {
            Some(comment) => {
                let _ = writeln!(said, "{}", plain(comment));
            }
            None if line.is_empty() => {
                text += &std::mem::take(&mut said);
                text += ".PP\n";
            }
            None => {
                let key = line.trim_start_matches('#');
                let _ = writeln!(text, ".TP\n.B {}\n{}", plain(key), std::mem::take(&mut said));
            }
        }
    }
    text += &said;
    text += NOTES;
    text += ".SH EXAMPLES\n.EX\n# /etc/dsm/mongo.toml\ndrive = \"/dev/disk/by\\-id/nvme\\-eui.EXAMPLE\"\n";
    text += "dbpath = \"/var/lib/mongodb\"\ndiscard = true\n\n# /etc/fstab\n";
    text += "/dev/mapper/mongo  /var/lib/mongodb  xfs  defaults,nofail  0  0\n.EE\n";
    text + ".SH \"SEE ALSO\"\n.BR dsmd (8),\n.BR dsmctl (8),\n.BR dsmctl\\-check (8),\n.BR dsmctl\\-create (8)\n"
}

fn main() -> io::Result<()> {
    let dir = env::args_os()
        .nth(1)
        .ok_or_else(|| io::Error::other("usage: manual DIR"))?;
    let dir = Path::new(&dir);
    fs::create_dir_all(dir)?;
    let commands = [
        dsmctl::cli::Args::command(),
        dsmd::cli::Args::command(),
        dsm_exporter::cli::Args::command(),
    ];
    for mut command in commands {
        let name = command.get_name().to_owned();
        command.build();
        pages(&command, None, dir)?;
        for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
            clap_complete::generate_to(shell, &mut command, &name, dir)?;
        }
    }
    fs::write(dir.join("dsm.toml.5"), configuration())
}
