//! The words of a frame header.
//!
//! A header is cut by its tokens into segments: `<|start|>` is followed by the role and attributes,
//! `<|channel|>` by the channel and attributes, `<|constrain|>` by a type. The reader
//! hands over each segment when it ends; this module fills the frame (OpenChatML 2.2 §6).

use logue_source::{Diagnostic, DiagnosticCode, Span, excerpt};

use crate::document::frame::{Attribute, Frame, Part};
use crate::limits::MAX_QUOTED_CHARS;
use crate::syntax::findings::Findings;
use crate::syntax::offset_slice::OffsetSlice;
use crate::syntax::vocabulary::{Channel, FUNCTIONS, FrameRole, Intent, RoleForm};
use crate::visibility::Recipient;

/// The token before a segment of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    /// `<|start|>`.
    Start,
    /// `<|channel|>`.
    Channel,
    /// `<|constrain|>`.
    Constrain,
    /// A token that has no place in a header.
    Misplaced,
}

/// The effect of a segment on the validity of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentValidity {
    /// The header can still be trusted.
    Sound,
    /// The channel cannot be known, so the frame is hidden.
    Broken,
}

impl SegmentValidity {
    /// Sound where both are.
    pub(crate) const fn and(self, other: Self) -> Self {
        match self {
            Self::Sound => other,
            Self::Broken => Self::Broken,
        }
    }
}

/// Reads the words of `segment` at `span` into `frame`.
pub(crate) fn read_segment(
    source: OffsetSlice<'_>,
    segment: Segment,
    span: Span,
    frame: &mut Frame,
    findings: &mut Findings,
) -> SegmentValidity {
    let mut words = words(source, span);
    let standing = match segment {
        Segment::Start => read_role(source, &mut words, span, frame, findings),
        Segment::Channel => read_channel(source, &mut words, span, frame, findings),
        Segment::Constrain => read_constrain(source, &mut words, span, frame, findings),
        // Nothing after such a token is trusted.
        Segment::Misplaced => return SegmentValidity::Broken,
    };
    standing.and(read_attributes(source, segment, words, frame, findings))
}

/// Returns whether `word` contains an apparent control token that was not read as one.
fn holds_markup(word: &[u8]) -> bool {
    // A word is too short for a search that prepares itself.
    word.windows(2).any(|pair| pair == b"<|")
}

/// Returns whether a key claims to say where the frame goes and does not: only `<|channel|>` names
/// the channel, and only `to`, in this case, the recipient. A frame that has such a key may be
/// meant to be hidden.
pub(crate) fn is_false_address(key: &[u8]) -> bool {
    key.eq_ignore_ascii_case(b"channel") || (key.eq_ignore_ascii_case(b"to") && key != b"to")
}

/// The words of a part of the source: spans between ASCII white space.
fn words(source: OffsetSlice<'_>, span: Span) -> Words<'_> {
    Words {
        text: source.get(span),
        from: span.start,
        at: 0,
        again: None,
    }
}

struct Words<'s> {
    text: &'s [u8],
    from: usize,
    at: usize,
    again: Option<Span>,
}

impl Words<'_> {
    /// Gives `word` once more.
    fn put_back(&mut self, word: Span) {
        self.again = Some(word);
    }
}

impl Iterator for Words<'_> {
    type Item = Span;

    fn next(&mut self) -> Option<Span> {
        if let Some(word) = self.again.take() {
            return Some(word);
        }
        let rest = self.text.get(self.at..)?;
        let skipped = rest.iter().position(|byte| !byte.is_ascii_whitespace())?;
        let start = self.at + skipped;
        let length = rest
            .iter()
            .skip(skipped)
            .position(u8::is_ascii_whitespace)
            .unwrap_or(rest.len() - skipped);
        self.at = start + length;
        Some(Span::new(self.from + start, self.from + self.at))
    }
}

fn read_role(
    source: OffsetSlice<'_>,
    words: &mut Words<'_>,
    span: Span,
    frame: &mut Frame,
    findings: &mut Findings,
) -> SegmentValidity {
    let first = words.next();
    let role = first.filter(|word| !source.get(*word).contains(&b'='));
    let Some(role) = role else {
        if let Some(first) = first {
            words.put_back(first);
        }
        findings.add(
            Diagnostic::error(
                DiagnosticCode::ParseHeader,
                "the frame has no role",
                first.unwrap_or(Span::empty(span.start)),
            )
            .with_expected("a role: `system`, `developer`, `user`, `assistant` or `tool`")
            .with_help("write the role immediately after `<|start|>`"),
        );
        return SegmentValidity::Broken;
    };
    let word = source.get(role);
    frame.role = if holds_markup(word) {
        FrameRole::Other
    } else {
        FrameRole::parse(word)
    };
    frame.set_part(Part::Role, role);
    if frame.role == FrameRole::Tool && word.starts_with(FUNCTIONS.as_bytes()) {
        frame.role_form = RoleForm::Functions;
        frame.set_part(Part::Name, role);
    }
    if frame.role == FrameRole::Other {
        findings.add(
            Diagnostic::error(
                DiagnosticCode::ParseHeader,
                format!("`{}` is not a role", excerpt(word, MAX_QUOTED_CHARS)),
                role,
            )
            .with_expected(
                "`system`, `developer`, `user`, `assistant`, `tool` or `functions.<tool>`",
            )
            .with_help("the frame is kept and hidden until its role is one of these"),
        );
        return SegmentValidity::Broken;
    }
    SegmentValidity::Sound
}

fn read_channel(
    source: OffsetSlice<'_>,
    words: &mut Words<'_>,
    span: Span,
    frame: &mut Frame,
    findings: &mut Findings,
) -> SegmentValidity {
    let expected = "`analysis`, `commentary` or `final`";
    let first = words.next();
    let Some(word) = first.filter(|word| !source.get(*word).contains(&b'=')) else {
        if let Some(first) = first {
            words.put_back(first);
        }
        findings.add(
            Diagnostic::error(
                DiagnosticCode::ParseHeader,
                "`<|channel|>` names no channel",
                first.unwrap_or(Span::empty(span.start)),
            )
            .with_expected(expected)
            .with_help("write the channel immediately after `<|channel|>`"),
        );
        if !frame.has_part(Part::Channel) {
            frame.set_part(Part::Channel, Span::empty(span.start));
        }
        return SegmentValidity::Broken;
    };
    if let Some(earlier) = frame.part(Part::Channel) {
        if source.get(earlier) == source.get(word) {
            findings.add(
                Diagnostic::warning(
                    DiagnosticCode::AttributeConflict,
                    "the channel is named twice",
                    word,
                )
                .with_label(earlier, "named here first")
                .with_expected("one `<|channel|>`")
                .with_help("remove the second `<|channel|>`"),
            );
            return SegmentValidity::Sound;
        }
        findings.add(
            Diagnostic::error(
                DiagnosticCode::ParseHeader,
                "the frame names two channels",
                word,
            )
            .with_label(earlier, "the other channel")
            .with_expected("nothing: a frame has exactly one channel")
            .with_help("remove one; the frame is hidden until then"),
        );
        return SegmentValidity::Broken;
    }
    frame.set_part(Part::Channel, word);
    let channel = Channel::parse(source.get(word));
    if channel == Channel::Unknown {
        findings.add(
            Diagnostic::error(
                DiagnosticCode::ParseHeader,
                format!(
                    "`{}` is not a channel",
                    excerpt(source.get(word), MAX_QUOTED_CHARS)
                ),
                word,
            )
            .with_expected(expected)
            .with_help("the frame is kept and hidden until its channel is one of these"),
        );
    }
    SegmentValidity::Sound
}

fn read_constrain(
    source: OffsetSlice<'_>,
    words: &mut Words<'_>,
    span: Span,
    frame: &mut Frame,
    findings: &mut Findings,
) -> SegmentValidity {
    let Some(word) = words.next().filter(|word| is_type(source.get(*word))) else {
        findings.add(
            Diagnostic::error(
                DiagnosticCode::ParseHeader,
                "`<|constrain|>` names no type",
                Span::empty(span.start),
            )
            .with_expected("a type, such as `json`")
            .with_help("write the type immediately after `<|constrain|>`, or remove the token"),
        );
        return SegmentValidity::Broken;
    };
    match frame.part(Part::Constrain) {
        None => frame.set_part(Part::Constrain, word),
        Some(earlier) => findings.add(
            Diagnostic::warning(
                DiagnosticCode::AttributeConflict,
                "the body is constrained twice; the first type counts",
                word,
            )
            .with_label(earlier, "the first type")
            .with_expected("one `<|constrain|>`")
            .with_help("remove the second `<|constrain|>`"),
        ),
    }
    SegmentValidity::Sound
}

/// Returns whether a word after `<|constrain|>` may be a type. A type may hold parameters with an
/// `=`.
pub(crate) fn is_type(word: &[u8]) -> bool {
    let key = word.split(|byte| *byte == b'=').next().unwrap_or_default();
    !holds_markup(word) && !is_false_address(key)
}

/// Reads the attributes of a segment. A word that is not a `key=value` may be a lost channel or
/// recipient, so the frame is not trusted any more; an unknown key only has no effect.
fn read_attributes(
    source: OffsetSlice<'_>,
    segment: Segment,
    words: Words<'_>,
    frame: &mut Frame,
    findings: &mut Findings,
) -> SegmentValidity {
    let mut unknown: Option<Span> = None;
    let mut malformed: Option<Span> = None;
    let mut standing = SegmentValidity::Sound;
    for word in words {
        let bytes = source.get(word);
        let split = bytes.iter().position(|byte| *byte == b'=');
        let key = Span::new(word.start, word.start + split.unwrap_or(bytes.len()));
        let value = split.map(|_| Span::new(key.end + 1, word.end));
        let group = match value {
            Some(value)
                if !key.is_empty()
                    && !holds_markup(bytes)
                    && !is_false_address(source.get(key)) =>
            {
                let known = read_known(source, segment, key, value, frame, findings);
                if let Some(known) = known {
                    standing = standing.and(known);
                    continue;
                }
                (!is_proof(source.get(key))).then_some(&mut unknown)
            }
            _ => Some(&mut malformed),
        };
        if let Some(group) = group {
            *group = Some(group.map_or(word, |all| all.join(word)));
        }
        frame.attributes.push(Attribute { key, value });
    }
    if let Some(all) = malformed {
        findings.add(
            Diagnostic::error(
                DiagnosticCode::ParseHeader,
                "the header contains an invalid attribute",
                all,
            )
            .with_expected("`key=value` without white space")
            .with_help(
                "write a channel after `<|channel|>`; the frame is hidden until this is corrected",
            ),
        );
        standing = SegmentValidity::Broken;
    }
    if let Some(all) = unknown {
        findings.add(
            Diagnostic::warning(
                DiagnosticCode::AttributeConflict,
                "the header contains an unknown attribute",
                all,
            )
            .with_expected("`to=`, `call_id=`, `name=`, `intent=` or `content_type=`")
            .with_help("it is kept and has no effect; remove it or correct its spelling"),
        );
    }
    standing
}

/// The attributes by which reasoning stays what its provider takes back: its id there, the signature
/// over it, and what only the provider can read. They are ours; other readers ignore them.
pub(crate) const REASONING_ID: &str = "reasoning_id";
pub(crate) const SIGNATURE: &str = "signature";
pub(crate) const ENCRYPTED: &str = "encrypted";

/// The attributes of the parts of a message with images. They are ours as well.
pub(crate) const CONTINUES: &str = "continues";
pub(crate) const DETAIL: &str = "detail";

/// The attribute of an answer that was interrupted, and its value. They are ours as well.
pub(crate) const STATUS: &str = "status";
pub(crate) const INTERRUPTED: &str = "interrupted";

/// The attribute of the phase that a provider gave to text of the assistant. It is ours as well.
pub(crate) const PHASE: &str = "phase";

fn is_proof(key: &[u8]) -> bool {
    [
        REASONING_ID,
        SIGNATURE,
        ENCRYPTED,
        CONTINUES,
        DETAIL,
        STATUS,
        PHASE,
    ]
    .iter()
    .any(|proof| proof.as_bytes() == key)
}

/// Reads `key=value` if the key is known; `None` if it is not.
fn read_known(
    source: OffsetSlice<'_>,
    segment: Segment,
    key: Span,
    value: Span,
    frame: &mut Frame,
    findings: &mut Findings,
) -> Option<SegmentValidity> {
    let word = source.get(key);
    let part = match word {
        b"to" => Part::To,
        b"call_id" => Part::CallId,
        b"name" => Part::Name,
        b"intent" => Part::Intent,
        b"content_type" => Part::ContentType,
        _ => return None,
    };
    let attribute = key.join(value);
    if value.is_empty() {
        findings.add(
            Diagnostic::error(
                DiagnosticCode::ParseHeader,
                format!("`{}=` has no value", excerpt(word, MAX_QUOTED_CHARS)),
                attribute,
            )
            .with_expected("a value immediately after the `=`")
            .with_help("a value holds no white space; remove the attribute if there is none"),
        );
        return Some(SegmentValidity::Broken);
    }
    if segment != Segment::Start && matches!(word, b"call_id" | b"name") {
        findings.add(
            Diagnostic::warning(
                DiagnosticCode::AttributeConflict,
                format!("`{}=` follows the channel", excerpt(word, MAX_QUOTED_CHARS)),
                attribute,
            )
            .with_expected("the attribute in the start header")
            .with_help("move it in front of `<|channel|>`"),
        );
    }
    if let Some(earlier) = frame.part(part) {
        let same = source.get(earlier) == source.get(value);
        let elsewhere = segment != Segment::Start && earlier.end <= key.start;
        // The canonical place and another one may agree without anything being wrong.
        if !(same && (elsewhere || earlier == frame.role_span())) {
            findings.add(
                Diagnostic::warning(
                    DiagnosticCode::AttributeConflict,
                    format!(
                        "`{}` is given twice; the first value counts",
                        excerpt(word, MAX_QUOTED_CHARS)
                    ),
                    attribute,
                )
                .with_label(earlier, "the value that counts")
                .with_expected("each attribute once")
                .with_help("remove one of the two"),
            );
        }
        return Some(SegmentValidity::Sound);
    }
    frame.set_part(part, value);
    let bytes = source.get(value);
    match word {
        b"to" => frame.recipient = Recipient::of(bytes),
        b"intent" => read_intent(bytes, value, frame, findings),
        _ => {}
    }
    Some(SegmentValidity::Sound)
}

fn read_intent(word: &[u8], place: Span, frame: &mut Frame, findings: &mut Findings) {
    let intent = Intent::parse(word);
    frame.intent_word = Some(intent);
    if intent == Intent::Other {
        findings.add(
            Diagnostic::warning(
                DiagnosticCode::AttributeConflict,
                format!(
                    "`{}` is an unknown intent and has no effect",
                    excerpt(word, MAX_QUOTED_CHARS)
                ),
                place,
            )
            .with_expected("`preamble`, `status` or `debug`")
            .with_help("use a known intent, or remove it"),
        );
    }
}
