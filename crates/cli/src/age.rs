//! Ages of sessions in flags and settings.

use std::time::Duration;

use logue_harness::{Clock as _, SystemClock, Timestamp};

/// Parses a whole number of days, hours, minutes or seconds.
pub(crate) fn parse_age(text: &str) -> Result<Duration, String> {
    let unit = text.chars().next_back().unwrap_or_default();
    let seconds = match unit {
        'd' => 86_400_u64,
        'h' => 3_600,
        'm' => 60,
        's' => 1,
        _ => return Err("write a number with a unit: 30d, 12h, 45m or 90s".to_owned()),
    };
    let number = text.strip_suffix(unit).unwrap_or_default().parse::<u64>();
    let number = number.map_err(|error| error.to_string())?;
    let seconds = number.checked_mul(seconds).filter(|_| number > 0);
    seconds
        .map(Duration::from_secs)
        .ok_or_else(|| "the time must be at least a second, and not endless".to_owned())
}

/// Formats the time since `then` in one unit.
pub(crate) fn ago(then: Timestamp) -> String {
    let seconds = then.until(SystemClock.now()).as_secs();
    match seconds {
        0..60 => format!("{seconds} s ago"),
        60..3_600 => format!("{} min ago", seconds / 60),
        3_600..172_800 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}
