//! The cases of one document.

/// One case.
pub(crate) struct Case {
    pub(crate) title: String,
    pub(crate) text: String,
    /// The blocks after the text: their kinds and contents.
    pub(crate) blocks: Vec<(String, String)>,
}

/// Returns the cases of a document.
///
/// A block begins with a line of at least three backticks and a word, and ends with the same number
/// of backticks.
pub(crate) fn cases(suite: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut seen_text = false;
    let mut lines = suite.lines();
    while let Some(line) = lines.next() {
        if let Some(title) = line.strip_prefix("## ") {
            cases.push(Case {
                title: title.to_owned(),
                text: String::new(),
                blocks: Vec::new(),
            });
            seen_text = false;
        } else if line.starts_with("```") {
            let fence: String = line.chars().take_while(|c| *c == '`').collect();
            let kind = line[fence.len()..].trim();
            let inside: Vec<&str> = lines.by_ref().take_while(|line| *line != fence).collect();
            let inside = inside.join("\n");
            let case = cases.last_mut().unwrap();
            if seen_text {
                case.blocks.push((kind.to_owned(), inside));
            } else {
                let escaped = kind.ends_with("escaped");
                case.text = if escaped { unescape(&inside) } else { inside };
                seen_text = true;
            }
        }
    }
    for case in &cases {
        assert!(!case.blocks.is_empty(), "{}: nothing expected", case.title);
    }
    cases
}

fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        match rest.next() {
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            Some('0') => out.push('\0'),
            Some('u') => {
                let digits: String = rest.by_ref().take_while(|c| *c != '}').collect();
                let number = u32::from_str_radix(digits.trim_start_matches('{'), 16).unwrap();
                out.push(char::from_u32(number).unwrap());
            }
            other => out.push(other.unwrap()),
        }
    }
    out
}
