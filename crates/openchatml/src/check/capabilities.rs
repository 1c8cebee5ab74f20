//! Frames against the capabilities that the header lists.
//!
//! The block is a negotiation: the author of the header lists the features of both sides. What is
//! not listed may still be read here, so a frame that uses it is only a warning.

use logue_source::{Diagnostic, DiagnosticCode, Span, excerpt};
use serde_json::Value;

use super::profile::words;
use crate::document::Document;
use crate::document::frame::Frame;
use crate::limits::MAX_QUOTED_CHARS;
use crate::syntax::scanner::Scanner;
use crate::syntax::token::ControlToken;

/// The lists of `capabilities`; a list that is missing allows everything (OpenChatML 2.2 §2).
pub(super) struct Capabilities {
    roles: Option<Vec<String>>,
    channels: Option<Vec<String>>,
    tokens: Option<Vec<String>>,
}

impl Capabilities {
    pub(super) fn of(document: &Document<'_>) -> Self {
        let block = document
            .header()
            .and_then(|header| header.get("capabilities"));
        let list = |key: &str| {
            let list = block.and_then(|block| block.get(key));
            list.filter(|list| matches!(list, Value::Array(_)))
                .and_then(words)
        };
        Self {
            roles: list("roles"),
            channels: list("channels"),
            tokens: list("tokens"),
        }
    }

    /// Features of a frame that are not listed: at most one role, one channel, one token.
    pub(super) fn check(&self, document: &Document<'_>, frame: &Frame) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        if frame.is_stray() {
            return found;
        }
        if let Some(roles) = &self.roles
            && !frame.role_span().is_empty()
        {
            let role = document.role_text(frame);
            if !roles.iter().any(|listed| is_role(listed, &role)) {
                found.push(outside("role", &role, frame.role_span(), "roles"));
            }
        }
        if let Some(channels) = &self.channels
            && let Some(place) = frame.channel_span()
        {
            let channel = document.text(place);
            if !channels.iter().any(|listed| *listed == channel) {
                found.push(outside("channel", &channel, place, "channels"));
            }
        }
        if let Some(tokens) = &self.tokens {
            let is_listed =
                |token: ControlToken| tokens.iter().any(|listed| listed == token.as_str());
            found.extend(
                tokens_of(document, frame)
                    .find(|(token, _)| !is_listed(*token))
                    .map(|(token, place)| outside("token", token.as_str(), place, "tokens")),
            );
        }
        found
    }
}

/// Returns whether a listed role, which may end in a star, is this one.
fn is_role(listed: &str, role: &str) -> bool {
    match listed.strip_suffix('*') {
        Some(start) => role.starts_with(start),
        None => listed == role,
    }
}

/// Returns the tokens of a frame in order, with those of its body reduced.
///
/// Of the body, only the first `<|literal|>` is included.
fn tokens_of<'d>(
    document: &'d Document<'_>,
    frame: &'d Frame,
) -> impl Iterator<Item = (ControlToken, Span)> + 'd {
    let source = document.source();
    let scan = move |part: Span| {
        let hits = Scanner::new(source, part, document.rules());
        hits.filter(|hit| !hit.escaped)
            .map(|hit| (hit.token, hit.span))
    };
    let head = Span::new(frame.span().start, frame.body_span().start);
    let literal = scan(frame.body_span()).find(|(token, _)| *token == ControlToken::Literal);
    let end = frame
        .terminator()
        .token()
        .map(|token| (token, frame.terminator_span()));
    scan(head).chain(literal).chain(end)
}

fn outside(what: &str, word: &str, place: Span, list: &str) -> Diagnostic {
    let word = excerpt(word.as_bytes(), MAX_QUOTED_CHARS);
    Diagnostic::warning(
        DiagnosticCode::OutsideCapabilities,
        format!("the {what} `{word}` is not among the document's capabilities"),
        place,
    )
    .with_expected(format!("a {what} that `capabilities.{list}` lists"))
    .with_help(format!(
        "add it to `capabilities.{list}` in the header, or write the frame without it"
    ))
}
