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

    /// Reads an ordinary id within a body without an event, if it is whole characters.
    ///
    /// Returns the text that [`push_harmony`](Self::push_harmony) emits as one delta for it. Returns
    /// `None` for any other id and outside of bodies; the id is then unread, and `push_harmony`
    /// takes it. Callers that read one id at a time need no closure for nearly all ids.
    ///
    /// ```
    /// use openchatml::harmony::{Event, HarmonyReadOptions, IdStream};
    ///
    /// let mut stream = IdStream::new(HarmonyReadOptions::default());
    /// let mut text = String::new();
    /// for id in [200_006, 1428, 200_008, 13_225, 0, 200_007] {
    ///     match stream.push_harmony_text(id) {
    ///         Some(plain) => text += plain,
    ///         None => stream.push_harmony(id, &mut |event: Event<'_>| {
    ///             if let Event::Delta(delta) = event { text += delta }
    ///         }),
    ///     }
    /// }
    /// assert_eq!(text, "Hello!");
    /// ```
    pub fn push_harmony_text(&mut self, id: u32) -> Option<&'static str> {
        self.push_text(id, logue_o200k::token_bytes)
    }

    /// Reads several ordinary ids within a body that together are whole characters.
    ///
    /// Returns their text, which is in `buffer`: that of the deltas that
    /// [`push_harmony`](Self::push_harmony) emits for them. Returns `None` and reads nothing for
    /// other ids and outside of bodies.
    ///
    /// ```
    /// use openchatml::harmony::{Event, HarmonyReadOptions, IdStream};
    ///
    /// let mut stream = IdStream::new(HarmonyReadOptions::default());
    /// for id in [200_006, 1428, 200_008] {
    ///     stream.push_harmony(id, &mut |_: Event<'_>| ());
    /// }
    /// let mut buffer = Vec::new();
    /// assert_eq!(stream.push_harmony_texts(&[13_225, 0], &mut buffer), Some("Hello!"));
    /// assert_eq!(stream.push_harmony_texts(&[13_225, 200_007], &mut buffer), None);
    /// ```
    pub fn push_harmony_texts<'b>(
        &mut self,
        ids: &[u32],
        buffer: &'b mut Vec<u8>,
    ) -> Option<&'b str> {
        self.push_texts(ids, logue_o200k::token_bytes, buffer)
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
