//! Addresses of links and images: which are kept, how they are written, and where they lead from a
//! page whose own address is known (RFC 3986 §5.2).

/// Bytes of an address that is kept: longer ones are data, not addresses.
const LONGEST: usize = 2_048;

/// What a link may lead to. Everything else would run, or is data.
const SCHEMES: [&str; 6] = ["http", "https", "mailto", "tel", "ftp", "ftps"];

/// The address as it may stand in Markdown, resolved against `base`; `None` if it is dropped.
pub(crate) fn keep(written: &str, base: Option<&str>) -> Option<String> {
    if written.len() > LONGEST {
        return None;
    }
    // A browser drops these, so `java\nscript:` is a scheme.
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

/// Where the reference leads from the base. A base that is no address with a host changes nothing.
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

/// The scheme before a colon, and what follows the colon.
fn split_scheme(address: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = address.split_once(':')?;
    let sound = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    let first = scheme.bytes().next()?;
    (first.is_ascii_alphabetic() && scheme.bytes().all(sound)).then_some((scheme, rest))
}

fn split_at_any<'a>(text: &'a str, ends: &[char]) -> (&'a str, &'a str) {
    text.split_at(text.find(ends).unwrap_or(text.len()))
}

/// A path without `.` and `..`, which cannot climb above its beginning.
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

/// Encodes what would end the address in Markdown, and what no address holds.
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
