//! Nothing is thrown away: the rule for what Harmony's reader leaves of a text.

use logue_source::Span;

use crate::events::{Told, Whole};

/// Every byte is in a message, in a finding, or is white space between messages; messages are in
/// order and no byte is in two.
pub(crate) fn assert_is_accounted_for(source: &[u8], told: &[Told], messages: &[Whole]) {
    let mut covered = vec![false; source.len()];
    let mut cover = |span: Span| {
        assert!(
            span.start <= span.end && span.end <= source.len(),
            "{span:?}"
        );
        covered[span.start..span.end].fill(true);
    };
    let mut from = 0;
    for message in messages {
        let (span, body) = (message.ended.span, message.ended.body);
        cover(span);
        assert!(from <= span.start, "{span:?} begins before {from}");
        assert!(
            span.start <= body.start && body.start <= body.end && body.end <= span.end,
            "the body {body:?} is not in its message {span:?}"
        );
        assert_eq!(message.ended.complete, message.ended.end.is_stop());
        from = span.end;
    }
    for event in told {
        if let Told::Diagnostic(found) = event {
            cover(found.primary);
            assert!(!found.message.is_empty() && !found.help.is_empty());
        }
    }
    for (at, (byte, covered)) in source.iter().zip(covered).enumerate() {
        assert!(
            covered || byte.is_ascii_whitespace(),
            "byte {at} of {:?} is in nothing",
            String::from_utf8_lossy(source)
        );
    }
}
