//! The selection of state fields that a session keeps.

use serde_json::{Map, Value};

use logue_graph::{State, StateError, StateSchema, Update};

/// The state kept between two runs: everything, or some fields, optionally renamed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Projection {
    /// Pairs of a session field and a state field.
    ///
    /// Without pairs, all fields are kept under their own names.
    pairs: Option<Vec<(String, String)>>,
}

impl Projection {
    /// Every field under its own name.
    pub fn all() -> Self {
        Self::default()
    }

    /// Nothing yet.
    pub fn none() -> Self {
        Self {
            pairs: Some(Vec::new()),
        }
    }

    /// These fields under their own names; the others begin at their defaults in each run.
    pub fn fields<I: IntoIterator<Item = S>, S: Into<String>>(fields: I) -> Self {
        let names = fields.into_iter().map(Into::into);
        Self {
            pairs: Some(names.map(|name: String| (name.clone(), name)).collect()),
        }
    }

    /// Keeps a field of the state under a name of the session's. To everything it adds nothing.
    #[must_use]
    pub fn with(mut self, session_field: impl Into<String>, field: impl Into<String>) -> Self {
        if let Some(pairs) = &mut self.pairs {
            pairs.push((session_field.into(), field.into()));
        }
        self
    }

    pub(super) fn check(&self, schema: &StateSchema) -> Result<(), StateError> {
        let named = self.pairs.iter().flatten();
        let unknown = named
            .map(|(_, field)| field)
            .find(|field| schema.field(field).is_none());
        match unknown {
            Some(field) => Err(StateError::UndeclaredField {
                field: field.clone(),
            }),
            None => Ok(()),
        }
    }

    /// The fields of a state that a session keeps. Linear in their size.
    pub(super) fn kept(&self, state: &State) -> Map<String, Value> {
        let Some(pairs) = &self.pairs else {
            return state.to_json();
        };
        let kept = pairs.iter().filter_map(|(name, field)| {
            let value = state.get(field)?;
            Some((name.clone(), value.to_json()))
        });
        kept.collect()
    }

    /// Separates the fields that a session keeps, under its names, from the others.
    pub(crate) fn split(
        &self,
        fields: Map<String, Value>,
    ) -> (Map<String, Value>, Map<String, Value>) {
        let Some(pairs) = &self.pairs else {
            return (fields, Map::new());
        };
        let (mut kept, mut others) = (Map::new(), Map::new());
        for (field, value) in fields {
            match pairs.iter().find(|(_, own)| *own == field) {
                Some((name, _)) => kept.insert(name.clone(), value),
                None => others.insert(field, value),
            };
        }
        (kept, others)
    }

    /// The fields that a stored session gives a run. Fields unknown to the graph are dropped.
    pub(crate) fn given(&self, kept: Map<String, Value>, schema: &StateSchema) -> Update {
        let mut update = Update::new();
        for (name, value) in kept {
            match &self.pairs {
                None if schema.field(&name).is_some() => update.set(name, value),
                None => {}
                Some(pairs) => {
                    if let Some((_, field)) = pairs.iter().find(|(kept, _)| *kept == name) {
                        update.set(field, value);
                    }
                }
            }
        }
        update
    }
}
