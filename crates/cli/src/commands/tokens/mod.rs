//! `logue tokens`: counts, encodes and decodes tokens.

mod parts;
mod render;

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};

use logue_o200k::{Encoder, SpecialSet, decode, decode_lossy};
use logue_source::{ColorMode, escape_line};
use serde_json::{Value, json};

use crate::arguments::{CountArgs, DecodeArgs, EncodeArgs, TokensCommand};
use crate::exit::{CliError, Exit};
use crate::files::{read_file, shown_name, size_of};
use crate::progress::Progress;
use crate::table::{Align, table};
use crate::terminal::{ignore_broken_pipe, print, print_error, write_failed};
use crate::token_ids::ids_of;
use parts::{ReadError, each_part};

pub(crate) fn tokens(command: &TokensCommand) -> Result<Exit, CliError> {
    match command {
        TokensCommand::Count(arguments) => count(arguments),
        TokensCommand::Encode(arguments) => encode(arguments),
        TokensCommand::Decode(arguments) => print_text(arguments),
        TokensCommand::Render(arguments) => render::render(arguments),
    }
}

const fn allowed(specials: bool) -> SpecialSet {
    if specials {
        SpecialSet::ALL
    } else {
        SpecialSet::NONE
    }
}

/// The size of one file or of all files.
#[derive(Clone, Copy, Default)]
struct Size {
    tokens: usize,
    bytes: usize,
}

fn count(arguments: &CountArgs) -> Result<Exit, CliError> {
    let allowed = allowed(arguments.special_tokens);
    let mut encoder = Encoder::new();
    let mut counted: Vec<(String, Size)> = Vec::new();
    let mut total = Size::default();
    let mut exit = Exit::Done;
    let progress = Progress::bytes(size_of(&arguments.files), arguments.json);
    for file in &arguments.files {
        let mut size = Size::default();
        let read = each_part(file, &mut |text| {
            size.tokens += encoder.count_with_specials(text, &allowed);
            size.bytes += text.len();
            progress.advance(text.len() as u64);
            Ok(())
        });
        match read {
            Ok(()) => {
                total.tokens += size.tokens;
                total.bytes += size.bytes;
                counted.push((shown_name(file), size));
            }
            Err(ReadError::Input(failure)) => {
                print_error(&failure.text());
                exit = failure.exit;
            }
            Err(ReadError::Output(error)) => return Err(write_failed(&error)),
        }
    }
    drop(progress);
    let text = if arguments.json {
        counts_as_json(&counted, total)
    } else {
        counts_as_table(&counted, total)
    };
    ignore_broken_pipe(print(&text)).map(|_| exit)
}

fn counts_as_json(counted: &[(String, Size)], total: Size) -> String {
    let files = counted
        .iter()
        .map(|(name, size)| json!({"file": name, "tokens": size.tokens, "bytes": size.bytes}));
    let files: Vec<Value> = files.collect();
    let total = json!({"tokens": total.tokens, "bytes": total.bytes});
    format!("{}\n", json!({"files": files, "total": total}))
}

/// Formats a line for each file, and a total for several files.
fn counts_as_table(counted: &[(String, Size)], total: Size) -> String {
    let row = |name: &str, size: Size| {
        [
            size.tokens.to_string(),
            size.bytes.to_string(),
            escape_line(name).into_owned(),
        ]
    };
    let mut rows: Vec<[String; 3]> = counted
        .iter()
        .map(|(name, size)| row(name, *size))
        .collect();
    match rows.len() {
        0 => return String::new(),
        1 => {}
        _ => rows.push(row("total", total)),
    }
    let columns = [
        ("tokens", Align::Right),
        ("bytes", Align::Right),
        ("file", Align::Left),
    ];
    table(columns, &rows, ColorMode::Plain)
}

/// Returns the text before, between and after ids.
const fn list(json: bool) -> (&'static str, &'static str, &'static str) {
    if json {
        ("[", ",", "]\n")
    } else {
        ("", " ", "\n")
    }
}

fn encode(arguments: &EncodeArgs) -> Result<Exit, CliError> {
    let allowed = allowed(arguments.special_tokens);
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
            ignore_broken_pipe(print(&format!("{begun}{close}")))
        }
        Err(ReadError::Input(failure)) => Err(*failure),
        Err(ReadError::Output(error)) => ignore_broken_pipe(Err(error)),
    }
}

fn print_text(arguments: &DecodeArgs) -> Result<Exit, CliError> {
    let (name, text) = read_file(&arguments.file)?;
    let ids = ids_of(&name, &text)?;
    if !arguments.raw {
        return ignore_broken_pipe(print(&decode_lossy(&ids)));
    }
    let bytes = decode(&ids).map_err(|error| {
        CliError::new(
            Exit::Internal,
            "internal",
            format!("unknown token id: {error}"),
        )
    })?;
    let mut out = io::stdout().lock();
    if out.is_terminal() {
        return Err(
            CliError::new(Exit::Usage, "usage", "--raw cannot write to a terminal")
                .with_help("redirect the output to a file or a pipe, or omit --raw"),
        );
    }
    ignore_broken_pipe(out.write_all(&bytes).and_then(|()| out.flush()))
}
