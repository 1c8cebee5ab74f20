//! Conversions: what was written in any form reads back as what it says, and shows nothing more.

use std::collections::BTreeMap;

use openchatml::convert::{self, ConvertOptions};
use openchatml::project::{self, JsonFormat};
use openchatml::{Dialect, FrameBuf, Transcript};

use crate::input::Input;

/// The first byte says which dialect the rest is read in. Whatever it holds is written in every
/// form: what cannot be written is refused; what is written reads back, in OpenChatML to the same text,
/// with nothing in it that a person sees and did not see before.
pub fn convert(data: &[u8]) {
    let mut input = Input::new(data);
    let from = Dialect::ALL.get(usize::from(input.byte()) % 8).copied();
    let options = ConvertOptions::default();
    let read = convert::read(input.rest(), from, &options);
    let transcript = read.transcript;
    let shown = visible(&transcript.frames);
    for dialect in Dialect::ALL {
        let Ok(written) = convert::write(&transcript, dialect, &options) else {
            continue;
        };
        let again = convert::read(written.text.as_bytes(), Some(dialect), &options);
        assert_shows_no_more(&again.transcript, &shown, dialect.as_str());
        // Harmony's readers know a channel that is not named as less than other readers do.
        if dialect != Dialect::Harmony {
            let twice = convert::write(&again.transcript, dialect, &options).map(|two| two.text);
            assert_eq!(twice, Ok(written.text), "{dialect}");
        }
    }
    for projection in JsonFormat::ALL {
        let Ok(written) = project::write(&transcript, projection, &options) else {
            continue;
        };
        let again = project::read(written.text.as_bytes(), projection, &options);
        let name = format!("{projection:?}");
        assert_shows_no_more(&again.transcript, &shown, &name);
    }
}

/// How often each character stands in what a person sees.
fn visible(frames: &[FrameBuf]) -> BTreeMap<char, usize> {
    let mut counts = BTreeMap::new();
    let shown = frames
        .iter()
        .filter(|frame| frame.visibility().is_visible());
    for character in shown.flat_map(|frame| frame.body.chars()) {
        *counts.entry(character).or_default() += 1;
    }
    counts
}

fn assert_shows_no_more(transcript: &Transcript, shown: &BTreeMap<char, usize>, form: &str) {
    for (character, count) in visible(&transcript.frames) {
        // Neighbouring answers may be joined by white space.
        let before = shown.get(&character).copied().unwrap_or_default();
        assert!(
            count <= before || character.is_whitespace(),
            "{form} shows {character:?}"
        );
    }
}
