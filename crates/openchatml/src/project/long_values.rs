//! The ends of the long values of a JSON text.
//!
//! They permit to find a part without reading the text before it.

use super::node::{Node, skip_string};

/// The bytes from which a value is long.
const LONG: usize = 64;

/// The starts and ends of the long values of a document, in order.
#[derive(Debug, Default)]
pub(super) struct LongValues(Vec<(usize, usize)>);

impl LongValues {
    /// No value, so that each is read to find its end.
    pub(super) const NONE: &'static Self = &Self(Vec::new());

    /// Finds the long values of some values of one document. Linear in their text, without recursion.
    pub(super) fn of(values: &[Node<'_>]) -> Self {
        let mut found = Vec::new();
        for value in values {
            add(value.spelled().as_bytes(), value.span().start, &mut found);
        }
        Self(found)
    }

    /// The end of the long value at `start`.
    pub(super) fn end(&self, start: usize) -> Option<usize> {
        let found = self.0.binary_search_by_key(&start, |(start, _)| *start);
        self.0.get(found.ok()?).map(|(_, end)| *end)
    }
}

fn add(text: &[u8], base: usize, found: &mut Vec<(usize, usize)>) {
    let mut open = Vec::new();
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        let start = at;
        at += 1;
        match byte {
            b'"' => {
                at = skip_string(text, start);
                if at - start >= LONG {
                    found.push((base + start, base + at));
                }
            }
            b'{' | b'[' => {
                open.push(found.len());
                found.push((base + start, base + start));
            }
            b'}' | b']' => {
                let Some(number) = open.pop() else {
                    continue;
                };
                match found.get_mut(number) {
                    // A short value contains no long one.
                    Some((start, _)) if base + at - *start < LONG => found.truncate(number),
                    Some((_, end)) => *end = base + at,
                    None => {}
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LONG, LongValues, Node};
    use logue_source::Span;

    #[test]
    fn long_values_end_where_they_end_without_an_index() {
        let long = "x\\\"[{".repeat(LONG);
        let text = format!(
            " {{\"a\":\"{long}\",\"b\":[1,[],\"\\\\\",{{\"c\":\"{long}\"}}],\"d\":[[[[\"{long}\"]]]]}} "
        );
        let bytes = text.as_bytes();
        let plain = Node::parse(bytes, Span::new(0, bytes.len())).unwrap();
        let long = LongValues::of(&[plain]);
        let indexed = plain.with_long(&long);
        // The object, the text of `a`, `b`, its object and text, and the five of `d`.
        assert_eq!(long.0.len(), 10);
        let mut pairs = vec![(plain, indexed)];
        let mut count = 0;
        while let Some((plain, indexed)) = pairs.pop() {
            assert_eq!(plain.span(), indexed.span());
            count += 1;
            pairs.extend(plain.items().zip(indexed.items()));
            if let (Some(plain), Some(indexed)) = (plain.object(), indexed.object()) {
                let values = plain.entries.iter().zip(&indexed.entries);
                pairs.extend(values.map(|(plain, indexed)| (plain.2, indexed.2)));
            }
        }
        assert_eq!(count, 13);
    }
}
