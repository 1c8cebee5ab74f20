//! The program on a pseudo-terminal.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use crate::attack::Failure;
use crate::scene::wait_until;

/// Text of an attacker: sequences that drive a terminal, and characters that hide or reorder text.
pub(crate) const EVIL: &str = "MARK\u{1b}]0;PWNED\u{7}\u{1b}[2J\u{9b}31m\u{202e}\u{2066}\u{200b}\
    \u{2060}\u{2028}\u{3164}\u{feff}\u{e0041}\u{ad}\u{8}END";

/// Returns the first character of a text that a terminal must not receive from outside.
pub(crate) fn raw_character(text: &str) -> Option<char> {
    let is_raw = |character: char| {
        matches!(
            character,
            '\u{0}'..='\u{8}' | '\u{b}'..='\u{c}' | '\u{e}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{ad}'
                | '\u{200b}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
                | '\u{3164}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}'
        )
    };
    text.chars().find(|character| is_raw(*character))
}

/// Runs a program on a terminal and presses keys once a text was shown; returns everything shown.
pub(crate) fn screen(mut command: Command, keys: &[(&str, &str)]) -> Result<String, Failure> {
    let failed = |error: nix::Error| Failure::Control(error.to_string());
    let pair = nix::pty::openpty(None, None).map_err(failed)?;
    let end = || pair.slave.try_clone().map(Stdio::from);
    let mut child = command
        .env("TERM", "dumb")
        .stdin(end()?)
        .stdout(end()?)
        .stderr(end()?)
        .process_group(0)
        .spawn()?;
    drop(command);
    drop(pair.slave);
    let mut master = File::from(pair.master);
    let mut reader = master.try_clone()?;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let shown = Arc::clone(&seen);
    let output = std::thread::spawn(move || {
        let mut block = [0; 4096];
        // A closed terminal ends with an error.
        while let Ok(count @ 1..) = reader.read(&mut block) {
            let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
            shown.extend_from_slice(&block[..count]);
        }
    });
    let text = || {
        let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&seen).into_owned()
    };
    let mut from = 0;
    for (expected, key) in keys {
        let is_shown = wait_until(|| text()[from..].contains(expected));
        if !is_shown {
            drop(child.kill());
            drop(child.wait());
            return Err(Failure::Control(format!(
                "`{expected}` is not shown: {:?}",
                text()
            )));
        }
        from = text().len();
        // Input from before the question is discarded, which no event reports.
        std::thread::sleep(std::time::Duration::from_millis(100));
        master.write_all(key.as_bytes())?;
    }
    let mut has_ended = false;
    wait_until(|| {
        has_ended = matches!(child.try_wait(), Ok(Some(_)));
        has_ended
    });
    if !has_ended {
        drop(child.kill());
        drop(child.wait());
    }
    // The terminal ends with its last holder.
    wait_until(|| output.is_finished());
    Ok(text())
}
