//! The help of every command, as users read it.

use std::collections::BTreeSet;

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

/// Returns the words of a command by the name of its page.
///
/// The name joins them with the hyphen that one command has itself.
fn words(command: &str) -> Vec<String> {
    let one = command.replace("from-sessions", "from_sessions");
    let words = one.split('-').skip(1);
    words.map(|word| word.replace('_', "-")).collect()
}

#[test]
fn every_command_has_help() {
    let folder = folder(&[]);
    let commands = commands();
    assert!(commands.len() > 30, "{commands:?}");
    for command in commands {
        let words = std::iter::once("help".to_owned()).chain(words(&command));
        let ran = run(folder.path(), words);
        assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{command}");
        assert_snapshot!(command, ran.stdout);
    }
}

#[test]
fn the_help_of_every_command_fits_a_terminal_and_has_an_example() {
    let folder = folder(&[]);
    let mut faults = String::new();
    for command in commands() {
        let [ran, long] = ["-h", "--help"].map(|flag| {
            let words = words(&command).into_iter().chain([flag.to_owned()]);
            let output = logue(folder.path())
                .env("COLUMNS", "80")
                .args(words)
                .output();
            Ran::from(output.unwrap())
        });
        assert_eq!(ran.stdout, long.stdout, "{command}");
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

/// Returns the flags that a page describes.
fn flags(page: &str) -> BTreeSet<&str> {
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '-';
    let words = page.split(|character| !is_part(character));
    words
        .filter(|word| word.starts_with("--") && word.len() > 2)
        .collect()
}

#[test]
fn the_full_help_and_the_manual_page_lose_nothing() {
    let folder = folder(&[]);
    assert_eq!(run(folder.path(), ["man", "."]).status, 0);
    for command in commands() {
        let words = words(&command);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let page = |words: &[&str]| run(folder.path(), words.iter().copied()).stdout;
        let short = page(&[&words[..], &["-h"]].concat());
        let full = page(&[&["help"], &words[..]].concat());
        let manual = std::fs::read_to_string(folder.path().join(format!("{command}.1"))).unwrap();
        let manual = manual.replace("\\-", "-").replace("\\f", " ");
        let manual = manual.replace(" B", " ").replace(" I", " ");
        let missing: Vec<_> = flags(&short).difference(&flags(&full)).copied().collect();
        assert_eq!(missing, [""; 0], "{command}: not in the full help");
        let missing: Vec<_> = flags(&full).difference(&flags(&manual)).copied().collect();
        assert_eq!(missing, [""; 0], "{command}: not in the manual page");
        // A page that leaves something out names the command that prints it.
        let shown: BTreeSet<&str> = short.split_whitespace().collect();
        let is_short = full.split_whitespace().any(|word| !shown.contains(word));
        assert_eq!(short.contains("All flags and details"), is_short, "{short}");
    }
    assert!(flags(&run(folder.path(), ["help", "run"]).stdout).contains("--max-cost"));
    let unknown = run(folder.path(), ["help", "sessions", "lst"]);
    assert_eq!(unknown.status, 2);
    let group = run(folder.path(), ["sessions", "help", "list"]);
    assert_eq!(group.status, 2);
    assert!(
        group
            .stderr
            .contains("`logue help sessions` prints its help"),
        "{}",
        group.stderr
    );
    assert!(
        unknown.stderr.contains("did you mean `list`?"),
        "{}",
        unknown.stderr
    );
}

#[test]
fn the_server_has_no_flags_for_the_output_of_turns() {
    let folder = folder(&[]);
    for flag in ["--plain", "--usage"] {
        let ran = run(folder.path(), ["mcp", "serve", flag, "."]);
        assert_eq!(ran.status, 2, "{flag}: {}", ran.stderr);
    }
}

#[test]
fn the_manual_page_of_the_program_names_every_command() {
    let folder = folder(&[]);
    let ran = run(folder.path(), ["man"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let page = ran.stdout.replace(env!("CARGO_PKG_VERSION"), "[VERSION]");
    assert_snapshot!("man", page);
}
