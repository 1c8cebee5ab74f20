//! Control tokens in what people say.

use openchatml::Dialect;
use openchatml::scan::{ScanFormat, TokenFamilies, TokenFamily, TokenHit, TokenScanner};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::error;
use crate::finding::pair;
use crate::input::{self, RELEASE_ENCODING};
use crate::items::Items;
use crate::offsets::Offsets;

/// A control token in a text.
#[pyclass(frozen, get_all, eq, module = "openchatml", name = "TokenHit")]
#[derive(PartialEq)]
pub(crate) struct Hit {
    /// The token as it reads.
    token: String,
    /// The place, in code points.
    span: (usize, usize),
    /// The place, in bytes of UTF-8.
    byte_span: (usize, usize),
    /// Whether the text itself escapes or quotes the token.
    escaped: bool,
    /// The families of models that have the token.
    families: Vec<&'static str>,
}

/// The fields of a hit.
type Fields<'h> = (
    &'h str,
    (usize, usize),
    (usize, usize),
    bool,
    Vec<&'static str>,
);

#[pymethods]
impl Hit {
    fn __repr__(&self) -> String {
        let (start, end) = self.span;
        let escaped = if self.escaped { ", escaped" } else { "" };
        format!("<TokenHit {:?} at {start}..{end}{escaped}>", self.token)
    }

    /// Restores a hit from its fields.
    #[staticmethod]
    fn _restore(
        token: String,
        span: (usize, usize),
        byte_span: (usize, usize),
        escaped: bool,
        families: Items<String>,
    ) -> Self {
        let named = |family: &TokenFamily| families.0.iter().any(|name| name == family.name());
        let families = TokenFamily::ALL.into_iter().filter(named);
        Self {
            token,
            span,
            byte_span,
            escaped,
            families: families.map(TokenFamily::name).collect(),
        }
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Fields<'_>)> {
        let restore = py.get_type::<Self>().getattr("_restore")?;
        let families = self.families.clone();
        let fields = (
            self.token.as_str(),
            self.span,
            self.byte_span,
            self.escaped,
            families,
        );
        Ok((restore, fields))
    }
}

fn format_of(py: Python<'_>, name: &str) -> PyResult<ScanFormat> {
    let format = match name {
        "plain" => Some(ScanFormat::Plain),
        "json" => Some(ScanFormat::Json),
        "chatmd" => Some(ScanFormat::ChatMd),
        name => Dialect::parse(name).map(ScanFormat::Envelope),
    };
    format.ok_or_else(|| {
        let names = Dialect::ALL.map(Dialect::as_str).join(", ");
        let message = format!("unknown format `{name}`; known are plain, json, chatmd, {names}");
        error::invalid(py, &message)
    })
}

/// Finds control tokens in user content.
#[pyfunction]
#[pyo3(signature = (text, format="plain", *, families=None))]
pub(crate) fn scan<'py>(
    py: Python<'py>,
    text: &Bound<'py, PyAny>,
    format: &str,
    families: Option<Items<String>>,
) -> PyResult<Bound<'py, PyTuple>> {
    let format = format_of(py, format)?;
    let mut searched = TokenFamilies::ALL;
    if let Some(names) = families {
        searched = TokenFamilies::NONE;
        for name in names.0 {
            let family = TokenFamily::ALL
                .into_iter()
                .find(|family| family.name() == name);
            let Some(family) = family else {
                let known = TokenFamily::ALL.map(TokenFamily::name).join(", ");
                let message = format!("unknown family `{name}`; known are {known}");
                return Err(error::invalid(py, &message));
            };
            searched = searched.with(family);
        }
    }
    let bytes = input::bytes(text)?;
    let work = || {
        let mut hits = Vec::new();
        let mut scanner = TokenScanner::new(format).with_families(searched);
        scanner.push(&bytes, &mut |hit: TokenHit| hits.push(hit));
        scanner.finish(&mut |hit: TokenHit| hits.push(hit));
        let offsets = (!hits.is_empty()).then(|| Offsets::new(&bytes));
        let hits = hits.into_iter().map(|hit| Hit {
            span: offsets
                .as_ref()
                .map_or(pair(hit.span), |offsets| offsets.span(hit.span)),
            byte_span: pair(hit.span),
            escaped: hit.is_escaped,
            families: hit.families.iter().map(TokenFamily::name).collect(),
            token: hit.token,
        });
        hits.collect::<Vec<_>>()
    };
    let hits = if bytes.len() >= RELEASE_ENCODING {
        py.detach(work)
    } else {
        work()
    };
    PyTuple::new(py, hits)
}
