//! Conversations to token ids.

use std::hint::black_box;

use openchatml::harmony::{Conversation, Form, Reasoning, RenderOptions, Renderer};
use openchatml::{FrameBuf, Transcript};

use crate::measure::{Row, alone, in_turn};
use crate::peer::Peers;

pub(super) fn rows(rows: &mut Vec<Row>, frames: &[FrameBuf], peers: &Peers) {
    let transcript = Transcript::new(frames.to_vec());
    let (conversation, _losses) = Conversation::from_transcript(&transcript);
    let options = RenderOptions::default().with_reasoning(Reasoning::DropBeforeFirstFinal);
    let mut renderer = Renderer::new();
    let mut ids = Vec::new();
    let mut ours = || {
        ids.clear();
        let conversation = black_box(&conversation);
        let rendered = renderer.append(conversation, Form::Conversation, &options, &mut ids);
        rendered.map_or(0, |()| ids.len())
    };
    let count = ours();
    let row = Row::new("render to token ids", false);
    let peer = peers.harmony.as_deref();
    let theirs = peer.and_then(|peer| Some((peer.name(), peer.renderer(frames)?)));
    let Some((name, theirs)) = theirs else {
        let times = alone(ours);
        let each = times.each(count);
        rows.push(
            row.mean(times)
                .ours(format!("{each:.1} ns an id"))
                .goal("≥ 25×", None),
        );
        return;
    };
    let their_count = theirs();
    let (ours, theirs) = in_turn(ours, theirs);
    let ratio = theirs.least.as_secs_f64() / ours.least.as_secs_f64();
    rows.push(
        row.mean(ours)
            .ours(format!("{:.1} ns an id, {count} ids", ours.each(count)))
            .peer(format!(
                "{name} {:.0} ns an id, {their_count} ids",
                theirs.each(their_count)
            ))
            .ratio(format!("{ratio:.1}×"))
            .goal("≥ 25×", Some(ratio >= 25.0)),
    );
}
