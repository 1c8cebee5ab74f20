//! A reader of ids that reads the text of bodies several ids at a time.

use openchatml::harmony::{Event, HarmonyReadOptions, IdStream};

/// The most ids that wait.
const MAX_UNREAD: usize = 512;

/// A reader of ids, and ids that it has yet to read.
///
/// Nearly all ids are whole characters of a body. Callers know the text of most of them, because
/// they came before; then the reader need not be run for each, and runs over several at once in
/// less time.
pub(crate) struct DeferredStream {
    stream: IdStream,
    /// Whether the last id was whole characters of a body. If so, the next such id is, too.
    is_in_text: bool,
    unread: Vec<u32>,
    /// The bytes of ids that are read together.
    buffer: Vec<u8>,
}

impl DeferredStream {
    pub(crate) fn new(options: HarmonyReadOptions) -> Self {
        Self {
            stream: IdStream::new(options),
            is_in_text: false,
            unread: Vec::new(),
            buffer: Vec::new(),
        }
    }

    /// Takes an ordinary id that is whole characters, if it is in a body. Returns whether it was
    /// taken.
    #[inline]
    pub(crate) fn defer(&mut self, id: u32) -> bool {
        let is_taken = self.is_in_text && self.unread.len() < MAX_UNREAD;
        if is_taken {
            self.unread.push(id);
        }
        is_taken
    }

    /// Reads the ids that wait and gives their text.
    pub(crate) fn catch_up(&mut self, text: impl FnOnce(&str)) {
        if self.unread.is_empty() {
            return;
        }
        // Each is known to be whole characters.
        let read = self
            .stream
            .push_harmony_texts(&self.unread, &mut self.buffer);
        debug_assert!(read.is_some(), "only whole characters wait");
        if let Some(read) = read {
            text(read);
        }
        self.unread.clear();
    }

    /// Reads an id that is whole characters of a body and returns them; `None` for any other.
    ///
    /// No id may wait.
    pub(crate) fn push_text(&mut self, id: u32) -> Option<&'static str> {
        debug_assert!(self.unread.is_empty(), "ids are read in their order");
        let text = self.stream.push_harmony_text(id);
        self.is_in_text = text.is_some();
        text
    }

    /// Reads any id. No id may wait.
    pub(crate) fn push(&mut self, id: u32, sink: &mut impl FnMut(Event<'_>)) {
        debug_assert!(self.unread.is_empty(), "ids are read in their order");
        self.is_in_text = false;
        self.stream.push_harmony(id, sink);
    }

    /// Ends the ids. No id may wait.
    pub(crate) fn finish(self, sink: &mut impl FnMut(Event<'_>)) {
        self.stream.finish(sink);
    }
}
