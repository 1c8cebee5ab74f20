//! `Stream`: a conversation as it arrives, as bytes, text or ids.

use std::sync::{Arc, Mutex, PoisonError};

use openchatml::harmony::{self, HarmonyReadOptions, IdStream};
use openchatml::stream::StreamOptions;
use openchatml::{Dialect, stream, v0_1};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyList, PyString};

use crate::document::spelled;
use crate::event::{Delta, Events, Header, Placed, Plain};
use crate::input::{self, RELEASE_READING};
use crate::items::Items;
use crate::running::RunningOffsets;
use crate::{error, ids};

/// The reader of a stream.
enum Reader {
    Harmony(Box<harmony::Stream>),
    Ids(Box<IdStream>),
    Frames(Box<stream::Stream>),
    Legacy(Box<v0_1::Stream>),
}

/// The state of a stream.
enum State {
    /// Nothing was fed.
    Fresh,
    Reading(Reader),
    Finished,
    /// Strict reading stopped at its first error.
    Stopped,
}

struct Inner {
    state: State,
    offsets: RunningOffsets,
    head: Arc<Header>,
}

/// Reads a conversation as it arrives. The events are the same however it is split.
#[pyclass(frozen, subclass, module = "openchatml")]
pub(crate) struct Stream {
    dialect: Dialect,
    options: HarmonyReadOptions,
    inner: Mutex<Inner>,
}

/// The next input.
enum Piece<'p> {
    Bytes(&'p [u8]),
    Ids(&'p [u32]),
}

impl Stream {
    fn reader(&self, piece: &Piece<'_>) -> Reader {
        match (self.dialect, piece) {
            (Dialect::Harmony, Piece::Ids(_)) => {
                Reader::Ids(Box::new(IdStream::new(self.options.clone())))
            }
            (Dialect::Harmony, Piece::Bytes(_)) => {
                Reader::Harmony(Box::new(harmony::Stream::new(self.options.clone())))
            }
            (Dialect::ChatMl, _) => Reader::Legacy(Box::new(v0_1::Stream::new(
                v0_1::LegacyReadOptions::plain(),
            ))),
            (Dialect::V0_1, _) => Reader::Legacy(Box::new(v0_1::Stream::new(
                v0_1::LegacyReadOptions::default(),
            ))),
            _ => Reader::Frames(Box::new(stream::Stream::new(
                StreamOptions::default().with_strict(self.options.strict),
            ))),
        }
    }

    /// Reads a piece; the error is the code and message of the state that forbids it.
    fn read(&self, inner: &mut Inner, piece: &Piece<'_>) -> Result<Vec<Placed>, Refused> {
        match inner.state {
            State::Finished => return Err(FINISHED),
            State::Stopped => return Err(STOPPED),
            State::Fresh => inner.state = State::Reading(self.reader(piece)),
            State::Reading(_) => {}
        }
        let Inner {
            state,
            offsets,
            head,
        } = inner;
        let State::Reading(reader) = state else {
            return Err(FINISHED);
        };
        let mut events = Events::new(head);
        match (reader, piece) {
            (Reader::Harmony(stream), Piece::Bytes(bytes)) => {
                offsets.push(bytes);
                stream.push(bytes, &mut |event: harmony::Event<'_>| {
                    events.harmony(event);
                });
            }
            (Reader::Frames(stream), Piece::Bytes(bytes)) => {
                offsets.push(bytes);
                stream.push(bytes, &mut |event: stream::Event<'_>| events.frames(event));
            }
            (Reader::Legacy(stream), Piece::Bytes(bytes)) => {
                offsets.push(bytes);
                stream.push(bytes, &mut |event: v0_1::Event<'_>| events.legacy(event));
            }
            (Reader::Ids(stream), Piece::Ids(ids)) => {
                offsets.push(&spelled(ids));
                for id in *ids {
                    stream.push_harmony(*id, &mut |event: harmony::Event<'_>| {
                        events.harmony(event);
                    });
                }
            }
            (Reader::Ids(_), Piece::Bytes(_)) | (_, Piece::Ids(_)) => return Err(MIXED),
        }
        Ok(place(events.plain, offsets))
    }

    /// Reads an id that is nothing but text, as nearly all are; `None` if it is another.
    fn whole(&self, py: Python<'_>, id: u32) -> Option<(&'static str, Arc<Header>)> {
        let locked = self.inner.lock_py_attached(py);
        let mut inner = locked.unwrap_or_else(PoisonError::into_inner);
        let Inner {
            state: State::Reading(Reader::Ids(stream)),
            offsets,
            head,
        } = &mut *inner
        else {
            return None;
        };
        let text = stream.push_harmony_text(id)?;
        offsets.push(text.as_bytes());
        Some((text, Arc::clone(head)))
    }

    /// Locks the stream, reads, and makes the events once it is unlocked.
    fn run<'py>(
        &self,
        py: Python<'py>,
        work: impl FnOnce(&mut Inner) -> Result<Vec<Placed>, Refused>,
    ) -> PyResult<Bound<'py, PyList>> {
        let locked = self.inner.lock_py_attached(py);
        let mut inner = locked.unwrap_or_else(PoisonError::into_inner);
        let result = work(&mut inner);
        let strict = self.options.strict;
        let failed = result
            .as_ref()
            .is_ok_and(|events| strict && events.iter().any(is_error));
        if failed {
            inner.state = State::Stopped;
        }
        drop(inner);
        let placed = result.map_err(|refused| error::error(py, refused.0, refused.1, None))?;
        let list = PyList::empty(py);
        let mut failure = None;
        for event in placed {
            if strict && failure.is_some() {
                break;
            }
            if strict
                && is_error(&event)
                && let Plain::Diagnostic(found) = &event.event
            {
                failure = Some(error::found_at(py, found, event.span()));
                continue;
            }
            list.append(event.into_python(py)?)?;
        }
        match failure {
            None => Ok(list),
            Some(failure) => {
                failure.value(py).setattr("events", list)?;
                Err(failure)
            }
        }
    }
}

/// The code and message of a refused call.
type Refused = (&'static str, &'static str);

const FINISHED: Refused = (
    error::STREAM_FINISHED,
    "the stream has ended; make a new one for more text",
);
const STOPPED: Refused = (
    error::STREAM_STOPPED,
    "the strict stream stopped at an error; what it read before remains valid",
);
const MIXED: Refused = (
    error::INVALID_ARGUMENT,
    "a stream takes either text or ids, and ids only in the dialect harmony",
);

fn is_error(event: &Placed) -> bool {
    matches!(&event.event, Plain::Diagnostic(found) if found.is_error())
}

fn place(events: Vec<Plain>, offsets: &mut RunningOffsets) -> Vec<Placed> {
    let events = events.into_iter();
    events.map(|event| Placed::new(event, offsets)).collect()
}

#[pymethods]
impl Stream {
    #[new]
    #[pyo3(signature = (dialect="harmony", *, start_role=None, tools=Items::default(), strict=false),
        text_signature = "(dialect='harmony', *, start_role=None, tools=(), strict=False)")]
    fn new(
        py: Python<'_>,
        dialect: &str,
        start_role: Option<&Bound<'_, PyAny>>,
        tools: Items<String>,
        strict: bool,
    ) -> PyResult<Self> {
        let dialect = input::dialect(py, Some(dialect))?.unwrap_or(Dialect::Harmony);
        let start_role = input::role(start_role)?;
        if start_role.is_some() && dialect != Dialect::Harmony {
            let message = "start_role belongs to the dialect harmony";
            return Err(error::invalid(py, message));
        }
        if strict && matches!(dialect, Dialect::V0_1 | Dialect::ChatMl) {
            let message = "the readers of ocml0.1 and chatml have no strict mode";
            return Err(error::invalid(py, message));
        }
        Ok(Self {
            dialect,
            options: HarmonyReadOptions::default()
                .with_start_role(start_role)
                .with_tools(tools.0)
                .with_strict(strict),
            inner: Mutex::new(Inner {
                state: State::Fresh,
                offsets: RunningOffsets::default(),
                head: Arc::default(),
            }),
        })
    }

    /// The dialect.
    #[getter]
    const fn dialect(&self) -> &'static str {
        self.dialect.as_str()
    }

    /// Returns whether the stream takes no more input.
    #[getter]
    fn finished(&self, py: Python<'_>) -> bool {
        let locked = self.inner.lock_py_attached(py);
        let inner = locked.unwrap_or_else(PoisonError::into_inner);
        matches!(inner.state, State::Finished | State::Stopped)
    }

    /// Reads the next bytes or text and returns its events.
    fn feed<'py>(&self, py: Python<'py>, data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let bytes = input::bytes(data)?;
        self.run(py, |inner| {
            let piece = Piece::Bytes(&bytes);
            if bytes.len() >= RELEASE_READING {
                py.detach(|| self.read(inner, &piece))
            } else {
                self.read(inner, &piece)
            }
        })
    }

    /// Reads the next ids of `o200k_harmony` and returns their events.
    fn feed_ids<'py>(&self, py: Python<'py>, ids: Items<u32>) -> PyResult<Bound<'py, PyList>> {
        self.run(py, |inner| {
            let piece = Piece::Ids(&ids.0);
            if ids.0.len() >= RELEASE_READING / 8 {
                py.detach(|| self.read(inner, &piece))
            } else {
                self.read(inner, &piece)
            }
        })
    }

    /// Reads the next id of `o200k_harmony` and returns its events.
    fn feed_id<'py>(&self, py: Python<'py>, id: u32) -> PyResult<Bound<'py, PyList>> {
        if let Some((text, head)) = self.whole(py, id) {
            let text = ids::text(py, id).unwrap_or_else(|| PyString::new(py, text));
            return PyList::new(py, [Delta::python(py, text, None, head)?]);
        }
        self.run(py, |inner| self.read(inner, &Piece::Ids(&[id])))
    }

    /// Ends the input and returns the last events.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.run(py, |inner| {
            let state = std::mem::replace(&mut inner.state, State::Finished);
            let reader = match state {
                State::Finished => return Err(FINISHED),
                State::Stopped => {
                    inner.state = State::Stopped;
                    return Err(STOPPED);
                }
                State::Fresh => self.reader(&Piece::Bytes(&[])),
                State::Reading(reader) => reader,
            };
            let mut events = Events::new(&mut inner.head);
            match reader {
                Reader::Harmony(stream) => {
                    stream.finish(&mut |event: harmony::Event<'_>| events.harmony(event));
                }
                Reader::Ids(stream) => {
                    stream.finish(&mut |event: harmony::Event<'_>| events.harmony(event));
                }
                Reader::Frames(stream) => {
                    stream.finish(&mut |event: stream::Event<'_>| events.frames(event));
                }
                Reader::Legacy(stream) => {
                    stream.finish(&mut |event: v0_1::Event<'_>| events.legacy(event));
                }
            }
            Ok(place(events.plain, &mut inner.offsets))
        })
    }

    fn __repr__(&self) -> String {
        format!("<Stream {}>", self.dialect)
    }
}
