//! `logue explain`: prints the page of an error code.

use serde_json::json;
use unicode_width::UnicodeWidthStr as _;

use crate::arguments::ExplainArgs;
use crate::exit::{CliError, Exit};
use crate::terminal::{ignore_broken_pipe, print};

/// The pages by code; `README` is their index.
const PAGES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/error_pages.rs"));
const INDEX: &str = "README";

pub(crate) fn explain(arguments: &ExplainArgs) -> Result<Exit, CliError> {
    let Some(code) = &arguments.code else {
        return ignore_broken_pipe(print(&list(arguments.json)));
    };
    let Some((code, page)) = pages().find(|(known, _)| known.eq_ignore_ascii_case(code)) else {
        return Err(unknown(code));
    };
    let text = if arguments.json {
        format!("{}\n", json!({"code": code, "page": page}))
    } else {
        page.to_owned()
    };
    ignore_broken_pipe(print(&text))
}

fn pages() -> impl Iterator<Item = (&'static str, &'static str)> {
    PAGES.iter().copied().filter(|(code, _)| *code != INDEX)
}

fn unknown(code: &str) -> CliError {
    let error = CliError::new(
        Exit::Usage,
        "usage",
        format!("`{code}` is not an error code"),
    );
    match chatmd::suggest(code, pages().map(|(known, _)| known)) {
        Some(known) => error.with_help(format!("did you mean `{known}`?")),
        None => error.with_help("`logue explain` lists the codes"),
    }
}

/// Returns the first sentence of a page, after its title.
fn meaning(page: &str) -> &str {
    let lines = page.lines().skip(1);
    lines
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or_default()
}

fn list(as_json: bool) -> String {
    let width = pages()
        .map(|(code, _)| code.width())
        .max()
        .unwrap_or_default();
    let line = |(code, page)| {
        let meaning = meaning(page);
        if as_json {
            json!({"code": code, "meaning": meaning}).to_string()
        } else {
            format!("{code:width$}  {meaning}")
        }
    };
    let mut lines: Vec<String> = pages().map(line).collect();
    lines.push(String::new());
    lines.join("\n")
}
