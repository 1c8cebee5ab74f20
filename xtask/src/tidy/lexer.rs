//! Rust source split into comments, string literals and code.

/// The kind of a lexical part that may contain prose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartKind {
    /// A `//`, `///` or `//!` comment, without its line end; block comments as one part.
    Comment,
    /// A string literal, without its quotes.
    Literal,
}

/// A comment or string literal of a source file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a> {
    pub(crate) kind: PartKind,
    /// The first line, from 1.
    pub(crate) line: usize,
    pub(crate) text: &'a str,
}

/// Returns the comments and string literals of `source` in order. Linear in its length.
pub(crate) fn parts(source: &str) -> Vec<Part<'_>> {
    let bytes = source.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    let mut line = 1;
    let mut counted = 0;
    while at < bytes.len() {
        let start = at;
        let part = match bytes[at] {
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                at += source[at..].find('\n').unwrap_or(source.len() - at);
                Some((PartKind::Comment, start, at))
            }
            b'/' if bytes.get(at + 1) == Some(&b'*') => {
                at = block_end(bytes, at);
                Some((PartKind::Comment, start, at))
            }
            b'"' => {
                at = quoted_end(bytes, at);
                Some((PartKind::Literal, start + 1, at.saturating_sub(1)))
            }
            b'r' if !follows_word(bytes, at) && raw_hashes(bytes, at).is_some() => {
                let hashes = raw_hashes(bytes, at).unwrap_or_default();
                let open = at + 1 + hashes + 1;
                let close = format!("\"{}", "#".repeat(hashes));
                let length = source[open..].find(&close);
                let end = open + length.unwrap_or(source.len() - open);
                at = (end + close.len()).min(bytes.len());
                Some((PartKind::Literal, open, end))
            }
            b'\'' => {
                at = character_end(source, at);
                None
            }
            _ => {
                at += 1;
                None
            }
        };
        if let Some((kind, from, to)) = part {
            line += source[counted..from].matches('\n').count();
            counted = from;
            let text = source.get(from..to.max(from)).unwrap_or_default();
            found.push(Part { kind, line, text });
        }
    }
    found
}

fn follows_word(bytes: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|before| bytes.get(before));
    // `br"…"` and `cr"…"` are raw strings as well.
    before.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        && !matches!(before, Some(b'b' | b'c'))
}

fn raw_hashes(bytes: &[u8], at: usize) -> Option<usize> {
    let hashes = bytes[at + 1..]
        .iter()
        .take_while(|byte| **byte == b'#')
        .count();
    (bytes.get(at + 1 + hashes) == Some(&b'"')).then_some(hashes)
}

fn block_end(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0;
    while at < bytes.len() {
        match bytes.get(at..at + 2) {
            Some(b"/*") => {
                depth += 1;
                at += 2;
            }
            Some(b"*/") => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    break;
                }
            }
            _ => at += 1,
        }
    }
    at.min(bytes.len())
}

fn quoted_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Returns the end of a character literal, or of a lifetime's quote.
fn character_end(source: &str, start: usize) -> usize {
    let mut characters = source[start + 1..].char_indices();
    match characters.next() {
        Some((_, '\\')) => {
            let close = source[start + 3..].find('\'');
            close.map_or(source.len(), |close| start + 3 + close + 1)
        }
        Some(_) => match characters.next() {
            Some((after, '\'')) => start + 1 + after + 1,
            _ => start + 1,
        },
        None => source.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::{PartKind, parts};

    #[test]
    fn comments_and_literals_are_separated() {
        let source = "let a = \"x // y\"; // z\nlet b = '\"'; r#\"a \"q\" b\"# /* c /* d */ e */ 'life \"\\\"\"";
        let found: Vec<_> = parts(source)
            .iter()
            .map(|part| (part.kind == PartKind::Comment, part.line, part.text))
            .collect();
        let expected = [
            (false, 1, "x // y"),
            (true, 1, "// z"),
            (false, 2, "a \"q\" b"),
            (true, 2, "/* c /* d */ e */"),
            (false, 2, "\\\""),
        ];
        assert_eq!(found, expected);
    }
}
