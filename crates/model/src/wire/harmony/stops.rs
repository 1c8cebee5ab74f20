//! Visible text up to the first stop string of the request.
//!
//! A server that returns token ids returns those of the stop string as well, and a server may ignore
//! stop strings. The text that is reported ends before the first one.

use crate::{ModelEvent, TokenLogprob};

/// The stop strings of a request.
#[derive(Debug, Default)]
pub(super) struct StopStrings(Vec<String>);

impl StopStrings {
    pub(super) fn new(configured: &[String]) -> Self {
        let stops = configured.iter().filter(|stop| !stop.is_empty());
        Self(stops.cloned().collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a word is one of the stop strings.
    pub(super) fn contains(&self, word: &str) -> bool {
        self.0.iter().any(|stop| stop == word)
    }

    /// Returns the start of the stop string that is complete first.
    ///
    /// None begins before `from`. The result does not depend on the pieces in which a text arrives.
    fn find(&self, text: &str, from: usize) -> Option<usize> {
        let searched = text.get(from..)?;
        let ends = self.0.iter().filter_map(|stop| {
            let at = searched.find(stop.as_str())?;
            Some((at + stop.len(), at))
        });
        Some(from + ends.min()?.1)
    }

    /// Returns the first position at which a stop string may begin.
    ///
    /// None begins before `from`.
    fn retained_from(&self, text: &str, from: usize) -> usize {
        if self.0.is_empty() {
            return text.len();
        }
        let unchecked = text.get(from..).unwrap_or_default();
        let mut starts = unchecked.char_indices().map(|(at, _)| from + at);
        let begins = |at: &usize| {
            let tail = text.get(*at..).unwrap_or_default();
            self.0.iter().any(|stop| stop.starts_with(tail))
        };
        starts.find(begins).unwrap_or(text.len())
    }
}

/// A visible text and the log probabilities of its tokens.
#[derive(Debug, Default)]
pub(super) struct VisibleText {
    pub(super) text: String,
    /// The tokens that are not reported.
    tokens: Vec<TokenLogprob>,
    /// The number of bytes of the tokens that are reported.
    token_start: usize,
    /// The length of the text in which no stop string begins.
    checked: usize,
    /// The length of the text that is reported.
    reported: usize,
}

impl VisibleText {
    /// Adds text and the tokens that end in it. Returns whether a stop string has ended the text.
    pub(super) fn push(
        &mut self,
        text: &str,
        tokens: Vec<TokenLogprob>,
        stops: &StopStrings,
    ) -> bool {
        self.text.push_str(text);
        self.tokens.extend(tokens);
        let stop = stops.find(&self.text, self.checked);
        if let Some(at) = stop {
            self.text.truncate(at);
        }
        self.checked = stop.unwrap_or_else(|| stops.retained_from(&self.text, self.checked));
        stop.is_some()
    }

    /// Reports the text that no stop string can end.
    pub(super) fn report(&mut self, events: &mut (dyn FnMut(ModelEvent) + Send)) {
        let mut end = self.token_start;
        let is_certain = |token: &&TokenLogprob| {
            end += token.token.bytes.len();
            end <= self.checked
        };
        let count = self.tokens.iter().take_while(is_certain).count();
        let tokens: Vec<TokenLogprob> = self.tokens.drain(..count).collect();
        self.send(tokens, self.checked, events);
    }

    /// Reports the rest of the text, and the token that continues after it.
    pub(super) fn finish(
        &mut self,
        partial: Option<TokenLogprob>,
        events: &mut (dyn FnMut(ModelEvent) + Send),
    ) {
        self.tokens.extend(partial);
        let own = self.text.as_bytes().get(self.token_start..);
        let mut left = own.unwrap_or_default();
        let mut kept = Vec::new();
        for token in std::mem::take(&mut self.tokens) {
            let length = token.token.bytes.len().min(left.len());
            let (own, next) = left.split_at(length);
            match token.token.bytes.get(..length) {
                Some(bytes) if bytes == own && length == token.token.bytes.len() => {
                    kept.push(token);
                }
                Some(bytes) if bytes == own && length > 0 => kept.push(token.with_bytes(own)),
                _ => break,
            }
            left = next;
        }
        self.send(kept, self.text.len(), events);
    }

    /// Reports text up to a position, with these tokens.
    fn send(
        &mut self,
        tokens: Vec<TokenLogprob>,
        to: usize,
        events: &mut (dyn FnMut(ModelEvent) + Send),
    ) {
        let bytes = tokens.iter().map(|token| token.token.bytes.len());
        self.token_start += bytes.sum::<usize>();
        if !tokens.is_empty() {
            events(ModelEvent::TextLogprobs(tokens));
        }
        let text = self.text.get(self.reported..to).unwrap_or_default();
        if !text.is_empty() {
            events(ModelEvent::Text(text.to_owned()));
        }
        self.reported = to;
    }
}
