//! Writing back what was read, with and without changes.

use openchatml::{FrameBuf, HeaderBuf, Rewrite, parse, parse_strict};
use proptest::prelude::*;

use crate::strategies::{broken_transcript, frame};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn what_was_not_changed_is_written_as_it_was(source in broken_transcript()) {
        let document = parse(&source);
        prop_assert_eq!(Rewrite::new(&document).finish(), source);
    }

    /// A replaced frame reads back as itself, every other frame as it was.
    #[test]
    fn one_frame_is_replaced(
        frames in proptest::collection::vec(frame(), 1..5),
        other in frame(),
        which in any::<prop::sample::Index>(),
    ) {
        let mut text = "version: 2.2\n".to_owned();
        for frame in &frames {
            openchatml::write_frame(&mut text, frame).unwrap();
        }
        let document = parse(text.as_bytes());
        let which = which.index(frames.len());
        let mut rewrite = Rewrite::new(&document);
        rewrite.replace(which, &other).unwrap();
        let written = rewrite.finish();
        let mut expected = frames;
        expected[which] = other;
        prop_assert_eq!(parse(&written).to_owned_frames(), expected);
    }

    #[test]
    fn strict_gives_the_first_error_and_keeps_everything(source in broken_transcript()) {
        let lenient = parse(&source);
        match parse_strict(&source) {
            Ok(document) => {
                prop_assert!(document.header().is_some() && !document.has_errors());
                prop_assert_eq!(document.frames(), lenient.frames());
            }
            Err(refused) => {
                prop_assert!(refused.error.is_error());
                prop_assert_eq!(refused.document.frames(), lenient.frames());
                let earlier = lenient.diagnostics().iter().filter(|found| found.is_error());
                let first = earlier.map(|found| found.primary.start).min();
                prop_assert!(first.is_none_or(|first| refused.error.primary.start <= first));
            }
        }
    }
}

#[test]
fn a_header_is_replaced_or_put_before_everything() {
    for text in [
        "\u{feff}version: 2.0\n<|start|>user<|message|>a<|end|>",
        "<|start|>user<|message|>a<|end|>",
    ] {
        let document = parse(text.as_bytes());
        let mut rewrite = Rewrite::new(&document);
        rewrite.replace_header(&HeaderBuf::default()).unwrap();
        let written = rewrite.finish();
        let again = parse(&written);
        assert_eq!(again.header().unwrap().version(), "2.2");
        assert_eq!(again.to_owned_frames(), [FrameBuf::user("a")]);
    }
}
