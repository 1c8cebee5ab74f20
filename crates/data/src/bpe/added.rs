//! Added tokens: texts that become one id before anything else is done.

use aho_corasick::{AhoCorasick, MatchKind};

/// One added token.
#[derive(Clone, Debug)]
pub(super) struct AddedToken {
    pub(super) content: String,
    pub(super) id: u32,
    /// Requires that no letter, digit or underscore is adjacent.
    pub(super) is_single_word: bool,
    /// Takes the white space before it.
    pub(super) takes_left: bool,
    /// Takes the white space after it.
    pub(super) takes_right: bool,
}

/// A piece of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    /// Ordinary text of these bytes.
    Text(usize, usize),
    /// An added token that ends at this byte.
    Token(u32, usize),
}

/// Finds added tokens.
pub(super) struct AddedTokens {
    tokens: Vec<AddedToken>,
    search: Option<AhoCorasick>,
}

impl AddedTokens {
    /// Returns `None` if the search for the tokens cannot be built.
    pub(super) fn new(tokens: Vec<AddedToken>) -> Option<Self> {
        let search = if tokens.is_empty() {
            None
        } else {
            let contents = tokens.iter().map(|token| token.content.as_bytes());
            let mut builder = AhoCorasick::builder();
            builder.match_kind(MatchKind::LeftmostLongest);
            Some(builder.build(contents).ok()?)
        };
        Some(Self { tokens, search })
    }

    /// Cuts a text at its added tokens; calls `take` with each piece in order.
    pub(super) fn split(&self, text: &str, mut take: impl FnMut(Segment)) {
        let mut from = 0;
        let found = self
            .search
            .iter()
            .flat_map(|search| search.find_iter(text.as_bytes()));
        for found in found {
            let (mut start, mut end) = (found.start(), found.end());
            let Some(token) = self.tokens.get(found.pattern().as_usize()) else {
                continue;
            };
            let (Some(before), Some(after)) = (text.get(..start), text.get(end..)) else {
                continue;
            };
            if start < from {
                continue;
            }
            let is_beside_word = before.chars().next_back().is_some_and(is_word)
                || after.chars().next().is_some_and(is_word);
            if token.is_single_word && is_beside_word {
                continue;
            }
            if token.takes_left {
                start = before.trim_end().len().max(from);
            }
            if token.takes_right {
                end = text.len() - after.trim_start().len();
            }
            if from < start {
                take(Segment::Text(from, start));
            }
            take(Segment::Token(token.id, end));
            from = end;
        }
        if from < text.len() {
            take(Segment::Text(from, text.len()));
        }
    }
}

/// Returns whether a character belongs to words, as in the class `\w`.
fn is_word(character: char) -> bool {
    character == '_'
        || character.is_alphanumeric()
        || unicode_normalization_alignments::char::is_combining_mark(character)
}

#[cfg(test)]
mod tests {
    use super::{AddedToken, AddedTokens, Segment};

    fn segments(text: &str) -> Vec<Segment> {
        let token = |content: &str, id, is_single_word, takes_left, takes_right| AddedToken {
            content: content.to_owned(),
            id,
            is_single_word,
            takes_left,
            takes_right,
        };
        let tokens = AddedTokens::new(vec![
            token("<a>", 1, false, false, false),
            token("<a>b", 2, false, false, false),
            token("word", 3, true, false, false),
            token("<m>", 4, false, true, true),
        ]);
        let mut found = Vec::new();
        tokens.unwrap().split(text, |segment| found.push(segment));
        found
    }

    #[test]
    fn the_longest_token_at_the_first_place_is_taken() {
        use Segment::{Text, Token};
        assert_eq!(segments("x<a>bc"), [Text(0, 1), Token(2, 5), Text(5, 6)]);
        assert_eq!(segments("<a><a>"), [Token(1, 3), Token(1, 6)]);
    }

    #[test]
    fn single_words_have_no_letters_beside_them() {
        use Segment::{Text, Token};
        assert_eq!(segments("a word"), [Text(0, 2), Token(3, 6)]);
        assert_eq!(segments("words"), [Text(0, 5)]);
    }

    #[test]
    fn white_space_beside_a_token_belongs_to_it() {
        use Segment::{Text, Token};
        assert_eq!(
            segments("a  <m> \nb"),
            [Text(0, 1), Token(4, 8), Text(8, 9)]
        );
        assert_eq!(segments("<m> <m>"), [Token(4, 4), Token(4, 7)]);
    }
}
