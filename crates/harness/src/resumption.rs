//! The state with which a suspended run resumes beside the runs that came between.
//!
//! What a run had written before it suspended is in its session since. A field that is combined by
//! its reducer therefore continues from the session's value, which contains both. A field that is
//! replaced continues from the run's own value if the run wrote it, and from the session's if not.

use logue_graph::{FieldValue, PausedRun, Reducer, RunOutcome, State, StateSchema, Update};
use serde_json::{Map, Value};

use crate::sessions::{MigrationError, Migrations, Projection};

/// A field that a suspended run and a later one wrote.
#[derive(Debug)]
struct Contested {
    field: String,
    /// The value of the suspended run.
    own: FieldValue,
    /// The value of the session.
    later: FieldValue,
}

/// The fields of a run that resumes, for its end.
#[derive(Debug, Default)]
pub(crate) struct ResumedFields {
    contested: Vec<Contested>,
    /// The fields that the run wrote in earlier parts.
    written: Vec<String>,
}

impl ResumedFields {
    /// Gives a suspended run the fields that its session has by now.
    ///
    /// The payload is the signal's, which is not merged yet.
    pub(crate) fn merge<'a>(
        paused: &mut PausedRun,
        current: impl Iterator<Item = (&'a str, &'a FieldValue)>,
        payload: &Map<String, Value>,
        schema: &StateSchema,
    ) -> Self {
        let written = paused.written().map(|names| names.map(str::to_owned));
        let written: Option<Vec<String>> = written.map(Iterator::collect);
        let mut contested = Vec::new();
        for (name, value) in current {
            let Some(field) = schema.field(name) else {
                continue;
            };
            let is_written = |written: &Vec<String>| written.iter().any(|one| one == name);
            let is_own = *field.reducer() == Reducer::LastWriteWins
                && written.as_ref().is_none_or(is_written);
            match paused.field(name) {
                Some(own) if is_own => {
                    if !payload.contains_key(name) && own.to_json() != value.to_json() {
                        contested.push(Contested {
                            field: name.to_owned(),
                            own: own.clone(),
                            later: value.clone(),
                        });
                    }
                }
                _ => paused.set_field(name, value.clone()),
            }
        }
        let mut merged = Self {
            contested,
            written: written.unwrap_or_default(),
        };
        merged.mark_written(payload.keys());
        merged
    }

    /// Adds fields that an earlier part of the run wrote.
    pub(crate) fn mark_written<'a>(&mut self, names: impl Iterator<Item = &'a String>) {
        self.written.extend(names.cloned());
    }

    /// Completes the end of the run.
    ///
    /// A field that the run has not written since keeps the value of the later run.
    pub(crate) fn finish(&self, outcome: &mut RunOutcome) {
        match outcome {
            RunOutcome::Completed(completed) => self.keep_later(&mut completed.state),
            RunOutcome::Suspended(suspended) => {
                for name in &self.written {
                    suspended.paused.mark_written(name);
                }
                self.keep_later(&mut suspended.state);
            }
            RunOutcome::Errored(_) => {}
        }
    }

    fn keep_later(&self, state: &mut State) {
        for contested in &self.contested {
            let name = &contested.field;
            let value = state.get(name).map(FieldValue::to_json);
            if value == Some(contested.own.to_json()) {
                let later = Update::new().with(name, contested.later.clone());
                // The session's value was in a state of this schema before.
                drop(state.replace(later));
            }
        }
    }
}

/// Brings a suspended run to the version of the graph's schema, as its session is.
///
/// A field that the migration adds counts as written by the run if one that it removes was. The
/// payload's fields of the run's own version are migrated with it.
pub(crate) fn migrate(
    paused: &mut PausedRun,
    payload: &Map<String, Value>,
    migrations: &Migrations,
    projection: &Projection,
    schema: &StateSchema,
) -> Result<(), MigrationError> {
    let written = paused.written().map(|names| names.map(str::to_owned));
    let written: Option<Vec<String>> = written.map(Iterator::collect);
    let from = paused.schema_version().map(str::to_owned);
    // A record of an earlier version of this crate does not contain its version.
    let Some(mut written) = written.filter(|_| from.as_deref() != schema.version()) else {
        return Ok(());
    };
    let fields = paused.fields();
    let mut before: Map<String, Value> = fields
        .map(|(name, value)| (name.to_owned(), value.to_json()))
        .collect();
    for (name, value) in payload {
        if schema.field(name).is_none()
            && let Some(field) = before.get_mut(name)
        {
            *field = value.clone();
            written.push(name.clone());
        }
    }
    let names: Vec<String> = before.keys().cloned().collect();
    let (kept, others) = projection.split(before);
    let migrated = migrations.migrate(from.as_deref(), schema.version(), kept)?;
    let mut fields = projection.given(migrated.fields, schema);
    for (name, value) in others {
        if schema.field(&name).is_some() {
            fields.set(name, value);
        }
    }
    let is_removed = |name: &String| fields.get(name).is_none();
    if written.iter().any(is_removed) {
        for (name, _) in fields.iter() {
            if !names.iter().any(|one| one == name) {
                paused.mark_written(name);
            }
        }
    }
    paused.migrate(fields, schema.version());
    Ok(())
}
