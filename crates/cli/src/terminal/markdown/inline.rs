//! Inline Markdown: emphasis, code, links.

use logue_html::decode_references;
use logue_source::escape_untrusted;

use crate::terminal::markdown::style::{Look, Span, Style};
use crate::terminal::markdown::wrap::LINE_BREAK;

/// The nesting of emphasis that is read; deeper marks stay text.
const MAX_DEPTH: usize = 8;

/// The bytes of the longest segment whose marks are read.
pub(super) const MAX_SEGMENT: usize = 2 * 1024;

/// The bytes of the longest character reference.
const MAX_REFERENCE: usize = 33;

/// Returns the styled pieces of a text that follows a character.
///
/// Without styles the text stays as it is.
pub(super) fn spans(text: &str, before: char, style: Style, look: Look) -> Vec<Span> {
    let mut out = Vec::new();
    // The work grows with the square of the length.
    if look.has_styles && text.len() <= 2 * MAX_SEGMENT {
        Reader {
            look,
            out: &mut out,
        }
        .read(text, before, style, 0);
    } else {
        out.push(Span::new(text, style));
    }
    out
}

/// Returns whether all marks of a text are closed.
///
/// Text that follows does not change its form then.
pub(super) fn is_closed(text: &str, mut before: char) -> bool {
    if text.len() > MAX_SEGMENT {
        return true;
    }
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '\\' => 1 + tail(rest, 1).chars().next().map_or(0, char::len_utf8),
            '`' => match code(rest) {
                Some((_, end)) => end,
                None => return false,
            },
            '*' | '_' | '~' => match opener(rest, first, before) {
                None => run(rest, first),
                Some(width) => match closing(rest, first, width) {
                    Some(at) => at + width,
                    None => return false,
                },
            },
            '[' => match link(rest) {
                LinkRead::Link(link) => link.end,
                LinkRead::Open => return false,
                LinkRead::Text => 1,
            },
            '<' => {
                let is_open = rest.starts_with("<br") && tail(rest, 3).trim().is_empty();
                if is_open {
                    return false;
                }
                angle(rest).map_or(1, |(_, end)| end)
            }
            _ => first.len_utf8(),
        };
        let read = rest.get(..length).unwrap_or(rest);
        before = read.chars().next_back().unwrap_or(' ');
        rest = tail(rest, length);
    }
    true
}

/// Returns the text from a byte on; nothing within a character.
fn tail(text: &str, from: usize) -> &str {
    text.get(from..).unwrap_or_default()
}

/// Returns the number of bytes of the mark at the start.
fn run(text: &str, mark: char) -> usize {
    text.len() - text.trim_start_matches(mark).len()
}

/// Returns the content of a code span at the start, and its end.
fn code(text: &str) -> Option<(&str, usize)> {
    let ticks = run(text, '`');
    let mut at = ticks;
    while let Some(found) = tail(text, at).find('`') {
        let start = at + found;
        let length = run(tail(text, start), '`');
        if length == ticks {
            let content = text.get(ticks..start)?;
            let inner = content
                .strip_prefix(' ')
                .and_then(|inner| inner.strip_suffix(' '))
                .filter(|inner| !inner.trim().is_empty());
            return Some((inner.unwrap_or(content), start + length));
        }
        at = start + length;
    }
    None
}

/// A link of a text.
struct LinkText<'t> {
    label: &'t str,
    /// The address; `None` for a footnote and a reference.
    address: Option<&'t str>,
    /// The label of the reference.
    reference: Option<&'t str>,
    end: usize,
}

/// The meaning of a bracket at the start of a text.
enum LinkRead<'t> {
    Link(LinkText<'t>),
    /// Text that follows decides it.
    Open,
    Text,
}

/// Returns the link at the start.
fn link(text: &str) -> LinkRead<'_> {
    let mut depth = 0_usize;
    let mut close = None;
    let mut is_escaped = false;
    for (at, character) in text.char_indices() {
        match character {
            _ if is_escaped => {}
            '[' => depth += 1,
            ']' if depth == 1 => {
                close = Some(at);
                break;
            }
            ']' => depth -= 1,
            _ => {}
        }
        is_escaped = character == '\\' && !is_escaped;
    }
    let Some(close) = close else {
        return LinkRead::Open;
    };
    let label = text.get(1..close).unwrap_or_default();
    let target = tail(text, close + 1);
    if let Some(target) = target.strip_prefix('(') {
        let Some(end) = end_of_target(target) else {
            return LinkRead::Open;
        };
        let mut parts = target.get(..end).unwrap_or_default().split_whitespace();
        let address = parts.next().unwrap_or("");
        // Only a title can follow the address.
        if parts
            .next()
            .is_some_and(|title| !title.starts_with(['"', '\'']))
        {
            return LinkRead::Text;
        }
        let address = address.trim_start_matches('<').trim_end_matches('>');
        return LinkRead::Link(LinkText {
            label,
            address: Some(address),
            reference: None,
            end: close + 2 + end + 1,
        });
    }
    let is_note = label.len() > 1 && label.starts_with('^') && !label.contains(' ');
    if is_note {
        return LinkRead::Link(LinkText {
            label: label.get(1..).unwrap_or_default(),
            address: None,
            reference: None,
            end: close + 1,
        });
    }
    if let Some(reference) = target.strip_prefix('[') {
        return match reference.find(']') {
            None => LinkRead::Open,
            Some(end) => LinkRead::Link(LinkText {
                label,
                address: None,
                reference: reference.get(..end),
                end: close + 2 + end + 1,
            }),
        };
    }
    LinkRead::Text
}

/// Returns the place of the parenthesis that ends a target, after pairs within it.
fn end_of_target(target: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, character) in target.char_indices() {
        match character {
            '(' => depth += 1,
            ')' if depth == 0 => return Some(at),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Returns the address, or the break, within angle brackets at the start, and its end.
fn angle(text: &str) -> Option<(Option<&str>, usize)> {
    let end = text.find('>')?;
    let inner = text.get(1..end)?;
    if matches!(inner.trim_end_matches(['/', ' ']), "br" | "BR") {
        return Some((None, end + 1));
    }
    is_linkable(inner).then_some((Some(inner), end + 1))
}

/// Returns whether an address can be in a hyperlink of a terminal.
fn is_linkable(address: &str) -> bool {
    let is_web = address.starts_with("https://") || address.starts_with("http://");
    is_web && address.bytes().all(|byte| byte.is_ascii_graphic())
}

struct Reader<'o> {
    look: Look,
    out: &'o mut Vec<Span>,
}

impl Reader<'_> {
    fn read(&mut self, text: &str, mut before: char, style: Style, depth: usize) {
        let mut rest = text;
        let mut plain = String::new();
        while let Some(first) = rest.chars().next() {
            let length = self.mark(rest, before, &mut plain, style, depth);
            let length = length.unwrap_or_else(|| {
                let is_mark = matches!(first, '*' | '_' | '`' | '~');
                let length = if is_mark {
                    run(rest, first)
                } else {
                    first.len_utf8()
                };
                plain.push_str(rest.get(..length).unwrap_or_default());
                length
            });
            before = rest
                .get(..length)
                .and_then(|read| read.chars().next_back())
                .unwrap_or(' ');
            rest = tail(rest, length);
        }
        self.flush(&mut plain, style);
    }

    /// Reads the mark at the start; returns its length, or `None` if it is text.
    fn mark(
        &mut self,
        text: &str,
        before: char,
        plain: &mut String,
        style: Style,
        depth: usize,
    ) -> Option<usize> {
        match text.chars().next()? {
            '\\' => {
                let next = tail(text, 1).chars().next()?;
                if !next.is_ascii_punctuation() {
                    return None;
                }
                plain.push(next);
                Some(2)
            }
            '`' => {
                let (content, end) = code(text)?;
                self.flush(plain, style);
                self.out.push(Span::new(content, style.and(Style::CODE)));
                Some(end)
            }
            '&' => {
                let end = text
                    .bytes()
                    .take(MAX_REFERENCE)
                    .position(|one| one == b';')?
                    + 1;
                let reference = text.get(..end)?;
                let character = decode_references(reference);
                if character.ends_with(';') {
                    return None;
                }
                plain.push_str(&escape_untrusted(&character));
                Some(end)
            }
            '<' => {
                let (address, end) = angle(text)?;
                match address {
                    None => plain.push(LINE_BREAK),
                    Some(address) => self.link(address, Some(address), plain, style, MAX_DEPTH),
                }
                Some(end)
            }
            '!' if tail(text, 1).starts_with('[') => {
                Some(self.bracket(tail(text, 1), plain, style, depth)? + 1)
            }
            '[' => self.bracket(text, plain, style, depth),
            mark @ ('*' | '_' | '~') if depth < MAX_DEPTH => {
                self.emphasis(text, mark, before, plain, style, depth)
            }
            _ => None,
        }
    }

    fn bracket(
        &mut self,
        text: &str,
        plain: &mut String,
        style: Style,
        depth: usize,
    ) -> Option<usize> {
        let LinkRead::Link(found) = link(text) else {
            return None;
        };
        if found.address.is_some() || found.reference.is_some() {
            self.link(found.label, found.address, plain, style, depth);
        }
        let note = match found.reference {
            None if found.address.is_none() => Some(format!("[{}]", found.label)),
            Some(label) if !label.is_empty() => Some(format!(" [{label}]")),
            _ => None,
        };
        if let Some(note) = note {
            self.flush(plain, style);
            self.out.push(Span::new(note, style.and(Style::DIM)));
        }
        Some(found.end)
    }

    fn emphasis(
        &mut self,
        text: &str,
        mark: char,
        before: char,
        plain: &mut String,
        style: Style,
        depth: usize,
    ) -> Option<usize> {
        let width = opener(text, mark, before)?;
        let close = closing(text, mark, width)?;
        let inner = text.get(width..close)?;
        let added = match (mark, width) {
            ('~', _) => Style::STRIKE,
            (_, 1) => Style::ITALIC,
            (_, 2) => Style::BOLD,
            _ => Style::BOLD.and(Style::ITALIC),
        };
        self.flush(plain, style);
        self.read(inner, mark, style.and(added), depth + 1);
        Some(close + width)
    }

    fn link(
        &mut self,
        label: &str,
        address: Option<&str>,
        plain: &mut String,
        style: Style,
        depth: usize,
    ) {
        self.flush(plain, style);
        let begin = self.out.len();
        let shown = style.and(Style::UNDERLINE);
        if depth < MAX_DEPTH {
            self.read(label, ' ', shown, depth + 1);
        } else {
            self.out.push(Span::new(label, shown));
        }
        let address = address.unwrap_or_default();
        let is_shown = address.is_empty() || (address == label && is_linkable(address));
        if self.look.has_links && is_linkable(address) {
            let spans = self.out.iter_mut().skip(begin);
            spans.for_each(|span| span.address = Some(address.to_owned()));
        } else if !is_shown {
            let shown = format!(" ({address})");
            self.out.push(Span::new(shown, style.and(Style::DIM)));
        }
    }

    fn flush(&mut self, plain: &mut String, style: Style) {
        if !plain.is_empty() {
            self.out.push(Span::new(std::mem::take(plain), style));
        }
    }
}

/// Returns the number of marks at the start that may begin emphasis.
fn opener(text: &str, mark: char, before: char) -> Option<usize> {
    let width = run(text, mark);
    let is_width = match mark {
        '~' => (1..=2).contains(&width),
        _ => (1..=3).contains(&width),
    };
    let after = tail(text, width).chars().next()?;
    let is_inner = before.is_alphanumeric() && (mark != '*' || is_mark(after));
    (is_width && !after.is_whitespace() && !is_inner).then_some(width)
}

/// Returns whether a character is punctuation, after which emphasis does not begin in a word.
fn is_mark(character: char) -> bool {
    character.is_ascii_punctuation()
}

/// Returns the place of the marks that close those at the start.
fn closing(text: &str, mark: char, width: usize) -> Option<usize> {
    let mut at = width;
    let mut before = mark;
    // The emphasis within this one that is not closed, and the first place that ignores it.
    let mut inner: Vec<usize> = Vec::new();
    let mut fallback = None;
    while let Some(first) = tail(text, at).chars().next() {
        let rest = tail(text, at);
        let mut length = first.len_utf8();
        if first == '\\' {
            length += tail(rest, 1).chars().next().map_or(0, char::len_utf8);
        } else if first == '`' {
            length = code(rest).map_or_else(|| run(rest, '`'), |(_, end)| end);
        } else if first == mark {
            length = run(rest, mark);
            let after = tail(rest, length).chars().next().unwrap_or(' ');
            let is_end = !before.is_whitespace() && (mark == '*' || !after.is_alphanumeric());
            let mut left = length;
            if is_end {
                while let Some(open) = inner.pop_if(|open| *open <= left) {
                    left -= open;
                }
                let is_own = left == width || (left > width && !after.is_alphanumeric());
                if inner.is_empty() && is_own {
                    return Some(at + length - left);
                }
                if length == width {
                    fallback = fallback.or(Some(at));
                }
            }
            if left == length && opener(rest, mark, before).is_some() {
                inner.push(length);
            }
        }
        before = rest
            .get(..length)
            .and_then(|read| read.chars().next_back())
            .unwrap_or(first);
        at += length;
    }
    fallback
}
