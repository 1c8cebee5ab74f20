//! The text of each message of the assistant within a rendering.

use super::marks::{Place, Stripped, ValueClass};

/// The text that the assistant writes for one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) from: usize,
    pub(super) to: usize,
    /// The message in the row.
    pub(super) message: usize,
    /// The values in it, in order.
    pub(super) values: Vec<Place>,
}

/// The reason why regions are unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoRegion {
    /// Values of messages are mixed, or one is outside of all text of its message.
    Order,
    /// The text before an answer is not that with which generation begins.
    Header,
    /// No stop token follows.
    Stop,
}

/// Returns the regions of the tags `{% generation %}`.
///
/// `assistants` are the messages of the assistant, for a row whose values have no marks.
pub(super) fn tagged(stripped: &Stripped, assistants: &[usize]) -> Result<Vec<Region>, NoRegion> {
    let texts: Vec<(usize, usize)> = stripped
        .generations
        .iter()
        .copied()
        .filter(|(from, to)| from < to)
        .collect();
    let mut regions = Vec::with_capacity(texts.len());
    for (index, &(from, to)) in texts.iter().enumerate() {
        let values = stripped.values.iter();
        let values: Vec<Place> = values
            .filter(|place| from <= place.from && place.to <= to)
            .filter(|place| place.value.class != ValueClass::Context)
            .copied()
            .collect();
        let message = match values.first() {
            Some(first) => first.value.message,
            None if stripped.values.is_empty() && texts.len() == assistants.len() => {
                assistants.get(index).copied().ok_or(NoRegion::Order)?
            }
            None => beside(stripped, from, to, assistants).ok_or(NoRegion::Order)?,
        };
        if values.iter().any(|place| place.value.message != message) {
            return Err(NoRegion::Order);
        }
        regions.push(Region {
            from,
            to,
            message,
            values,
        });
    }
    Ok(regions)
}

/// Returns the message of text without values: that of the value before it if it is of the
/// assistant, otherwise that of the value after it, or the only one between both.
fn beside(stripped: &Stripped, from: usize, to: usize, assistants: &[usize]) -> Option<usize> {
    let before = stripped.values.iter().rev().find(|place| place.to <= from);
    let after = stripped.values.iter().find(|place| place.from >= to);
    let [before, after] = [before, after].map(|place| place.map(|place| place.value.message));
    let is_assistant = |message: &usize| assistants.contains(message);
    let beside = [before, after].into_iter().flatten().find(is_assistant);
    beside.or_else(|| {
        let is_between = |message: &&usize| {
            before.is_none_or(|before| before < **message)
                && after.is_none_or(|after| **message < after)
        };
        let mut between = assistants.iter().filter(is_between);
        between.next().copied().filter(|_| between.next().is_none())
    })
}

/// Returns the regions of a template without such tags.
///
/// A message begins after the text with which the template asks for an answer, and ends after the
/// next stop token. Both are searched between values only, so that text of the row is neither.
pub(super) fn marked(
    stripped: &Stripped,
    headers: &[&str],
    stops: &[String],
) -> Result<Vec<Region>, NoRegion> {
    let text = stripped.text.as_str();
    // A template may repeat a value, such as the name of a tool before its result.
    let mut seen = std::collections::BTreeSet::new();
    let values = stripped.values.iter();
    let values = values.filter(|place| seen.insert(place.value.index));
    let values: Vec<Place> = values.copied().collect();
    if values
        .windows(2)
        .any(|two| matches!(two, [one, next] if one.value.message > next.value.message))
    {
        return Err(NoRegion::Order);
    }
    let mut regions = Vec::new();
    let mut at = 0;
    while let Some(first) = values.get(at) {
        let message = first.value.message;
        let of_message = values.get(at..).unwrap_or_default();
        let count = of_message
            .iter()
            .take_while(|place| place.value.message == message)
            .count();
        let of_message = of_message.get(..count).unwrap_or_default();
        let before = at.checked_sub(1).and_then(|last| values.get(last));
        let before = before.map_or(0, |place| place.to);
        at += count;
        if first.value.class == ValueClass::Context {
            continue;
        }
        let gap = text.get(before..first.from).unwrap_or_default();
        let header = headers
            .iter()
            .find_map(|header| gap.rfind(header).map(|found| found + header.len()))
            .ok_or(NoRegion::Header)?;
        let last = of_message.last().map_or(first.to, |place| place.to);
        let next = values.get(at).map_or(text.len(), |place| place.from);
        let gap = text.get(last..next).unwrap_or_default();
        let (found, stop) = first_of(gap, stops).ok_or(NoRegion::Stop)?;
        regions.push(Region {
            from: before + header,
            to: last + found + stop.len(),
            message,
            values: of_message.to_vec(),
        });
    }
    Ok(regions)
}

/// Returns the first place of one of the names, the longest one at that place.
pub(super) fn first_of<'s>(text: &str, names: &'s [String]) -> Option<(usize, &'s str)> {
    names
        .iter()
        .filter_map(|name| text.find(name.as_str()).map(|at| (at, name.as_str())))
        .min_by_key(|(at, name)| (*at, std::cmp::Reverse(name.len())))
}
