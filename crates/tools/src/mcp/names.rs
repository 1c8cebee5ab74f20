//! Tool names that every model server accepts.

use crate::toolbox::MAX_NAME_LEN;

/// Replaces characters other than ASCII letters, digits, `_` and `-`, and truncates the name.
pub(crate) fn wire_safe(name: &str) -> String {
    let safe = |character: char| {
        if character.is_ascii_alphanumeric() || matches!(character, '_' | '-') {
            character
        } else {
            '_'
        }
    };
    name.chars().take(MAX_NAME_LEN).map(safe).collect()
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
