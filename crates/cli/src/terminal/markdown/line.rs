//! The kind of a line of Markdown.

/// A line and the place of its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// The number of `>` before it.
    pub(super) quotes: usize,
    /// The columns before it.
    pub(super) indent: usize,
    pub(super) kind: LineKind,
    /// The start of the content.
    pub(super) start: usize,
}

/// The role of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LineKind {
    Blank,
    /// The begin of a block of code.
    Fence {
        mark: String,
    },
    Heading {
        level: usize,
    },
    /// Dashes, stars or lines; after a paragraph, dashes underline a heading.
    Rule {
        is_dashes: bool,
    },
    /// Equal signs, which underline a heading after a paragraph.
    Underline,
    /// An item of a list, or a footnote.
    Item {
        marker: String,
        /// Whether the task of the item is done; `None` for another item.
        task: Option<bool>,
    },
    TableRow,
    Text,
}

/// Returns the kind of a line; `None` if its rest may change it.
pub(super) fn classify(line: &str, is_complete: bool) -> Option<Line> {
    let (mut quotes, mut at) = (0, 0);
    let (indent, content) = loop {
        let rest = line.get(at..).unwrap_or_default();
        let content = rest.trim_start_matches([' ', '\t']);
        if content.is_empty() && !is_complete {
            return None;
        }
        let blank = rest.get(..rest.len() - content.len()).unwrap_or_default();
        let indent = blank
            .chars()
            .map(|one| if one == '\t' { 4 } else { 1 })
            .sum();
        if indent < 4 && content.starts_with('>') {
            quotes += 1;
            at += blank.len() + 1;
            if line.get(at..).is_some_and(|rest| rest.starts_with(' ')) {
                at += 1;
            }
            continue;
        }
        at += blank.len();
        break (indent, content);
    };
    let (kind, offset) = kind(content, is_complete)?;
    Some(Line {
        quotes,
        indent,
        kind,
        start: at + offset,
    })
}

/// Returns the kind of a line without indentation, and the place of its content.
fn kind(line: &str, is_complete: bool) -> Option<(LineKind, usize)> {
    let text = Some((LineKind::Text, 0));
    let Some(first) = line.chars().next() else {
        return Some((LineKind::Blank, 0));
    };
    let length = line.len() - line.trim_start_matches(first).len();
    let rest = line.get(length..).unwrap_or_default();
    let is_open = !is_complete && rest.is_empty();
    match first {
        '`' | '~' if length >= 3 => {
            if !is_complete {
                return None;
            }
            let is_fence = first == '~' || !rest.contains('`');
            let mark = first.to_string().repeat(length);
            is_fence.then_some((LineKind::Fence { mark }, 0)).or(text)
        }
        '#' if length <= 6 && (rest.is_empty() || rest.starts_with([' ', '\t'])) => {
            let blank = rest.len() - rest.trim_start().len();
            // The marks at the end of an empty heading are not its text.
            let is_text = rest.trim_start().contains(|one| !matches!(one, '#' | ' '));
            let heading = (LineKind::Heading { level: length }, length + blank);
            (is_complete || is_text).then_some(heading)
        }
        '=' if rest.trim_end().is_empty() => is_complete.then_some((LineKind::Underline, 0)),
        '[' if "[^".starts_with(line.get(..2).unwrap_or(line)) => note(line, is_complete),
        '|' => is_complete.then_some((LineKind::TableRow, 0)),
        '`' | '~' | '-' | '*' | '_' | '+' if is_open => None,
        '-' | '*' | '_' | '+' => {
            let is_rule = |line: &str| {
                let marks = line.chars().filter(|one| *one == first).count();
                first != '+' && marks >= 3 && line.chars().all(|one| one == first || one == ' ')
            };
            if is_complete && is_rule(line.trim_end()) {
                let is_dashes = first == '-' && !line.trim_end().contains(' ');
                return Some((LineKind::Rule { is_dashes }, 0));
            }
            // `* * *` is a rule only when it is complete.
            if !is_complete && line.chars().all(|one| one == first || one == ' ') {
                return None;
            }
            if first == '_' || length > 1 {
                return text;
            }
            if !rest.is_empty() && !rest.starts_with(' ') {
                return text;
            }
            item(rest, first.to_string(), 1, is_complete)
        }
        '0'..='9' => {
            let digits = line.len()
                - line
                    .trim_start_matches(|one: char| one.is_ascii_digit())
                    .len();
            let rest = line.get(digits..).unwrap_or_default();
            if !is_complete && (rest.is_empty() || rest.len() == 1 && rest.starts_with(['.', ')']))
            {
                return None;
            }
            if digits > 9 || !rest.starts_with(['.', ')']) {
                return text;
            }
            let marker = line.get(..=digits).unwrap_or_default().to_owned();
            let rest = rest.get(1..).unwrap_or_default();
            if !rest.is_empty() && !rest.starts_with(' ') {
                return text;
            }
            item(rest, marker, digits + 1, is_complete)
        }
        _ => text,
    }
}

/// Returns the item whose marker ends before `rest`; `None` if it may be a task.
fn item(rest: &str, marker: String, length: usize, is_complete: bool) -> Option<(LineKind, usize)> {
    let content = rest.trim_start_matches(' ');
    let start = length + rest.len() - content.len();
    let boxes = [("[ ] ", false), ("[x] ", true), ("[X] ", true)];
    for (mark, is_done) in boxes {
        if content.starts_with(mark) {
            let task = Some(is_done);
            return Some((LineKind::Item { marker, task }, start + mark.len()));
        }
        if !is_complete && mark.starts_with(content) {
            return None;
        }
    }
    Some((LineKind::Item { marker, task: None }, start))
}

/// Returns the footnote of a line with `[^`; `None` if its rest may change it.
fn note(line: &str, is_complete: bool) -> Option<(LineKind, usize)> {
    let label = line.strip_prefix("[^").unwrap_or_default();
    let Some((label, rest)) = label.split_once(']') else {
        let is_open = !is_complete && !label.contains(char::is_whitespace);
        return (!is_open).then_some((LineKind::Text, 0));
    };
    if rest.is_empty() && !is_complete {
        return None;
    }
    let is_label = !label.is_empty() && !label.contains(char::is_whitespace);
    match rest.strip_prefix(':').filter(|_| is_label) {
        None => Some((LineKind::Text, 0)),
        Some(text) => {
            let blank = text.len() - text.trim_start().len();
            let start = 2 + label.len() + 2 + blank;
            let marker = format!("[{label}]");
            Some((LineKind::Item { marker, task: None }, start))
        }
    }
}
