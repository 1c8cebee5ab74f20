//! The language rules of comments, string literals and Markdown pages.
//!
//! `xtask/prose.toml` holds the number of accepted findings per rule; a rule without an entry has
//! none. A rise is an error, and a fall has to lower the stored number. A line, or the line above it,
//! exempts text with `style: allow(ID) reason`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use regex::Regex;

use super::lexer::{PartKind, parts};
use super::rules::{OPENERS, RULES, Rule, SUMMARY_WORDS};

/// The rule about the first word of a doc comment.
const OPENER: &str = "opener";
/// The rule about summaries that only refer to another item.
const SAME: &str = "same";
/// The rule about the length of a summary.
const SUMMARY: &str = "summary";
/// The most doc comments in a hundred that may open with a question word.
const MAX_OPENER_PERCENT: usize = 5;

struct Compiled {
    rule: &'static Rule,
    pattern: Regex,
    allowed: Option<Regex>,
}

struct Finding {
    file: PathBuf,
    line: usize,
    id: &'static str,
    text: String,
    is_advisory: bool,
}

/// Counts of a whole run.
#[derive(Default)]
struct Totals {
    doc_comments: usize,
    openers: usize,
}

/// Checks the prose of `files` and reports findings above the accepted numbers.
pub(crate) fn check(
    root: &Path,
    files: &[PathBuf],
    shown: Option<&Path>,
    violations: &mut Vec<String>,
) -> Result<(), String> {
    let rules = compiled()?;
    let mut findings = Vec::new();
    let mut totals = Totals::default();
    for file in files {
        let Some(kind) = prose_kind(file) else {
            continue;
        };
        let path = root.join(file);
        let text = std::fs::read_to_string(&path)
            .map_err(|error| format!("{}: {error}", file.display()))?;
        match kind {
            ProseKind::Rust => rust(file, &text, &rules, &mut findings, &mut totals),
            ProseKind::Markdown => markdown(file, &text, &rules, &mut findings),
        }
    }
    let percent = (totals.openers * 100).div_ceil(totals.doc_comments.max(1));
    println!(
        "prose: {} of {} doc comments open with a question word ({percent} %)",
        totals.openers, totals.doc_comments
    );
    if percent > MAX_OPENER_PERCENT {
        violations.push(format!(
            "prose: {percent} % of doc comments open with a question word, more than {MAX_OPENER_PERCENT} %"
        ));
    }
    if let Some(below) = shown {
        for found in findings
            .iter()
            .filter(|found| found.file.starts_with(below))
        {
            println!("{}", line_of(found));
        }
    }
    hold_against_baseline(root, &findings, violations)
}

fn compiled() -> Result<Vec<Compiled>, String> {
    let regex = |text: &str| Regex::new(text).map_err(|error| format!("{text}: {error}"));
    RULES
        .iter()
        .map(|rule| {
            Ok(Compiled {
                rule,
                pattern: regex(rule.pattern)?,
                allowed: rule.allowed.map(regex).transpose()?,
            })
        })
        .collect()
}

#[derive(Clone, Copy)]
enum ProseKind {
    Rust,
    Markdown,
}

fn prose_kind(file: &Path) -> Option<ProseKind> {
    let extension = file.extension()?.to_str()?;
    let is_source =
        file.starts_with("crates") && file.components().any(|part| part.as_os_str() == "src");
    let is_page =
        file.starts_with("docs") || file.starts_with("crates") || file.components().count() == 1;
    match extension {
        "rs" if is_source || file.starts_with("xtask/src") => Some(ProseKind::Rust),
        // The rule table quotes the idioms.
        "md" if is_page => Some(ProseKind::Markdown),
        _ => None,
    }
}

fn rust(
    file: &Path,
    text: &str,
    rules: &[Compiled],
    findings: &mut Vec<Finding>,
    totals: &mut Totals,
) {
    if file.ends_with("tidy/rules.rs") {
        return;
    }
    let lines: Vec<&str> = text.lines().collect();
    let is_allowed = |line: usize, id: &str| {
        let mark = format!("style: allow({id})");
        let own = lines.get(line - 1);
        let above = line.checked_sub(2).and_then(|above| lines.get(above));
        [own, above]
            .into_iter()
            .flatten()
            .any(|line| line.contains(&mark))
    };
    for part in parts(text) {
        for (offset, line) in part.text.lines().enumerate() {
            let number = part.line + offset;
            if line.contains("style: allow(") {
                continue;
            }
            for found in matches_of(&without_code(line), rules) {
                if !is_allowed(number, found.rule.id) {
                    findings.push(finding(file, number, found.rule, line));
                }
            }
        }
        if part.kind == PartKind::Comment {
            doc_comment(file, &lines, part.line, findings, totals);
        }
    }
}

/// Checks the doc comment whose first line is line `number`, if there is one.
fn doc_comment(
    file: &Path,
    lines: &[&str],
    number: usize,
    findings: &mut Vec<Finding>,
    totals: &mut Totals,
) {
    let line_at = |number: usize| lines.get(number - 1).map_or("", |line| line.trim());
    let Some(marker) = ["///", "//!"]
        .into_iter()
        .find(|marker| line_at(number).starts_with(marker))
    else {
        return;
    };
    if number > 1 && line_at(number - 1).starts_with(marker) {
        return;
    }
    totals.doc_comments += 1;
    let mut summary = String::new();
    let mut next = number;
    while let Some(text) = line_at(next).strip_prefix(marker) {
        if text.trim().is_empty() {
            break;
        }
        summary.push_str(text);
        next += 1;
    }
    while line_at(next).starts_with(marker) || line_at(next).starts_with("#[") {
        next += 1;
    }
    let summary = summary.trim();
    let first = summary.split_whitespace().next().unwrap_or_default();
    let mut report = |id: &'static str, text: String| {
        findings.push(Finding {
            file: file.to_owned(),
            line: number,
            id,
            text,
            is_advisory: false,
        });
    };
    if OPENERS.contains(&first) {
        totals.openers += 1;
        if !(first == "Whether" && is_bool_field(line_at(next))) {
            report(OPENER, summary.to_owned());
        }
    }
    if summary.starts_with("The same ") {
        report(SAME, summary.to_owned());
    }
    let words = first_sentence(summary).split_whitespace().count();
    if words > SUMMARY_WORDS && !line_at(number).contains("style: allow(summary)") {
        report(SUMMARY, format!("{words} words: {summary}"));
    }
}

fn is_bool_field(line: &str) -> bool {
    line.ends_with(": bool,") || line.ends_with(": Option<bool>,") || line.ends_with(": bool")
}

/// Returns the text up to the first full stop that ends a sentence.
fn first_sentence(summary: &str) -> &str {
    let end = summary.match_indices(['.', ':']).find(|(at, mark)| {
        let after = &summary[at + mark.len()..];
        let is_abbreviation = summary[..*at].ends_with("e.g") || summary[..*at].ends_with("i.e");
        after.is_empty() || (after.starts_with(' ') && !is_abbreviation)
    });
    end.map_or(summary, |(at, _)| &summary[..at])
}

fn markdown(file: &Path, text: &str, rules: &[Compiled], findings: &mut Vec<Finding>) {
    let mut in_code = false;
    let mut above = "";
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        let is_quoted = in_code || line.starts_with("    ") || line.starts_with('>');
        if !is_quoted {
            for found in matches_of(&without_code(line), rules) {
                let mark = format!("style: allow({})", found.rule.id);
                if !line.contains(&mark) && !above.contains(&mark) {
                    findings.push(finding(file, index + 1, found.rule, line));
                }
            }
        }
        above = line;
    }
}

/// Returns the line without its code spans.
fn without_code(line: &str) -> String {
    let parts = line.split('`').enumerate();
    parts
        .filter(|(index, _)| index % 2 == 0)
        .map(|(_, text)| text)
        .collect::<Vec<_>>()
        .join("_")
}

fn matches_of<'a>(line: &str, rules: &'a [Compiled]) -> impl Iterator<Item = &'a Compiled> {
    let line = line.to_owned();
    rules.iter().filter(move |rule| match &rule.allowed {
        Some(allowed) => rule.pattern.is_match(&allowed.replace_all(&line, "")),
        None => rule.pattern.is_match(&line),
    })
}

fn finding(file: &Path, line: usize, rule: &Rule, text: &str) -> Finding {
    Finding {
        file: file.to_owned(),
        line,
        id: rule.id,
        text: format!("{}: {}", rule.advice, text.trim()),
        is_advisory: rule.is_advisory,
    }
}

fn line_of(found: &Finding) -> String {
    let level = if found.is_advisory { "advice" } else { "style" };
    let text: String = found.text.chars().take(140).collect();
    format!(
        "{}:{}: {level}[{}]: {text}",
        found.file.display(),
        found.line,
        found.id
    )
}

fn hold_against_baseline(
    root: &Path,
    findings: &[Finding],
    violations: &mut Vec<String>,
) -> Result<(), String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for found in findings {
        *counts.entry(found.id).or_default() += 1;
    }
    let accepted = accepted(&root.join("xtask/prose.toml"))?;
    let advisory: Vec<&str> = RULES
        .iter()
        .filter(|rule| rule.is_advisory)
        .map(|rule| rule.id)
        .collect();
    for (id, count) in &counts {
        if advisory.contains(id) {
            println!("prose: {count} advisory findings of `{id}`");
            continue;
        }
        let allowed = accepted.get(*id).copied().unwrap_or_default();
        if *count > allowed {
            violations.push(format!(
                "prose: {count} findings of `{id}`, {allowed} accepted"
            ));
            let of_rule = findings.iter().filter(|found| found.id == *id);
            violations.extend(of_rule.take(40).map(line_of));
        }
    }
    for (id, allowed) in &accepted {
        let count = counts.get(id.as_str()).copied().unwrap_or_default();
        if count < *allowed {
            violations.push(format!(
                "xtask/prose.toml: `{id}` accepts {allowed} findings, {count} are left: lower the number"
            ));
        }
    }
    Ok(())
}

/// Reads `ID = COUNT` lines.
fn accepted(path: &Path) -> Result<BTreeMap<String, usize>, String> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(format!("{}: {error}", path.display())),
    };
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim());
    lines
        .filter(|line| !line.is_empty())
        .map(|line| {
            let (id, count) = line
                .split_once('=')
                .ok_or_else(|| format!("prose.toml: invalid line `{line}`"))?;
            let count = count
                .trim()
                .parse()
                .map_err(|error| format!("prose.toml: {line}: {error}"))?;
            Ok((id.trim().trim_matches('"').to_owned(), count))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{first_sentence, without_code};

    #[test]
    fn summaries_end_with_their_first_sentence() {
        assert_eq!(first_sentence("Reads `a.b`. Then more."), "Reads `a.b`");
        assert_eq!(first_sentence("One, e.g. this"), "One, e.g. this");
    }

    #[test]
    fn code_spans_are_not_prose() {
        assert_eq!(without_code("a `go on` b"), "a _ b");
    }
}
