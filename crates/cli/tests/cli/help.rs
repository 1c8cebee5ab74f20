//! The help of every command, as users read it.

use insta::assert_snapshot;

use unicode_width::UnicodeWidthStr;

use crate::program::{Ran, folder, logue, run};

/// The commands and their subcommands; each has a manual page.
fn commands() -> Vec<String> {
    let pages = folder(&[]);
    assert_eq!(run(pages.path(), ["man", "."]).status, 0);
    let mut commands: Vec<String> = std::fs::read_dir(pages.path())
        .unwrap()
        .map(|page| page.unwrap().file_name().into_string().unwrap())
        .filter_map(|page| Some(page.strip_suffix(".1")?.to_owned()))
        .collect();
    commands.sort();
    commands
}

#[test]
fn every_command_has_help() {
    let folder = folder(&[]);
    let commands = commands();
    assert!(commands.len() > 30, "{commands:?}");
    for command in commands {
        let words = command.split('-').skip(1).chain(["--help"]);
        let ran = run(folder.path(), words);
        assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{command}");
        assert_snapshot!(command, ran.stdout);
    }
}

#[test]
fn the_short_help_of_every_command_fits_a_terminal_and_has_an_example() {
    let folder = folder(&[]);
    let mut faults = String::new();
    for command in commands() {
        let words: Vec<&str> = command.split('-').skip(1).chain(["-h"]).collect();
        let output = logue(folder.path())
            .env("COLUMNS", "80")
            .args(&words)
            .output();
        let ran: Ran = output.unwrap().into();
        let lines = ran.stdout.lines().count();
        let width = ran.stdout.lines().map(UnicodeWidthStr::width).max();
        let has_example = ran.stdout.contains("Example");
        if lines > 40 || width > Some(80) || !has_example {
            let example = if has_example { "" } else { ", no example" };
            faults.push_str(&format!(
                "{command}: {lines} lines, width {width:?}{example}\n"
            ));
        }
    }
    assert!(faults.is_empty(), "{faults}");
}

#[test]
fn the_manual_page_of_the_program_names_every_command() {
    let folder = folder(&[]);
    let ran = run(folder.path(), ["man"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let page = ran.stdout.replace(env!("CARGO_PKG_VERSION"), "[VERSION]");
    assert_snapshot!("man", page);
}
