//! Titles of sessions, and their search.

use logue_harness::store::{SessionInfo, Store, StoreError, current_history};
use logue_message::{ChatMessage, Content, ContentBlock, Role};

use super::super::visible::visible_message;

/// The messages at the beginning of a session among which its title is found.
const FIRST: usize = 4;
/// The most characters of a title.
const TITLE: usize = 90;
/// The most characters of an excerpt, before and after the found word.
const AROUND: usize = 60;
/// The messages that are read at once.
const PAGE: usize = 500;
/// The most messages that one search reads, the recent ones of each session first.
const MAX_MESSAGES: usize = 50_000;
/// The most messages of one session that one search reads.
const MAX_OF_SESSION: u64 = 10_000;

/// Returns the first line that a person has sent in a session.
///
/// Of several texts in one message it is the last one, which follows instructions.
///
/// # Errors
/// Returns an error if the history cannot be read.
pub(crate) async fn title(store: &dyn Store, info: &SessionInfo) -> Result<String, StoreError> {
    let first = store.history(&info.session, 0, FIRST).await?;
    let first = first.iter().filter_map(|message| {
        let message = ChatMessage::from_json(message).ok()?;
        (message.role == Role::User).then(|| own_text(&message))
    });
    let texts: Vec<String> = first.collect();
    let mut lines = texts.iter().flat_map(|text| text.lines());
    let line = lines.find(|line| !line.trim().is_empty());
    Ok(line
        .unwrap_or_default()
        .trim()
        .chars()
        .take(TITLE)
        .collect())
}

fn own_text(message: &ChatMessage) -> String {
    let Content::Blocks(blocks) = &message.content else {
        return message.text();
    };
    let mut texts = blocks.iter().filter_map(|block| match block {
        ContentBlock::Text { text, .. } => Some(text),
        _ => None,
    });
    let last = texts.rfind(|text| !text.trim().is_empty());
    last.cloned().unwrap_or_default()
}

/// A search of words in the visible texts of sessions.
///
/// It reads a bounded number of messages and keeps nothing, so that hidden text is never found.
pub(crate) struct SessionSearch {
    /// The words in lower case; a message contains all of them.
    words: Vec<String>,
    left: usize,
    /// Whether messages were left out that could contain the words.
    is_cut: bool,
}

impl SessionSearch {
    pub(crate) fn new(words: &str) -> Self {
        let words = words.split_whitespace().take(16);
        Self {
            words: words.map(str::to_lowercase).collect(),
            left: MAX_MESSAGES,
            is_cut: false,
        }
    }

    /// Returns whether the search left messages out, because it reads a bounded number.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns an excerpt of the latest message of a session with all words.
    ///
    /// # Errors
    /// Returns an error if the history cannot be read.
    pub(crate) async fn excerpt(
        &mut self,
        store: &dyn Store,
        info: &SessionInfo,
    ) -> Result<Option<String>, StoreError> {
        let mut end = info.seq;
        let last = info.seq.saturating_sub(MAX_OF_SESSION);
        while end > last && self.left > 0 {
            let from = end.saturating_sub(PAGE as u64).max(last);
            let count = usize::try_from(end - from).unwrap_or(PAGE);
            let messages = current_history(store, &info.session, from, count).await?;
            self.left = self.left.saturating_sub(count);
            let mut found = messages.iter().rev().filter_map(|message| {
                let message = visible_message(&ChatMessage::from_json(message).ok()?)?;
                self.excerpt_of(&message.text())
            });
            if let Some(excerpt) = found.next() {
                return Ok(Some(excerpt));
            }
            end = from;
        }
        self.is_cut |= end > 0;
        let name = info.session.to_lowercase();
        let is_named = self.words.iter().all(|word| name.contains(word));
        Ok(is_named.then(String::new))
    }

    fn excerpt_of(&self, text: &str) -> Option<String> {
        let lower = text.to_lowercase();
        if !self.words.iter().all(|word| lower.contains(word)) {
            return None;
        }
        let at = lower.find(self.words.first()?)?;
        // Lower case may have other lengths, so that the place is counted in characters.
        let place = lower.get(..at)?.chars().count();
        let begin = place.saturating_sub(AROUND);
        let part: String = text.chars().skip(begin).take(2 * AROUND).collect();
        let part = part.split_whitespace().collect::<Vec<_>>().join(" ");
        Some(if begin > 0 {
            format!("…{part}")
        } else {
            part
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_not_of_the_instructions() {
        let blocks = ["Answer in French.", "what is\nthis?", " "].map(ContentBlock::text);
        let message = ChatMessage::user(blocks.to_vec());
        assert_eq!(own_text(&message), "what is\nthis?");
        assert_eq!(own_text(&ChatMessage::user("hi")), "hi");
    }

    #[test]
    fn an_excerpt_surrounds_the_first_word() {
        let search = SessionSearch::new("ZEBRA näh");
        let text = format!("{} zebra in der NÄHE", "x ".repeat(100));
        let found = search.excerpt_of(&text).unwrap_or_default();
        assert!(
            found.starts_with('…') && found.ends_with("zebra in der NÄHE"),
            "{found}"
        );
        assert_eq!(search.excerpt_of("zebra only"), None);
    }
}
