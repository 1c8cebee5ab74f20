//! The known name that a wrong one resembles.

/// The similarity above which a name counts as meant, from 0 to 1.
const SIMILAR: f64 = 0.8;

/// Returns the most similar known name, if one is similar to a wrong one.
///
/// Case and the difference of `-` and `_` do not count.
pub(crate) fn nearest<'n>(
    wrong: &str,
    known: impl IntoIterator<Item = &'n str>,
) -> Option<&'n str> {
    let wrong = plain(wrong);
    let scored = known
        .into_iter()
        .map(|name| (strsim::jaro_winkler(&wrong, &plain(name)), name));
    let best = scored.max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.filter(|(score, _)| *score >= SIMILAR)
        .map(|(_, name)| name)
}

fn plain(name: &str) -> String {
    name.to_lowercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_similar_name_is_found_and_another_is_not() {
        let known = ["E-MD-VARIABLE", "provider_unavailable", "usage"];
        assert_eq!(nearest("e-md-varable", known), Some("E-MD-VARIABLE"));
        assert_eq!(
            nearest("provider-unavailable", known),
            Some("provider_unavailable")
        );
        assert_eq!(nearest("qqq", known), None);
        assert_eq!(nearest("", known), None);
    }
}
