//! Application of hunks to a text.

use std::cell::OnceCell;

use super::MAX_QUOTED_CHARS;
use super::parse::{Hunk, HunkLine};
pub(crate) use super::seek::Budget;
use super::seek::{MATCH_MODES, MatchMode, Spent, seek};
use logue_source::excerpt;

/// Number of lines of an unmatched hunk that are searched for a hint.
const HINTS: usize = 20;

/// A text with applied hunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Applied {
    /// The text.
    pub(crate) text: String,
    /// Original line numbers, from 1, of hunks that matched only without regard to white space.
    pub(crate) loose: Vec<usize>,
}

/// Applies the hunks in order. Kept lines are copied from the text; added lines get its line break.
///
/// # Errors
/// Returns a message for the model if a hunk does not match: which one, and the text found instead.
pub(crate) fn apply(
    text: &str,
    hunks: &[Hunk<'_>],
    budget: &mut Budget,
) -> Result<Applied, String> {
    let (mark, text) = match text.strip_prefix('\u{FEFF}') {
        Some(rest) => ("\u{FEFF}", rest),
        None => ("", text),
    };
    budget.pay_for_all(text).map_err(spent)?;
    let file = Lines::new(text);
    let mut output = Output::new(mark, &file);
    let mut loose = Vec::new();
    for (number, hunk) in hunks.iter().enumerate() {
        let place = find(&file, output.next, hunk, budget)
            .map_err(|why| format!("hunk {} (patch line {}): {why}", number + 1, hunk.line))?;
        if place.mode != MatchMode::Exact {
            loose.push(place.at + 1);
        }
        output.keep_to(place.at);
        for line in &hunk.lines {
            match line {
                HunkLine::Kept(_) => output.keep_to(output.next + 1),
                HunkLine::Removed(_) => output.next += 1,
                HunkLine::Added(line) => output.add(line),
            }
        }
    }
    output.keep_to(file.whole.len());
    Ok(Applied {
        text: output.text,
        loose,
    })
}

/// The lines of a text, in each form of comparison.
struct Lines<'a> {
    whole: Vec<&'a str>,
    forms: [OnceCell<Vec<&'a str>>; 3],
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            whole: text.split_inclusive('\n').collect(),
            forms: Default::default(),
        }
    }

    fn like(&self, mode: MatchMode) -> &[&'a str] {
        self.forms[mode as usize].get_or_init(|| {
            let lines = self.whole.iter();
            lines.map(|line| mode.of(unbroken(line))).collect()
        })
    }
}

/// Returns a line without its line break.
fn unbroken(line: &str) -> &str {
    let line = line.strip_suffix('\n').unwrap_or(line);
    line.strip_suffix('\r').unwrap_or(line)
}

/// The new text.
struct Output<'a> {
    text: String,
    lines: &'a [&'a str],
    /// The index of the next original line.
    next: usize,
    line_break: &'static str,
}

impl<'a> Output<'a> {
    fn new(mark: &str, file: &'a Lines<'_>) -> Self {
        let crlf = file
            .whole
            .first()
            .is_some_and(|line| line.ends_with("\r\n"));
        Self {
            text: mark.to_owned(),
            lines: &file.whole,
            next: 0,
            line_break: if crlf { "\r\n" } else { "\n" },
        }
    }

    /// Copies the original lines before `end`.
    fn keep_to(&mut self, end: usize) {
        for line in self.lines.get(self.next..end).unwrap_or_default() {
            self.end_line();
            self.text.push_str(line);
        }
        self.next = end;
    }

    fn add(&mut self, line: &str) {
        self.end_line();
        self.text.push_str(line);
        self.text.push_str(self.line_break);
    }

    /// The last original line may lack its line break.
    fn end_line(&mut self) {
        if !self.text.is_empty() && self.text != "\u{FEFF}" && !self.text.ends_with('\n') {
            self.text.push_str(self.line_break);
        }
    }
}

/// The error for the model if the budget is exhausted.
fn spent(_: Spent) -> String {
    "too many lines to compare; make smaller patches, with hunks in the order of the file"
        .to_owned()
}

/// The location of a hunk.
struct Found {
    /// The index of its first original line.
    at: usize,
    mode: MatchMode,
}

/// Finds the location of a hunk, at or after the line `next`.
fn find(
    file: &Lines<'_>,
    next: usize,
    hunk: &Hunk<'_>,
    budget: &mut Budget,
) -> Result<Found, String> {
    let mut from = next;
    for header in &hunk.headers {
        match behind_header(file, from, header, budget).map_err(spent)? {
            Some(behind) => from = behind,
            // A header that names a line of the previous hunk: the location follows that hunk.
            None if behind_header(file, 0, header, budget)
                .map_err(spent)?
                .is_some() => {}
            None => {
                return Err(format!(
                    "the file has no line `{}`, which its @@ names",
                    excerpt(header.trim_end(), MAX_QUOTED_CHARS)
                ));
            }
        }
    }
    let old: Vec<&str> = hunk.lines.iter().filter_map(old_line).collect();
    let lines = file.whole.len();
    if old.is_empty() {
        // A hunk without context goes after its header, or to the end.
        let at = if hunk.headers.is_empty() || hunk.at_end {
            lines
        } else {
            from
        };
        return Ok(Found {
            at,
            mode: MatchMode::Exact,
        });
    }
    for start in [from, next] {
        for mode in MATCH_MODES {
            let pattern: Vec<&str> = old.iter().map(|line| mode.of(line)).collect();
            let start = if hunk.at_end {
                start.max(lines.saturating_sub(old.len()))
            } else {
                start
            };
            let sought = seek(file.like(mode), start, &pattern, budget).map_err(spent)?;
            if let Some(at) = sought.at {
                return Ok(Found { at, mode });
            }
        }
        if from == next {
            break;
        }
    }
    Err(unplaced(file, next, &old, hunk.at_end, budget).unwrap_or_else(spent))
}

fn old_line<'a>(line: &HunkLine<'a>) -> Option<&'a str> {
    match line {
        HunkLine::Kept(line) | HunkLine::Removed(line) => Some(line),
        HunkLine::Added(_) => None,
    }
}

/// Returns the line after the one that a header names.
///
/// A header matches a similar line, or else a line that begins with it.
fn behind_header(
    file: &Lines<'_>,
    from: usize,
    header: &str,
    budget: &mut Budget,
) -> Result<Option<usize>, Spent> {
    for mode in MATCH_MODES {
        let pattern = [mode.of(header)];
        if let Some(at) = seek(file.like(mode), from, &pattern, budget)?.at {
            return Ok(Some(at + 1));
        }
    }
    let header = header.trim();
    for (at, line) in file.like(MatchMode::Around).iter().enumerate().skip(from) {
        budget.pay(line)?;
        if line.starts_with(header) {
            return Ok(Some(at + 1));
        }
    }
    Ok(None)
}

/// Explains why a hunk with these original lines does not match.
fn unplaced(
    file: &Lines<'_>,
    next: usize,
    old: &[&str],
    at_end: bool,
    budget: &mut Budget,
) -> Result<String, Spent> {
    let mode = MatchMode::Around;
    let lines = file.like(mode);
    let pattern: Vec<&str> = old.iter().map(|line| mode.of(line)).collect();
    let sought = seek(lines, 0, &pattern, budget)?;
    let line = |at: usize| {
        let line = file.whole.get(at).copied().map(unbroken);
        line.map_or("the end of the file".to_owned(), |line| {
            format!("`{}`", excerpt(line.trim_end(), MAX_QUOTED_CHARS))
        })
    };
    Ok(match sought.at {
        Some(at) if at_end => format!(
            "its lines are at line {} of the file, but the file does not end after them as \
             `*** End of File` says",
            at + 1
        ),
        Some(at) if at < next => format!(
            "its lines are at line {} of the file, before those of the hunk before it; hunks come in \
             the order of the file and do not overlap",
            at + 1
        ),
        Some(at) => format!(
            "its lines are at line {} of the file, before what its @@ names",
            at + 1
        ),
        None if sought.most > 0 => format!(
            "the file has no such lines. Nearest: {} of its {} old lines are at line {} of the file; \
             then line {} is {}, where the hunk has `{}`",
            sought.most,
            old.len(),
            sought.most_at + 1,
            sought.most_at + sought.most + 1,
            line(sought.most_at + sought.most),
            excerpt(
                old.get(sought.most).copied().unwrap_or_default().trim_end(),
                MAX_QUOTED_CHARS
            ),
        ),
        None => {
            let missing = excerpt(
                old.first().copied().unwrap_or_default().trim_end(),
                MAX_QUOTED_CHARS,
            );
            let filled = pattern.iter().enumerate().skip(1);
            let filled = filled.filter(|(_, line)| !line.is_empty());
            let other = filled.take(HINTS).find_map(|(number, wanted)| {
                let at = lines.iter().position(|line| line == wanted)?;
                Some((number, at))
            });
            match other {
                Some((number, at)) => format!(
                    "the file has no line `{missing}`. Nearest: the hunk's old line {} is line {} of \
                     the file, after {}",
                    number + 1,
                    at + 1,
                    at.checked_sub(1).map_or("its beginning".to_owned(), line),
                ),
                None => format!("the file has no line `{missing}`, and none of the following ones"),
            }
        }
    })
}
