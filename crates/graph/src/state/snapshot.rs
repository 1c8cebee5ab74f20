//! The state of a run: one value for each field of a schema, always valid.
//!
//! Every value is checked when it enters the state and cannot change afterwards, so an existing
//! state is valid and no later check visits it: entering a graph with a state of 10,000 messages,
//! leaving it, and every step between cost only the new values.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::build::compile_error::CompileError;
use crate::state::element::{Element, InvalidElement};
use crate::state::list::List;
use crate::state::reducer::Reducer;
use crate::state::schema::{Field, StateSchema};
use crate::state::update::Update;
use crate::state::value::FieldValue;

/// An immutable, validated state snapshot. Cloning is O(1).
#[derive(Clone)]
pub struct State {
    layout: Arc<Layout>,
    values: Arc<Vec<FieldValue>>,
}

/// An error that prevents an update of a state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The schema has no such field.
    #[error("the state has no field `{field}`")]
    UndeclaredField {
        /// The field that the update names.
        field: String,
    },
    /// The value is not of the field's type.
    #[error("the field `{field}` takes {expected}, not {found}")]
    WrongType {
        /// The field.
        field: String,
        /// The declared type.
        expected: String,
        /// The actual kind; for a list element with its position among the new ones.
        found: String,
    },
    /// An element of a typed list is not valid.
    #[error("the field `{field}` takes {expected}; element {index} is not one: {cause}")]
    InvalidElement {
        /// The field.
        field: String,
        /// The declared type.
        expected: String,
        /// The position among the new elements.
        index: usize,
        /// The rule that the element violates.
        cause: String,
    },
    /// The field's reducer cannot combine the old and the new value.
    #[error("the reducer `{reducer}` of the field `{field}` failed: {cause}")]
    Reducer {
        /// The field.
        field: String,
        /// The reducer of the field.
        reducer: Reducer,
        /// The reason.
        cause: String,
    },
}

impl State {
    /// Returns the schema of the state.
    pub fn schema(&self) -> &StateSchema {
        &self.layout.schema
    }

    /// Returns the value of a field, if the schema has such a field.
    pub fn get(&self, field: &str) -> Option<&FieldValue> {
        self.values.get(self.layout.position(field)?)
    }

    /// Returns the JSON list that a field holds.
    ///
    /// Returns `None` if the schema has no such field or it holds another value.
    pub fn list(&self, field: &str) -> Option<&List> {
        self.get(field)?.as_list()
    }

    /// Returns the list of elements of the type `T` that a field holds.
    ///
    /// Returns `None` if the schema has no such field or its elements are of another type.
    pub fn list_of<T: Element>(&self, field: &str) -> Option<&List<T>> {
        self.get(field)?.as_list_of()
    }

    /// Returns the JSON that a field holds.
    ///
    /// Returns `None` if the schema has no such field or it holds a list.
    pub fn json(&self, field: &str) -> Option<&Value> {
        self.get(field)?.as_json()
    }

    /// Returns the fields and their values, in the order of the schema.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &FieldValue)> {
        let names = self.layout.schema.fields().iter().map(Field::name);
        names.zip(self.values.iter())
    }

    /// Returns a copy as a JSON object; costs the size of the state.
    pub fn to_json(&self) -> Map<String, Value> {
        self.iter()
            .map(|(name, value)| (name.to_owned(), value.to_json()))
            .collect()
    }

    /// Returns the fields as an update that shares their contents.
    pub(crate) fn to_update(&self) -> Update {
        let mut update = Update::new();
        for (name, value) in self.iter() {
            update.push(name, value.clone());
        }
        update
    }

    /// Merges an update, each field by its reducer: completely, or not at all on errors.
    ///
    /// Costs the size of the update. Clones of the state keep their values; without clones, the
    /// merge happens in place.
    ///
    /// # Errors
    /// Returns an error if a field is undeclared, a value has the wrong type, or a reducer cannot
    /// combine the values.
    pub fn apply(&mut self, update: Update) -> Result<(), StateError> {
        let checked = self.checked(update, Field::reducer, true)?;
        if checked.is_empty() {
            return Ok(());
        }
        let fields = self.layout.schema.fields();
        let values = Arc::make_mut(&mut self.values);
        for (position, new) in checked {
            if let (Some(field), Some(old)) = (fields.get(position), values.get_mut(position)) {
                field.reducer().reduce(old, new);
            }
        }
        Ok(())
    }

    /// Replaces some fields, regardless of their reducers.
    ///
    /// # Errors
    /// Returns an error, and changes nothing, if a field is undeclared or a value has the wrong type.
    pub fn replace(&mut self, fields: Update) -> Result<(), StateError> {
        let checked = self.checked(fields, |_| &Reducer::LastWriteWins, false)?;
        let values = Arc::make_mut(&mut self.values);
        for (position, new) in checked {
            if let Some(old) = values.get_mut(position) {
                *old = new;
            }
        }
        Ok(())
    }

    /// Returns the checked update by position, so that merging cannot fail halfway.
    fn checked(
        &self,
        update: Update,
        reducer_of: fn(&Field) -> &Reducer,
        validates: bool,
    ) -> Result<Vec<(usize, FieldValue)>, StateError> {
        let mut checked = Vec::with_capacity(update.len());
        for (name, new) in update.into_entries() {
            let known = self.layout.position(&name);
            let Some((position, field, old)) = known.and_then(|position| {
                let field = self.layout.schema.fields().get(position)?;
                Some((position, field, self.values.get(position)?))
            }) else {
                return Err(StateError::UndeclaredField { field: name });
            };
            let reducer = reducer_of(field);
            let new = field_form(field, new, validates)?;
            let new = reducer
                .prepare(old, new)
                .map_err(|cause| StateError::Reducer {
                    field: name,
                    reducer: reducer.clone(),
                    cause,
                })?;
            check_type(field, &new)?;
            checked.push((position, new));
        }
        Ok(checked)
    }
}

/// Converts a value to the form of the field: typed elements or JSON.
fn field_form(field: &Field, value: FieldValue, validates: bool) -> Result<FieldValue, StateError> {
    let Some(element) = field.field_type().typed_element() else {
        return Ok(match value.as_typed() {
            Some(list) => list.to_json().into(),
            None => value,
        });
    };
    let invalid = |invalid: InvalidElement| StateError::InvalidElement {
        field: field.name().to_owned(),
        expected: field.field_type().to_string(),
        index: invalid.index,
        cause: invalid.cause,
    };
    let is_of_type = value.as_typed().is_some_and(|list| element.is_list(list));
    let value = match value.to_list_unless(is_of_type) {
        Some(items) => FieldValue::from_typed(element.decode(&items).map_err(invalid)?),
        None => value,
    };
    if let Some(list) = value.as_typed().filter(|_| validates) {
        element.check(list).map_err(invalid)?;
    }
    Ok(value)
}

fn check_type(field: &Field, value: &FieldValue) -> Result<(), StateError> {
    let Some(mismatch) = field.field_type().mismatch(value) else {
        return Ok(());
    };
    let found = match mismatch.index {
        Some(index) => format!("{} as element {index}", mismatch.found),
        None => mismatch.found.to_owned(),
    };
    let expected = field.field_type().to_string();
    Err(StateError::WrongType {
        field: field.name().to_owned(),
        expected,
        found,
    })
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// A checked schema, with its fields by name.
#[derive(Debug)]
pub(crate) struct Layout {
    schema: StateSchema,
    positions: HashMap<String, usize>,
    defaults: Arc<Vec<FieldValue>>,
}

impl Layout {
    pub(crate) fn new(schema: StateSchema) -> Result<Arc<Self>, CompileError> {
        let mut positions = HashMap::with_capacity(schema.fields().len());
        let mut defaults = Vec::with_capacity(schema.fields().len());
        for (position, field) in schema.fields().iter().enumerate() {
            if let Some(first) = positions.insert(field.name().to_owned(), position) {
                return Err(declared_twice(&schema, first, field));
            }
            if field.field_type().typed_element().is_some() && !field.reducer().accepts_typed() {
                return Err(CompileError::UnsupportedReducer {
                    field: field.name().to_owned(),
                    reducer: field.reducer().clone(),
                });
            }
            let default = field_form(field, field.default_value().clone(), true)
                .map_err(CompileError::InvalidDefault)?;
            check_type(field, &default).map_err(CompileError::InvalidDefault)?;
            defaults.push(default);
        }
        Ok(Arc::new(Self {
            schema,
            positions,
            defaults: Arc::new(defaults),
        }))
    }

    pub(crate) fn schema(&self) -> &StateSchema {
        &self.schema
    }

    /// Returns the state in which every field has its default.
    pub(crate) fn defaults(self: &Arc<Self>) -> State {
        State {
            layout: Arc::clone(self),
            values: Arc::clone(&self.defaults),
        }
    }

    /// Returns the defaults with some fields replaced.
    pub(crate) fn state(self: &Arc<Self>, fields: Update) -> Result<State, StateError> {
        let mut state = self.defaults();
        state.replace(fields)?;
        Ok(state)
    }

    /// Adopts a state: O(1) for this layout, a full check for another one.
    pub(crate) fn adopt(self: &Arc<Self>, state: State) -> Result<State, StateError> {
        if Arc::ptr_eq(self, &state.layout) {
            return Ok(state);
        }
        self.state(state.to_update())
    }

    fn position(&self, field: &str) -> Option<usize> {
        self.positions.get(field).copied()
    }
}

fn declared_twice(schema: &StateSchema, first: usize, second: &Field) -> CompileError {
    let field = second.name().to_owned();
    match schema.fields().get(first).map(Field::reducer) {
        Some(reducer) if reducer != second.reducer() => CompileError::ConflictingReducers {
            field,
            first: reducer.clone(),
            second: second.reducer().clone(),
        },
        _ => CompileError::DuplicateField { field },
    }
}
