//! Inline Markdown: emphasis, code, links.

use crate::terminal::markdown::style::{Look, Span, Style};

/// The nesting of emphasis that is read; deeper marks stay text.
const MAX_DEPTH: usize = 8;

/// The bytes of a segment whose marks may be open.
const MAX_SEGMENT: usize = 4 * 1024;

/// Returns the styled pieces of a text. Without styles the text stays as it is.
pub(super) fn spans(text: &str, style: Style, look: Look) -> Vec<Span> {
    let mut out = Vec::new();
    if look.has_styles {
        Reader {
            look,
            out: &mut out,
        }
        .read(text, style, 0);
    } else {
        out.push(Span::new(text, style));
    }
    out
}

/// Returns whether all marks of a text are closed.
///
/// Text that follows does not change its form then.
pub(super) fn is_closed(text: &str) -> bool {
    if text.len() > MAX_SEGMENT {
        return true;
    }
    let (mut brackets, mut stars, mut lines, mut tildes) = (0_usize, 0_usize, 0_usize, 0_usize);
    let mut rest = text;
    let mut before = ' ';
    while let Some(first) = rest.chars().next() {
        let mut length = first.len_utf8();
        match first {
            '\\' => length += tail(rest, 1).chars().next().map_or(0, char::len_utf8),
            '`' => match code(rest) {
                Some((_, end)) => length = end,
                None => return false,
            },
            '*' | '_' => {
                length = run(rest, first);
                let after = tail(rest, length).chars().next().unwrap_or(' ');
                if first == '*' {
                    stars += 1;
                } else if !(before.is_alphanumeric() && after.is_alphanumeric()) {
                    lines += 1;
                }
            }
            '~' => {
                length = run(rest, '~');
                tildes += usize::from(length == 2);
            }
            '[' => brackets += 1,
            ']' => {
                brackets = brackets.saturating_sub(1);
                let address = tail(rest, 1);
                if address.starts_with('(') {
                    match address.find(')') {
                        Some(end) => length += end,
                        None => return false,
                    }
                }
            }
            _ => {}
        }
        before = first;
        rest = tail(rest, length);
    }
    brackets == 0 && [stars, lines, tildes].iter().all(|count| count % 2 == 0)
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

/// Returns the label and the address of a link at the start, and its end.
fn link(text: &str) -> Option<(&str, &str, usize)> {
    let mut depth = 0_usize;
    let mut close = None;
    for (at, character) in text.char_indices() {
        match character {
            '[' => depth += 1,
            ']' if depth == 1 => {
                close = Some(at);
                break;
            }
            ']' => depth -= 1,
            _ => {}
        }
    }
    let close = close?;
    let target = tail(text, close + 1).strip_prefix('(')?;
    let end = target.find(')')?;
    let mut parts = target.get(..end)?.split_whitespace();
    let address = parts.next().unwrap_or("");
    // Only a title can follow the address.
    if parts
        .next()
        .is_some_and(|title| !title.starts_with(['"', '\'']))
    {
        return None;
    }
    let address = address.trim_start_matches('<').trim_end_matches('>');
    Some((text.get(1..close)?, address, close + 1 + 1 + end + 1))
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
    fn read(&mut self, text: &str, style: Style, depth: usize) {
        let mut rest = text;
        let mut plain = String::new();
        let mut before = ' ';
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
            '!' if tail(text, 1).starts_with('[') => {
                let (label, address, end) = link(tail(text, 1))?;
                self.link(label, address, plain, style, depth);
                Some(end + 1)
            }
            '[' => {
                let (label, address, end) = link(text)?;
                self.link(label, address, plain, style, depth);
                Some(end)
            }
            mark @ ('*' | '_' | '~') if depth < MAX_DEPTH => {
                self.emphasis(text, mark, before, plain, style, depth)
            }
            _ => None,
        }
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
        let opening = run(text, mark);
        let width = match (mark, opening) {
            ('~', 2) => 2,
            ('~', _) => return None,
            (_, 1..=3) => opening,
            _ => return None,
        };
        let after = tail(text, width).chars().next()?;
        if after.is_whitespace() || (mark == '_' && before.is_alphanumeric()) {
            return None;
        }
        let close = closing(text, mark, width)?;
        let inner = text.get(width..close)?;
        let added = match (mark, width) {
            ('~', _) => Style::STRIKE,
            (_, 1) => Style::ITALIC,
            (_, 2) => Style::BOLD,
            _ => Style::BOLD.and(Style::ITALIC),
        };
        self.flush(plain, style);
        self.read(inner, style.and(added), depth + 1);
        Some(close + width)
    }

    fn link(&mut self, label: &str, address: &str, plain: &mut String, style: Style, depth: usize) {
        self.flush(plain, style);
        let begin = self.out.len();
        if depth < MAX_DEPTH {
            self.read(label, style.and(Style::UNDERLINE), depth + 1);
        } else {
            self.out.push(Span::new(label, style));
        }
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

/// Returns the place of the mark that closes the one at the start.
fn closing(text: &str, mark: char, width: usize) -> Option<usize> {
    let mut at = width;
    let mut before = ' ';
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
            let is_end = mark != '_' || !after.is_alphanumeric();
            if length == width && !before.is_whitespace() && is_end {
                return Some(at);
            }
        }
        before = first;
        at += length;
    }
    None
}
