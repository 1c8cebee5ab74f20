//! Which language a text is in.

use std::path::Path;

use clap::ValueEnum;

/// The languages that the program reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Language {
    /// ChatMarkdown.
    Chatmd,
    /// OpenChatML 2.x.
    Openchatml,
}

/// Elements that a ChatMD document can begin with.
const ELEMENTS: &[&str] = &[
    "config",
    "system",
    "developer",
    "user",
    "assistant",
    "msg",
    "tool",
    "tool_call",
    "tool_response",
    "reasoning",
    "import",
];

impl Language {
    /// The language of a file, by its ending if that says it, else by its content.
    pub(crate) fn of(path: Option<&Path>, text: &[u8]) -> Self {
        match path
            .and_then(Path::extension)
            .and_then(|ending| ending.to_str())
        {
            Some("ocml" | "openchatml") => return Self::Openchatml,
            Some("chatmd") => return Self::Chatmd,
            _ => {}
        }
        let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
        let first = text
            .split(|byte| *byte == b'\n')
            .find(|line| !line.trim_ascii().is_empty());
        let first = first.unwrap_or_default().trim_ascii();
        let envelope =
            first.starts_with(b"<|") || first == b"---" || first.starts_with(b"version:");
        if envelope {
            Self::Openchatml
        } else {
            Self::Chatmd
        }
    }

    /// Whether a file found in a folder is one of ours.
    pub(crate) fn is_candidate(path: &Path) -> bool {
        let ending = path.extension().and_then(|ending| ending.to_str());
        matches!(ending, Some("chatmd" | "ocml" | "openchatml" | "md"))
    }

    /// Whether a Markdown file in a folder is a ChatMD document and not prose: it begins with an
    /// element or a comment before one.
    pub(crate) fn looks_like_chatmd(text: &str) -> bool {
        let mut rest = text.trim_start_matches('\u{FEFF}').trim_start();
        while let Some(after) = rest.strip_prefix("<!--") {
            let Some(end) = after.find("-->") else {
                return false;
            };
            rest = after[end + 3..].trim_start();
        }
        rest.strip_prefix('<').is_some_and(|rest| {
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            end.is_some_and(|end| ELEMENTS.contains(&&rest[..end]))
        })
    }
}
