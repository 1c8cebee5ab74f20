//! The YAML header of a document: what it says.
//!
//! This is the only module that knows the YAML library. It bounds what a header may cost (bytes,
//! depth, nodes, aliases) and turns the library's errors into findings with a place in the source
//! (OpenChatML 2.2 §2).

use std::collections::BTreeMap;

use logue_source::{Diagnostic, DiagnosticCode, Span, excerpt};
use serde_json::{Map, Value};
use serde_saphyr::options::{MergeKeyPolicy, NonFiniteFloatPolicy};
use serde_saphyr::{Location, Spanned, UserMessageFormatter};

use crate::document::owned::HeaderBuf;
use crate::limits::{
    HEADER_STACK, MAX_DOCUMENT_HEADER, MAX_HEADER_ALIASES, MAX_HEADER_DEPTH, MAX_HEADER_NODES,
    MAX_QUOTED_CHARS, MAX_SHALLOW_HEADER_DEPTH,
};
use crate::read::number_fidelity::Spellings;
use crate::syntax::findings::Findings;
use crate::syntax::rules::Rules;

/// The header of a document.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    pub(crate) span: Span,
    pub(crate) values: HeaderBuf,
}

impl Header {
    /// The header's place, fences included.
    pub const fn span(&self) -> Span {
        self.span
    }

    /// The version as the source spells it: `2.10` is not `2.1`. Empty where it is missing.
    pub fn version(&self) -> &str {
        &self.values.version
    }

    /// The model's name.
    pub fn model(&self) -> Option<&str> {
        self.values.model.as_deref()
    }

    /// The generation settings; empty where there are none.
    pub const fn generation_settings(&self) -> &Map<String, Value> {
        &self.values.generation_settings
    }

    /// Every other key, in the order of the source.
    pub const fn extra(&self) -> &Map<String, Value> {
        &self.values.extra
    }

    /// The value of another key than the three above.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.extra.get(key)
    }
}

impl From<&Header> for HeaderBuf {
    fn from(header: &Header) -> Self {
        header.values.clone()
    }
}

/// The keys of a header with their values and places.
pub(crate) type Entries = BTreeMap<String, Spanned<Value>>;

/// The finding about a document header that continues at `at`.
pub(crate) fn too_long(at: usize) -> Diagnostic {
    Diagnostic::error(
        DiagnosticCode::ParseHeader,
        format!("the document header is longer than {MAX_DOCUMENT_HEADER} bytes"),
        Span::empty(at),
    )
    .with_expected("the first frame, at the begin of a line, earlier than here")
    .with_help("keep long values out of the header")
}

/// Parses the YAML at `yaml`, within the limits.
pub(crate) fn parse_yaml(source: &[u8], yaml: Span) -> Result<Entries, Box<Diagnostic>> {
    if yaml.len() > MAX_DOCUMENT_HEADER {
        return Err(Box::new(too_long(yaml.start + MAX_DOCUMENT_HEADER)));
    }
    let text = std::str::from_utf8(yaml.bytes(source)).map_err(|error| {
        let at = yaml.start + error.valid_up_to();
        let length = error.error_len().unwrap_or(1);
        Box::new(
            Diagnostic::error(
                DiagnosticCode::ParseHeader,
                "the document header is not valid UTF-8",
                Span::new(at, at + length),
            )
            .with_expected("UTF-8 text")
            .with_help("save the file as UTF-8"),
        )
    })?;
    if nesting_bound(text) <= MAX_SHALLOW_HEADER_DEPTH {
        return deserialize(text, yaml, MAX_HEADER_DEPTH);
    }
    std::thread::scope(|scope| {
        let parse = || deserialize(text, yaml, MAX_HEADER_DEPTH);
        let thread = std::thread::Builder::new().stack_size(HEADER_STACK);
        match thread
            .spawn_scoped(scope, parse)
            .map(std::thread::ScopedJoinHandle::join)
        {
            Ok(Ok(parsed)) => parsed,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            // Without threads, less nesting has to suffice.
            Err(_) => deserialize(text, yaml, MAX_SHALLOW_HEADER_DEPTH),
        }
    })
}

/// An upper bound of the nesting of a YAML text, found without parsing it.
///
/// A nested block begins further to the right, a nested flow has a bracket, and aliases repeat both.
fn nesting_bound(text: &str) -> usize {
    if memchr::memchr(b'*', text.as_bytes()).is_some() {
        return usize::MAX;
    }
    let is_indent = |byte: &u8| matches!(byte, b' ' | b'\t' | b'-' | b'?' | b':');
    let indent = |line: &[u8]| line.iter().take_while(|byte| is_indent(byte)).count();
    let lines = text.as_bytes().split(|byte| matches!(byte, b'\n' | b'\r'));
    let blocks = lines.map(indent).max().unwrap_or_default();
    blocks + memchr::memchr2_iter(b'[', b'{', text.as_bytes()).count()
}

/// Parses YAML of at most `depth` levels, which is at `yaml` in the source.
fn deserialize(text: &str, yaml: Span, depth: usize) -> Result<Entries, Box<Diagnostic>> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: depth,
            flow_nesting_limit: depth,
            max_nodes: MAX_HEADER_NODES,
            max_aliases: MAX_HEADER_ALIASES,
            max_anchors: MAX_HEADER_ALIASES,
            max_documents: 1,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_HEADER_NODES,
            max_replay_stack_depth: 8,
        },
        merge_keys: MergeKeyPolicy::AsOrdinary,
        // JSON has no such numbers, and an unknown key must not make a header unreadable.
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options::<Entries>(text, options).map_err(|error| {
        let location = error.location();
        let place = location.and_then(|location| {
            span_of(location, yaml).or_else(|| line_and_column(location, text, yaml))
        });
        let error = error.without_snippet();
        let message = match error {
            // This message would show the library's own types.
            serde_saphyr::Error::Budget { .. } => {
                "it is too large, too deep, or more than one YAML document".to_owned()
            }
            error => error.render_with_formatter(&UserMessageFormatter),
        };
        let message = message.lines().next().unwrap_or_default().trim();
        // The library counts lines from its own begin; the finding has the place.
        let message = message
            .rsplit_once(" at line ")
            .map_or(message, |(what, _)| what);
        Box::new(
            Diagnostic::error(
                DiagnosticCode::ParseHeader,
                format!("the document header cannot be read: {message}"),
                place.unwrap_or(Span::empty(yaml.start)),
            )
            .with_expected("YAML: one `key: value` a line")
            .with_help("the frames are read all the same; correct the header"),
        )
    })
}

/// A place that the library gives, in the source; `None` where it gives none.
fn span_of(location: Location, yaml: Span) -> Option<Span> {
    let offset = usize::try_from(location.span().byte_offset()?).ok()?;
    let length = usize::try_from(location.span().byte_len()?).ok()?;
    let start = yaml
        .start
        .checked_add(offset)
        .filter(|at| *at <= yaml.end)?;
    let end = start.checked_add(length).filter(|at| *at <= yaml.end);
    Some(Span::new(start, end.unwrap_or(start)))
}

/// The header that `entries` make, and the rules that its version sets for the frames.
pub(crate) fn read_values(
    source: &[u8],
    span: Span,
    yaml: Span,
    entries: Entries,
    findings: &mut Findings,
) -> (Header, Rules) {
    // The library's map is sorted by key; the places bring the order of the source back.
    let mut entries: Vec<_> = entries.into_iter().collect();
    entries.sort_by_key(|(_, entry)| entry.referenced.span().byte_offset());
    let mut values = HeaderBuf::new("");
    let mut version_span = None;
    let mut spellings = Spellings::new(source, yaml);
    for (key, entry) in entries {
        let place = span_of(entry.referenced, yaml).unwrap_or(Span::empty(yaml.start));
        match (key.as_str(), entry.value) {
            ("version", value) => {
                version_span = Some(place);
                let text = scalar_text(source, yaml, entry.defined, &value);
                values.version = text.unwrap_or_default();
            }
            ("model" | "generation_settings", Value::Null) => {}
            ("model", value) => {
                values.model = scalar_text(source, yaml, entry.defined, &value);
                if values.model.is_none() {
                    findings.add(wrong_kind("model", "the model's name", place));
                }
            }
            ("generation_settings", Value::Object(map)) => values.generation_settings = map,
            ("generation_settings", _) => {
                findings.add(wrong_kind("generation_settings", "keys and values", place));
            }
            (_, value) => {
                let spelled = span_of(entry.defined, yaml).unwrap_or(place);
                if let Some(number) = spellings.lost(spelled, &value) {
                    findings.add(
                        Diagnostic::warning(
                            DiagnosticCode::ParseHeader,
                            format!(
                                "a number in `{}` is read as {number}",
                                excerpt(key.as_bytes(), MAX_QUOTED_CHARS)
                            ),
                            place,
                        )
                        .with_expected("a number as it would be written back, or a text")
                        .with_help("put it in quotes if its digits matter, as in a version"),
                    );
                }
                values.extra.insert(key, value);
            }
        }
    }
    let rules = check_version(&values.version, version_span, span, findings);
    (Header { span, values }, rules)
}

fn wrong_kind(key: &str, expected: &str, place: Span) -> Diagnostic {
    Diagnostic::error(
        DiagnosticCode::ParseHeader,
        format!("`{key}` has a value of the wrong kind"),
        place,
    )
    .with_expected(expected)
    .with_help("the key is ignored until then")
}

/// The place of an error that has a line and a column only.
fn line_and_column(location: Location, text: &str, yaml: Span) -> Option<Span> {
    let line = usize::try_from(location.line().checked_sub(1)?).ok()?;
    let column = usize::try_from(location.column().saturating_sub(1)).ok()?;
    let earlier: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    let rest = text.get(earlier..)?.chars().take(column);
    let before: usize = rest.map(char::len_utf8).sum();
    Some(Span::empty(yaml.start + earlier + before))
}

/// A scalar as the source spells it: a number keeps its digits, which a float would lose.
fn scalar_text(source: &[u8], yaml: Span, place: Location, value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => {
            let spelled = span_of(place, yaml).map(|span| span.bytes(source));
            let spelled = spelled.and_then(|text| std::str::from_utf8(text).ok());
            let spelled = spelled.map(str::trim).filter(|text| !text.is_empty());
            Some(spelled.map_or_else(|| number.to_string(), str::to_owned))
        }
        _ => None,
    }
}

/// Says what a version means for the reader: 2.0 to 2.2 are read, a later minor version is read as
/// 2.2 with a warning, another major version is an error.
fn check_version(
    version: &str,
    place: Option<Span>,
    header: Span,
    findings: &mut Findings,
) -> Rules {
    let expected = "`2.2`, or `2.0` for an older transcript";
    let Some(place) = place else {
        findings.add(
            Diagnostic::error(
                DiagnosticCode::ParseHeader,
                "the document header has no `version`",
                Span::empty(header.start),
            )
            .with_expected("`version: 2.2`")
            .with_help("the frames are read as 2.2; add the version"),
        );
        return Rules::V2_2;
    };
    match version {
        "2.0" => return Rules::V2_0,
        "2.2" => return Rules::V2_2,
        _ => {}
    }
    let finding = match numbers(version) {
        None => Diagnostic::error(
            DiagnosticCode::ParseVersion,
            "the version is not a major and a minor number",
            place,
        )
        .with_help("write the version as two numbers with a dot between them"),
        Some((2, _)) => Diagnostic::warning(
            DiagnosticCode::ParseVersion,
            format!("version {version} is read as 2.2"),
            place,
        )
        .with_help("what another version means otherwise is not known here"),
        Some(_) => Diagnostic::error(
            DiagnosticCode::ParseVersion,
            format!("version {version} is of another major version and is not read"),
            place,
        )
        .with_help("write `version: 2.2`, by which its frames are shown, and check it again"),
    };
    findings.add(finding.with_expected(expected));
    Rules::V2_2
}

fn numbers(version: &str) -> Option<(u32, u32)> {
    let (major, minor) = version.split_once('.')?;
    let number = |digits: &str| {
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| digits.parse().ok()).flatten()
    };
    Some((number(major)?, number(minor)?))
}
