//! How an update of a field meets the value that is there.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::state::list::List;
use crate::state::value::{FieldValue, kind_of};

/// The rule by which a field takes a new value.
///
/// What an update costs is said with each rule; items of lists are shared, never copied, so that a
/// rule which passes over a list handles its pointers only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reducer {
    /// The new value replaces the old one. Costs O(1).
    #[default]
    LastWriteWins,
    /// The new items go behind the old ones; both sides are lists. Costs the new items.
    Append,
    /// The entries of the new map go into the old one, where they replace those of the same key;
    /// nothing deeper is merged. Costs the new entries, and a copy of the old map while somebody
    /// else holds it.
    Merge,
    /// Like [`Append`](Self::Append), but a new item that is a list itself gives its items instead,
    /// one level deep: what several parts of a fan-out have listed becomes one list.
    ConcatFlatten,
    /// Like [`Merge`](Self::Merge), but the update is a list of maps, which go in one after another:
    /// what several parts of a fan-out have mapped becomes one map. A single map is taken too.
    MergeAll,
    /// Like [`Append`](Self::Append), but only the last so many items are kept. Costs the new items
    /// until the list is full, and the bound from then on.
    BoundedAppend(usize),
    /// Like [`Append`](Self::Append), but without the items that are in the list already, or earlier
    /// in the update. Costs a pass over the old items.
    DedupeAppend,
    /// Both sides are lists of maps. A new map whose entry of this name equals that of an old one is
    /// merged into it as [`Merge`](Self::Merge) does, in its place; other new maps go to the end.
    /// Costs a pass over the old items.
    MergeByKey(Arc<str>),
}

impl Reducer {
    /// The rule that merges maps of a list by the entry of that name.
    pub fn merge_by_key(key: &str) -> Self {
        Self::MergeByKey(key.into())
    }

    /// The name of the rule, without what it is given.
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

    /// The rule that a schema names: `append`, `bounded_append(20)`, `merge_by_key(id)` and so on.
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

    /// What the update brings, in the form of the field's own type; or why the rule cannot bring it
    /// and the old value together.
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

    /// Brings the two together; [`prepare`](Self::prepare) has given the new one.
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
            // Behind nothing, the new list can be taken whole.
            _ => *old = new,
        }
    }
}

/// The new list, if both sides are lists.
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

/// Up to so many new items, comparing each with every old one is cheaper than hashing the old ones:
/// most differ at once.
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
    // The new maps, those of the same key made one, and where each is to go.
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
