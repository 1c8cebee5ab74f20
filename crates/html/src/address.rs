//! Addresses of links and images: filtering, escaping and resolution (RFC 3986 §5.2).

/// Maximum length of an address in bytes; longer ones are data.
const MAX_ADDRESS_LEN: usize = 2_048;

/// The schemes of permitted links; all others execute code or are data.
const SCHEMES: [&str; 6] = ["http", "https", "mailto", "tel", "ftp", "ftps"];

/// Returns an address for Markdown, resolved against `base`.
///
/// Returns `None` if the address is not permitted.
pub(crate) fn keep(written: &str, base: Option<&str>) -> Option<String> {
    if written.len() > MAX_ADDRESS_LEN {
        return None;
    }
    // Browsers remove these characters, so `java\nscript:` is a scheme.
    let meant: String = written
        .trim_matches(|character: char| character <= ' ')
        .chars()
        .filter(|character| !matches!(character, '\t' | '\n' | '\r'))
        .collect();
    if meant.is_empty() {
        return None;
    }
    if let Some((scheme, _)) = split_scheme(&meant) {
        let known = SCHEMES
            .iter()
            .any(|known| known.eq_ignore_ascii_case(scheme));
        return known.then(|| escape(&meant));
    }
    match base {
        Some(base) => Some(escape(&resolve(base, &meant))),
        None => Some(escape(&meant)),
    }
}

/// Resolves a reference against a base.
///
/// Returns the reference unchanged if the base has no host.
pub(crate) fn resolve(base: &str, reference: &str) -> String {
    let whole = || reference.to_owned();
    if split_scheme(reference).is_some() {
        return whole();
    }
    let Some((scheme, after)) = split_scheme(base) else {
        return whole();
    };
    let Some(hierarchy) = after.strip_prefix("//") else {
        return whole();
    };
    if reference.starts_with("//") {
        return format!("{scheme}:{reference}");
    }
    let (authority, rest) = split_at_any(hierarchy, &['/', '?', '#']);
    let (before_fragment, _) = split_at_any(rest, &['#']);
    let (path, _) = split_at_any(before_fragment, &['?']);
    let (own_path, own_rest) = split_at_any(reference, &['?', '#']);
    let (path, rest) = if own_path.is_empty() {
        let rest = if reference.starts_with('#') {
            before_fragment
                .get(path.len()..)
                .unwrap_or_default()
                .to_owned()
                + own_rest
        } else {
            own_rest.to_owned()
        };
        (path.to_owned(), rest)
    } else if own_path.starts_with('/') {
        (without_dots(own_path), own_rest.to_owned())
    } else {
        let folder = path
            .rfind('/')
            .map_or("/", |at| path.get(..=at).unwrap_or("/"));
        (
            without_dots(&format!("{folder}{own_path}")),
            own_rest.to_owned(),
        )
    };
    format!("{scheme}://{authority}{path}{rest}")
}

/// Splits an address into its scheme and the text after the colon.
fn split_scheme(address: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = address.split_once(':')?;
    let sound = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    let first = scheme.bytes().next()?;
    (first.is_ascii_alphabetic() && scheme.bytes().all(sound)).then_some((scheme, rest))
}

fn split_at_any<'a>(text: &'a str, ends: &[char]) -> (&'a str, &'a str) {
    text.split_at(text.find(ends).unwrap_or(text.len()))
}

/// Removes `.` and `..` from a path, without climbing above its root.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let last = segments.len().saturating_sub(1);
    for (at, segment) in segments.iter().enumerate() {
        match *segment {
            "." | ".." => {
                if *segment == ".." {
                    kept.pop();
                }
                if at == last {
                    kept.push("");
                }
            }
            segment => kept.push(segment),
        }
    }
    format!("/{}", kept.join("/"))
}

/// Percent-encodes characters that end an address in Markdown or are invalid in one.
fn escape(address: &str) -> String {
    let mut out = String::with_capacity(address.len());
    for character in address.chars() {
        let breaks = matches!(
            character,
            '(' | ')' | '<' | '>' | '\\' | '"' | '`' | '|' | '*'
        );

        if breaks || character.is_whitespace() || character.is_control() {
            let mut buffer = [0; 4];
            for byte in character.encode_utf8(&mut buffer).bytes() {
                out.push_str(&format!("%{byte:02X}"));
            }
        } else {
            out.push(character);
        }
    }
    out
}
