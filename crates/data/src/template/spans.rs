//! The classes of the text of a message.

use super::marks::ValueClass;
use super::regions::{Region, first_of};
use crate::mask::{MaskSpan, SpanClass};

/// Tokens that end reasoning, in the templates that have reasoning.
const CLOSERS: [&str; 6] = [
    "</think>",
    "[/THINK]",
    "<channel|>",
    "<|END_THINKING|>",
    "<|end|>",
    "<|eom|>",
];

/// Divides the text of a message into spans without gaps.
///
/// Text around values has the class of the value that it introduces or closes: that before a call
/// belongs to the call, that up to a token which closes reasoning belongs to the reasoning.
pub(super) fn spans(text: &str, region: &Region, stops: &[String], spans: &mut Vec<MaskSpan>) {
    let mut add = |from: usize, to: usize, class: SpanClass, is_stop: bool| {
        if from >= to {
            return;
        }
        if let Some(last) = spans.last_mut()
            && last.end == from
            && last.class == class
            && last.message == region.message
            && !last.stop
            && !is_stop
        {
            last.end = to;
            return;
        }
        spans.push(MaskSpan::new(from, to, class, region.message).with_stop(is_stop));
    };
    let mut at = region.from;
    let mut class = None;
    for place in &region.values {
        let next = class_of(place.value.class);
        let gap = text.get(at..place.from).unwrap_or_default();
        let closed =
            reasoning_end(gap).filter(|_| matches!(class, None | Some(SpanClass::Reasoning)));
        let divided = match closed {
            Some(end) => at + end,
            // Without a token that closes it, reasoning ends where the next value begins.
            None if class == Some(SpanClass::Reasoning) && next == SpanClass::Answer => place.from,
            None => at,
        };
        add(at, divided, SpanClass::Reasoning, false);
        add(divided, place.to, next, false);
        at = place.to;
        class = Some(next);
    }
    let gap = text.get(at..region.to).unwrap_or_default();
    let closed = reasoning_end(gap).filter(|_| matches!(class, None | Some(SpanClass::Reasoning)));
    let class = class.unwrap_or(match closed {
        Some(_) => SpanClass::Reasoning,
        None => SpanClass::Answer,
    });
    let (found, stop) = match first_of(gap, stops) {
        // The token that closes reasoning is not the one with which the model stops.
        Some((found, stop)) if closed.is_none_or(|end| found >= end) => (found, stop),
        _ => {
            add(at, region.to, class, false);
            return;
        }
    };
    let stop_end = at + found + stop.len();
    let closed = closed.unwrap_or(0);
    add(at, at + closed, class, false);
    let rest = if closed > 0 { SpanClass::Answer } else { class };
    add(at + closed, at + found, rest, false);
    add(at + found, stop_end, SpanClass::Terminator, true);
    add(stop_end, region.to, SpanClass::Terminator, false);
}

fn class_of(class: ValueClass) -> SpanClass {
    match class {
        ValueClass::Reasoning => SpanClass::Reasoning,
        ValueClass::Call => SpanClass::Call,
        ValueClass::Answer => SpanClass::Answer,
        ValueClass::Context => SpanClass::Context,
    }
}

/// Returns the end of the last closing token of reasoning, with white space.
fn reasoning_end(gap: &str) -> Option<usize> {
    let ends = CLOSERS
        .iter()
        .filter_map(|token| gap.rfind(token).map(|at| at + token.len()));
    let end = ends.max()?;
    let after = gap.get(end..).unwrap_or_default();
    Some(gap.len() - after.trim_start().len())
}
