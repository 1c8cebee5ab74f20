//! Escaping of characters for Markdown.

/// Appends a word and escapes Markdown syntax in it.
///
/// The word contains no white space. Escaped are characters that begin a mark, a link, code, an
/// element or a reference.
pub(crate) fn word(word: &str, out: &mut String) {
    let mut before = out.chars().next_back();
    let mut characters = word.chars().peekable();
    while let Some(character) = characters.next() {
        let next = characters.peek().copied();
        let escaped = match character {
            '\\' | '`' | '*' | '[' | ']' | '<' | '~' => true,
            // An underscore between letters never begins a mark.
            '_' => {
                !(before.is_some_and(char::is_alphanumeric)
                    && next.is_some_and(char::is_alphanumeric))
            }
            '&' => next.is_none_or(|next| next.is_ascii_alphanumeric() || next == '#'),
            _ => false,
        };
        if escaped {
            out.push('\\');
        }
        out.push(character);
        before = Some(character);
    }
}

/// Appends code in a sufficient number of backticks.
pub(crate) fn code(code: &str, out: &mut String) {
    let fence = "`".repeat(longest_run(code) + 1);
    let pad = if code.starts_with('`') || code.ends_with('`') {
        " "
    } else {
        ""
    };
    // A backtick immediately before would lengthen the fence.
    if out.ends_with('`') {
        out.push(' ');
    }
    out.extend([&fence, pad, code, pad, &fence]);
}

/// Returns the length of the longest run of backticks.
pub(crate) fn longest_run(text: &str) -> usize {
    let (mut longest, mut run) = (0, 0);
    for byte in text.bytes() {
        run = if byte == b'`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

/// Escapes the start of a paragraph line.
///
/// Without the escape it could begin a list, heading, quote, rule or table.
pub(crate) fn line_start(line: &str) -> String {
    let escape_at = |at: usize| {
        let (before, after) = line.split_at_checked(at).unwrap_or((line, ""));
        format!("{before}\\{after}")
    };
    let mut characters = line.chars();
    let first = characters.next();
    let next = characters.next();
    let alone = next.is_none_or(char::is_whitespace);
    match first {
        Some('#' | '>' | '=' | '|') => escape_at(0),
        Some('+') if alone => escape_at(0),
        Some('-') if alone || matches!(next, Some('-' | '|' | ':')) => escape_at(0),
        Some(':') if next == Some('-') => escape_at(0),
        Some('0'..='9') => {
            let digits = line.bytes().take_while(u8::is_ascii_digit).count();
            let following = line.get(digits..).unwrap_or_default();
            let after = following.strip_prefix(['.', ')']);
            match after {
                Some(after) if after.is_empty() || after.starts_with([' ', '\\']) => {
                    escape_at(digits)
                }
                _ => line.to_owned(),
            }
        }
        _ => line.to_owned(),
    }
}
