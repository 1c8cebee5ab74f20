//! Names that every model server accepts for a tool.

/// The longest name of a tool that model servers accept.
pub(crate) const LONGEST: usize = 64;

/// The name with everything replaced that is not a letter or digit of ASCII, `_` or `-`, and cut to
/// what model servers accept.
pub(crate) fn wire_safe(name: &str) -> String {
    let safe = |character: char| {
        if character.is_ascii_alphanumeric() || matches!(character, '_' | '-') {
            character
        } else {
            '_'
        }
    };
    name.chars().take(LONGEST).map(safe).collect()
}

#[cfg(test)]
mod tests {
    use super::wire_safe;

    #[test]
    fn names_are_safe_and_keep_what_is() {
        for (name, safe) in [
            ("get_weather-2", "get_weather-2"),
            ("files.read", "files_read"),
            ("wetter für morgen", "wetter_f_r_morgen"),
        ] {
            assert_eq!(wire_safe(name), safe);
        }
        assert_eq!(wire_safe(&"ü".repeat(100)).len(), 64);
    }
}
