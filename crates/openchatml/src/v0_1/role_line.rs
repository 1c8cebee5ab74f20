//! The first line of a message: the role, and a name (OpenChatML 0.1 §3).

use logue_source::{Diagnostic, DiagnosticCode, Span, excerpt};

use super::event::MessageHeader;
use crate::limits::MAX_QUOTED_CHARS;
use crate::syntax::vocabulary::FrameRole;

/// Reads the line at `at`. `ended`: it came to its end.
pub(crate) fn read(
    line: &[u8],
    at: usize,
    ended: bool,
    found: &mut dyn FnMut(Diagnostic),
) -> MessageHeader {
    let mut head = MessageHeader {
        role: FrameRole::Other,
        name: None,
        stray: false,
        sound: true,
    };
    let mut from = 0;
    let mut first = true;
    let mut junk: Option<Span> = None;
    for word in line.split(u8::is_ascii_whitespace) {
        let span = Span::new(at + from, at + from + word.len());
        from += word.len() + 1;
        if word.is_empty() {
            continue;
        }
        if std::mem::take(&mut first) {
            head.role = role(word);
            if head.role == FrameRole::Other {
                found(unknown_role(word, span));
            }
        } else if let Some(name) = word.strip_prefix(b"name=").filter(|name| !name.is_empty())
            && head.name.is_none()
        {
            head.name = Some(String::from_utf8_lossy(name).into_owned());
        } else {
            junk = Some(junk.map_or(span, |all| all.join(span)));
        }
    }
    if first {
        found(
            Diagnostic::error(
                DiagnosticCode::ParseHeader,
                "the message has no role",
                Span::empty(at),
            )
            .with_expected("`system`, `user`, `assistant` or `tool`")
            .with_help("write the role immediately after `<|im_start|>`"),
        );
    }
    if let Some(junk) = junk {
        head.sound = false;
        found(
            Diagnostic::error(
                DiagnosticCode::ParseHeader,
                "the role line holds something that is neither role nor name",
                junk,
            )
            .with_expected("`name=` with a name without white space, or the end of the line")
            .with_help("write the content on a line of its own; the message is hidden until then"),
        );
    }
    if !ended {
        found(
            Diagnostic::warning(
                DiagnosticCode::ParseHeader,
                "the role line does not end",
                Span::new(at, at + line.len()),
            )
            .with_expected("a newline after the role")
            .with_help("write the content on a line of its own"),
        );
    }
    head
}

fn role(word: &[u8]) -> FrameRole {
    match FrameRole::parse(word) {
        role @ (FrameRole::System | FrameRole::User | FrameRole::Assistant) => role,
        FrameRole::Tool if word == b"tool" => FrameRole::Tool,
        _ => FrameRole::Other,
    }
}

fn unknown_role(word: &[u8], place: Span) -> Diagnostic {
    let shown = excerpt(word, MAX_QUOTED_CHARS);
    Diagnostic::error(
        DiagnosticCode::ParseHeader,
        format!("`{shown}` is not a role of this version"),
        place,
    )
    .with_expected("`system`, `user`, `assistant` or `tool`")
    .with_help("the message is kept and hidden until its role is one of these")
}
