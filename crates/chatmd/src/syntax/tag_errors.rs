//! Errors of tags, quotes, RAW blocks and comments.

use logue_source::{Diagnostic, DiagnosticCode, Span};

use crate::syntax::advice::RAW_SUMMARY;
use crate::syntax::lexer::{Lexeme, Problem, TokenKind};
use crate::syntax::tag::Tag;

/// Error for text outside every element. `shown` is its first line.
///
/// `is_ended` is `false` if no `>` follows, so that nothing after it can be a tag.
pub(super) fn top_level_text(shown: &str, span: Span, is_ended: bool) -> Diagnostic {
    let error = Diagnostic::error(
        DiagnosticCode::MdTopLevelText,
        "text outside every element",
        span,
    )
    .with_expected("an element such as `<user>`");
    let Some(name) = markup_name(shown) else {
        return error.with_help("wrap it in `<user>…</user>` or `<system>…</system>`");
    };
    if let Some(part) = Tag::parse(name).filter(|tag| tag.is_tool_part()) {
        return error.with_help(format!(
            "`<{part}>` belongs inside {}",
            if part == Tag::Read {
                "`<tool name=\"read_file\">`"
            } else {
                "`<tool type=\"shell\" …>`"
            }
        ));
    }
    error.with_help(if Tag::parse(name).is_some() && !is_ended {
        format!("close the quotes of the tag `<{name}`, and end it with `>` or `/>`")
    } else if Tag::parse(&name.to_ascii_lowercase()).is_some() {
        format!("`{name}` is not a valid ChatMD tag; names are lower case and end at white space, `>` or `/>`")
    } else {
        format!("`{name}` is not a ChatMD tag, so it counts as text; put it inside a message")
    })
}

/// Error for text after an element with verbatim content.
///
/// It is most likely a part of that content, which must not become a message.
pub(super) fn text_after(tag: Tag, span: Span) -> Diagnostic {
    let message = format!("text outside every element, after a `</{tag}>`");
    Diagnostic::error(DiagnosticCode::MdTopLevelText, message, span)
        .with_expected("an element such as `<user>`")
        .with_help(format!(
            "the content of a `<{tag}>` ends at its first `</{tag}>`; remove the text with the element"
        ))
}

/// Error for the closing tag `tag` at `span` while `open` is the innermost open element.
pub(super) fn mismatched_tag(
    tag: Tag,
    span: Span,
    open: Tag,
    opener: Span,
    is_in_summary: bool,
) -> Diagnostic {
    let error = Diagnostic::error(
        DiagnosticCode::MdMismatchedTag,
        format!("`</{tag}>` does not match the open `<{open}>`"),
        span,
    )
    .with_expected(format!("`</{open}>`"))
    .with_label(opener, format!("`<{open}>` is opened here"));
    if is_in_summary {
        error.with_help(RAW_SUMMARY)
    } else if open.is_stub() || open.is_tool_part() {
        error.with_help(format!("end the tag in `/>`, as in `<{open} …/>`"))
    } else {
        error.with_help(format!(
            "tags that are meant as text go into a RAW block: `RAW|</{tag}>|RAW`"
        ))
    }
}

/// Error for a closing tag without an open element.
pub(super) fn stray_closer(tag: Tag, span: Span) -> Diagnostic {
    Diagnostic::error(
        DiagnosticCode::MdUnexpectedClosingTag,
        format!("`</{tag}>` has no opening tag"),
        span,
    )
    .with_help(format!(
        "remove it, or write `RAW|</{tag}>|RAW` inside a message if it is meant as text"
    ))
}

/// Error for the element at `opener` that the text never closes.
///
/// `entry` is the first entry of the conversation that the element contains by mistake.
pub(super) fn unclosed_tag(tag: Tag, opener: Span, text: &str, entry: Option<Span>) -> Diagnostic {
    let mut error = Diagnostic::error(
        DiagnosticCode::MdUnclosedTag,
        format!("`<{tag}>` is never closed"),
        opener,
    )
    .with_expected(format!("a `</{tag}>` further down"));
    if let Some(entry) = entry {
        error = error.with_label(entry, format!("`</{tag}>` belongs before this"));
    }
    let written = opener.text(text).unwrap_or_default();
    if written.get(1..).unwrap_or_default().contains('<') {
        error = error.with_help("this tag contains a `<`; it ends at the first `>` after that");
    }
    if tag.is_stub() {
        error.with_help(format!("end the tag in `/>`, as in `<{tag} …/>`"))
    } else if tag.is_ochat_declaration() || tag.is_tool_part() {
        error.with_help(format!("add `</{tag}>`"))
    } else {
        error.with_help(format!(
            "add `</{tag}>`, or write `RAW|<{tag}>|RAW` if it is meant as text"
        ))
    }
}

/// Returns the code of a token problem.
pub(super) const fn token_problem_code(problem: Problem) -> DiagnosticCode {
    match problem {
        Problem::Quote(_) => DiagnosticCode::MdUnterminatedQuote,
        Problem::Tag => DiagnosticCode::MdUnclosedTag,
        Problem::Raw => DiagnosticCode::MdUnterminatedRaw,
        Problem::Comment => DiagnosticCode::MdUnterminatedComment,
    }
}

/// Error for a token that lacks its end.
pub(super) fn token_problem(problem: Problem, lexeme: Lexeme, text: &str) -> Diagnostic {
    let code = token_problem_code(problem);
    let start = lexeme.start;
    let name = match lexeme.kind {
        TokenKind::Open(tag) | TokenKind::Empty(tag) => tag.as_str(),
        _ => "",
    };
    let name_span = Span::new(start, start + 1 + name.len());
    let delimiter = Span::new(start, start + 4);
    match problem {
        Problem::Quote(at) => {
            let quote = text.get(at..=at).unwrap_or("\"");
            let value = text.get(at..lexeme.end).unwrap_or_default();
            let shown = value.lines().next().map_or(0, str::len).max(1);
            Diagnostic::error(
                code,
                format!("a quoted value of `<{name}>` is never closed"),
                Span::new(at, at + shown),
            )
            .with_expected(format!("a closing `{quote}`"))
            .with_label(name_span, "the tag begins here")
            .with_help(format!(
                "close the value with `{quote}`; inside a value write `&quot;` and `&gt;`"
            ))
        }
        Problem::Tag => Diagnostic::error(code, format!("the tag `<{name}` has no `>`"), name_span)
            .with_expected("a tag that ends in `>` or `/>`")
            .with_help("end the tag in `>` or `/>`, or put it into a RAW block"),
        Problem::Raw => Diagnostic::error(code, "a RAW block is never closed", delimiter)
            .with_expected("a block that ends in `|RAW`")
            .with_help("write `|RAW` where the literal text ends"),
        Problem::Comment => Diagnostic::error(code, "a comment is never closed", delimiter)
            .with_expected("a comment that ends in `-->`")
            .with_help("write `-->` where the comment ends"),
    }
}

/// Name of the markup that a text begins with, recognised or not.
fn markup_name(text: &str) -> Option<&str> {
    let inside = text.strip_prefix('<')?;
    let end = inside
        .find(|character: char| {
            character == '>' || character == '/' || character.is_ascii_whitespace()
        })
        .unwrap_or(inside.len());
    inside.get(..end).filter(|name| {
        name.starts_with(|character: char| character.is_ascii_alphabetic() || character == '_')
    })
}
