//! Reports on a run over a data set.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use logue_data::{Count, Refusal, Row, Tally};
use logue_source::{Origin, Source, escape_line, escape_untrusted};
use serde_json::{Value, json};

use crate::counted::{amount, counted, counted_as};
use crate::exit::CliError;
use crate::terminal::{print, print_error, report_style, write_failed};

/// The refusals of each code that are printed whole; all are counted.
const SHOWN: u64 = 3;

/// The refusals that were printed, by code.
#[derive(Default)]
pub(super) struct Refused(BTreeMap<&'static str, u64>);

impl Refused {
    /// Prints the first refusals of each code with the text of the row.
    pub(super) fn print(&mut self, names: &[PathBuf], row: Row<'_>, refusal: &Refusal) {
        let code = refusal.finding.code.as_str();
        let shown = self.0.entry(code).or_default();
        *shown += 1;
        if *shown > SHOWN {
            return;
        }
        let start = Origin {
            offset: 0,
            line: amount(row.place.line),
            column: amount(row.place.column),
        };
        let name = file_name(names, row.place.file);
        let source = Source::fragment(&name, row.bytes, start);
        let text = source.render(&refusal.finding, report_style());
        print_error(&format!("{text}\n"));
    }
}

/// Reports that an interrupted run is continued.
pub(super) fn resumed(rows: u64) {
    let rows = counted(amount(rows), "row");
    print_error(&format!(
        "continuing an interrupted run after {rows}; begin again with --restart\n"
    ));
}

/// Prints the counts of a run: text on standard error, JSON on standard output.
pub(super) fn summary(
    names: &[PathBuf],
    tally: &Tally,
    quarantine: Option<&Path>,
    is_json: bool,
) -> Result<(), CliError> {
    let refused = tally.refusals();
    if is_json {
        let value = json!({
            "rows": tally.rows,
            "written": tally.written,
            "refused": refused,
            "quarantine": quarantine.map(|path| path.display().to_string()),
            "refused_by_code": counts_to_json(names, &tally.refused, "code"),
            "found": counts_to_json(names, &tally.found, "kind"),
        });
        return print(&format!("{value}\n")).map_err(|error| write_failed(&error));
    }
    let mut text = format!(
        "{} read, {} written, {refused} refused",
        counted(amount(tally.rows), "row"),
        tally.written,
    );
    if let Some(path) = quarantine {
        let path = path.display().to_string();
        text.push_str(&format!(", see `{}`", escape_line(&path)));
    }
    text.push('\n');
    for (code, count) in &tally.refused {
        let rows = counted(amount(count.rows), "row");
        text.push_str(&format!("{code}: {rows}{}\n", first(names, count)));
    }
    for (kind, count) in &tally.found {
        let times = counted_as(amount(count.times), "time", "times");
        let rows = counted(amount(count.rows), "row");
        text.push_str(&format!(
            "{kind}: {times} in {rows}{}\n",
            first(names, count)
        ));
    }
    print_error(&text);
    Ok(())
}

/// Returns the place and text of the first finding of a kind.
pub(super) fn first(names: &[PathBuf], count: &Count) -> String {
    count
        .first
        .as_ref()
        .map_or_else(String::new, |(place, text)| {
            let name = file_name(names, place.file);
            let name = escape_line(&name);
            let text = escape_untrusted(text);
            format!(", first {name}:{}: {text}", place.line)
        })
}

pub(super) fn counts_to_json(
    names: &[PathBuf],
    counts: &BTreeMap<String, Count>,
    key: &str,
) -> Value {
    let one = |(name, count): (&String, &Count)| {
        let first = count.first.as_ref().map(|(place, text)| {
            json!({
                "file": file_name(names, place.file),
                "line": place.line,
                "text": text,
            })
        });
        json!({key: name, "count": count.times, "rows": count.rows, "first": first})
    };
    counts.iter().map(one).collect()
}

pub(super) fn file_name(names: &[PathBuf], file: u32) -> String {
    let name = names.get(usize::try_from(file).unwrap_or(usize::MAX));
    name.map_or_else(String::new, |path| {
        if path.as_os_str() == "-" {
            "<stdin>".to_owned()
        } else {
            path.display().to_string()
        }
    })
}
