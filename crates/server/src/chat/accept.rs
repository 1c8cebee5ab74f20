//! The types of responses that a client accepts (RFC 9110 §12.5.1).

use axum::http::{HeaderMap, header};

/// The rank of a type in thousandths; 0 is not acceptable.
type Quality = u16;

/// Returns whether a client asks for a stream of events and does not prefer JSON.
///
/// A client that accepts anything receives JSON.
pub(crate) fn accepts_events(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT).iter();
    let values: Vec<&str> = values.filter_map(|value| value.to_str().ok()).collect();
    let ranges = || {
        let items = values.iter().flat_map(|value| split(value, ','));
        items.filter_map(range)
    };
    let quality = |names: &[&str]| {
        let best = |name: &&str| {
            let own = ranges().filter(|(found, _)| found.eq_ignore_ascii_case(name));
            own.map(|(_, quality)| quality).max()
        };
        // The most specific range decides.
        names.iter().find_map(best)
    };
    let events = quality(&["text/event-stream", "text/*"]).unwrap_or_default();
    let json = quality(&["application/json", "application/*", "*/*"]).unwrap_or_default();
    events > 0 && events >= json
}

/// Returns the type of a range and its rank; `None` if it is malformed.
fn range(item: &str) -> Option<(&str, Quality)> {
    let mut parts = split(item, ';').map(str::trim);
    let name = parts.next().filter(|name| name.contains('/'))?;
    for part in parts {
        if let Some((key, value)) = part.split_once('=')
            && key.trim().eq_ignore_ascii_case("q")
        {
            return Some((name, weight(value.trim())?));
        }
    }
    Some((name, 1_000))
}

/// Parses a weight from 0 to 1 with at most three decimals.
fn weight(text: &str) -> Option<Quality> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let whole: Quality = match whole {
        "0" => 0,
        "1" => 1_000,
        _ => return None,
    };
    if decimals.len() > 3 || !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let decimals: Quality = format!("{decimals:0<3}").parse().ok()?;
    Some(whole + decimals).filter(|quality| *quality <= 1_000)
}

/// Splits a text at a separator outside of quoted strings.
fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    text.split(move |character| {
        if is_escaped {
            is_escaped = false;
            return false;
        }
        match character {
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            _ => return character == separator && !is_quoted,
        }
        false
    })
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn the_rank_of_a_type_decides() {
        let accepts = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::ACCEPT, HeaderValue::from_static(value));
            }
            accepts_events(&headers)
        };
        for values in [
            &["text/event-stream"][..],
            &["Text/Event-Stream; charset=utf-8"],
            &["application/json, text/event-stream"],
            &["application/json", "text/event-stream"],
            &["application/json;q=0.5, text/event-stream;q=0.501"],
            &["text/event-stream, */*;q=0.1"],
            &["x/y;a=\",\", text/event-stream ; q=1.000"],
            &["text/*"],
        ] {
            assert!(accepts(values), "{values:?}");
        }
        for values in [
            &[][..],
            &["*/*"],
            &["application/json"],
            &["text/event-stream;q=0, application/json"],
            &["text/event-stream;Q=0.000"],
            &["text/*, text/event-stream;q=0"],
            &["text/event-stream;q=0.9, application/json"],
            &["text/event-stream;q=0.4, */*;q=0.5"],
            &["text/event-stream;q=2"],
            &["text/event-stream;q=0.1234"],
            &["x/y;a=\"text/event-stream\""],
            &["x/y;a=\",text/event-stream,\\\"\""],
        ] {
            assert!(!accepts(values), "{values:?}");
        }
    }
}
