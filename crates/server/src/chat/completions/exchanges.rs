//! Histories as their clients have received them, for the comparison with those of requests.

use logue_agent::is_pending;
use logue_message::{ChatMessage, Content, ContentBlock, ImageDetail, ImageSource, Role};
use sha2::{Digest as _, Sha256};

use crate::chat::visible::visible_message;

/// The text between two parts of one answer.
pub(crate) const SEPARATOR: &str = "\n\n";

/// The hash of the exchanges of a history up to one of them.
pub(crate) type PrefixHash = [u8; 16];

/// A message of a user, or a whole answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exchange {
    /// The number of messages of the history up to the end of the exchange.
    pub(crate) end: usize,
    role: Role,
    pieces: Vec<Piece>,
}

/// A part of an exchange that clients receive.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Image(ImageSource, Option<String>, Option<ImageDetail>),
}

impl Exchange {
    /// Returns whether two exchanges have the same role, texts and images.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.role == other.role && self.pieces == other.pieces
    }

    fn push(&mut self, piece: Piece) {
        match (self.pieces.last_mut(), piece) {
            (Some(Piece::Text(text)), Piece::Text(more)) => text.push_str(&more),
            (_, piece) => self.pieces.push(piece),
        }
    }

    fn update(&self, hash: &mut Sha256) {
        let mut field = |text: &str| {
            hash.update(text.len().to_le_bytes());
            hash.update(text);
        };
        field(self.role.as_str());
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => {
                    field("text");
                    field(text);
                }
                Piece::Image(source, kind, detail) => {
                    field("image");
                    match source {
                        ImageSource::Inline(data) => field(data),
                        ImageSource::Url(url) => field(url),
                        // Exchanges are compared as well as their hashes.
                        _ => field(""),
                    }
                    field(kind.as_deref().unwrap_or_default());
                    field(detail.map_or("", ImageDetail::as_str));
                }
            }
        }
    }
}

/// Returns the exchanges of a history.
///
/// The texts of one answer are joined; calls of tools and their results are omitted, since clients
/// do not receive them.
pub(crate) fn exchanges(messages: &[ChatMessage]) -> Vec<Exchange> {
    let mut exchanges: Vec<Exchange> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let end = at + 1;
        let visible = visible_message(message).filter(|_| !is_pending(message));
        let pieces = visible.map(|visible| pieces(visible.content));
        let pieces = pieces.unwrap_or_default();
        match (message.role, exchanges.last_mut()) {
            (Role::Assistant, Some(last)) if last.role == Role::Assistant => {
                last.end = end;
                if !pieces.is_empty() {
                    last.push(Piece::Text(SEPARATOR.to_owned()));
                }
                for piece in pieces {
                    last.push(piece);
                }
            }
            (Role::User | Role::Assistant, _) if !pieces.is_empty() => {
                let role = message.role;
                let mut exchange = Exchange {
                    end,
                    role,
                    pieces: Vec::new(),
                };
                for piece in pieces {
                    exchange.push(piece);
                }
                exchanges.push(exchange);
            }
            (_, Some(last)) if last.role == Role::Assistant => last.end = end,
            _ => {}
        }
    }
    exchanges
}

fn pieces(content: Content) -> Vec<Piece> {
    match content {
        Content::Absent => Vec::new(),
        Content::Text(text) if text.is_empty() => Vec::new(),
        Content::Text(text) => vec![Piece::Text(text)],
        Content::Blocks(blocks) => {
            let pieces = blocks.into_iter().filter_map(|block| match block {
                ContentBlock::Text { text, .. } => Some(Piece::Text(text)),
                ContentBlock::Image {
                    source,
                    media_type,
                    detail,
                } => Some(Piece::Image(source, media_type, detail)),
                _ => None,
            });
            pieces.collect()
        }
    }
}

/// Returns the hash of each prefix of a history of an owner.
pub(crate) fn prefix_hashes(owner: Option<&str>, exchanges: &[Exchange]) -> Vec<PrefixHash> {
    let mut hash = Sha256::new();
    hash.update(owner.unwrap_or_default());
    let hashes = exchanges.iter().map(|exchange| {
        exchange.update(&mut hash);
        hash.update([0xff]);
        let whole = hash.clone().finalize();
        let mut half = PrefixHash::default();
        half.iter_mut().zip(whole).for_each(|(to, from)| *to = from);
        half
    });
    hashes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use logue_message::ToolCall;

    #[test]
    fn exchanges_join_the_texts_of_an_answer() {
        let call = ToolCall::new("c1", "work", "{}");
        let messages = [
            ChatMessage::user("go"),
            ChatMessage::assistant("first").with_tool_calls(vec![call]),
            ChatMessage::tool("c1", "done"),
            ChatMessage::assistant("second"),
            ChatMessage::user("again"),
        ];
        let found = exchanges(&messages);
        let ends: Vec<_> = found.iter().map(|one| one.end).collect();
        assert_eq!(ends, [1, 4, 5]);
        let received = [
            ChatMessage::user("go"),
            ChatMessage::assistant("first\n\nsecond"),
            ChatMessage::user("again"),
        ];
        let received = exchanges(&received);
        let mut both = found.iter().zip(&received);
        assert!(both.all(|(one, other)| one.is_same(other)), "{found:?}");
        assert_eq!(prefix_hashes(None, &found), prefix_hashes(None, &received));
    }

    #[test]
    fn exchanges_with_other_images_or_owners_differ() {
        let with_image = |data: &str| {
            let blocks = vec![
                ContentBlock::text("look"),
                ContentBlock::inline_image("image/png", data),
            ];
            exchanges(&[ChatMessage::user(Content::from(blocks))])
        };
        let (one, other) = (with_image("AAAA"), with_image("BBBB"));
        assert!(!one[0].is_same(&other[0]), "{one:?}");
        assert_ne!(prefix_hashes(None, &one), prefix_hashes(None, &other));
        assert_ne!(prefix_hashes(Some("t"), &one), prefix_hashes(None, &one));
    }
}
