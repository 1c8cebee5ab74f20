//! What somebody may have meant by a name that nobody knows.

/// Names longer than this are not compared: no name of the language is half as long.
const LONGEST: usize = 40;

/// Letters that a beginning must have in common with the whole to count as short for it.
const BEGINNING: usize = 4;

/// Candidates that a name is compared with: a document may declare any number of tools.
const COMPARED: usize = 500;

/// The candidate that a name was most likely meant to be: one that differs in case or punctuation
/// only, in a few letters, or that the name is the beginning of. The first of several equally near.
pub(crate) fn suggest<'c>(
    name: &str,
    candidates: impl IntoIterator<Item = &'c str>,
) -> Option<&'c str> {
    if name.len() > LONGEST {
        return None;
    }
    let name = letters(name);
    let allowed = name.len().div_ceil(3).min(3);
    let mut best = None;
    for candidate in candidates.into_iter().take(COMPARED) {
        if candidate.len() > LONGEST {
            continue;
        }
        let wanted = letters(candidate);
        let distance = distance(&name, &wanted);
        let shortened = name.len() >= BEGINNING && wanted.starts_with(&name);
        // Where everything is different nothing is near: `is` is not `id`.
        let near = distance <= allowed && distance < name.len().min(wanted.len()).div_ceil(2);
        if (near || shortened) && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// The letters and digits of a name, in lower case.
fn letters(name: &str) -> Vec<u8> {
    let bytes = name.bytes().filter(|byte| !b"_-:.".contains(byte));
    bytes.map(|byte| byte.to_ascii_lowercase()).collect()
}

/// How many letters have to be added, taken away or changed to make one name of the other.
fn distance(from: &[u8], to: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (number, letter) in from.iter().enumerate() {
        let mut diagonal = number;
        let mut left = number + 1;
        let mut next = Vec::with_capacity(row.len());
        next.push(left);
        for (above, other) in row.iter().skip(1).zip(to) {
            let changed = diagonal + usize::from(letter != other);
            left = changed.min(left + 1).min(above + 1);
            diagonal = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}
