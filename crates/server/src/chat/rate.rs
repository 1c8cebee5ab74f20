//! The rate of events by name, in a table of bounded size.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The number of names that a table has at most.
const NAMES: usize = 4_096;
const MINUTE: Duration = Duration::from_secs(60);

/// A limit of events in a minute for each name.
///
/// A name may use all of them at once, and then one whenever its share of the minute has passed.
pub(crate) struct RateLimit {
    most: f64,
    used: Mutex<HashMap<String, Used>>,
}

/// The events of a name that count at a time.
#[derive(Clone, Copy)]
struct Used {
    count: f64,
    at: Instant,
}

impl RateLimit {
    pub(crate) fn per_minute(most: u32) -> Self {
        Self {
            most: f64::from(most.max(1)),
            used: Mutex::default(),
        }
    }

    /// Counts an event, or returns the seconds until the next one is permitted.
    pub(crate) fn take(&self, name: &str, now: Instant) -> Result<(), u64> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let known = used.get(name).map_or(0.0, |used| self.count(*used, now));
        if known + 1.0 > self.most {
            let share = MINUTE.as_secs_f64() / self.most;
            let wait = Duration::from_secs_f64((known + 1.0 - self.most) * share);
            return Err(wait.as_secs() + 1);
        }
        if used.len() >= NAMES && !used.contains_key(name) {
            self.make_room(&mut used, now);
        }
        let count = known + 1.0;
        used.insert(name.to_owned(), Used { count, at: now });
        Ok(())
    }

    /// Returns the events of a name that still count.
    fn count(&self, used: Used, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(used.at).as_secs_f64();
        (used.count - passed * self.most / MINUTE.as_secs_f64()).max(0.0)
    }

    /// Removes the names without events that count, or else the one with the fewest.
    fn make_room(&self, used: &mut HashMap<String, Used>, now: Instant) {
        used.retain(|_, used| self.count(*used, now) > 0.0);
        if used.len() < NAMES {
            return;
        }
        let counts = used
            .iter()
            .map(|(name, used)| (name, self.count(*used, now)));
        let fewest = counts.min_by(|(_, one), (_, other)| one.total_cmp(other));
        if let Some(name) = fewest.map(|(name, _)| name.clone()) {
            used.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_continues_after_its_share_of_a_minute() {
        let limit = RateLimit::per_minute(2);
        let now = Instant::now();
        assert_eq!(limit.take("a", now), Ok(()));
        assert_eq!(limit.take("a", now), Ok(()));
        let wait = limit.take("a", now);
        assert_eq!(wait, Err(31));
        assert_eq!(limit.take("b", now), Ok(()));
        let later = now + Duration::from_secs(31);
        assert_eq!(limit.take("a", later), Ok(()));
        assert!(limit.take("a", later).is_err());
    }

    #[test]
    fn the_table_keeps_the_names_with_the_most_events() {
        let limit = RateLimit::per_minute(2);
        let now = Instant::now();
        for _ in 0..2 {
            assert_eq!(limit.take("busy", now), Ok(()));
        }
        for number in 0..10 * NAMES {
            assert_eq!(limit.take(&number.to_string(), now), Ok(()));
        }
        let count = limit.used.lock().map_or(0, |used| used.len());
        assert!(count <= NAMES, "{count}");
        assert!(limit.take("busy", now).is_err());
    }
}
