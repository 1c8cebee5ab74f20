//! `Encoding`, with the methods of tiktoken.

use std::sync::{Mutex, PoisonError};

use logue_o200k::{Encoder, SpecialSet};
use memchr::memmem;
use pyo3::exceptions::{PyTypeError, PyUnicodeEncodeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use crate::error;
use crate::ids;
use crate::input::{self, RELEASE_ENCODING};
use crate::items::Items;
use crate::special::Kind;

/// The most encoders that wait for the next text. Each has a cache of half a megabyte.
const MAX_IDLE: usize = 8;

static IDLE: Mutex<Vec<Encoder>> = Mutex::new(Vec::new());

/// Runs `work` with an encoder whose cache may already be warm.
fn with_encoder<T>(work: impl FnOnce(&mut Encoder) -> T) -> T {
    let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let mut encoder = idle.unwrap_or_default();
    let result = work(&mut encoder);
    let mut pool = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    if pool.len() < MAX_IDLE {
        pool.push(encoder);
    }
    result
}

/// A tokenizer: `o200k_base` or `o200k_harmony`.
#[pyclass(frozen, module = "openchatml")]
pub(crate) struct Encoding {
    kind: Kind,
}

/// The words that a text must not hold; without a value, every special that is not allowed.
#[derive(Default)]
struct Disallowed<'py>(Option<Bound<'py, PyAny>>);

impl<'py> FromPyObject<'_, 'py> for Disallowed<'py> {
    type Error = PyErr;

    fn extract(names: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        // For tiktoken `None` disallows nothing.
        Ok(Self(Some(if names.is_none() {
            PyTuple::empty(names.py()).into_any()
        } else {
            names.to_owned()
        })))
    }
}

/// The specials that a text may hold, and the words that it must not hold.
struct Rules {
    allowed: SpecialSet,
    forbidden: SpecialSet,
    /// Forbidden words that are not specials.
    words: Vec<String>,
}

impl Rules {
    fn new(
        kind: Kind,
        allowed: Option<&Bound<'_, PyAny>>,
        disallowed: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let all = kind.specials();
        let allowed = match allowed {
            None => SpecialSet::NONE,
            Some(names) if is_all(names) => all,
            Some(names) => specials(kind, names)?.0,
        };
        let (forbidden, words) = match disallowed {
            None => (without(&all, &allowed), Vec::new()),
            Some(names) if is_all(names) => (without(&all, &allowed), Vec::new()),
            Some(names) => specials(kind, names)?,
        };
        Ok(Self {
            allowed,
            forbidden,
            words,
        })
    }

    /// Raises for a text that holds what is forbidden.
    fn check(&self, py: Python<'_>, kind: Kind, text: &str) -> PyResult<()> {
        let special = kind.find(text, 0, &self.forbidden);
        let special = special.map(|(start, end, _)| (start, end));
        let words = self.words.iter().filter(|word| !word.is_empty());
        let words = words.filter_map(|word| {
            let start = memmem::find(text.as_bytes(), word.as_bytes())?;
            Some((start, start + word.len()))
        });
        let Some((start, end)) = words.chain(special).min() else {
            return Ok(());
        };
        let token = text.get(start..end).unwrap_or_default();
        let message = format!(
            "Encountered text corresponding to disallowed special token {token:?}.\n\
             If you want this text to be encoded as a special token, pass it to \
             `allowed_special`, e.g. `allowed_special={{'{token}', ...}}`.\n\
             If you want this text to be encoded as normal text, disable the check for this token \
             by passing `disallowed_special=(enc.special_tokens_set - {{'{token}'}})`.\n\
             To disable this check for all special tokens, pass `disallowed_special=()`.\n"
        );
        let points = text.get(..start).unwrap_or_default().chars().count();
        let length = token.chars().count();
        let spans = ((points, points + length), (start..end).into());
        Err(error::error(
            py,
            error::SPECIAL_TOKEN,
            &message,
            Some(spans),
        ))
    }
}

fn is_all(names: &Bound<'_, PyAny>) -> bool {
    names
        .cast::<PyString>()
        .is_ok_and(|names| names.to_str().is_ok_and(|names| names == "all"))
}

fn without(all: &SpecialSet, some: &SpecialSet) -> SpecialSet {
    all.iter().filter(|id| !some.contains(*id)).collect()
}

/// The specials among `names`, and the other names.
fn specials(kind: Kind, names: &Bound<'_, PyAny>) -> PyResult<(SpecialSet, Vec<String>)> {
    if names.is_instance_of::<PyString>() {
        // Its characters would be the names.
        let message = "expected \"all\" or the names of special tokens, not one str";
        return Err(PyTypeError::new_err(message));
    }
    let mut set = SpecialSet::NONE;
    let mut others = Vec::new();
    for name in names.try_iter()? {
        let name = name?;
        let name = input::utf8(name.cast::<PyString>()?)?;
        match kind.id(name) {
            Some(id) => set = set.with(id),
            None => others.push(name.to_owned()),
        }
    }
    Ok((set, others))
}

/// The text of a `str`. Surrogates are paired, and lone ones replaced, as tiktoken does.
fn text<'py>(text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyString>> {
    match text.to_str() {
        Ok(_) => return Ok(text.clone()),
        Err(error) if error.is_instance_of::<PyUnicodeEncodeError>(text.py()) => {}
        Err(error) => return Err(error),
    }
    let bytes = text.call_method1("encode", ("utf-16", "surrogatepass"))?;
    Ok(bytes
        .call_method1("decode", ("utf-16", "replace"))?
        .cast_into()?)
}

fn encode_into(
    kind: Kind,
    encoder: &mut Encoder,
    text: &str,
    allowed: &SpecialSet,
    ids: &mut Vec<u32>,
) {
    let mut at = 0;
    while let Some((start, end, id)) = kind.find(text, at, allowed) {
        encoder.encode_into(text.get(at..start).unwrap_or_default(), ids);
        ids.push(id);
        at = end;
    }
    encoder.encode_into(text.get(at..).unwrap_or_default(), ids);
}

/// The ids of a text, which may hold the specials of `allowed`.
pub(crate) fn encode_text(kind: Kind, text: &str, allowed: &SpecialSet) -> Vec<u32> {
    with_encoder(|encoder| {
        let mut ids = Vec::with_capacity(text.len() / 4 + 1);
        encode_into(kind, encoder, text, allowed, &mut ids);
        ids
    })
}

/// The number of those ids.
pub(crate) fn count_text(kind: Kind, text: &str, allowed: &SpecialSet) -> usize {
    with_encoder(|encoder| {
        let (mut at, mut count) = (0, 0);
        while let Some((start, end, _)) = kind.find(text, at, allowed) {
            count += encoder.count(text.get(at..start).unwrap_or_default()) + 1;
            at = end;
        }
        count + encoder.count(text.get(at..).unwrap_or_default())
    })
}

impl Encoding {
    /// The ids of a text that holds no special that is not allowed.
    fn checked(
        &self,
        py: Python<'_>,
        text: &Bound<'_, PyString>,
        allowed_special: Option<&Bound<'_, PyAny>>,
        disallowed_special: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<u32>> {
        let text = self::text(text)?;
        let text = text.to_str()?;
        let rules = Rules::new(self.kind, allowed_special, disallowed_special)?;
        rules.check(py, self.kind, text)?;
        Ok(self.ids(py, text, &rules.allowed))
    }

    fn ids(&self, py: Python<'_>, text: &str, allowed: &SpecialSet) -> Vec<u32> {
        let work = || encode_text(self.kind, text, allowed);
        if text.len() >= RELEASE_ENCODING {
            py.detach(work)
        } else {
            work()
        }
    }

    fn batch(
        &self,
        py: Python<'_>,
        texts: &[Bound<'_, PyString>],
        allowed: &SpecialSet,
        threads: usize,
    ) -> PyResult<Vec<Vec<u32>>> {
        let texts: Vec<&str> = texts
            .iter()
            .map(|text| text.to_str())
            .collect::<PyResult<_>>()?;
        let kind = self.kind;
        Ok(py.detach(|| parallel(&texts, threads, |text| encode_text(kind, text, allowed))))
    }

    fn bytes_of(&self, py: Python<'_>, ids: &[u32]) -> PyResult<Vec<u8>> {
        let kind = self.kind;
        let work = || {
            if kind == Kind::Harmony {
                return logue_o200k::decode(ids).map_err(|unknown| unknown.0);
            }
            let mut out = Vec::with_capacity(ids.len() * 4);
            for id in ids {
                out.extend_from_slice(kind.bytes(*id).ok_or(*id)?);
            }
            Ok(out)
        };
        let bytes = if ids.len() >= RELEASE_ENCODING {
            py.detach(work)
        } else {
            work()
        };
        bytes.map_err(|id| error::unknown_token(py, id))
    }
}

/// The most threads of a batch; `None` is as many as there are cores.
pub(crate) fn threads(number: Option<usize>) -> usize {
    number.unwrap_or(usize::MAX)
}

/// Maps items on several threads, in order.
pub(crate) fn parallel<I: Sync, O: Send>(
    items: &[I],
    threads: usize,
    work: impl Fn(&I) -> O + Sync,
) -> Vec<O> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.clamp(1, cores).min(items.len().max(1));
    if threads == 1 {
        return items.iter().map(work).collect();
    }
    let next = std::sync::atomic::AtomicUsize::new(0);
    let slots: Vec<Mutex<Option<O>>> = items.iter().map(|_| Mutex::new(None)).collect();
    let run = || {
        loop {
            let index = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let (Some(item), Some(slot)) = (items.get(index), slots.get(index)) else {
                return;
            };
            let output = work(item);
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(output);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(run);
        }
        run();
    });
    // Every slot is filled, because every index was taken.
    slots
        .into_iter()
        .filter_map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner))
        .collect()
}

fn decoded<'py>(py: Python<'py>, bytes: &[u8], errors: &str) -> PyResult<Bound<'py, PyString>> {
    if std::str::from_utf8(bytes).is_ok() {
        // Raises where there is no memory.
        return PyString::from_bytes(py, bytes);
    }
    let bytes = PyBytes::new(py, bytes);
    let text = bytes.call_method1("decode", ("utf-8", errors))?;
    Ok(text.cast_into()?)
}

#[pymethods]
impl Encoding {
    #[new]
    #[pyo3(signature = (name="o200k_harmony"))]
    fn new(py: Python<'_>, name: &str) -> PyResult<Self> {
        let kind = Kind::parse(name).ok_or_else(|| {
            let message = format!("unknown encoding `{name}`; known are o200k_base, o200k_harmony");
            error::invalid(py, &message)
        })?;
        Ok(Self { kind })
    }

    /// The name.
    #[getter]
    const fn name(&self) -> &'static str {
        self.kind.name()
    }

    /// The number of ids: the greatest one and one.
    #[getter]
    const fn n_vocab(&self) -> u32 {
        self.kind.max_token_value() + 1
    }

    /// The greatest id.
    #[getter]
    const fn max_token_value(&self) -> u32 {
        self.kind.max_token_value()
    }

    /// The id of `<|endoftext|>`.
    #[getter]
    #[expect(clippy::unused_self, reason = "a property")]
    const fn eot_token(&self) -> u32 {
        logue_o200k::special::END_OF_TEXT
    }

    /// The names of all specials.
    #[getter]
    fn special_tokens_set<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PySet>> {
        let specials = self.kind.specials();
        let names = specials.iter().filter_map(|id| self.kind.bytes(id));
        let names = names.filter_map(|name| std::str::from_utf8(name).ok());
        pyo3::types::PySet::new(py, names)
    }

    /// Returns whether an id is a special.
    fn is_special_token(&self, token: u32) -> bool {
        self.kind.specials().contains(token)
    }

    /// Encodes ordinary text: no text becomes a special.
    #[pyo3(signature = (text))]
    fn encode_ordinary<'py>(
        &self,
        py: Python<'py>,
        text: &Bound<'py, PyString>,
    ) -> PyResult<Bound<'py, PyList>> {
        let text = self::text(text)?;
        ids::list(py, &self.ids(py, text.to_str()?, &SpecialSet::NONE))
    }

    /// Encodes text.
    #[pyo3(signature = (text, *, allowed_special=None, disallowed_special=Disallowed::default()),
        text_signature = "($self, text, *, allowed_special=None, disallowed_special='all')")]
    fn encode<'py>(
        &self,
        py: Python<'py>,
        text: &Bound<'py, PyString>,
        allowed_special: Option<&Bound<'py, PyAny>>,
        disallowed_special: Disallowed<'py>,
    ) -> PyResult<Bound<'py, PyList>> {
        let disallowed = disallowed_special.0.as_ref();
        let ids = self.checked(py, text, allowed_special, disallowed)?;
        ids::list(py, &ids)
    }

    /// Encodes text to an array of numpy, which must be installed.
    #[pyo3(signature = (text, *, allowed_special=None, disallowed_special=Disallowed::default()),
        text_signature = "($self, text, *, allowed_special=None, disallowed_special='all')")]
    fn encode_to_numpy<'py>(
        &self,
        py: Python<'py>,
        text: &Bound<'py, PyString>,
        allowed_special: Option<&Bound<'py, PyAny>>,
        disallowed_special: Disallowed<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let disallowed = disallowed_special.0.as_ref();
        let ids = self.checked(py, text, allowed_special, disallowed)?;
        let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_ne_bytes()).collect();
        let numpy = py.import("numpy")?;
        let named = PyDict::new(py);
        named.set_item("dtype", numpy.getattr("uint32")?)?;
        numpy.call_method("frombuffer", (PyBytes::new(py, &bytes),), Some(&named))
    }

    /// Encodes several ordinary texts on several threads.
    #[pyo3(signature = (text, *, num_threads=Some(8)),
        text_signature = "($self, text, *, num_threads=8)")]
    fn encode_ordinary_batch<'py>(
        &self,
        py: Python<'py>,
        text: Items<Bound<'py, PyString>>,
        num_threads: Option<usize>,
    ) -> PyResult<Bound<'py, PyList>> {
        let texts = text
            .0
            .iter()
            .map(self::text)
            .collect::<PyResult<Vec<_>>>()?;
        ids::lists(
            py,
            &self.batch(py, &texts, &SpecialSet::NONE, threads(num_threads))?,
        )
    }

    /// Encodes several texts on several threads.
    #[pyo3(signature = (text, *, num_threads=Some(8), allowed_special=None, disallowed_special=Disallowed::default()),
        text_signature = "($self, text, *, num_threads=8, allowed_special=None, disallowed_special='all')")]
    fn encode_batch<'py>(
        &self,
        py: Python<'py>,
        text: Items<Bound<'py, PyString>>,
        num_threads: Option<usize>,
        allowed_special: Option<&Bound<'py, PyAny>>,
        disallowed_special: Disallowed<'py>,
    ) -> PyResult<Bound<'py, PyList>> {
        let texts = text
            .0
            .iter()
            .map(self::text)
            .collect::<PyResult<Vec<_>>>()?;
        let disallowed = disallowed_special.0.as_ref();
        let rules = Rules::new(self.kind, allowed_special, disallowed)?;
        for text in &texts {
            rules.check(py, self.kind, text.to_str()?)?;
        }
        ids::lists(
            py,
            &self.batch(py, &texts, &rules.allowed, threads(num_threads))?,
        )
    }

    /// Counts the tokens of a text without storing them.
    #[pyo3(signature = (text, *, allowed_special=None))]
    fn count(
        &self,
        py: Python<'_>,
        text: &Bound<'_, PyString>,
        allowed_special: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<usize> {
        let text = self::text(text)?;
        let text = text.to_str()?;
        let nothing = PyTuple::empty(py).into_any();
        let rules = Rules::new(self.kind, allowed_special, Some(&nothing))?;
        let kind = self.kind;
        let work = || count_text(kind, text, &rules.allowed);
        Ok(if text.len() >= RELEASE_ENCODING {
            py.detach(work)
        } else {
            work()
        })
    }

    /// The id of a text or of bytes that are one token, special or not.
    fn encode_single_token(&self, text_or_bytes: &Bound<'_, PyAny>) -> PyResult<u32> {
        let bytes = crate::input::bytes(text_or_bytes)?;
        let special = std::str::from_utf8(&bytes).ok();
        let special = special.and_then(|name| self.kind.id(name));
        special
            .or_else(|| logue_o200k::token_id(&bytes))
            .ok_or_else(|| {
                let shown = String::from_utf8_lossy(&bytes).into_owned();
                pyo3::exceptions::PyKeyError::new_err(shown)
            })
    }

    /// Decodes ids to bytes.
    fn decode_bytes<'py>(
        &self,
        py: Python<'py>,
        tokens: Items<u32>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.bytes_of(py, &tokens.0)?))
    }

    /// Decodes ids to text.
    #[pyo3(signature = (tokens, errors="replace"))]
    fn decode<'py>(
        &self,
        py: Python<'py>,
        tokens: Items<u32>,
        errors: &str,
    ) -> PyResult<Bound<'py, PyString>> {
        decoded(py, &self.bytes_of(py, &tokens.0)?, errors)
    }

    /// The bytes of one token.
    fn decode_single_token_bytes<'py>(
        &self,
        py: Python<'py>,
        token: u32,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.kind.bytes(token);
        let bytes = bytes.ok_or_else(|| error::unknown_token(py, token))?;
        Ok(PyBytes::new(py, bytes))
    }

    /// The bytes of each token.
    fn decode_tokens_bytes<'py>(
        &self,
        py: Python<'py>,
        tokens: Items<u32>,
    ) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for token in tokens.0 {
            list.append(self.decode_single_token_bytes(py, token)?)?;
        }
        Ok(list)
    }

    /// Decodes ids to text and the offset of each token in it, in code points.
    fn decode_with_offsets<'py>(
        &self,
        py: Python<'py>,
        tokens: Items<u32>,
    ) -> PyResult<(Bound<'py, PyString>, Vec<usize>)> {
        let mut offsets = Vec::with_capacity(tokens.0.len());
        let mut points: usize = 0;
        for token in &tokens.0 {
            let bytes = self.kind.bytes(*token);
            let bytes = bytes.ok_or_else(|| error::unknown_token(py, *token))?;
            let inside = bytes.first().is_some_and(|byte| byte & 0xC0 == 0x80);
            offsets.push(points.saturating_sub(usize::from(inside)));
            points += crate::offsets::starts(bytes);
        }
        let text = decoded(py, &self.bytes_of(py, &tokens.0)?, "strict")?;
        Ok((text, offsets))
    }

    /// Decodes several lists of ids to text.
    #[pyo3(signature = (batch, *, errors="replace", num_threads=Some(8)),
        text_signature = "($self, batch, *, errors='replace', num_threads=8)")]
    fn decode_batch<'py>(
        &self,
        py: Python<'py>,
        batch: Items<Items<u32>>,
        errors: &str,
        num_threads: Option<usize>,
    ) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for bytes in self.bytes_batch(py, &batch.0, threads(num_threads))? {
            list.append(decoded(py, &bytes, errors)?)?;
        }
        Ok(list)
    }

    /// Decodes several lists of ids to bytes.
    #[pyo3(signature = (batch, *, num_threads=Some(8)),
        text_signature = "($self, batch, *, num_threads=8)")]
    fn decode_bytes_batch<'py>(
        &self,
        py: Python<'py>,
        batch: Items<Items<u32>>,
        num_threads: Option<usize>,
    ) -> PyResult<Bound<'py, PyList>> {
        let bytes = self.bytes_batch(py, &batch.0, threads(num_threads))?;
        PyList::new(py, bytes.iter().map(|bytes| PyBytes::new(py, bytes)))
    }

    /// The bytes of every ordinary token, in the order of their ids.
    #[expect(clippy::unused_self, reason = "a method of tiktoken")]
    fn token_byte_values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let ordinary = 0..*logue_o200k::special::IDS.start();
        let values = ordinary.map(|id| logue_o200k::token_bytes(id).unwrap_or_default());
        let values: Vec<_> = values.map(|bytes| PyBytes::new(py, bytes)).collect();
        PyList::new(py, values)
    }

    fn __repr__(&self) -> String {
        format!("<Encoding '{}'>", self.kind.name())
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other
            .cast::<Self>()
            .is_ok_and(|other| other.get().kind == self.kind)
    }

    fn __hash__(&self) -> u64 {
        u64::from(self.kind.max_token_value())
    }

    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> (Bound<'py, pyo3::types::PyType>, (&'static str,)) {
        (py.get_type::<Self>(), (self.kind.name(),))
    }
}

impl Encoding {
    fn bytes_batch(
        &self,
        py: Python<'_>,
        batch: &[Items<u32>],
        threads: usize,
    ) -> PyResult<Vec<Vec<u8>>> {
        let kind = self.kind;
        let decoded = py.detach(|| {
            parallel(batch, threads, |ids| {
                let mut out = Vec::with_capacity(ids.0.len() * 4);
                for id in &ids.0 {
                    out.extend_from_slice(kind.bytes(*id).ok_or(*id)?);
                }
                Ok(out)
            })
        });
        let decoded: Result<Vec<_>, u32> = decoded.into_iter().collect();
        decoded.map_err(|id| error::unknown_token(py, id))
    }
}
