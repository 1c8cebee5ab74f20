//! `logue tokens`: how many there are, which, and what they spell.

mod parts;
mod render;

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;

use logue_agent::{read_all, read_bytes};
use logue_o200k::{Encoder, SpecialSet, VOCABULARY_SIZE, decode, decode_lossy};
use serde_json::{Value, json};

use crate::arguments::{CountArgs, DecodeArgs, EncodeArgs, TokensCommand};
use crate::exit::{Exit, Failure};
use crate::run::source_failure;
use crate::terminal::{closed_pipe_is_done, complain, print, write_failed};
use parts::{Stopped, each_part};

pub(crate) fn tokens(command: &TokensCommand) -> Result<Exit, Failure> {
    match command {
        TokensCommand::Count(arguments) => count(arguments),
        TokensCommand::Encode(arguments) => encode(arguments),
        TokensCommand::Decode(arguments) => print_text(arguments),
        TokensCommand::Render(arguments) => render::render(arguments),
    }
}

/// The name of a file for messages, and all of its bytes.
pub(crate) fn whole(file: &Path) -> Result<(String, Vec<u8>), Failure> {
    let name = parts::name(file);
    let read = if parts::is_stdin(file) {
        read_all(&name, io::stdin().lock())
    } else {
        read_bytes(file)
    };
    Ok((name, read.map_err(|error| source_failure(&error))?))
}

/// Token ids as a JSON array, or as numbers with white space between them.
pub(crate) fn ids_of(name: &str, text: &[u8]) -> Result<Vec<u32>, Failure> {
    let wrong = |what: &str| {
        let shown: String = what.chars().take(40).collect();
        Failure::user(
            "invalid_token_ids",
            format!("`{name}`: `{shown}` is no token id"),
        )
        .with_help(format!(
            "give a JSON array, or numbers from 0 to {} with white space between them",
            VOCABULARY_SIZE - 1
        ))
    };
    let id = |number: Option<u64>, shown: &str| {
        let id = number.and_then(|number| u32::try_from(number).ok());
        let known = id.filter(|id| logue_o200k::token_bytes(*id).is_some());
        known.ok_or_else(|| wrong(shown))
    };
    let text = String::from_utf8_lossy(text);
    if !text.trim_start().starts_with('[') {
        let words = text.split_whitespace();
        return words.map(|word| id(word.parse().ok(), word)).collect();
    }
    let values: Vec<Value> = serde_json::from_str(&text).map_err(|error| {
        Failure::user(
            "invalid_token_ids",
            format!("`{name}` is not JSON: {error}"),
        )
        .with_help("give an array of numbers, such as [200006, 1428]")
    })?;
    let ids = values.iter();
    ids.map(|value| id(value.as_u64(), &value.to_string()))
        .collect()
}

const fn allowed(specials: bool) -> SpecialSet {
    if specials {
        SpecialSet::ALL
    } else {
        SpecialSet::NONE
    }
}

/// The size of one file, or of all.
#[derive(Clone, Copy, Default)]
struct Size {
    tokens: usize,
    bytes: usize,
}

fn count(arguments: &CountArgs) -> Result<Exit, Failure> {
    let allowed = allowed(arguments.specials);
    let mut encoder = Encoder::new();
    let mut counted: Vec<(String, Size)> = Vec::new();
    let mut total = Size::default();
    let mut exit = Exit::Done;
    for file in &arguments.files {
        let mut size = Size::default();
        let read = each_part(file, &mut |text| {
            size.tokens += encoder.count_with_specials(text, &allowed);
            size.bytes += text.len();
            Ok(())
        });
        match read {
            Ok(()) => {
                total.tokens += size.tokens;
                total.bytes += size.bytes;
                counted.push((parts::name(file), size));
            }
            Err(Stopped::Reading(failure)) => {
                complain(&failure.text());
                exit = failure.exit;
            }
            Err(Stopped::Writing(error)) => return Err(write_failed(&error)),
        }
    }
    let text = if arguments.json {
        counts_as_json(&counted, total)
    } else {
        counts_as_table(&counted, total)
    };
    closed_pipe_is_done(print(&text)).map(|_| exit)
}

fn counts_as_json(counted: &[(String, Size)], total: Size) -> String {
    let files = counted
        .iter()
        .map(|(name, size)| json!({"file": name, "tokens": size.tokens, "bytes": size.bytes}));
    let files: Vec<Value> = files.collect();
    let total = json!({"tokens": total.tokens, "bytes": total.bytes});
    format!("{}\n", json!({"files": files, "total": total}))
}

/// A line for each file; one for all of them where there are several.
fn counts_as_table(counted: &[(String, Size)], total: Size) -> String {
    let mut lines: Vec<(String, String, &str)> = counted
        .iter()
        .map(|(name, size)| {
            (
                size.tokens.to_string(),
                size.bytes.to_string(),
                name.as_str(),
            )
        })
        .collect();
    if lines.is_empty() {
        return String::new();
    }
    if lines.len() > 1 {
        lines.push((total.tokens.to_string(), total.bytes.to_string(), "total"));
    }
    lines.insert(0, ("tokens".to_owned(), "bytes".to_owned(), "file"));
    let width = |cell: fn(&(String, String, &str)) -> usize| lines.iter().map(cell).max();
    let tokens = width(|line| line.0.len()).unwrap_or_default();
    let bytes = width(|line| line.1.len()).unwrap_or_default();
    let mut table = String::new();
    for line in &lines {
        // Writing to a string cannot fail.
        let _ = writeln!(table, "{:>tokens$}  {:>bytes$}  {}", line.0, line.1, line.2);
    }
    table
}

/// What stands before, between and behind ids.
const fn list(json: bool) -> (&'static str, &'static str, &'static str) {
    if json {
        ("[", ",", "]\n")
    } else {
        ("", " ", "\n")
    }
}

fn encode(arguments: &EncodeArgs) -> Result<Exit, Failure> {
    let allowed = allowed(arguments.specials);
    let mut encoder = Encoder::new();
    let (open, between, close) = list(arguments.json);
    let mut before = open;
    let mut line = String::new();
    let read = each_part(&arguments.file, &mut |text| {
        line.clear();
        for id in encoder.encode_with_specials(text, &allowed) {
            let _ = write!(line, "{before}{id}");
            before = between;
        }
        print(&line)
    });
    match read {
        Ok(()) => {
            let begun = if before == open { open } else { "" };
            closed_pipe_is_done(print(&format!("{begun}{close}")))
        }
        Err(Stopped::Reading(failure)) => Err(*failure),
        Err(Stopped::Writing(error)) => closed_pipe_is_done(Err(error)),
    }
}

fn print_text(arguments: &DecodeArgs) -> Result<Exit, Failure> {
    let (name, text) = whole(&arguments.file)?;
    let ids = ids_of(&name, &text)?;
    if !arguments.raw {
        return closed_pipe_is_done(print(&decode_lossy(&ids)));
    }
    let bytes = decode(&ids).map_err(|error| {
        Failure::new(
            Exit::Internal,
            "internal",
            format!("an id was taken as known: {error}"),
        )
    })?;
    let mut out = io::stdout().lock();
    if out.is_terminal() {
        return Err(
            Failure::new(Exit::Usage, "usage", "exact bytes could drive the terminal")
                .with_help("send them to a file or a pipe, or leave --raw out"),
        );
    }
    closed_pipe_is_done(out.write_all(&bytes).and_then(|()| out.flush()))
}
