//! Ids of the built-in vocabulary, one by one and several at once.
#![cfg(feature = "o200k")]

use openchatml::FrameRole;
use openchatml::harmony::{Event, HarmonyReadOptions, IdStream};
use proptest::prelude::*;

/// Events as text, with adjacent deltas joined.
#[derive(Default)]
struct Record(Vec<String>);

impl Record {
    fn take(&mut self, event: &Event<'_>) {
        match event {
            Event::Delta(text) => self.text(text),
            event => self.0.push(format!("{event:?}")),
        }
    }

    fn text(&mut self, text: &str) {
        assert!(!text.is_empty());
        match self.0.last_mut().filter(|last| last.starts_with('"')) {
            Some(last) => last.push_str(text),
            None => self.0.push(format!("\"{text}")),
        }
    }
}

fn id() -> impl Strategy<Value = u32> {
    prop_oneof![
        6 => 0..199_998_u32,
        // Invalid bytes, and parts of characters.
        3 => prop_oneof![94..256_u32, Just(9552)],
        2 => prop::sample::select(vec![200_002_u32, 200_003, 200_005, 200_006, 200_007, 200_008, 200_012]),
        2 => prop::sample::select(vec![1428_u32, 173_781, 17_196, 35_644]),
        1 => 199_998..201_100_u32,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::soak::rounds(512, 10_240)))]
    #[test]
    fn text_without_events_is_the_text_of_the_events(
        ids in proptest::collection::vec(id(), 0..60),
        sizes in proptest::collection::vec(0..5_usize, 60),
        is_completion: bool,
    ) {
        let role = is_completion.then_some(FrameRole::Assistant);
        let options = HarmonyReadOptions::default().with_start_role(role);
        // A message, so that most ids are in one.
        let ids = [vec![200_006, 1428, 200_008], ids].concat();

        let mut expected = Record::default();
        let mut stream = IdStream::new(options.clone());
        for id in &ids {
            stream.push_harmony(*id, &mut |event: Event<'_>| expected.take(&event));
        }
        stream.finish(&mut |event: Event<'_>| expected.take(&event));

        let mut found = Record::default();
        let mut stream = IdStream::new(options);
        let mut buffer = Vec::new();
        let (mut ids, mut sizes) = (&ids[..], sizes.into_iter().cycle());
        while let Some((id, rest)) = ids.split_first() {
            let several = ids.get(..sizes.next().unwrap_or_default()).unwrap_or(ids);
            if !several.is_empty()
                && let Some(text) = stream.push_harmony_texts(several, &mut buffer)
            {
                ids = &ids[several.len()..];
                found.text(text);
                continue;
            }
            ids = rest;
            match stream.push_harmony_text(*id) {
                Some(text) => found.text(text),
                None => stream.push_harmony(*id, &mut |event: Event<'_>| found.take(&event)),
            }
        }
        stream.finish(&mut |event: Event<'_>| found.take(&event));
        prop_assert_eq!(found.0, expected.0);
    }
}
