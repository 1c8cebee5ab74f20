//! How long a server asks to wait, in each of the ways in which servers say it.

use std::time::{Duration, SystemTime};

use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

/// The wait that the headers of an answer ask for: `retry-after-ms`, or `Retry-After` in seconds or as
/// a date. A date is taken relative to the server's own `Date`, and to `now` where it gives none, so
/// that two clocks that differ make no long wait of a short one. A date that has passed is no wait.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |text: &str| text.parse::<f64>().ok();
    if let Some(millis) = text("retry-after-ms").and_then(number) {
        return Duration::try_from_secs_f64(millis / 1_000.0).ok();
    }
    let said = text(RETRY_AFTER.as_str())?;
    if let Some(seconds) = number(said) {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let until = httpdate::parse_http_date(said).ok()?;
    let from = text(DATE.as_str()).and_then(|date| httpdate::parse_http_date(date).ok());
    Some(
        until
            .duration_since(from.unwrap_or(now))
            .unwrap_or_default(),
    )
}
