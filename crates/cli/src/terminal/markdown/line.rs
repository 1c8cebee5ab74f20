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
    /// The begin of a block of code: its mark and the language.
    Fence {
        mark: String,
        language: String,
    },
    Heading {
        level: usize,
    },
    Rule,
    /// An item of a list; `marker` is its number, or nothing for a bullet.
    Item {
        marker: Option<String>,
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
            let language = rest.split_whitespace().next().unwrap_or_default();
            let mark = first.to_string().repeat(length);
            let language = language.to_owned();
            is_fence
                .then_some((LineKind::Fence { mark, language }, 0))
                .or(text)
        }
        '#' if length <= 6 && (rest.is_empty() || rest.starts_with(' ')) => {
            let blank = rest.len() - rest.trim_start().len();
            let heading = (LineKind::Heading { level: length }, length + blank);
            is_complete.then_some(heading)
        }
        '|' => is_complete.then_some((LineKind::TableRow, 0)),
        '`' | '~' | '-' | '*' | '_' | '+' if is_open => None,
        '-' | '*' | '_' | '+' => {
            let is_rule = |line: &str| {
                let marks = line.chars().filter(|one| *one == first).count();
                first != '+' && marks >= 3 && line.chars().all(|one| one == first || one == ' ')
            };
            if is_complete && is_rule(line.trim_end()) {
                return Some((LineKind::Rule, 0));
            }
            // `* * *` is a rule only when it is complete.
            if !is_complete && line.chars().all(|one| one == first || one == ' ') {
                return None;
            }
            if first == '_' || length > 1 {
                return text;
            }
            item(rest, None, 1).or(text)
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
            let marker = line.get(..=digits).map(str::to_owned);
            item(rest.get(1..)?, marker, digits + 1).or(text)
        }
        _ => text,
    }
}

/// Returns the item whose marker ends before `rest`.
fn item(rest: &str, marker: Option<String>, length: usize) -> Option<(LineKind, usize)> {
    if !rest.is_empty() && !rest.starts_with(' ') {
        return None;
    }
    let blank = rest.len() - rest.trim_start_matches(' ').len();
    Some((LineKind::Item { marker }, length + blank))
}
