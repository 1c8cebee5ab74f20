//! Detection of the language of a text.

use std::path::Path;

use openchatml::{Dialect, detect};

/// The languages that the program reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    /// ChatMarkdown.
    Chatmd,
    /// OpenChatML 2.x.
    Openchatml,
    /// The prompt format of gpt-oss models.
    Harmony,
    /// OpenChatML 0.1, the 1.x line.
    Ocml0_1,
    /// `<|im_start|>` with messages only.
    Chatml,
}

/// The elements that a ChatMD document can begin with.
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
    "var",
    "shell_access",
    "script",
    "moderator_runtime",
];

impl From<Dialect> for Language {
    fn from(dialect: Dialect) -> Self {
        match dialect {
            Dialect::Harmony => Self::Harmony,
            Dialect::V0_1 => Self::Ocml0_1,
            Dialect::ChatMl => Self::Chatml,
            _ => Self::Openchatml,
        }
    }
}

impl Language {
    /// Detects the language of a file by its extension, else by its content.
    pub(crate) fn detect(path: Option<&Path>, text: &[u8]) -> Self {
        match path
            .and_then(Path::extension)
            .and_then(|ending| ending.to_str())
        {
            // The extension names the whole family; only a text of the 1.x line differs.
            Some("ocml" | "openchatml") => {
                return match detect(text) {
                    Some(found) if found.certain && found.dialect == Dialect::V0_1 => Self::Ocml0_1,
                    _ => Self::Openchatml,
                };
            }
            Some("chatmd") => return Self::Chatmd,
            Some("harmony") => return Self::Harmony,
            Some("chatml") => return Self::Chatml,
            _ => {}
        }
        let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
        let first = text
            .split(|byte| *byte == b'\n')
            .find(|line| !line.trim_ascii().is_empty());
        let first = first.unwrap_or_default().trim_ascii();
        let envelope = first.starts_with(b"<|")
            || first.starts_with(b"[BOS]")
            || first == b"---"
            || first.starts_with(b"version:");
        if !envelope {
            return Self::Chatmd;
        }
        detect(text).map_or(Self::Openchatml, |found| Self::from(found.dialect))
    }

    /// Returns the dialect, if the language determines it.
    ///
    /// The header of an OpenChatML 2.x document contains its dialect.
    pub(crate) const fn dialect(self) -> Option<Dialect> {
        match self {
            Self::Chatmd | Self::Openchatml => None,
            Self::Harmony => Some(Dialect::Harmony),
            Self::Ocml0_1 => Some(Dialect::V0_1),
            Self::Chatml => Some(Dialect::ChatMl),
        }
    }

    /// Returns whether a file found in a directory has a supported extension.
    pub(crate) fn is_candidate(path: &Path) -> bool {
        let ending = path.extension().and_then(|ending| ending.to_str());
        matches!(
            ending,
            Some("chatmd" | "ocml" | "openchatml" | "harmony" | "chatml" | "md")
        )
    }

    /// Returns whether a file is Markdown that is not a ChatMD document.
    pub(crate) fn is_prose(path: &Path, bytes: &[u8]) -> bool {
        path.extension().is_some_and(|ending| ending == "md")
            && !std::str::from_utf8(bytes).is_ok_and(Self::looks_like_chatmd)
    }

    /// Returns whether a Markdown text is a ChatMD document rather than prose.
    ///
    /// A document begins with an element, or with comments followed by an element.
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
