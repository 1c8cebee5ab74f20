//! Reducers: the rules that merge an update into the value of a field.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::state::list::List;
use crate::state::value::{FieldValue, kind_of};

/// The rule that merges a new value into a field.
///
/// Each rule documents the cost of an update; items of lists are shared, never copied, so that a
/// rule that passes over a list handles its pointers only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reducer {
    /// The new value replaces the old one. Costs O(1).
    #[default]
    LastWriteWins,
    /// Appends the new items; both sides are lists. Costs the new items.
    Append,
    /// Inserts the entries of the new map, replacing those of equal keys.
    ///
    /// Nested maps are not merged. Costs the new entries, and a copy of the old map if it has
    /// another holder.
    Merge,
    /// Appends the new items, and flattens items that are lists by one level.
    ///
    /// Combines the lists of several parts of a fan-out into one list.
    ConcatFlatten,
    /// Merges a list of maps, one after another, as [`Merge`](Self::Merge) does.
    ///
    /// Combines the maps of several parts of a fan-out into one map. A single map is accepted too.
    MergeAll,
    /// Appends the new items and keeps only the last ones, up to the bound.
    ///
    /// Costs the new items until the list is full, and the bound afterwards.
    BoundedAppend(usize),
    /// Appends the new items that the list does not contain.
    ///
    /// Items that occur earlier in the update are left out too. Costs a pass over the old items.
    DedupeAppend,
    /// Merges lists of maps by the entry of this name.
    ///
    /// A new map whose entry equals that of an old one is merged into it as [`Merge`](Self::Merge)
    /// does, in its place; other new maps are appended. Costs a pass over the old items.
    MergeByKey(Arc<str>),
}

impl Reducer {
    /// Returns the rule that merges maps of a list by the entry of that name.
    pub fn merge_by_key(key: &str) -> Self {
        Self::MergeByKey(key.into())
    }

    /// Returns the name of the rule, without its argument.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::LastWriteWins => "last_write_wins",
            Self::Append => "append",
            Self::Merge => "merge",
            Self::ConcatFlatten => "concat_flatten",
            Self::MergeAll => "merge_all",
            Self::BoundedAppend(_) => "bounded_append",
            Self::DedupeAppend => "dedupe_append",
            Self::MergeByKey(_) => "merge_by_key",
        }
    }

    /// Parses the notation of schemas: `append`, `bounded_append(20)`, `merge_by_key(id)` and so
    /// on.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let given = |name: &str| {
            let rest = text.strip_prefix(name)?.trim_start();
            Some(rest.strip_prefix('(')?.strip_suffix(')')?.trim())
        };
        if let Some(bound) = given("bounded_append") {
            return bound.parse().ok().map(Self::BoundedAppend);
        }
        if let Some(key) = given("merge_by_key") {
            return (!key.is_empty()).then(|| Self::merge_by_key(key));
        }
        match text {
            "last_write_wins" => Some(Self::LastWriteWins),
            "append" => Some(Self::Append),
            "merge" => Some(Self::Merge),
            "concat_flatten" => Some(Self::ConcatFlatten),
            "merge_all" => Some(Self::MergeAll),
            "dedupe_append" => Some(Self::DedupeAppend),
            _ => None,
        }
    }

    /// Returns whether the rule applies to lists of typed elements.
    pub(crate) const fn accepts_typed(&self) -> bool {
        matches!(
            self,
            Self::LastWriteWins | Self::Append | Self::BoundedAppend(_)
        )
    }

    /// Converts an update to the form of the field's own type.
    ///
    /// # Errors
    /// Returns the reason why the rule cannot combine the two values.
    pub(crate) fn prepare(&self, old: &FieldValue, new: FieldValue) -> Result<FieldValue, String> {
        match self {
            Self::LastWriteWins => Ok(new),
            Self::Append | Self::BoundedAppend(_) | Self::DedupeAppend => {
                if old.as_typed().is_some() && new.as_typed().is_some() {
                    return Ok(new);
                }
                lists(old, &new)?;
                Ok(new)
            }
            Self::ConcatFlatten => Ok(flattened(lists(old, &new)?)),
            Self::Merge => {
                map_of("state", old)?;
                map_of("update", &new)?;
                Ok(new)
            }
            Self::MergeAll => {
                map_of("state", old)?;
                if let Some(maps) = new.as_list() {
                    return merged(maps);
                }
                map_of("update", &new)?;
                Ok(new)
            }
            Self::MergeByKey(key) => {
                let missing = lists(old, &new)?
                    .iter()
                    .enumerate()
                    .find(|(_, item)| item.get(&**key).is_none());
                match missing {
                    Some((index, _)) => {
                        Err(format!("element {index} of the update has no `{key}`"))
                    }
                    None => Ok(new),
                }
            }
        }
    }

    /// Merges a new value that [`prepare`](Self::prepare) returned into the old one.
    pub(crate) fn reduce(&self, old: &mut FieldValue, new: FieldValue) {
        if let Self::Merge | Self::MergeAll = self {
            return match (old.as_map_mut(), new.as_json()) {
                (Some(map), Some(Value::Object(entries))) if !map.is_empty() => {
                    put(map, entries);
                }
                _ => *old = new,
            };
        }
        if let (Some(list), Some(items)) = (old.as_typed_mut(), new.as_typed()) {
            let bound = match self {
                Self::BoundedAppend(bound) => Some(*bound),
                Self::Append => None,
                _ => {
                    *old = new;
                    return;
                }
            };
            list.append(items, bound);
            return;
        }
        let (Some(list), Some(items)) = (old.as_list_mut(), new.as_list()) else {
            *old = new;
            return;
        };
        match self {
            Self::DedupeAppend => append_unknown(list, items),
            Self::BoundedAppend(bound) => list.append_bounded(items, *bound),
            Self::MergeByKey(key) => merge_by(key, list, items),
            Self::Append | Self::ConcatFlatten if !list.is_empty() => list.extend(items.shared()),
            // An empty list is replaced by the new list as a whole.
            _ => *old = new,
        }
    }
}

/// Returns the new list, if both sides are lists.
fn lists<'a>(old: &FieldValue, new: &'a FieldValue) -> Result<&'a List, String> {
    let (side, value) = match (old.as_list(), new.as_list()) {
        (Some(_), Some(items)) => return Ok(items),
        (None, _) => ("state", old),
        (_, None) => ("update", new),
    };
    let kind = value.kind();
    Err(format!(
        "the {side} holds {kind}, and only lists can be joined"
    ))
}

fn map_of<'a>(side: &str, value: &'a FieldValue) -> Result<&'a Map<String, Value>, String> {
    let map = value.as_json().and_then(Value::as_object);
    let kind = value.kind();
    map.ok_or_else(|| format!("the {side} holds {kind}, and only maps can be merged"))
}

fn flattened(items: &List) -> FieldValue {
    let mut flat = List::new();
    for item in items.shared() {
        match &*item {
            Value::Array(inner) => flat.extend(inner.iter().cloned()),
            _ => flat.push(item),
        }
    }
    flat.into()
}

fn merged(maps: &List) -> Result<FieldValue, String> {
    let mut all = Map::new();
    for (index, map) in maps.iter().enumerate() {
        let Value::Object(entries) = map else {
            let kind = kind_of(map);
            return Err(format!(
                "element {index} of the update is {kind}, and only maps can be merged"
            ));
        };
        put(&mut all, entries);
    }
    Ok(Value::Object(all).into())
}

fn put(map: &mut Map<String, Value>, entries: &Map<String, Value>) {
    for (key, value) in entries {
        map.insert(key.clone(), value.clone());
    }
}

/// The largest update for which comparing is cheaper than hashing the old items.
///
/// Most comparisons differ at once.
const FEW: usize = 8;

fn append_unknown(list: &mut List, items: &List) {
    let mut new: Vec<Arc<Value>> = Vec::with_capacity(items.len());
    if items.len() <= FEW {
        for item in items.shared() {
            if !new.contains(&item) && !list.iter().any(|old| *old == *item) {
                new.push(item);
            }
        }
    } else {
        let mut known: HashSet<&Value> = list.iter().collect();
        let unknown = items.iter().enumerate();
        let unknown = unknown.filter(|(_, item)| known.insert(item));
        new.extend(unknown.filter_map(|(index, _)| items.get_shared(index)));
    }
    list.extend(new);
}

fn merge_by(key: &str, list: &mut List, items: &List) {
    // The new maps, merged by key, and the position of each in the list.
    let mut new: Vec<(Arc<Value>, Option<usize>)> = Vec::with_capacity(items.len());
    let mut places: HashMap<Value, usize> = HashMap::with_capacity(items.len());
    for item in items.shared() {
        let Some(id) = item.get(key) else {
            continue;
        };
        if let Some((earlier, _)) = places.get(id).and_then(|place| new.get_mut(*place)) {
            merge_map(earlier, &item);
        } else {
            places.insert(id.clone(), new.len());
            new.push((item, None));
        }
    }
    for (index, old) in list.iter().enumerate() {
        let place = old.get(key).and_then(|id| places.get(id));
        if let Some((_, at)) = place.and_then(|place| new.get_mut(*place)) {
            at.get_or_insert(index);
        }
    }
    for (item, at) in new {
        match at.and_then(|at| Some((at, list.get_shared(at)?))) {
            Some((at, mut old)) => {
                merge_map(&mut old, &item);
                list.replace(at, old);
            }
            None => list.push(item),
        }
    }
}

fn merge_map(old: &mut Arc<Value>, new: &Value) {
    if let (Value::Object(map), Value::Object(entries)) = (Arc::make_mut(old), new) {
        put(map, entries);
    }
}

impl fmt::Display for Reducer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BoundedAppend(bound) => write!(f, "bounded_append({bound})"),
            Self::MergeByKey(key) => write!(f, "merge_by_key({key})"),
            other => f.write_str(other.as_str()),
        }
    }
}
