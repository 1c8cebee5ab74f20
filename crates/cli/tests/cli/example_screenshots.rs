//! The screenshots of the examples: the commands of their pages on a real terminal, as SVG.
//!
//! `cargo xtask screenshots` writes them; without it, the tests compare them.

use std::num::NonZeroU16;
use std::path::Path;

use vt100::Parser;

use crate::examples::{Example, page_commands};
use crate::screenshots::{ROWS, THEMES, image, timeless};
use crate::terminal::{Terminal, on_terminal};

const COLUMNS: u16 = 80;
/// The question that stays open, so that another process decides.
const QUESTION: &str = "Run refund? [y/N/a/d/e/s/?] ";
/// The directory of the user in the images.
const HOME: &str = "/home/ana";

/// Runs the commands of an example's page; returns what an emulator shows.
fn screen(name: &'static str) -> Parser {
    let mut example = Example::new(name);
    // Calls that run at once end in any order.
    let config = example.home().join(".config/logue");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(config.join("config.toml"), "[tools]\nconcurrency = 1\n").unwrap();
    let size = |size| NonZeroU16::new(size).unwrap();
    let mut parser = Parser::new(size(ROWS), size(COLUMNS), 0);
    for line in page_commands(name) {
        let typed = line.split("   #").next().unwrap();
        parser.process(format!("\u{1b}[2m$\u{1b}[0m {typed}\r\n").as_bytes());
        let mut command = example.shell(typed);
        on_terminal(&mut command);
        let mut terminal = Terminal::start(&mut command, COLUMNS);
        if line.contains("=ask") {
            terminal.expect(QUESTION);
            terminal.press("\u{4}");
        }
        let (_, bytes) = terminal.end();
        let shown = String::from_utf8(bytes).unwrap();
        example.note_signal(&shown);
        let shown = example.with_documented_signal(&shown);
        let home = example.home().display().to_string();
        parser.process(timeless(&shown.replace(&home, HOME)).as_bytes());
    }
    parser
}

/// Compares the images of an example, or writes them.
fn compare(name: &'static str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let writes = std::env::var_os("LOGUE_SCREENSHOTS").is_some_and(|word| word == "write");
    let parser = screen(name);
    let title = format!("The commands of {name} on a terminal");
    for theme in &THEMES {
        let file = folder.join(name).join(format!("output-{}.svg", theme.name));
        let now = image(parser.screen(), theme, &title);
        if writes {
            std::fs::write(&file, &now).unwrap();
            continue;
        }
        let kept = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(
            kept == now,
            "{} differs: look at what `cargo xtask screenshots` writes\n{}",
            file.display(),
            parser.screen().contents()
        );
    }
}

#[test]
fn the_screenshot_of_the_commit_message_is_current() {
    compare("commit-message");
}

#[test]
fn the_screenshot_of_the_extraction_is_current() {
    compare("extract");
}

#[test]
fn the_screenshot_of_the_raw_prompt_is_current() {
    compare("gpt-oss");
}

#[test]
fn the_screenshot_of_the_tools_of_a_server_is_current() {
    compare("mcp-tools");
}

#[test]
fn the_screenshot_of_the_release_notes_is_current() {
    compare("release-notes");
}

#[test]
fn the_screenshot_of_the_research_is_current() {
    compare("research");
}

#[test]
fn the_screenshot_of_the_review_is_current() {
    compare("review-diff");
}

#[test]
fn the_screenshot_of_the_support_agent_is_current() {
    compare("support-approval");
}
