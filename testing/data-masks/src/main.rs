//! Answers requests of `encode.py` and `render.py`: one JSON value on a line, one answer on a line.
//!
//! `encode TOKENIZER` answers a text with its ids and the ends of its tokens in bytes.
//! `render TEMPLATE DATE` answers a row with its text and spans, or with a code; the first line of
//! the input is an object of variables.

use logue_data::{ChatTemplate, HfTokenizer, Refusal, TemplateDate, TemplateOptions, Tokenizer};
use serde_json::{Value, json};
use std::io::{BufRead, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments.as_slice() {
        ["encode", tokenizer] => encode(tokenizer),
        ["render", template, date] => render(template, date),
        _ => Err("usage: data-masks encode TOKENIZER | render TEMPLATE DATE".to_owned()),
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

fn template(path: &str, date: &str) -> Result<ChatTemplate, String> {
    let source = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let mut options = TemplateOptions::default();
    options.date = TemplateDate::parse(date);
    let mut variables = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut variables)
        .map_err(|error| error.to_string())?;
    let variables: Value = serde_json::from_str(&variables).map_err(|error| error.to_string())?;
    for (name, value) in variables.as_object().into_iter().flatten() {
        let set = options.set(name, &value.to_string());
        set.map_err(|refusal| refusal.finding.message.clone())?;
    }
    ChatTemplate::new(&source, options).map_err(|refusal| refusal.finding.message.clone())
}

fn render(path: &str, date: &str) -> Result<(), String> {
    let template = template(path, date)?;
    answer(|row| {
        let rendered = match template.render(row.to_string().as_bytes()) {
            Err(refusal) => return Ok(refused(&refusal)),
            Ok(rendered) => rendered,
        };
        let spans = rendered.spans.iter().map(|span| {
            json!([
                span.start,
                span.end,
                span.class.as_str(),
                span.message,
                span.stop
            ])
        });
        Ok(json!({"text": rendered.text, "spans": spans.collect::<Vec<_>>()}))
    })
}

fn refused(refusal: &Refusal) -> Value {
    json!({"code": refusal.finding.code.as_str(), "message": refusal.finding.message})
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
