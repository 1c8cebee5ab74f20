//! Colours of code: strings, comments, numbers and keywords by the family of the language.

use crate::terminal::markdown::style::{Span, Style};

/// The lexical rules of a family of languages.
#[derive(Debug, PartialEq, Eq)]
struct Family {
    names: &'static [&'static str],
    line_comments: &'static [&'static str],
    block_comment: Option<(&'static str, &'static str)>,
    /// Strings that may have several lines.
    long_strings: &'static [&'static str],
    keywords: &'static [&'static str],
}

const C_COMMENTS: Option<(&str, &str)> = Some(("/*", "*/"));

const FAMILIES: &[Family] = &[
    Family {
        names: &["rust", "rs"],
        line_comments: &["//"],
        block_comment: C_COMMENTS,
        long_strings: &[],
        keywords: &[
            "as", "async", "await", "break", "const", "continue", "crate", "dyn", "else", "enum",
            "extern", "false", "fn", "for", "if", "impl", "in", "let", "loop", "match", "mod",
            "move", "mut", "pub", "ref", "return", "self", "Self", "static", "struct", "super",
            "trait", "true", "type", "unsafe", "use", "where", "while",
        ],
    },
    Family {
        names: &["python", "py", "python3"],
        line_comments: &["#"],
        block_comment: None,
        long_strings: &["\"\"\"", "'''"],
        keywords: &[
            "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
            "elif", "else", "except", "False", "finally", "for", "from", "global", "if", "import",
            "in", "is", "lambda", "None", "nonlocal", "not", "or", "pass", "raise", "return",
            "True", "try", "while", "with", "yield",
        ],
    },
    Family {
        names: &["sh", "bash", "shell", "zsh", "console", "fish"],
        line_comments: &["#"],
        block_comment: None,
        long_strings: &[],
        keywords: &[
            "case", "do", "done", "elif", "else", "esac", "exit", "export", "fi", "for",
            "function", "if", "in", "local", "return", "set", "then", "until", "while",
        ],
    },
    Family {
        names: &[
            "toml",
            "yaml",
            "yml",
            "ini",
            "ruby",
            "rb",
            "perl",
            "r",
            "make",
            "dockerfile",
        ],
        line_comments: &["#"],
        block_comment: None,
        long_strings: &[],
        keywords: &[
            "begin", "class", "def", "do", "else", "elsif", "end", "false", "if", "module", "nil",
            "null", "return", "self", "true", "unless", "while",
        ],
    },
    Family {
        names: &[
            "sql",
            "postgres",
            "postgresql",
            "sqlite",
            "lua",
            "haskell",
            "hs",
        ],
        line_comments: &["--"],
        block_comment: C_COMMENTS,
        long_strings: &[],
        keywords: &[
            "AND", "AS", "BY", "CREATE", "DELETE", "DISTINCT", "FROM", "GROUP", "HAVING", "IN",
            "INNER", "INSERT", "INTO", "JOIN", "LEFT", "LIMIT", "NOT", "NULL", "ON", "OR", "ORDER",
            "SELECT", "SET", "TABLE", "UPDATE", "VALUES", "WHERE", "WITH", "do", "else", "end",
            "function", "if", "in", "let", "local", "module", "of", "return", "select", "then",
            "where", "while", "from", "insert", "update", "delete", "join", "order", "by",
        ],
    },
    Family {
        names: &["json", "jsonc", "json5"],
        line_comments: &["//"],
        block_comment: None,
        long_strings: &[],
        keywords: &["false", "null", "true"],
    },
    Family {
        names: &[
            "c",
            "h",
            "cpp",
            "c++",
            "cc",
            "hpp",
            "cs",
            "csharp",
            "java",
            "kotlin",
            "kt",
            "scala",
            "swift",
            "go",
            "golang",
            "js",
            "javascript",
            "jsx",
            "mjs",
            "ts",
            "typescript",
            "tsx",
            "php",
            "dart",
            "zig",
        ],
        line_comments: &["//"],
        block_comment: C_COMMENTS,
        long_strings: &["`"],
        keywords: &[
            "abstract",
            "async",
            "auto",
            "await",
            "break",
            "case",
            "catch",
            "chan",
            "class",
            "const",
            "continue",
            "default",
            "defer",
            "delete",
            "do",
            "else",
            "enum",
            "export",
            "extends",
            "extern",
            "false",
            "final",
            "finally",
            "for",
            "from",
            "fun",
            "func",
            "function",
            "go",
            "goto",
            "if",
            "implements",
            "import",
            "in",
            "instanceof",
            "interface",
            "let",
            "map",
            "namespace",
            "new",
            "nil",
            "null",
            "override",
            "package",
            "private",
            "protected",
            "public",
            "range",
            "return",
            "select",
            "static",
            "struct",
            "super",
            "switch",
            "template",
            "this",
            "throw",
            "true",
            "try",
            "type",
            "typedef",
            "typeof",
            "undefined",
            "using",
            "val",
            "var",
            "virtual",
            "void",
            "while",
            "yield",
        ],
    },
];

/// Colours the lines of one block of code.
#[derive(Debug, Default)]
pub(super) struct Highlighter {
    family: Option<&'static Family>,
    /// The end of the comment or string that an earlier line began, with its style.
    open: Option<(&'static str, Style)>,
}

impl Highlighter {
    /// Creates a highlighter for the language that a fence names.
    pub(super) fn new(language: &str) -> Self {
        let name = language.to_ascii_lowercase();
        let family = FAMILIES
            .iter()
            .find(|family| family.names.contains(&name.as_str()));
        Self { family, open: None }
    }

    /// Returns the pieces of a line.
    pub(super) fn line(&mut self, line: &str) -> Vec<Span> {
        let Some(family) = self.family else {
            return vec![Span::new(line, Style::PLAIN)];
        };
        let mut out: Vec<Span> = Vec::new();
        let mut rest = line;
        let mut in_word = false;
        while let Some(first) = rest.chars().next() {
            let (length, style) = self.token(family, rest, in_word);
            in_word = length == first.len_utf8() && is_word(first);
            let (text, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
            match out.last_mut() {
                Some(last) if last.style == style => last.text.push_str(text),
                _ => out.push(Span::new(text, style)),
            }
            rest = after;
        }
        out
    }

    /// Returns the length and the style of the token at the start.
    fn token(&mut self, family: &Family, text: &str, in_word: bool) -> (usize, Style) {
        if let Some((end, style)) = self.open {
            return match text.find(end) {
                Some(at) => {
                    self.open = None;
                    (at + end.len(), style)
                }
                None => (text.len(), style),
            };
        }
        if !in_word
            && family
                .line_comments
                .iter()
                .any(|mark| text.starts_with(mark))
        {
            return (text.len(), Style::DIM);
        }
        if let Some((begin, end)) = family.block_comment
            && text.starts_with(begin)
        {
            return self.block(text, begin, end, Style::DIM);
        }
        for mark in family.long_strings {
            if text.starts_with(mark) {
                return self.block(text, mark, mark, Style::STRING);
            }
        }
        let first = text.chars().next().unwrap_or(' ');
        if !in_word && matches!(first, '"' | '\'') {
            return match string(text, first) {
                Some(length) => (length, Style::STRING),
                None => (1, Style::PLAIN),
            };
        }
        if !in_word && is_word(first) {
            let length = text.find(|one| !is_word(one)).unwrap_or(text.len());
            let word = text.get(..length).unwrap_or_default();
            if family.keywords.contains(&word) {
                return (length, Style::KEYWORD);
            }
            if first.is_ascii_digit() {
                return (length, Style::NUMBER);
            }
            return (length, Style::PLAIN);
        }
        (first.len_utf8(), Style::PLAIN)
    }

    fn block(
        &mut self,
        text: &str,
        begin: &str,
        end: &'static str,
        style: Style,
    ) -> (usize, Style) {
        let inner = text.get(begin.len()..).unwrap_or_default();
        if let Some(at) = inner.find(end) {
            return (begin.len() + at + end.len(), style);
        }
        self.open = Some((end, style));
        (text.len(), style)
    }
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Returns the length of a string that ends on this line.
fn string(text: &str, quote: char) -> Option<usize> {
    let mut is_escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        if character == quote && !is_escaped {
            return Some(at + 1);
        }
        is_escaped = character == '\\' && !is_escaped;
    }
    None
}
