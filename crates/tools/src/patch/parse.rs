//! Parser of the patch envelope and the hunk lines.

use logue_source::excerpt;

use super::MAX_QUOTED_CHARS;

/// The changes of a patch to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Section<'a> {
    /// The path.
    pub(crate) path: &'a str,
    /// The kind of change.
    pub(crate) action: Action<'a>,
}

impl Section<'_> {
    /// The number of paths that the section names.
    pub(crate) const fn files(&self) -> usize {
        match self.action {
            Action::Update { to: Some(_), .. } => 2,
            _ => 1,
        }
    }
}

/// A change of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action<'a> {
    /// Creates the file with these lines.
    Add(Vec<&'a str>),
    /// Removes the file.
    Delete,
    /// Changes the file, renames it, or both.
    Update {
        /// The new path.
        to: Option<&'a str>,
        /// The hunks, in the order of the file.
        hunks: Vec<Hunk<'a>>,
    },
}

/// A contiguous change in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hunk<'a> {
    /// Its line number in the patch, from 1.
    pub(crate) line: usize,
    /// Lines that precede it in the file, in order.
    pub(crate) headers: Vec<&'a str>,
    /// Its lines.
    pub(crate) lines: Vec<HunkLine<'a>>,
    /// Whether the file ends after the hunk.
    pub(crate) at_end: bool,
}

/// A line of a hunk, without its sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HunkLine<'a> {
    /// A context line.
    Kept(&'a str),
    /// A removed line.
    Removed(&'a str),
    /// An added line.
    Added(&'a str),
}

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";

/// Parses a patch in linear time.
///
/// # Errors
/// Returns a message for the model, with the line number, if the patch is malformed.
pub(crate) fn parse(patch: &str) -> Result<Vec<Section<'_>>, String> {
    let mut lines = Lines::new(patch);
    match lines.next_filled() {
        Some((_, line)) if line.trim() == BEGIN => {}
        Some((number, line)) => {
            return Err(wrong(
                number,
                &format!("a patch begins with `{BEGIN}`"),
                line,
            ));
        }
        None => return Err(format!("the patch is empty; it begins with `{BEGIN}`")),
    }
    let mut sections = Vec::new();
    loop {
        let Some((number, line)) = lines.next_filled() else {
            return Err(format!("the patch ends without `{END}`, so it may be cut"));
        };
        let line = line.trim_end();
        if line == END {
            break;
        }
        let section = if let Some(path) = line.strip_prefix("*** Add File:") {
            Section {
                path: named(number, path)?,
                action: Action::Add(lines.added()?),
            }
        } else if let Some(path) = line.strip_prefix("*** Delete File:") {
            Section {
                path: named(number, path)?,
                action: Action::Delete,
            }
        } else if let Some(path) = line.strip_prefix("*** Update File:") {
            let to = match lines.peek() {
                Some((number, line)) if line.starts_with("*** Move to:") => {
                    lines.advance();
                    Some(named(number, &line["*** Move to:".len()..])?)
                }
                _ => None,
            };
            let hunks = lines.hunks()?;
            if hunks.is_empty() && to.is_none() {
                return Err(format!(
                    "patch line {number}: the update of `{}` has no hunk",
                    path.trim()
                ));
            }
            Section {
                path: named(number, path)?,
                action: Action::Update { to, hunks },
            }
        } else {
            let wanted = "`*** Add File: PATH`, `*** Update File: PATH`, `*** Delete File: PATH` or \
                          `*** End Patch` is expected";
            return Err(wrong(number, wanted, line));
        };
        sections.push(section);
    }
    if let Some((number, line)) = lines.next_filled() {
        return Err(wrong(number, "nothing follows the end of a patch", line));
    }
    if sections.is_empty() {
        return Err("the patch names no file".to_owned());
    }
    Ok(sections)
}

/// The numbered lines of a patch.
struct Lines<'a> {
    rest: Option<&'a str>,
    number: usize,
    /// Whether lines end in CR LF.
    crlf: bool,
}

impl<'a> Lines<'a> {
    fn new(patch: &'a str) -> Self {
        let patch = patch.strip_prefix('\u{FEFF}').unwrap_or(patch);
        let first = patch.trim_start().split('\n').next().unwrap_or_default();
        Self {
            rest: Some(patch),
            number: 0,
            crlf: first.ends_with('\r'),
        }
    }

    fn peek(&self) -> Option<(usize, &'a str)> {
        let rest = self.rest?;
        let line = rest.split_once('\n').map_or(rest, |(line, _)| line);
        let line = line
            .strip_suffix('\r')
            .filter(|_| self.crlf)
            .unwrap_or(line);
        // The text after the last line break is not a line if it is empty.
        (rest.contains('\n') || !rest.is_empty()).then_some((self.number + 1, line))
    }

    fn advance(&mut self) {
        self.rest = self
            .rest
            .and_then(|rest| rest.split_once('\n'))
            .map(|(_, rest)| rest);
        self.number += 1;
    }

    /// Returns the next line that is not blank.
    fn next_filled(&mut self) -> Option<(usize, &'a str)> {
        while let Some(line) = self.peek() {
            self.advance();
            if !line.1.trim().is_empty() {
                return Some(line);
            }
        }
        None
    }

    /// Parses the lines of a new file.
    fn added(&mut self) -> Result<Vec<&'a str>, String> {
        let mut added = Vec::new();
        let mut blank = None;
        while let Some((number, line)) = self.peek() {
            if line.starts_with("*** ") {
                break;
            }
            self.advance();
            match (line.strip_prefix('+'), blank) {
                (Some(line), None) => added.push(line),
                // A blank line between files is ignored; inside a file it lacks its sign.
                (None, _) if line.trim().is_empty() => blank = blank.or(Some((number, line))),
                (_, blank) => {
                    let (number, line) = blank.unwrap_or((number, line));
                    return Err(wrong(
                        number,
                        "each line of a new file begins with `+`",
                        line,
                    ));
                }
            }
        }
        Ok(added)
    }

    /// Parses the hunks of a changed file.
    fn hunks(&mut self) -> Result<Vec<Hunk<'a>>, String> {
        let mut hunks: Vec<Hunk<'a>> = Vec::new();
        // Whether lines belong to the last hunk.
        let mut open = false;
        // Lines without a sign at the end of the last hunk: empty lines of the file, or a separator
        // from the following hunk.
        let mut bare = 0;
        while let Some((number, line)) = self.peek() {
            if line.trim_end() == "*** End of File" {
                self.advance();
                match hunks.last_mut().filter(|_| open) {
                    Some(hunk) => hunk.at_end = true,
                    None => return Err(wrong(number, "a hunk is expected before it", line)),
                }
                (open, bare) = (false, 0);
                continue;
            }
            if line.starts_with("*** ") {
                break;
            }
            self.advance();
            if let Some(header) = line.strip_prefix("@@") {
                drop_last(&mut hunks, &mut bare);
                let header = header_text(header);
                match hunks.last_mut() {
                    Some(hunk) if open && hunk.lines.is_empty() => hunk.headers.extend(header),
                    _ => hunks.push(Hunk {
                        line: number,
                        headers: header.into_iter().collect(),
                        ..Hunk::default()
                    }),
                }
                open = true;
                continue;
            }
            if line.is_empty() && !open {
                continue;
            }
            bare = if line.is_empty() { bare + 1 } else { 0 };
            let line = match line.as_bytes().first() {
                Some(b' ') => HunkLine::Kept(&line[1..]),
                Some(b'-') => HunkLine::Removed(&line[1..]),
                Some(b'+') => HunkLine::Added(&line[1..]),
                None => HunkLine::Kept(""),
                // `\ No newline at end of file`, as `diff` writes it.
                Some(b'\\') => continue,
                Some(_) => {
                    let wanted = "a line of a hunk begins with a space, `-`, `+` or `@@`";
                    return Err(wrong(number, wanted, line));
                }
            };
            if !open {
                hunks.push(Hunk {
                    line: number,
                    ..Hunk::default()
                });
                open = true;
            }
            if let Some(hunk) = hunks.last_mut() {
                hunk.lines.push(line);
            }
        }
        drop_last(&mut hunks, &mut bare);
        if let Some(empty) = hunks.iter().find(|hunk| hunk.lines.is_empty()) {
            return Err(format!("patch line {}: the hunk has no lines", empty.line));
        }
        Ok(hunks)
    }
}

/// Removes this many lines from the last hunk.
fn drop_last(hunks: &mut [Hunk<'_>], count: &mut usize) {
    if let Some(hunk) = hunks.last_mut() {
        hunk.lines.truncate(hunk.lines.len().saturating_sub(*count));
    }
    *count = 0;
}

/// Returns the line that an `@@` names.
///
/// The line numbers of a unified diff name none.
fn header_text(header: &str) -> Option<&str> {
    let header = header.strip_prefix(' ').unwrap_or(header).trim_end();
    if let Some(numbers) = header.trim_start().strip_prefix('-')
        && let Some((numbers, _)) = numbers.split_once("@@")
        && numbers.bytes().all(|byte| b"0123456789,+ ".contains(&byte))
    {
        return None;
    }
    let header = header.strip_suffix("@@").unwrap_or(header).trim_end();
    (!header.is_empty()).then_some(header)
}

fn named(number: usize, path: &str) -> Result<&str, String> {
    match path.trim() {
        "" => Err(format!("patch line {number}: the path is missing")),
        path => Ok(path),
    }
}

fn wrong(number: usize, wanted: &str, line: &str) -> String {
    format!(
        "patch line {number}: {wanted}; found `{}`",
        excerpt(line.trim_end(), MAX_QUOTED_CHARS)
    )
}
