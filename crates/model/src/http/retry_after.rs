//! The wait that a server requests in its response headers.

use std::time::{Duration, SystemTime};

use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

/// Returns the wait that the response headers request.
///
/// The header is `retry-after-ms`, or `Retry-After` in seconds or as a date. A date is relative to the
/// server's own `Date`, or to `now` if there is none, so a difference between the clocks does not
/// lengthen the wait. A date in the past is a wait of zero.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |text: &str| text.parse::<f64>().ok();
    if let Some(millis) = text("retry-after-ms").and_then(number) {
        return Duration::try_from_secs_f64(millis / 1_000.0).ok();
    }
    let value = text(RETRY_AFTER.as_str())?;
    if let Some(seconds) = number(value) {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let until = httpdate::parse_http_date(value).ok()?;
    let from = text(DATE.as_str()).and_then(|date| httpdate::parse_http_date(date).ok());
    Some(
        until
            .duration_since(from.unwrap_or(now))
            .unwrap_or_default(),
    )
}
