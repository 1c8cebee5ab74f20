//! Results of ids that are text, which messages of one kind share.
//!
//! Making a delta and its tuple takes nearly as long as the rest of a call. A server reads many
//! completions whose messages have the same few headers, and nearly all of their ids came before.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use openchatml::harmony::MessageHeader;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyString, PyTuple};

use super::ChannelDelta;
use crate::ids;

/// The kinds of messages that the process keeps results for. Each takes about 700 KB, which no
/// recoverer has of its own.
const MAX_KINDS: usize = 16;
/// The greatest index, and the most bytes of a word in the header, of a message that shares.
const MAX_INDEX: usize = 63;
const MAX_WORD: usize = 64;

/// The sets of slots of a kind, and of a message that does not share. An id has one set, by its
/// lowest bits.
const SHARED_SETS: usize = 2048;
const OWN_SETS: usize = 256;

/// Results that found no slot before the next message of the kind begins with an empty
/// table. The ids of
/// the first texts have the slots; those of later texts may be others.
const MAX_REFUSED: usize = 16 * SHARED_SETS;

type Slot = OnceLock<(u32, Py<PyTuple>)>;

/// The common part of the deltas of a message, with their results.
pub(super) struct Results {
    index: usize,
    channel: Option<Word>,
    recipient: Option<Word>,
    visible: bool,
    /// A power of two of them, or none before the first result.
    sets: OnceLock<Box<[[Slot; 2]]>>,
    set_count: usize,
    refused: AtomicUsize,
}

/// A word of a header, to be compared and to be given.
struct Word {
    text: Box<str>,
    object: Py<PyString>,
}

impl Word {
    fn new(py: Python<'_>, text: Option<&str>) -> Option<Self> {
        text.map(|text| Self {
            text: text.into(),
            object: PyString::new(py, text).unbind(),
        })
    }

    fn text(word: Option<&Self>) -> Option<&str> {
        word.map(|word| &*word.text)
    }

    /// Python reads a field that has an object without a call.
    fn object(py: Python<'_>, word: Option<&Self>) -> Py<PyAny> {
        word.map_or_else(|| py.None(), |word| word.object.clone_ref(py).into_any())
    }
}

/// The kinds, those last used first.
static KINDS: Mutex<VecDeque<Arc<Results>>> = Mutex::new(VecDeque::new());

impl Results {
    /// Returns the results before the first message, where there is no text.
    pub(super) fn none() -> Arc<Self> {
        Arc::new(Self {
            index: 0,
            channel: None,
            recipient: None,
            visible: false,
            sets: OnceLock::new(),
            set_count: OWN_SETS,
            refused: AtomicUsize::new(0),
        })
    }

    fn new(py: Python<'_>, index: usize, head: &MessageHeader, set_count: usize) -> Arc<Self> {
        Arc::new(Self {
            index,
            channel: Word::new(py, head.channel.as_deref()),
            recipient: Word::new(py, head.recipient.as_deref()),
            visible: head.is_visible(),
            sets: OnceLock::new(),
            set_count,
            refused: AtomicUsize::new(0),
        })
    }

    /// Returns those of messages with this index and header.
    pub(super) fn of(py: Python<'_>, index: usize, head: &MessageHeader) -> Arc<Self> {
        let is_short = |word: Option<&str>| word.is_none_or(|word| word.len() <= MAX_WORD);
        if index > MAX_INDEX
            || !is_short(head.channel.as_deref())
            || !is_short(head.recipient.as_deref())
        {
            return Self::new(py, index, head, OWN_SETS);
        }
        // Neither strings nor deltas are known to the garbage collector, so that nothing done while
        // the kinds are locked runs code of the caller.
        let mut kinds = KINDS
            .lock_py_attached(py)
            .unwrap_or_else(PoisonError::into_inner);
        let found = kinds.iter().position(|kind| kind.is_of(index, head));
        let found = found.and_then(|place| kinds.remove(place));
        let results = match &found {
            Some(kind) if kind.refused.load(Ordering::Relaxed) < MAX_REFUSED => Arc::clone(kind),
            _ => Self::new(py, index, head, SHARED_SETS),
        };
        kinds.push_front(Arc::clone(&results));
        let last = (kinds.len() > MAX_KINDS).then(|| kinds.pop_back());
        // Thousands of objects may end with a kind, which other threads need not wait for.
        drop(kinds);
        drop((found, last));
        results
    }

    fn is_of(&self, index: usize, head: &MessageHeader) -> bool {
        self.index == index
            && self.visible == head.is_visible()
            && Word::text(self.channel.as_ref()) == head.channel.as_deref()
            && Word::text(self.recipient.as_ref()) == head.recipient.as_deref()
    }

    pub(super) fn delta(
        &self,
        py: Python<'_>,
        text: Bound<'_, PyString>,
        end: Option<&'static str>,
    ) -> ChannelDelta {
        ChannelDelta {
            index: self.index,
            channel: Word::object(py, self.channel.as_ref()),
            recipient: Word::object(py, self.recipient.as_ref()),
            text: text.unbind(),
            visible: self.visible,
            end,
        }
    }

    /// Returns the result of an id, if there is one.
    #[inline]
    pub(super) fn get(&self, id: u32) -> Option<&Py<PyTuple>> {
        let set = set_of(self.sets.get()?, id)?;
        let mut full = set.iter().filter_map(OnceLock::get);
        full.find(|(of, _)| *of == id).map(|(_, result)| result)
    }

    /// Makes the result of an id that is text.
    ///
    /// Making a tuple may run the garbage collector, and so code of the caller: no lock may be held,
    /// and no slot be in the making.
    pub(super) fn make<'py>(
        &self,
        py: Python<'py>,
        id: u32,
        text: &str,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let text = ids::text(py, id).unwrap_or_else(|| PyString::new(py, text));
        let delta = Bound::new(py, self.delta(py, text, None))?;
        let result = PyTuple::new(py, [delta])?;
        let sets = self.sets.get_or_init(|| {
            let sets = std::iter::repeat_with(Default::default);
            sets.take(self.set_count).collect()
        });
        let mut kept = (id, result.clone().unbind());
        for slot in set_of(sets, id).into_iter().flatten() {
            match slot.set(kept) {
                Ok(()) => return Ok(result),
                Err(refused) => kept = refused,
            }
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        Ok(result)
    }
}

#[inline]
fn set_of(sets: &[[Slot; 2]], id: u32) -> Option<&[Slot; 2]> {
    sets.get(id as usize & sets.len().wrapping_sub(1))
}
