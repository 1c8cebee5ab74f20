//! Division of rows into parts from which nothing leaks into another part.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use crate::duplicates::{
    DuplicateIndex, DuplicateRules, Grouping, Partition, RowSketch, temporary, verify,
};
use crate::error::DataError;
use crate::hash::{joined, mixed, of_bytes};
use crate::input::Inputs;
use crate::reading::read_rows;
use crate::row_turns::{FieldPath, RowTurn, turns, value_of};
use crate::words::fold;
use crate::{Refusal, RowSet};

/// Members that name a row, or the row that it was forked from.
const ROW_IDS: [&str; 7] = [
    "id",
    "row_id",
    "parent",
    "parent_id",
    "fork_of",
    "forked_from",
    "fork_id",
];
/// Members that name the session, conversation or tree that a row is part of.
const SESSION_IDS: [&str; 10] = [
    "session",
    "session_id",
    "parent_session",
    "parent_session_id",
    "root_session_id",
    "conversation_id",
    "thread_id",
    "message_tree_id",
    "tree_id",
    "trace_id",
];

/// The rules by which rows are divided.
#[derive(Clone, Debug)]
pub struct SplitRules {
    /// The parts.
    pub parts: Vec<SplitPart>,
    /// The seed of the order of groups.
    pub seed: u64,
    /// Members whose equal values keep rows together.
    pub fields: Vec<FieldPath>,
    /// The rules by which rows are near duplicates.
    pub duplicates: DuplicateRules,
}

impl SplitRules {
    /// Returns the reason for which a row is in no part.
    pub fn refusal(&self, row: &[u8]) -> Option<Refusal> {
        self.row(row).err()
    }

    /// Returns the sketch and the links of a row.
    fn row(&self, row: &[u8]) -> Result<(RowSketch, Vec<RowLink>), Refusal> {
        let turns = turns(row, &[])?;
        let sketch = self.duplicates.sketch_turns(&turns, row.len());
        Ok((sketch, row_links(row, &turns, &self.fields)?))
    }
}

/// A division of all rows into parts.
#[derive(Clone, Debug, Default)]
pub struct Split {
    division: Division,
    /// The rows that are refused, which are in no part.
    pub refused: RowSet,
    /// The groups that ids, forks and chosen members joined.
    pub joined_by_links: u64,
    /// The groups that duplicates joined.
    pub joined_by_duplicates: u64,
    /// The rows that have more candidates than are compared.
    pub limited: u64,
}

impl Split {
    /// Returns the number of the part of a row.
    pub fn part(&self, row: u64) -> Option<usize> {
        let part = self.division.parts.get(usize::try_from(row).ok()?)?;
        (*part != NO_PART).then_some(usize::from(*part))
    }

    /// Returns the rows of each part.
    pub fn rows(&self) -> &[u64] {
        &self.division.rows
    }

    /// Returns the groups of each part.
    pub fn groups(&self) -> &[u64] {
        &self.division.groups
    }

    /// Returns the rows of the largest group.
    pub fn largest(&self) -> u64 {
        self.division.largest
    }
}

/// The part of refused rows.
const NO_PART: u16 = u16::MAX;

/// Reads an input twice, and divides its rows into parts.
///
/// Rows are in one part if they share an id, begin with the same messages up to the first one of
/// the user, or are duplicates, directly or through others.
///
/// # Errors
/// Returns [`DataError`] if the input or the temporary files cannot be used.
pub fn split(
    inputs: impl Fn() -> Inputs,
    rules: &SplitRules,
    threads: usize,
) -> Result<Split, DataError> {
    let mut split = Split::default();
    let mut links: Vec<(RowLink, u32)> = Vec::new();
    let mut index = DuplicateIndex::new(rules.duplicates.clone());
    let mut rows = 0_u32;
    read_rows(
        inputs(),
        threads,
        |row| rules.row(row.bytes),
        |place, result| {
            let sketch = if let Ok((sketch, found)) = result {
                links.extend(found.into_iter().map(|link| (link, rows)));
                Some(sketch)
            } else {
                split.refused.insert(place.row);
                None
            };
            index.add(sketch).map_err(temporary)?;
            rows += 1;
            Ok(())
        },
    )?;
    let mut partition = Partition::new(rows);
    split.joined_by_links = join_linked(&mut links, &mut partition);
    drop(links);
    let candidates = verify(index, inputs(), &rules.duplicates, threads)?;
    let Grouping { joined, limited } =
        candidates.join_similar(&mut partition).map_err(temporary)?;
    split.joined_by_duplicates = joined;
    split.limited = limited;
    split.division = divide(
        rows,
        &split.refused,
        &mut partition,
        &rules.parts,
        rules.seed,
    );
    Ok(split)
}

/// The kinds of values that rows of one group share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum LinkReason {
    /// An id of a row, session or fork.
    Id,
    /// The messages up to the first one of the user.
    Prefix,
    /// The value of a chosen member.
    Field,
}

/// A hash that all rows of one group have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RowLink {
    /// The kind of the common value.
    reason: LinkReason,
    hash: u64,
}

/// Returns the links of a row: its ids, also those in `metadata`, the beginning of its conversation
/// and the members at `fields`.
fn row_links(
    row: &[u8],
    turns: &[RowTurn<'_>],
    fields: &[FieldPath],
) -> Result<Vec<RowLink>, Refusal> {
    let mut links = Vec::new();
    // An array of messages has no ids.
    let ids = serde_json::from_slice::<Ids>(row).map_or_else(|_| Vec::new(), |ids| ids.0);
    links.extend(ids.into_iter().map(|hash| RowLink {
        reason: LinkReason::Id,
        hash,
    }));
    let asked = turns.iter().position(|turn| turn.speaker == "user");
    let prefix = turns.get(..asked.map_or(1, |at| at + 1)).unwrap_or(turns);
    if !prefix.is_empty() {
        let mut folded = Vec::new();
        fold(prefix, &mut folded);
        links.push(RowLink {
            reason: LinkReason::Prefix,
            hash: of_bytes(&folded),
        });
    }
    if !fields.is_empty() {
        let value = value_of(row)?;
        for (number, field) in (0_u64..).zip(fields) {
            if let Some(value) = field.find(&value).filter(|value| !value.is_null()) {
                links.push(RowLink {
                    reason: LinkReason::Field,
                    hash: joined(number, of_bytes(value.to_string().as_bytes())),
                });
            }
        }
    }
    Ok(links)
}

/// Joins the rows that share a link, and returns the number of joined groups.
fn join_linked(links: &mut [(RowLink, u32)], partition: &mut Partition) -> u64 {
    links.sort_unstable();
    let mut count = 0;
    for pair in links.windows(2) {
        if let [(one, first), (two, second)] = pair
            && one == two
        {
            count += u64::from(partition.join(*first, *second));
        }
    }
    count
}

/// The parts of a data set, each with its share of the rows.
#[derive(Clone, Debug, PartialEq)]
pub struct SplitPart {
    /// The name, from which that of its file follows.
    pub name: String,
    /// The share of the rows; those of all parts are compared with each other.
    pub share: f64,
}

/// The number of the part of each row, and the sizes.
#[derive(Clone, Debug, Default)]
struct Division {
    /// The part of each row.
    pub parts: Vec<u16>,
    /// The rows of each part.
    pub rows: Vec<u64>,
    /// The groups of each part.
    pub groups: Vec<u64>,
    /// The rows of the largest group.
    pub largest: u64,
}

/// Divides rows, each group as a whole.
///
/// The groups are taken in an order that depends on the seed and the numbers of their first rows.
/// Each goes to the part that lacks the most rows, the first one of several.
#[expect(clippy::cast_precision_loss, reason = "shares of numbers of rows")]
fn divide(
    rows: u32,
    refused: &RowSet,
    partition: &mut Partition,
    parts: &[SplitPart],
    seed: u64,
) -> Division {
    let mut sizes = vec![0_u64; rows as usize];
    let is_used = |row: &u32| !refused.contains(u64::from(*row));
    for row in (0..rows).filter(is_used) {
        if let Some(size) = sizes.get_mut(partition.first(row) as usize) {
            *size += 1;
        }
    }
    let used: u64 = sizes.iter().sum();
    let groups = (0_u32..).zip(&sizes).filter(|(_, size)| **size > 0);
    let mut groups: Vec<(u64, u32, u64)> = groups
        .map(|(first, size)| (mixed(joined(seed, u64::from(first))), first, *size))
        .collect();
    groups.sort_unstable();
    let total: f64 = parts.iter().map(|part| part.share).sum();
    let mut lacking: Vec<f64> = parts
        .iter()
        .map(|part| part.share / total * used as f64)
        .collect();
    let mut division = Division {
        parts: vec![NO_PART; rows as usize],
        rows: vec![0; parts.len()],
        groups: vec![0; parts.len()],
        largest: sizes.iter().copied().max().unwrap_or(0),
    };
    let mut of_group = vec![0_u16; rows as usize];
    for (_, first, size) in groups {
        let mut best = 0;
        for (number, lack) in lacking.iter().enumerate() {
            if lacking.get(best).is_some_and(|most| lack > most) {
                best = number;
            }
        }
        let add = |counts: &mut [u64], count: u64| {
            if let Some(place) = counts.get_mut(best) {
                *place += count;
            }
        };
        add(&mut division.rows, size);
        add(&mut division.groups, 1);
        if let Some(lack) = lacking.get_mut(best) {
            *lack -= size as f64;
        }
        if let Some(place) = of_group.get_mut(first as usize) {
            *place = u16::try_from(best).unwrap_or(0);
        }
    }
    for row in (0..rows).filter(is_used) {
        let part = of_group.get(partition.first(row) as usize);
        if let (Some(place), Some(part)) = (division.parts.get_mut(row as usize), part) {
            *place = *part;
        }
    }
    division
}

/// The hashes of the ids of a row.
struct Ids(Vec<u64>);

impl<'de> Deserialize<'de> for Ids {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(IdsVisitor)
    }
}

struct IdsVisitor;

impl<'de> Visitor<'de> for IdsVisitor {
    type Value = Ids;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a row")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ids, A::Error> {
        let mut ids = Vec::new();
        while let Some(key) = map.next_key::<IdKey>()? {
            match key {
                IdKey::Id(kind) => ids.extend(id(kind, &map.next_value::<Value>()?)),
                IdKey::Metadata => {
                    let mut metadata = map.next_value::<Value>()?;
                    // Data sets in columns have metadata as JSON text.
                    if let Value::String(text) = &metadata
                        && let Ok(value) = serde_json::from_str(text)
                    {
                        metadata = value;
                    }
                    if let Value::Object(metadata) = metadata {
                        let known = |(key, value): (&String, &Value)| id(kind_of(key)?, value);
                        ids.extend(metadata.iter().filter_map(known));
                    }
                }
                IdKey::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Ids(ids))
    }
}

/// Returns the hash of an id. Ids of rows and of sessions are never equal.
fn id(kind: u64, value: &Value) -> Option<u64> {
    let text = match value {
        Value::String(text) if !text.is_empty() => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    Some(joined(kind, of_bytes(text.as_bytes())))
}

fn kind_of(key: &str) -> Option<u64> {
    if ROW_IDS.contains(&key) {
        Some(1)
    } else if SESSION_IDS.contains(&key) {
        Some(2)
    } else {
        None
    }
}

enum IdKey {
    Id(u64),
    Metadata,
    Other,
}

impl<'de> Deserialize<'de> for IdKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(IdKeyVisitor)
    }
}

struct IdKeyVisitor;

impl Visitor<'_> for IdKeyVisitor {
    type Value = IdKey;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<IdKey, E> {
        Ok(match kind_of(key) {
            Some(kind) => IdKey::Id(kind),
            None if key == "metadata" => IdKey::Metadata,
            None => IdKey::Other,
        })
    }
}
