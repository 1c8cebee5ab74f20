//! Counts with their nouns, such as "1 file" and "2 files".

/// Formats a count with its noun, in the singular or with the ending `s`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    counted_as(count, noun, &format!("{noun}s"))
}

/// Formats a count with its noun, in the singular or in an irregular plural.
pub(crate) fn counted_as(count: usize, singular: &str, plural: &str) -> String {
    let noun = if count == 1 { singular } else { plural };
    format!("{count} {noun}")
}

/// Returns a stored number as the length of a list.
pub(crate) fn amount(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
