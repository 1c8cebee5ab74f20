//! The laws of one passage: written in a form, and read.

use std::collections::BTreeMap;

use openchatml::{FrameBuf, FrameRole, HeaderBuf, Loss, LossKind, LossTarget, Transcript};

/// A transcript that was written in a form and read, with the losses of both steps.
pub struct Passage {
    /// The transcript that was read.
    pub transcript: Transcript,
    /// The losses of writing. Their frames are those of the written transcript.
    pub written: Vec<Loss>,
    /// The losses of reading.
    pub read: Vec<Loss>,
}

/// Returns a description of the law that a passage breaks.
///
/// The laws: no text gains authority or visibility; each body and each field is kept, or a loss of
/// the right kind lists the difference at its frame; the order is kept or listed; calls and replies
/// keep their pairs.
#[must_use]
pub fn violation(before: &Transcript, passage: &Passage) -> Option<String> {
    let law = Law::new(before, passage);
    law.check().err()
}

/// Kinds by which a body may be absent.
const ABSENT: &[LossKind] = &[
    LossKind::MessageDropped,
    LossKind::TextDropped,
    LossKind::CallDropped,
    LossKind::PartDropped,
    LossKind::ImageDropped,
];
/// Kinds by which a body may have other letters.
const RESPELLED: &[LossKind] = &[
    LossKind::SpellingChanged,
    LossKind::PartChanged,
    LossKind::BytesReplaced,
];
/// Kinds by which parts may be joined or divided.
const REGROUPED: &[LossKind] = &[
    LossKind::PartsJoined,
    LossKind::Regrouped,
    LossKind::PartChanged,
];
/// Kinds by which parts may be in another order.
const REORDERED: &[LossKind] = &[LossKind::OrderChanged, LossKind::Regrouped];

struct Law<'t> {
    before: &'t [FrameBuf],
    after: &'t [FrameBuf],
    passage: &'t Passage,
    headers: [Option<&'t HeaderBuf>; 2],
    /// The calls that the replies before answer.
    answered: BTreeMap<u32, Option<Answered<'t>>>,
    /// The markers of each frame before. Joined frames have several.
    markers: Vec<Vec<u32>>,
    /// The frame before that each marker is of.
    places: BTreeMap<u32, usize>,
    /// The markers of each frame after.
    found: Vec<Vec<u32>>,
}

impl<'t> Law<'t> {
    fn new(before: &'t Transcript, passage: &'t Passage) -> Self {
        let markers: Vec<_> = before
            .frames
            .iter()
            .map(|frame| markers_of(&frame.body))
            .collect();
        let places = markers
            .iter()
            .enumerate()
            .flat_map(|(index, markers)| markers.iter().map(move |marker| (*marker, index)));
        let after = &passage.transcript.frames;
        Self {
            before: &before.frames,
            answered: pairs(&before.frames),
            after,
            passage,
            headers: [before.header.as_ref(), passage.transcript.header.as_ref()],
            places: places.collect(),
            found: after.iter().map(|frame| markers_of(&frame.body)).collect(),
            markers,
        }
    }

    fn check(&self) -> Result<(), String> {
        self.ranks()?;
        self.bodies()?;
        self.empty_bodies()?;
        self.order()?;
        self.fields()?;
        self.pairs()?;
        self.header()
    }

    /// Returns whether a loss of such a kind refers to a frame, or to no particular one.
    fn permits(&self, index: usize, kinds: &[&[LossKind]]) -> bool {
        let is_such = |loss: &&Loss| kinds.iter().any(|kinds| kinds.contains(&loss.kind));
        let concerns = |loss: &Loss| match loss.target {
            LossTarget::Frame(at) => at == index,
            _ => true,
        };
        // Frames of the text that was read have other numbers.
        let read = self.passage.read.iter().find(is_such);
        read.is_some() || self.passage.written.iter().filter(is_such).any(concerns)
    }

    fn ranks(&self) -> Result<(), String> {
        for (frame, markers) in self.after.iter().zip(&self.found) {
            for (marker, place) in self.located(markers) {
                let Some(old) = self.before.get(place) else {
                    continue;
                };
                if frame.role.authority() > old.role.authority() {
                    return Err(format!("[{marker}] has gained authority"));
                }
                if frame.visibility().is_visible() && !old.visibility().is_visible() {
                    return Err(format!("[{marker}] has become visible"));
                }
            }
        }
        Ok(())
    }

    /// The frame before of each known marker.
    fn located(&self, markers: &[u32]) -> impl Iterator<Item = (u32, usize)> {
        let place = |marker: &u32| Some((*marker, *self.places.get(marker)?));
        markers.iter().filter_map(place)
    }

    /// The frames after that contain a marker.
    fn holders(&self, marker: u32) -> impl Iterator<Item = (&FrameBuf, &[u32])> {
        let frames = self.after.iter().zip(&self.found);
        frames
            .filter(move |(_, markers)| markers.contains(&marker))
            .map(|(frame, markers)| (frame, markers.as_slice()))
    }

    fn bodies(&self) -> Result<(), String> {
        for (index, (old, markers)) in self.before.iter().zip(&self.markers).enumerate() {
            let Some(marker) = markers.first().copied() else {
                continue;
            };
            let mut holders = self.holders(marker);
            let Some((new, new_markers)) = holders.next() else {
                let is_hidden = !old.visibility().is_visible();
                let is_omitted = is_hidden && self.permits(index, &[&[LossKind::HiddenOmitted]]);
                if is_omitted || self.permits(index, &[ABSENT]) {
                    continue;
                }
                return Err(format!("[{marker}] is absent"));
            };
            if holders.next().is_some() {
                return Err(format!("[{marker}] is there twice"));
            }
            if new.role != old.role {
                return Err(format!("[{marker}] has another role"));
            }
            let is_joined = self.located(new_markers).any(|(_, place)| place != index);
            let permits = |index| self.permits(index, &[REGROUPED]);
            if is_joined && !self.located(new_markers).any(|(_, place)| permits(place)) {
                return Err(format!("[{marker}] is joined with others"));
            }
            let is_kept = if is_joined {
                new.body.contains(&old.body)
            } else {
                new.body == old.body
            };
            if !is_kept && !self.permits(index, &[RESPELLED, REGROUPED, &[LossKind::TextDropped]]) {
                return Err(format!("[{marker}] has other letters"));
            }
        }
        // No frame of words comes from nowhere.
        for (frame, markers) in self.after.iter().zip(&self.found) {
            let is_listed =
                || (0..self.before.len()).any(|index| self.permits(index, &[REGROUPED]));
            let is_new = || self.before.iter().all(|old| old.body != frame.body);
            if markers.is_empty() && !frame.body.is_empty() && is_new() && !is_listed() {
                return Err(format!("{:?} was never said", frame.body));
            }
        }
        Ok(())
    }

    fn empty_bodies(&self) -> Result<(), String> {
        let roles = [
            FrameRole::System,
            FrameRole::Developer,
            FrameRole::User,
            FrameRole::Assistant,
            FrameRole::Tool,
            FrameRole::Other,
        ];
        for role in roles {
            let is_empty = |frame: &&FrameBuf| frame.role == role && frame.body.is_empty();
            let was: Vec<usize> = (0..self.before.len())
                .filter(|index| self.before.get(*index).as_ref().is_some_and(is_empty))
                .collect();
            let is = self.after.iter().filter(is_empty).count();
            let may_divide = (0..self.before.len())
                .any(|index| self.permits(index, &[&[LossKind::PartChanged]]));
            if is > was.len() && !may_divide {
                return Err(format!("a frame without words of the role {role:?} is new"));
            }
            let kinds: &[&[LossKind]] = &[
                ABSENT,
                REGROUPED,
                &[LossKind::EmptyDropped, LossKind::HiddenOmitted],
            ];
            let listed = was
                .iter()
                .filter(|index| self.permits(**index, kinds))
                .count();
            if was.len().saturating_sub(is) > listed {
                return Err(format!(
                    "a frame without words of the role {role:?} is absent"
                ));
            }
        }
        Ok(())
    }

    fn order(&self) -> Result<(), String> {
        let is: Vec<usize> = self
            .found
            .iter()
            .flat_map(|markers| self.located(markers))
            .map(|(_, place)| place)
            .collect();
        // Frames that are listed as moved have no place.
        let fixed = is
            .iter()
            .filter(|place| !self.permits(**place, &[REORDERED]));
        if fixed.is_sorted() {
            Ok(())
        } else {
            Err(format!("the order of frames is now {is:?}"))
        }
    }

    fn fields(&self) -> Result<(), String> {
        use LossKind::{
            Assigned, AttributeDropped, ChannelChanged, CutCompleted, IdDropped, IntentDropped,
            NameDropped, PreambleChanged, PreambleHidden, RecipientDropped, SignatureDropped,
            TerminatorChanged, ToolRenamed, TypeChanged,
        };
        for (new, markers) in self.after.iter().zip(&self.found) {
            let mut located = self.located(markers);
            let Some((marker, index)) = located.next() else {
                continue;
            };
            let Some(old) = self.before.get(index) else {
                continue;
            };
            if located.any(|(_, place)| place != index) {
                continue;
            }
            // A reply is the assistant's, whether it states that or not.
            let is_recipient_kept = old.to == new.to || old.role == FrameRole::Tool;
            let fields: [(&str, bool, &[LossKind]); 8] = [
                (
                    "recipient",
                    is_recipient_kept,
                    &[RecipientDropped, ToolRenamed, ChannelChanged],
                ),
                (
                    "channel",
                    old.effective_channel() == new.effective_channel(),
                    &[ChannelChanged, PreambleChanged, PreambleHidden],
                ),
                (
                    "id",
                    old.call_id == new.call_id,
                    &[IdDropped, Assigned, ChannelChanged],
                ),
                (
                    "name",
                    self.is_same_name(marker, old, new),
                    &[NameDropped, ToolRenamed, Assigned],
                ),
                (
                    "intent",
                    old.intent == new.intent,
                    &[IntentDropped, PreambleChanged, PreambleHidden],
                ),
                (
                    "type",
                    is_same_type(old, new),
                    &[TypeChanged, ChannelChanged],
                ),
                (
                    "attributes",
                    old.attributes == new.attributes,
                    &[AttributeDropped, SignatureDropped, IdDropped],
                ),
                (
                    "terminator",
                    old.terminator == new.terminator,
                    &[
                        TerminatorChanged,
                        CutCompleted,
                        PreambleChanged,
                        PreambleHidden,
                    ],
                ),
            ];
            for (field, is_kept, kinds) in fields {
                if !is_kept && !self.permits(index, &[kinds]) {
                    return Err(format!("[{marker}] has another {field}"));
                }
            }
        }
        Ok(())
    }

    /// Returns whether a name is kept. The name of a reply is that of its call, stated or not.
    fn is_same_name(&self, marker: u32, old: &FrameBuf, new: &FrameBuf) -> bool {
        let implied = || {
            let answered = self.answered.get(&marker)?.as_ref()?;
            Some(answered.tool == bare(new.name.as_deref()?))
        };
        old.name == new.name
            || (old.role == FrameRole::Tool && old.name.is_none() && implied() == Some(true))
    }

    fn pairs(&self) -> Result<(), String> {
        let marker = |call: Option<&Answered<'_>>| call.and_then(|call| call.marker);
        let lost: &[LossKind] = &[LossKind::PairingLost, LossKind::CallDropped];
        for (reply, call) in pairs(self.after) {
            let call = marker(call.as_ref());
            let Some(index) = self.places.get(&reply).copied() else {
                continue;
            };
            let old = marker(self.answered.get(&reply).and_then(Option::as_ref));
            let call_index = old.and_then(|call| self.places.get(&call).copied());
            let is_listed = self.permits(index, &[lost])
                || call_index.is_some_and(|call| self.permits(call, &[lost, ABSENT]));
            let is_new = old.is_none() && self.permits(index, &[&[LossKind::Assigned]]);
            if call != old && !is_listed && !is_new {
                return Err(format!(
                    "the pair: [{reply}] answers {call:?}, and not {old:?}"
                ));
            }
        }
        Ok(())
    }

    fn header(&self) -> Result<(), String> {
        use LossKind::{DeclarationDropped, HeaderDropped, SettingDropped};
        let empty = HeaderBuf::new("");
        let [was, is] = self.headers.map(|header| header.unwrap_or(&empty));
        let losses = self.passage.written.iter().chain(&self.passage.read);
        let kinds: Vec<LossKind> = losses.map(|loss| loss.kind).collect();
        let parts: [(&str, bool, &[LossKind]); 3] = [
            (
                "model",
                was.model == is.model,
                &[SettingDropped, HeaderDropped],
            ),
            (
                "settings",
                was.generation_settings == is.generation_settings,
                &[SettingDropped, HeaderDropped, DeclarationDropped],
            ),
            (
                "keys",
                was.extra == is.extra,
                &[HeaderDropped, SettingDropped, DeclarationDropped],
            ),
        ];
        for (part, is_kept, permitted) in parts {
            if !is_kept && !kinds.iter().any(|kind| permitted.contains(kind)) {
                return Err(format!("the {part} of the header differ"));
            }
        }
        Ok(())
    }
}

/// Returns whether the types of a call or text are the same. JSON arguments imply their type.
fn is_same_type(old: &FrameBuf, new: &FrameBuf) -> bool {
    let types = |frame: &FrameBuf| {
        let is_json = || serde_json::from_str::<serde_json::Value>(&frame.body).is_ok();
        let is_implied = frame.is_call() && frame.content_type.is_none() && is_json();
        let implied = is_implied.then(|| "json".to_owned());
        (
            frame.content_type.clone(),
            frame.constrain.clone().or(implied),
        )
    };
    types(old) == types(new)
}

/// The markers of a text, in order.
fn markers_of(text: &str) -> Vec<u32> {
    let parts = text.split('[').skip(1);
    let marker = |part: &str| part.split_once(']')?.0.parse().ok();
    parts.filter_map(marker).collect()
}

/// A call that a reply answers.
#[derive(Clone, Copy)]
struct Answered<'t> {
    /// The tool without the namespace of functions.
    tool: &'t str,
    marker: Option<u32>,
}

/// A call, as replies find it.
struct Call<'t> {
    id: &'t str,
    answered: Answered<'t>,
    is_finished: bool,
    /// Whether it is of the turn and no reply has answered it.
    is_open: bool,
}

/// The call that each reply answers, by the marker of the reply.
///
/// It is the first open call of the turn with its id and tool, else the first open call with its id,
/// else the last finished call before the reply with its id, else the last frame to a tool with it.
fn pairs(frames: &[FrameBuf]) -> BTreeMap<u32, Option<Answered<'_>>> {
    let mut calls: Vec<Call<'_>> = Vec::new();
    let mut pairs = BTreeMap::new();
    for frame in frames {
        let marker = markers_of(&frame.body).first().copied();
        match (frame.role, frame.call_id.as_deref()) {
            (FrameRole::User, _) => calls.iter_mut().for_each(|call| call.is_open = false),
            (FrameRole::Assistant, Some(id)) => calls.extend(frame.to.as_deref().map(|to| Call {
                id,
                answered: Answered {
                    tool: bare(to),
                    marker,
                },
                is_finished: frame.is_call(),
                is_open: frame.is_call(),
            })),
            (FrameRole::Tool, id) => {
                let tool = frame.name.as_deref().map(bare);
                let call = id.and_then(|id| answered(&mut calls, id, tool));
                pairs.extend(marker.map(|marker| (marker, call)));
            }
            _ => {}
        }
    }
    pairs
}

/// Returns the call that a reply answers.
fn answered<'t>(calls: &mut [Call<'t>], id: &str, tool: Option<&str>) -> Option<Answered<'t>> {
    let of_tool = |call: &&mut Call<'_>| call.is_open && Some(call.answered.tool) == tool;
    let mut its: Vec<_> = calls.iter_mut().filter(|call| call.id == id).collect();
    let named = its.iter().position(of_tool);
    let open = named.or_else(|| its.iter().position(|call| call.is_open));
    let place = open
        .or_else(|| its.iter().rposition(|call| call.is_finished))
        .or(its.len().checked_sub(1))?;
    let call = its.get_mut(place)?;
    call.is_open = false;
    Some(call.answered)
}

/// The tool without the namespace of functions.
fn bare(name: &str) -> &str {
    name.strip_prefix("functions.").unwrap_or(name)
}
