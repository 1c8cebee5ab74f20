//! Pages as numbered lines.
//!
//! The text of a page is hostile. Each line follows its number, so no line can pass for a heading
//! of the tool. Brackets that mark links and control characters are removed from the text.

use regex::{Regex, RegexBuilder};

use crate::Fetched;
use crate::digest::sha256;

/// Maximum size of the text of a page in bytes.
const TEXT: usize = 1024 * 1024;

/// Width after which a line ends at the next white space, and the absolute maximum.
const WIDTH: usize = 100;
const LONGEST: usize = 400;

/// Default size of a view in bytes and lines.
const SHOWN: usize = 16 * 1024;
const SHOWN_LINES: usize = 120;

/// Maximum size of a view in bytes.
const MOST_SHOWN: usize = 64 * 1024;

/// Maximum number of matches, and the number of lines around each.
const MATCHES: usize = 20;
const AROUND: usize = 2;

/// An opened page.
#[derive(Debug)]
pub(super) struct Page {
    /// The URL after all redirects.
    pub(super) url: String,
    title: String,
    lines: Vec<Line>,
    /// The targets of the links, by number.
    pub(super) links: Vec<String>,
    /// The SHA-256 digest of the response body.
    pub(super) checksum: String,
    /// Whether the text was truncated.
    cut: bool,
}

#[derive(Debug)]
struct Line {
    text: String,
    /// The separator from the previous line if both are one line of the page.
    before: Option<&'static str>,
}

impl Page {
    /// Reads a response: HTML as Markdown with numbered links, other text unchanged.
    ///
    /// # Errors
    /// Returns an error if the response is not text.
    pub(super) fn read(fetched: &Fetched, as_source: bool) -> Result<Self, String> {
        let url = fetched.url.clone();
        if !fetched.is_html() && !fetched.is_text() {
            let kind = fetched.media_type.as_deref().unwrap_or("an unknown type");
            return Err(format!("{url}: is not text, but {}", one_line(kind)));
        }
        let checksum = sha256(&fetched.bytes);
        let text = fetched.text();
        if fetched.is_html() && !as_source {
            let options = logue_html::HtmlOptions::new()
                .with_output_bytes(TEXT)
                .with_base(&url)
                .with_numbered_links();
            let found = logue_html::to_markdown(&text, &options);
            let title = found.title.as_deref().map(one_line).unwrap_or_default();
            return Ok(Self {
                lines: wrap(found.text.lines()),
                links: found.links,
                cut: found.cut,
                title,
                url,
                checksum,
            });
        }
        let end = text.floor_char_boundary(TEXT);
        let cut = end < text.len();
        let text = unbracketed(text.get(..end).unwrap_or_default());
        Ok(Self {
            lines: wrap(text.lines()),
            links: Vec::new(),
            title: String::new(),
            cut,
            url,
            checksum,
        })
    }

    /// Creates a page from the results of a search engine.
    pub(super) fn made(
        fetched: &Fetched,
        title: &str,
        lines: &[String],
        links: Vec<String>,
    ) -> Self {
        Self {
            url: fetched.url.clone(),
            title: one_line(title),
            lines: wrap(lines.iter().map(String::as_str)),
            links,
            checksum: sha256(&fetched.bytes),
            cut: false,
        }
    }

    /// Returns the size in bytes.
    pub(super) fn size(&self) -> usize {
        let lines: usize = self.lines.iter().map(|line| line.text.len() + 48).sum();
        let links: usize = self.links.iter().map(|link| link.len() + 24).sum();
        lines + links
    }

    /// Formats the lines from `from` on, up to the requested count or the size limit.
    pub(super) fn view(
        &self,
        cursor: usize,
        from: usize,
        count: Option<usize>,
    ) -> Result<String, String> {
        let total = self.lines.len();
        if from >= total && total > 0 {
            return Err(format!("page [{cursor}] has the lines 0 to {}", total - 1));
        }
        let (most, room) = match count {
            Some(count) => (count, MOST_SHOWN),
            None => (SHOWN_LINES, SHOWN),
        };
        let mut body = String::new();
        let mut shown = 0;
        for (at, line) in self.lines.iter().enumerate().skip(from).take(most) {
            if shown > 0 && body.len() + line.text.len() > room {
                break;
            }
            number(at, line, &mut body);
            shown += 1;
        }
        let to = from + shown;
        let mut out = self.head(cursor);
        match total {
            0 => out.push_str("the page holds no text\n"),
            _ => out.push_str(&format!(
                "lines {from} to {} of 0 to {}\n\n",
                to.saturating_sub(1),
                total - 1
            )),
        }
        out.push_str(&body);
        if to < total {
            out.push_str(&format!("\n[more from loc {to} on]\n"));
        } else if self.cut {
            out.push_str(&format!(
                "\n[the page is longer; it was cut after {TEXT} bytes]\n"
            ));
        }
        self.list_links(from..to, room / 2, &mut out);
        Ok(out)
    }

    /// Formats the lines that contain a text, with their context.
    pub(super) fn find(&self, cursor: usize, pattern: &str) -> Result<String, String> {
        let regex = words(pattern)?;
        let mut out = self.head(cursor);
        let mut found = Vec::new();
        let mut more = false;
        let mut at = 0;
        while at < self.lines.len() && !more {
            let end = self.end_of(at);
            let (text, starts) = self.joined(at, end);
            for matched in regex.find_iter(&text) {
                let line = starts.partition_point(|start| *start <= matched.start());
                let line = at + line.saturating_sub(1);
                if found.last() == Some(&line) {
                    continue;
                }
                if found.len() == MATCHES {
                    more = true;
                    break;
                }
                found.push(line);
            }
            at = end;
        }
        let shown = one_line(pattern);
        let (Some(first), Some(last)) = (found.first(), found.last()) else {
            out.push_str(&format!("no line holds {shown:?}\n"));
            return Ok(out);
        };
        let places: Vec<String> = found.iter().map(usize::to_string).collect();
        let tail = if more { " and more" } else { "" };
        out.push_str(&format!(
            "{shown:?} is in the lines {}{tail}\n\n",
            places.join(", ")
        ));
        let mut next = first.saturating_sub(AROUND);
        for line in &found {
            let from = line.saturating_sub(AROUND).max(next);
            if from > next {
                out.push_str("--\n");
            }
            let to = (line + AROUND + 1).min(self.lines.len());
            for (at, line) in self.lines.iter().enumerate().take(to).skip(from) {
                number(at, line, &mut out);
            }
            next = to.max(next);
        }
        let from = first.saturating_sub(AROUND);
        self.list_links(from..(last + AROUND + 1), SHOWN / 2, &mut out);
        Ok(out)
    }

    fn head(&self, cursor: usize) -> String {
        let (title, url) = (&self.title, &self.url);
        if title.is_empty() {
            format!("[{cursor}] {url}\n")
        } else {
            format!("[{cursor}] {title:?} {url}\n")
        }
    }

    /// Lists the targets of the links in some lines.
    fn list_links(&self, lines: std::ops::Range<usize>, room: usize, out: &mut String) {
        let lines = self.lines.get(lines.start..lines.end.min(self.lines.len()));
        let mut list = String::new();
        for line in lines.unwrap_or_default() {
            for part in line.text.split('【').skip(1) {
                let id = part
                    .split('†')
                    .next()
                    .and_then(|id| id.parse::<usize>().ok());
                let Some((id, link)) = id.and_then(|id| Some((id, self.links.get(id)?))) else {
                    continue;
                };
                if list.len() + link.len() > room {
                    list.push_str("[more links are not listed; they can be opened all the same]\n");
                    out.push_str("\nLinks:\n");
                    out.push_str(&list);
                    return;
                }
                list.push_str(&format!("{id}: {}\n", one_line(link)));
            }
        }
        if !list.is_empty() {
            out.push_str("\nLinks:\n");
            out.push_str(&list);
        }
    }

    /// Returns the end of the page line that begins at a wrapped line.
    fn end_of(&self, at: usize) -> usize {
        let rest = self.lines.iter().skip(at + 1);
        at + 1 + rest.take_while(|line| line.before.is_some()).count()
    }

    /// Joins wrapped lines to one page line, with the offset of each.
    fn joined(&self, from: usize, to: usize) -> (String, Vec<usize>) {
        let mut text = String::new();
        let mut starts = Vec::new();
        for line in self.lines.get(from..to).unwrap_or_default() {
            text.push_str(line.before.unwrap_or_default());
            starts.push(text.len());
            text.push_str(&line.text);
        }
        (text, starts)
    }
}

fn number(at: usize, line: &Line, out: &mut String) {
    out.push_str(&format!("L{at}: {}\n", line.text));
}

/// Compiles an expression for a text, ignoring case, white space and Markdown.
///
/// Markdown adds markers between words, and backslashes before characters that would be markers.
fn words(pattern: &str) -> Result<Regex, String> {
    let wrong = |why: &str| format!("E-CALL-SCHEMA: pattern: {why}");
    let literal = |character: char| {
        let escaped = regex::escape(character.encode_utf8(&mut [0; 4]));
        if character.is_alphanumeric() {
            escaped
        } else {
            format!(r"\\?{escaped}")
        }
    };
    let words = pattern.split_whitespace();
    let words: Vec<String> = words
        .map(|word| word.chars().map(literal).collect())
        .collect();
    if words.is_empty() || pattern.len() > 1_000 {
        return Err(wrong("must have 1 to 1000 bytes"));
    }
    RegexBuilder::new(&words.join(r"(?:[\s*~`_\\】]|【\d+†)+"))
        .case_insensitive(true)
        .build()
        .map_err(|error| wrong(&error.to_string()))
}

/// Wraps lines to a bounded length.
fn wrap<'t>(text: impl Iterator<Item = &'t str>) -> Vec<Line> {
    let mut lines = Vec::new();
    for line in text {
        let line = clean(line);
        let mut rest = line.as_str();
        let mut before = None;
        loop {
            let (end, next, glue) = end_of_line(rest);
            lines.push(Line {
                text: rest.get(..end).unwrap_or_default().to_owned(),
                before,
            });
            rest = rest.get(next..).unwrap_or_default();
            before = Some(glue);
            if rest.is_empty() {
                break;
            }
        }
    }
    lines
}

/// Returns the end of a line, the start of the next one, and the separator.
fn end_of_line(text: &str) -> (usize, usize, &'static str) {
    let mut space = None;
    for (count, (at, character)) in text.char_indices().enumerate() {
        if character == ' ' && count > 0 && (count <= WIDTH || space.is_none()) {
            // A line does not end inside its indentation.
            let words = text
                .get(..at)
                .is_some_and(|before| !before.trim().is_empty());
            space = if words { Some(at) } else { space };
        }
        if count >= WIDTH
            && let Some(at) = space
        {
            return (at, at + 1, " ");
        }
        if count >= LONGEST {
            return (at, at, "");
        }
    }
    (text.len(), text.len(), "")
}

/// Removes control characters from a line.
fn clean(line: &str) -> String {
    let plain = |character: char| match character {
        '\t' => '\t',
        '\u{2028}' | '\u{2029}' => ' ',
        character if character.is_control() => ' ',
        character => character,
    };
    line.chars()
        .map(plain)
        .collect::<String>()
        .trim_end()
        .to_owned()
}

/// Removes the brackets that mark links.
pub(super) fn unbracketed(text: &str) -> String {
    text.replace('【', "[").replace('】', "]")
}

/// Returns the text of a page on one line.
pub(super) fn one_line(text: &str) -> String {
    let words: Vec<&str> = text
        .split(|character: char| character.is_whitespace() || character.is_control())
        .filter(|word| !word.is_empty())
        .collect();
    unbracketed(&words.join(" "))
}
