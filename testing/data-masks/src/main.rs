//! Answers requests of `compare.py`: one JSON value on a line, one answer on a line.
//!
//! `encode TOKENIZER` answers a text with its ids and the ends of its tokens in bytes.

use logue_data::{HfTokenizer, Tokenizer};
use serde_json::{Value, json};
use std::io::{BufRead, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments.as_slice() {
        ["encode", tokenizer] => encode(tokenizer),
        _ => Err("usage: data-masks encode TOKENIZER".to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The error of standard error itself has no place to go.
            drop(writeln!(std::io::stderr(), "data-masks: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn encode(tokenizer: &str) -> Result<(), String> {
    let mut tokenizer = HfTokenizer::load(Path::new(tokenizer))
        .map_err(|refusal| refusal.finding.message.clone())?;
    answer(|request| {
        let text = request.as_str().ok_or("a text was expected")?;
        let (mut ids, mut ends) = (Vec::new(), Vec::new());
        tokenizer.encode_rendered(text, &mut ids, &mut ends);
        Ok(json!([ids, ends]))
    })
}

/// Answers each line of standard input.
fn answer(mut reply: impl FnMut(&Value) -> Result<Value, String>) -> Result<(), String> {
    let mut output = BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        let request = serde_json::from_str(&line).map_err(|error| error.to_string())?;
        writeln!(output, "{}", reply(&request)?).map_err(|error| error.to_string())?;
    }
    output.flush().map_err(|error| error.to_string())
}
