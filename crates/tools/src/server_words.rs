//! Commands of tool servers, split into words without a shell.

/// Returns the program and the arguments of a server address `stdio:COMMAND`.
///
/// `None` for an address of another kind and for a command that cannot be started.
pub fn server_command(address: &str) -> Option<Vec<String>> {
    let command = address.trim().strip_prefix("stdio:")?;
    server_words(command).ok().filter(|words| !words.is_empty())
}

/// Splits a command at white space, except inside quotes and after a backslash.
pub(crate) fn server_words(text: &str) -> Result<Vec<String>, &'static str> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (_, '\0') => return Err("no argument can hold a NUL byte"),
            (Some(open), _) if open == character => quote = None,
            (None, '"' | '\'') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (Some('"') | None, '\\') => match characters.next() {
                // Between double quotes a backslash is literal unless it escapes a quote or
                // backslash.
                Some(escaped) if quote.is_none() || matches!(escaped, '"' | '\\') => {
                    word.get_or_insert_default().push(escaped);
                }
                Some(other) => word.get_or_insert_default().extend(['\\', other]),
                None => return Err("it ends with a lone backslash"),
            },
            (None, space) if space.is_whitespace() => words.extend(word.take()),
            (_, other) => word.get_or_insert_default().push(other),
        }
    }
    if quote.is_some() {
        return Err("a quote is never closed");
    }
    words.extend(word);
    Ok(words)
}
