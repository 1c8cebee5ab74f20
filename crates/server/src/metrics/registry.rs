//! The values of metrics.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::families::{Family, Form};

/// The number of label sets of a family; further ones are counted as [`OTHER`].
const MAX_SERIES: usize = 1_000;
/// The value of all labels beyond [`MAX_SERIES`].
const OTHER: &str = "other";

/// The values of the metrics of a server.
pub(crate) struct Registry {
    families: &'static [&'static Family],
    values: Mutex<BTreeMap<&'static str, BTreeMap<Vec<String>, Value>>>,
}

/// The value of one label set.
#[derive(Clone, Debug)]
enum Value {
    /// The value of a counter.
    Sum(u64),
    /// The value of a gauge.
    Level(i64),
    /// The counts of the buckets, without those of lower ones, and the sum.
    Distribution { counts: Vec<u64>, sum: f64 },
}

impl Value {
    fn zero(form: Form) -> Self {
        match form {
            Form::Counter => Self::Sum(0),
            Form::Gauge => Self::Level(0),
            Form::Histogram(bounds) => Self::Distribution {
                counts: vec![0; bounds.len() + 1],
                sum: 0.0,
            },
        }
    }
}

impl Registry {
    /// Creates the registry of families.
    pub(crate) fn new(families: &'static [&'static Family]) -> Self {
        Self {
            families,
            values: Mutex::default(),
        }
    }

    /// Adds to a counter.
    pub(crate) fn add(&self, family: &'static Family, labels: &[&str], count: u64) {
        self.with(family, labels, |value| {
            if let Value::Sum(sum) = value {
                *sum = sum.saturating_add(count);
            }
        });
    }

    /// Adds to a gauge.
    pub(crate) fn change(&self, family: &'static Family, by: i64) {
        self.with(family, &[], |value| {
            if let Value::Level(level) = value {
                *level = level.saturating_add(by);
            }
        });
    }

    /// Sets a gauge.
    pub(crate) fn set(&self, family: &'static Family, to: usize) {
        self.with(family, &[], |value| {
            *value = Value::Level(i64::try_from(to).unwrap_or(i64::MAX));
        });
    }

    /// Adds an observation to a histogram.
    pub(crate) fn observe(&self, family: &'static Family, labels: &[&str], observed: f64) {
        let Form::Histogram(bounds) = family.form else {
            return;
        };
        let at = bounds.partition_point(|bound| *bound < observed);
        self.with(family, labels, |value| {
            if let Value::Distribution { counts, sum } = value {
                if let Some(count) = counts.get_mut(at) {
                    *count += 1;
                }
                *sum += observed;
            }
        });
    }

    /// Returns all values as text.
    pub(crate) fn to_text(&self) -> String {
        let values = self.lock();
        let mut text = String::new();
        for family in self.families {
            let own = values.get(family.name);
            if own.is_none() && family.is_optional {
                continue;
            }
            write_head(&mut text, family);
            for (labels, value) in own.into_iter().flatten() {
                write_value(&mut text, family, labels, value);
            }
            if own.is_none() && family.labels.is_empty() {
                write_value(&mut text, family, &[], &Value::zero(family.form));
            }
        }
        text
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, BTreeMap<Vec<String>, Value>>> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with(&self, family: &'static Family, labels: &[&str], change: impl FnOnce(&mut Value)) {
        debug_assert_eq!(family.labels.len(), labels.len(), "{}", family.name);
        let mut values = self.lock();
        let own = values.entry(family.name).or_default();
        let mut key: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
        if own.len() >= MAX_SERIES && !own.contains_key(&key) {
            key.fill(OTHER.to_owned());
        }
        change(own.entry(key).or_insert_with(|| Value::zero(family.form)));
    }
}

fn write_head(text: &mut String, family: &Family) {
    let Family {
        name, form, help, ..
    } = family;
    let form = match form {
        Form::Counter => "counter",
        Form::Gauge => "gauge",
        Form::Histogram(_) => "histogram",
    };
    write_line(text, &format!("# HELP {name} {help}"));
    write_line(text, &format!("# TYPE {name} {form}"));
}

fn write_value(text: &mut String, family: &Family, labels: &[String], value: &Value) {
    let name = family.name;
    let set = |more: Option<(&str, String)>| label_set(family, labels, more);
    match value {
        Value::Sum(sum) => write_line(text, &format!("{name}{} {sum}", set(None))),
        Value::Level(level) => write_line(text, &format!("{name}{} {level}", set(None))),
        Value::Distribution { counts, sum } => {
            let Form::Histogram(bounds) = family.form else {
                return;
            };
            let bounds = bounds.iter().map(ToString::to_string);
            let mut total = 0;
            for (bound, count) in bounds.chain(["+Inf".to_owned()]).zip(counts) {
                total += count;
                let set = set(Some(("le", bound)));
                write_line(text, &format!("{name}_bucket{set} {total}"));
            }
            write_line(text, &format!("{name}_sum{} {sum}", set(None)));
            write_line(text, &format!("{name}_count{} {total}", set(None)));
        }
    }
}

fn write_line(text: &mut String, line: &str) {
    let written = writeln!(text, "{line}");
    debug_assert!(written.is_ok(), "a string accepts every text");
}

fn label_set(family: &Family, values: &[String], more: Option<(&str, String)>) -> String {
    let own = family.labels.iter().copied().zip(values.iter().cloned());
    let pairs = own.chain(more).map(|(label, value)| {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"");
        format!("{label}=\"{}\"", value.replace('\n', "\\n"))
    });
    let pairs: Vec<String> = pairs.collect();
    if pairs.is_empty() {
        String::new()
    } else {
        format!("{{{}}}", pairs.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static CALLS: Family = Family {
        name: "calls_total",
        form: Form::Counter,
        labels: &["name"],
        help: "Calls.",
        is_optional: false,
    };
    static SECONDS: Family = Family {
        name: "seconds",
        form: Form::Histogram(&[0.5, 1.0]),
        labels: &[],
        help: "Seconds.",
        is_optional: false,
    };
    static BOTH: &[&Family] = &[&CALLS, &SECONDS];

    #[test]
    fn the_text_has_the_form_of_prometheus() {
        let registry = Registry::new(BOTH);
        registry.add(&CALLS, &["a\"b\\c\nd"], 2);
        for observed in [0.5, 0.75, 3.0] {
            registry.observe(&SECONDS, &[], observed);
        }
        let text = "# HELP calls_total Calls.\n# TYPE calls_total counter\n\
            calls_total{name=\"a\\\"b\\\\c\\nd\"} 2\n\
            # HELP seconds Seconds.\n# TYPE seconds histogram\n\
            seconds_bucket{le=\"0.5\"} 1\nseconds_bucket{le=\"1\"} 2\n\
            seconds_bucket{le=\"+Inf\"} 3\nseconds_sum 4.25\nseconds_count 3\n";
        assert_eq!(registry.to_text(), text);
    }

    #[test]
    fn label_sets_are_bounded() {
        let registry = Registry::new(BOTH);
        for name in 0..MAX_SERIES + 5 {
            registry.add(&CALLS, &[&name.to_string()], 1);
        }
        registry.add(&CALLS, &["0"], 1);
        let text = registry.to_text();
        let series = text.matches("calls_total{").count();
        assert_eq!(series, MAX_SERIES + 1);
        assert!(text.contains("calls_total{name=\"other\"} 5\n"));
        assert!(text.contains("calls_total{name=\"0\"} 2\n"));
    }
}
