//! `logue data check` and `logue data stats`: findings in rows, and their measures.

use std::path::Path;

use logue_data::examine::Histogram;
use logue_data::{Count, Refusal};
use logue_source::{ColorMode, Origin, Source, escape_untrusted};
use serde_json::{Value, json};

use crate::arguments::{DataCheckArgs, DataExamineArgs, DataStatsArgs, DenyLevel};
use crate::commands::data::examine::{Examination, examine_all};
use crate::commands::data::page::page;
use crate::commands::data::report::{self, counts_to_json, file_name, first};
use crate::counted::{amount, counted};
use crate::exit::{CliError, Exit};
use crate::sarif::Sarif;
use crate::table::{Align, table};
use crate::terminal::{error_style, output_style, print, print_error, write_failed};

/// The findings that a SARIF log contains; more are counted.
const MAX_SARIF: usize = 10_000;

pub(crate) fn check(arguments: &DataCheckArgs) -> Result<Exit, CliError> {
    let examined = &arguments.examined;
    let is_quiet = examined.json || arguments.sarif;
    let (mut sarif, mut results) = (Sarif::default(), 0);
    let mut refused = report::Refused::default();
    let examination = examine_all(examined, |names, row, finding| {
        if !is_quiet {
            let refusal = Refusal::from(finding.clone());
            refused.print(names, row, &refusal);
        }
        if arguments.sarif && results < MAX_SARIF {
            let start = Origin {
                offset: 0,
                line: amount(row.place.line),
                column: amount(row.place.column),
            };
            let name = file_name(names, row.place.file);
            let source = Source::fragment(&name, row.bytes, start);
            let path = (name != "<stdin>").then(|| Path::new(&name));
            sarif.add(path, &source, finding);
            results += 1;
        }
    })?;
    write_page(examined, &examination)?;
    let errors = examination.tally.refusals();
    let warnings: u64 = examination
        .tally
        .found
        .values()
        .map(|count| count.times)
        .sum();
    if arguments.sarif {
        let log = format!("{}\n", sarif.log(true));
        print(&log).map_err(|error| write_failed(&error))?;
    } else if examined.json {
        let value = to_json(&examination);
        print(&format!("{value}\n")).map_err(|error| write_failed(&error))?;
    } else {
        print_error(&summary(&examination));
    }
    let denies = arguments.deny == Some(DenyLevel::Warnings) && warnings > 0;
    Ok(if errors > 0 || denies {
        Exit::Findings
    } else {
        Exit::Done
    })
}

pub(crate) fn stats(arguments: &DataStatsArgs) -> Result<Exit, CliError> {
    let examination = examine_all(&arguments.examined, |_, _, _| {})?;
    write_page(&arguments.examined, &examination)?;
    let text = if arguments.examined.json {
        format!("{}\n", to_json(&examination))
    } else {
        measured(&examination)
    };
    print(&text).map_err(|error| write_failed(&error))?;
    Ok(Exit::Done)
}

fn write_page(arguments: &DataExamineArgs, examination: &Examination) -> Result<(), CliError> {
    let Some(path) = &arguments.report else {
        return Ok(());
    };
    std::fs::write(path, page(examination)).map_err(|error| {
        CliError::user(
            "data_write_failed",
            format!("cannot write `{}`: {error}", path.display()),
        )
        .with_help("name a writable file")
    })
}

/// Returns the findings by code, and by group.
fn summary(examination: &Examination) -> String {
    let tally = &examination.tally;
    let errors: u64 = tally.refused.values().map(|count| count.rows).sum();
    let warnings: u64 = tally.found.values().map(|count| count.times).sum();
    let mut text = format!(
        "{} checked: {}, {}, {}\n",
        counted(amount(tally.rows), "row"),
        counted(amount(errors), "error"),
        counted(amount(warnings), "warning"),
        counted(amount(examination.duplicates), "exact duplicate"),
    );
    let all = tally
        .refused
        .iter()
        .map(|(code, count)| ("error", code, count));
    let all = all.chain(
        tally
            .found
            .iter()
            .map(|(code, count)| ("warning", code, count)),
    );
    for (severity, code, count) in all {
        let rows = counted(amount(count.rows), "row");
        let first = first(&examination.names, count);
        text.push_str(&format!("{severity}[{code}]: {rows}{first}\n"));
    }
    text.push_str(&groups(examination, error_style()));
    text
}

/// Returns the table of the groups, with their most frequent findings.
fn groups(examination: &Examination, style: ColorMode) -> String {
    if examination.groups.is_empty() {
        return String::new();
    }
    let rows: Vec<[String; 5]> = examination
        .groups
        .iter()
        .map(|(name, group)| {
            let mut codes: Vec<_> = group.findings.iter().collect();
            codes.sort_by_key(|(_, times)| std::cmp::Reverse(**times));
            let codes = codes
                .iter()
                .take(3)
                .map(|(code, times)| format!("{code} {times}"));
            [
                escape_untrusted(name).into_owned(),
                group.rows.to_string(),
                group.rows_with_errors.to_string(),
                group.rows_with_warnings.to_string(),
                codes.collect::<Vec<_>>().join(", "),
            ]
        })
        .collect();
    let columns = [
        ("group", Align::Left),
        ("rows", Align::Right),
        ("errors", Align::Right),
        ("warnings", Align::Right),
        ("most frequent", Align::Left),
    ];
    table(columns, &rows, style)
}

/// Returns the measures as tables.
fn measured(examination: &Examination) -> String {
    let measures = &examination.measures;
    let mut text = format!(
        "{}, {} readable, {} bytes, {}\n",
        counted(amount(examination.tally.rows), "row"),
        measures.rows,
        measures.bytes,
        counted(amount(examination.duplicates), "exact duplicate"),
    );
    let rows: Vec<[String; 6]> = distributions(examination)
        .into_iter()
        .map(|(name, histogram)| {
            let percentile = |percent| histogram.percentile(percent).to_string();
            [
                name.to_owned(),
                histogram.sum().to_string(),
                percentile(50),
                percentile(90),
                percentile(99),
                histogram.max().to_string(),
            ]
        })
        .collect();
    let columns = [
        ("in a row", Align::Left),
        ("sum", Align::Right),
        ("p50", Align::Right),
        ("p90", Align::Right),
        ("p99", Align::Right),
        ("max", Align::Right),
    ];
    text.push('\n');
    text.push_str(&table(columns, &rows, output_style()));
    for (title, counts) in [
        ("form", &measures.forms),
        ("role", &measures.messages),
        ("tool", &measures.calls),
        ("loss", &measures.losses),
    ] {
        if counts.is_empty() {
            continue;
        }
        let mut counts: Vec<_> = counts.iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let rows = counts
            .iter()
            .take(20)
            .map(|(name, count)| [escape_untrusted(name).into_owned(), count.to_string()]);
        let rows: Vec<[String; 2]> = rows.collect();
        text.push('\n');
        text.push_str(&table(
            [(title, Align::Left), ("count", Align::Right)],
            &rows,
            output_style(),
        ));
    }
    if !examination.groups.is_empty() {
        text.push('\n');
        text.push_str(&groups(examination, output_style()));
    }
    text
}

/// Returns the distributions with their names.
pub(super) fn distributions(examination: &Examination) -> [(&'static str, &Histogram); 6] {
    let measures = &examination.measures;
    [
        ("tokens", &measures.tokens),
        ("tokens of the assistant", &measures.assistant_tokens),
        ("tokens of reasoning", &measures.reasoning_tokens),
        ("messages", &measures.turns),
        ("calls", &measures.calls_of_row),
        ("declared tools", &measures.tools),
    ]
}

fn to_json(examination: &Examination) -> Value {
    let distributions = distributions(examination).map(|(name, histogram)| {
        let bars = histogram.bars(50).into_iter();
        let bars: Value = bars
            .map(|bar| json!([bar.from, bar.to, bar.count]))
            .collect();
        let value = json!({
            "sum": histogram.sum(),
            "p50": histogram.percentile(50),
            "p90": histogram.percentile(90),
            "p99": histogram.percentile(99),
            "max": histogram.max(),
            "bars": bars,
        });
        (name.replace(' ', "_"), value)
    });
    let distributions: serde_json::Map<String, Value> = distributions.into_iter().collect();
    let (names, tally) = (&examination.names, &examination.tally);
    json!({
        "rows": tally.rows,
        "readable": examination.measures.rows,
        "bytes": examination.measures.bytes,
        "exact_duplicates": examination.duplicates,
        "errors": counts_to_json(names, &tally.refused, "code"),
        "warnings": counts_to_json(names, &tally.found, "code"),
        "forms": examination.measures.forms,
        "messages": examination.measures.messages,
        "calls": examination.measures.calls,
        "losses": examination.measures.losses,
        "in_a_row": distributions,
        "groups": examination.groups,
    })
}

/// Returns the count of findings of one kind.
pub(super) fn times(count: &Count) -> u64 {
    count.times.max(count.rows)
}
