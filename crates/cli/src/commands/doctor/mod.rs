//! `logue doctor`: problems of this machine that would make a run fail, with remedies.
//!
//! Each check examines one subject and returns [`Finding`]s. A failing check does not stop the
//! others. The checks create no files, change nothing, and cost nothing. With `--fix`, the user's first
//! settings are written before the checks.

mod finding;
mod first_settings;
mod folders;
mod local;
mod model;
mod programs;
mod sandbox;
mod settings;

use logue_source::{ColorMode, escape_untrusted};
use serde_json::{Map, Value, json};

use crate::arguments::DoctorArgs;
use crate::commands::doctor::finding::{Finding, Standing};
use crate::exit::{CliError, Exit};
use crate::setup::settings::Settings;
use crate::setup::signals::runtime;
use crate::terminal::{ignore_broken_pipe, output_style, print, print_as_is};

pub(crate) fn doctor(arguments: &DoctorArgs) -> Result<Exit, CliError> {
    let runtime = runtime()?;
    // Invalid settings are a finding; the other checks then use the defaults.
    let fixed = match Settings::inspect() {
        Ok(settings) if arguments.fix => {
            Some(runtime.block_on(first_settings::write(arguments, &settings)))
        }
        _ => None,
    };
    let (settings, mut findings) = match Settings::inspect() {
        Ok(settings) => {
            let found = settings::read(&settings);
            (settings, found)
        }
        Err(failure) => (Settings::without_files(), vec![settings::broken(&failure)]),
    };
    findings.extend(fixed);
    findings.extend(runtime.block_on(model::check(arguments, &settings)));
    findings.extend(runtime.block_on(local::check(arguments, &settings)));
    findings.extend(runtime.block_on(folders::check(arguments, &settings)));
    findings.push(sandbox::check(&settings));
    findings.extend(programs::check());
    let bad = findings
        .iter()
        .any(|finding| finding.standing == Standing::Bad);
    let written = if arguments.json {
        print(&format!("{}\n", as_json(&findings)))
    } else {
        let style = output_style();
        print_as_is(&as_text(&findings, style))
    };
    ignore_broken_pipe(written)?;
    Ok(if bad { Exit::Findings } else { Exit::Done })
}

fn as_text(findings: &[Finding], style: ColorMode) -> String {
    let mut text = format!("logue {}\n", env!("CARGO_PKG_VERSION"));
    for finding in findings {
        let (word, colour) = match finding.standing {
            Standing::Good => ("ok  ", "32"),
            Standing::Doubtful => ("note", "33"),
            Standing::Bad => ("FAIL", "31;1"),
        };
        let word = match style {
            ColorMode::Plain => word.to_owned(),
            ColorMode::Ansi => format!("\u{1b}[{colour}m{word}\u{1b}[0m"),
        };
        // Text of servers and file names may contain escape sequences; only those of this program
        // may reach the terminal.
        let mut lines = finding.message.lines();
        let first = escape_untrusted(lines.next().unwrap_or_default()).into_owned();
        text.push_str(&format!("{word} {:<9} {first}\n", finding.check));
        for line in lines {
            text.push_str(&format!("{:15}{}\n", "", escape_untrusted(line)));
        }
        for help in &finding.help {
            text.push_str(&format!("{:15}= help: {}\n", "", escape_untrusted(help)));
        }
    }
    let count = |standing| {
        let of = findings
            .iter()
            .filter(|finding| finding.standing == standing);
        of.count()
    };
    text.push_str(&match (count(Standing::Bad), count(Standing::Doubtful)) {
        (0, 0) => "no problems found\n".to_owned(),
        (0, notes) => format!("prompts can run; notes: {notes}\n"),
        (bad, _) => format!("problems to fix: {bad}\n"),
    });
    text
}

fn as_json(findings: &[Finding]) -> Value {
    let checks: Vec<Value> = findings
        .iter()
        .map(|finding| {
            let standing = match finding.standing {
                Standing::Good => "ok",
                Standing::Doubtful => "note",
                Standing::Bad => "bad",
            };
            let mut object = Map::new();
            object.insert("check".to_owned(), json!(finding.check));
            object.insert("standing".to_owned(), json!(standing));
            object.insert("message".to_owned(), json!(finding.message));
            object.insert("help".to_owned(), json!(finding.help));
            object.extend(finding.facts.clone());
            Value::Object(object)
        })
        .collect();
    let ok = findings
        .iter()
        .all(|finding| finding.standing != Standing::Bad);
    json!({"version": env!("CARGO_PKG_VERSION"), "ok": ok, "checks": checks})
}
