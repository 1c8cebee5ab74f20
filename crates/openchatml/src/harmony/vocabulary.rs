//! Reading ids of `o200k_harmony` with the built-in vocabulary.

use super::event::{Event, HarmonyReadOptions};
use super::ids::IdStream;
use super::message::{HarmonyDocument, read_ids};

impl IdStream {
    /// The next id of `o200k_harmony`: [`push`](Self::push) with the built-in vocabulary.
    ///
    /// ```
    /// use openchatml::FrameRole;
    /// use openchatml::harmony::{Event, IdStream, HarmonyReadOptions};
    ///
    /// let mut stream = IdStream::new(HarmonyReadOptions::default().with_start_role(FrameRole::Assistant));
    /// let mut text = String::new();
    /// let mut sink = |event: Event<'_>| if let Event::Delta(delta) = event { text += delta };
    /// for id in [200_005, 17_196, 200_008, 13_225, 0, 200_002] {
    ///     stream.push_harmony(id, &mut sink);
    /// }
    /// stream.finish(&mut sink);
    /// assert_eq!(text, "Hello!");
    /// ```
    pub fn push_harmony(&mut self, id: u32, sink: &mut impl FnMut(Event<'_>)) {
        self.push(id, logue_o200k::token_bytes, sink);
    }
}

/// Reads a whole sequence of ids of `o200k_harmony`: [`read_ids`] with the built-in vocabulary.
///
/// ```
/// use openchatml::harmony::{HarmonyReadOptions, read_harmony_ids};
///
/// let ids = [200_006, 1428, 200_008, 13_225, 0, 200_007];
/// let document = read_harmony_ids(ids, &HarmonyReadOptions::default());
/// assert_eq!(document.messages[0].content, "Hello!");
/// ```
pub fn read_harmony_ids(
    ids: impl IntoIterator<Item = u32>,
    options: &HarmonyReadOptions,
) -> HarmonyDocument {
    read_ids(ids, logue_o200k::token_bytes, options)
}
