//! Spelling suggestions for unknown names.

/// Maximum length of compared names; valid names have less than half of it.
const MAX_NAME_LEN: usize = 40;

/// Minimum length of a prefix that counts as an abbreviation.
const MIN_PREFIX_LEN: usize = 4;

/// Maximum number of compared candidates; a document may declare any number of tools.
const MAX_CANDIDATES: usize = 500;

/// Returns the candidate that most likely was meant by `name`.
///
/// It differs in case or punctuation only, or in a few letters, or `name` is a prefix of it. The
/// first of several equally similar candidates is returned.
///
/// ```
/// assert_eq!(chatmd::suggest("deplyo", ["read_file", "deploy"]), Some("deploy"));
/// assert_eq!(chatmd::suggest("fetch", ["read_file", "deploy"]), None);
/// ```
pub fn suggest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    if name.len() > MAX_NAME_LEN {
        return None;
    }
    let name = letters(name);
    let allowed = name.len().div_ceil(3).min(3);
    let mut best = None;
    for candidate in candidates.into_iter().take(MAX_CANDIDATES) {
        if candidate.len() > MAX_NAME_LEN {
            continue;
        }
        let other = letters(candidate);
        let distance = distance(&name, &other);
        let is_prefix = name.len() >= MIN_PREFIX_LEN && other.starts_with(&name);
        // At least half of the letters must be equal: `is` is not similar to `id`.
        let is_similar = distance <= allowed && distance < name.len().min(other.len()).div_ceil(2);
        if (is_similar || is_prefix) && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Returns the letters and digits of a name, in lower case.
fn letters(name: &str) -> Vec<u8> {
    let bytes = name.bytes().filter(|byte| !b"_-:.".contains(byte));
    bytes.map(|byte| byte.to_ascii_lowercase()).collect()
}

/// Returns the edit distance of two names: insertions, deletions, substitutions and swaps of neighbours.
fn distance(from: &[u8], to: &[u8]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (number, letter) in from.iter().enumerate() {
        let mut diagonal = number;
        let mut left = number + 1;
        let mut next = Vec::with_capacity(row.len());
        next.push(left);
        for (place, (above, other)) in row.iter().skip(1).zip(to).enumerate() {
            let changed = diagonal + usize::from(letter != other);
            left = changed.min(left + 1).min(above + 1);
            let is_swap = place > 0
                && number > 0
                && to.get(place - 1) == Some(letter)
                && from.get(number - 1) == Some(other);
            if is_swap && let Some(swapped) = before.get(place - 1) {
                left = left.min(swapped + 1);
            }
            diagonal = *above;
            next.push(left);
        }
        before = std::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or_default()
}
