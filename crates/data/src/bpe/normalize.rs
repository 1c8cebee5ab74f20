//! Unicode normalization form C, with the place of each character in the original text.

use std::borrow::Cow;
use unicode_normalization_alignments::{IsNormalized, UnicodeNormalization as _, is_nfc_quick};

/// A text in normal form.
pub(super) struct Normalized<'t> {
    pub(super) text: Cow<'t, str>,
    /// The position in the original text for each byte; absent if the texts are equal.
    positions: Option<Vec<usize>>,
}

impl<'t> Normalized<'t> {
    /// Leaves a text without normalization.
    pub(super) fn unchanged(text: &'t str) -> Self {
        Self {
            text: Cow::Borrowed(text),
            positions: None,
        }
    }

    /// Converts a text to form C.
    pub(super) fn nfc(text: &'t str) -> Self {
        if is_nfc_quick(text.chars()) == IsNormalized::Yes {
            return Self::unchanged(text);
        }
        let composed = composed(text);
        let mut normal = String::with_capacity(text.len());
        let mut positions = Vec::with_capacity(text.len());
        let mut offset = 0;
        for (index, &(character, at)) in composed.iter().enumerate() {
            if index
                .checked_sub(1)
                .and_then(|last| composed.get(last))
                .is_none_or(|last| last.1 != at)
            {
                offset = 0;
            }
            let following = composed.get(index + 1..).unwrap_or_default();
            let next = following.iter().map(|next| next.1).find(|next| *next != at);
            let last = next.unwrap_or(text.len()).saturating_sub(at + 1);
            normal.push(character);
            for _ in 0..character.len_utf8() {
                // A boundary within a character stays within its original.
                positions.push(at + last.min(offset));
                offset += 1;
            }
        }
        if normal == text {
            return Self::unchanged(text);
        }
        Self {
            text: Cow::Owned(normal),
            positions: Some(positions),
        }
    }

    /// Returns the position in the original text, which has `length` bytes.
    ///
    /// Original text without a character of its own, such as an accent that became part of a
    /// letter, belongs to the character before it.
    pub(super) fn original(&self, position: usize, length: usize) -> usize {
        match &self.positions {
            None => position,
            Some(positions) => positions.get(position).copied().unwrap_or(length),
        }
    }
}

/// Returns the characters of form C with the position of their originals.
///
/// The iterator counts originals: a character replaces one and as many more as its number is below
/// zero; one above zero is a further part of the original before it.
fn composed(text: &str) -> Vec<(char, usize)> {
    let mut originals = text.char_indices();
    let mut last = 0;
    text.nfc()
        .map(|(character, change)| {
            if change > 0 {
                return (character, last);
            }
            let at = originals.next().map_or(text.len(), |original| original.0);
            let joined = originals.by_ref().take(change.unsigned_abs()).last();
            last = joined.map_or(at, |original| original.0);
            (character, at)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::Normalized;
    use unicode_normalization_alignments::UnicodeNormalization as _;

    fn same_as_crate(text: &str) {
        let normalized = Normalized::nfc(text);
        assert_eq!(
            normalized.text,
            text.nfc().map(|each| each.0).collect::<String>(),
            "{text:?}"
        );
        let ends: Vec<usize> = (0..=normalized.text.len())
            .map(|position| normalized.original(position, text.len()))
            .collect();
        assert!(ends.is_sorted(), "{text:?} {ends:?}");
        assert_eq!(ends.last(), Some(&text.len()));
    }

    #[test]
    fn texts_are_in_form_c() {
        for text in [
            "",
            "plain",
            "e\u{301}",
            "a\u{301}\u{316}\u{327}b",
            "\u{1100}\u{1161}\u{11a8}",
            "\u{212b}\u{958}",
            "\u{301}\u{301}x",
            "q\u{307}\u{323}",
            "\u{1e9b}\u{323}",
        ] {
            same_as_crate(text);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_in_form_c(text in "[a-c\u{300}-\u{330}\u{1100}-\u{1112}\u{1161}-\u{1175}\u{11a8}-\u{11c2}\u{928}-\u{960}]{0,12}") {
            same_as_crate(&text);
        }
    }

    #[test]
    fn positions_are_those_of_the_original() {
        let normalized = Normalized::nfc("xe\u{301}y");
        assert_eq!(normalized.text, "xéy");
        let positions: Vec<usize> = (0..=4).map(|at| normalized.original(at, 5)).collect();
        assert_eq!(positions, [0, 1, 2, 4, 5]);
    }
}
