//! The names that clients give to new sessions.

use super::problem::Problem;

/// The longest name of a new session, in bytes.
const MAX_NAME: usize = 255;

/// Refuses a name that lines, headers and terminals could not show.
///
/// Sessions that exist already keep their names.
///
/// # Errors
/// Returns a problem if the name is empty, too long, or has a control character.
pub(crate) fn check_new_session(name: &str) -> Result<(), Problem> {
    let cause = if name.is_empty() {
        "it is empty".to_owned()
    } else if name.len() > MAX_NAME {
        format!("it has {} bytes", name.len())
    } else if name.chars().any(char::is_control) {
        "it contains a control character".to_owned()
    } else {
        return Ok(());
    };
    let detail = format!("invalid name of a new session: {cause}");
    let help = format!("use 1 to {MAX_NAME} bytes without control characters");
    Err(Problem::invalid(detail).with_help(help))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_a_length_and_no_control_character() {
        for name in ["a", "order 17", "größe/1", &"x".repeat(255)] {
            assert_eq!(check_new_session(name), Ok(()), "{name}");
        }
        for name in ["", "a\0", "a\r\nb", "\u{85}", &"x".repeat(256)] {
            assert!(check_new_session(name).is_err(), "{name:?}");
        }
    }
}
