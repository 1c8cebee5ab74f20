//! What of a history goes into the next sampling, and what replies of tools say.

use logue_source::DiagnosticCode;
use openchatml::harmony::{End, HarmonyReadOptions, read};
use openchatml::sampling::{
    ReasoningRetention, prompt_frames, prompt_frames_with, prompt_messages,
};
use openchatml::{Channel, FrameBuf, FrameRole, ReplyEnvelope, Terminator, deadline_ms};
use proptest::prelude::*;
use serde_json::json;

/// A history out of letters: `u`ser, `a`nalysis, `f`inal, `r`eturned final, `C`all, `R`eply of the
/// last call, `p`reamble, `s`ystem, `x` a final that was cut.
fn history(letters: &str) -> Vec<FrameBuf> {
    let mut calls = 0;
    let frame = |letter| match letter {
        'u' => FrameBuf::user("u"),
        'a' => FrameBuf::analysis("a"),
        'f' => FrameBuf::answer("f"),
        'r' => FrameBuf::answer("r").with_terminator(Terminator::Return),
        'x' => FrameBuf::answer("x").with_terminator(Terminator::None),
        'p' => FrameBuf::preamble("p"),
        'C' => {
            calls += 1;
            FrameBuf::call("functions.f", format!("c{calls}"), "C")
        }
        'R' => FrameBuf::reply("functions.f", format!("c{calls}"), "R"),
        _ => FrameBuf::system("s"),
    };
    letters.chars().map(frame).collect()
}

fn letters(frames: &[FrameBuf]) -> String {
    frames.iter().map(|frame| frame.body.as_str()).collect()
}

#[test]
fn reasoning_lasts_as_long_as_its_turn() {
    for (given, kept, first_final) in [
        ("", "", ""),
        ("ua", "ua", "ua"),
        ("uaf", "uf", "uf"),
        ("uar", "ur", "ur"),
        ("suafu", "sufu", "sufu"),
        ("uaafuaafuaf", "ufufuf", "ufuaafuaf"),
        // An open turn keeps its own, and the turns before it lose theirs.
        ("uafuaC", "ufuaC", "uafuaC"),
        ("uafuaCR", "ufuaCR", "uafuaCR"),
        ("uafuapCRaCR", "ufuapCRaCR", "uafuapCRaCR"),
        // A turn that was answered loses all, between its calls too.
        ("uaCRaCRaf", "uCRCRf", "uCRCRf"),
        // A call that nobody answered still needs what led to it.
        ("uaCuaf", "uaCuf", "uCuf"),
        ("uaCRaCuaf", "uaCRaCuf", "uCRCuf"),
        ("uafuaCuafuaf", "ufuaCufuf", "ufuaCuafuaf"),
        // What was cut is no answer.
        ("uax", "uax", "ux"),
        ("uafuax", "ufuax", "ufuax"),
    ] {
        let frames = history(given);
        assert_eq!(letters(&prompt_frames(&frames)), kept, "{given}");
        let theirs = prompt_frames_with(&frames, ReasoningRetention::FirstFinal);
        assert_eq!(letters(&theirs), first_final, "{given}");
    }
}

#[test]
fn calls_without_ids_are_answered_in_order() {
    let mut frames = history("uaCRaf");
    for frame in &mut frames {
        frame.call_id = None;
    }
    assert_eq!(letters(&prompt_frames(&frames)), "uCRf");
    frames.remove(3);
    assert_eq!(letters(&prompt_frames(&frames)), "uaCf");
}

#[test]
fn a_call_from_reasoning_is_no_reasoning() {
    let mut frames = history("uaCRaf");
    frames[2].channel = Some(Channel::Analysis);
    frames[2].to = Some("python".to_owned());
    assert_eq!(letters(&prompt_frames(&frames)), "uCRf");
    // openai-harmony asks for the channel only.
    let theirs = prompt_frames_with(&frames, ReasoningRetention::FirstFinal);
    assert_eq!(letters(&theirs), "uRf");
    frames[3].channel = Some(Channel::Analysis);
    let theirs = prompt_frames_with(&frames, ReasoningRetention::FirstFinal);
    assert_eq!(letters(&theirs), "uf");
}

#[test]
fn an_answer_may_be_addressed_to_people() {
    for (to, kept) in [("user", "uf"), ("all", "uf"), ("functions.f", "uaf")] {
        let mut frames = history("uaf");
        frames[2].to = Some(to.to_owned());
        assert_eq!(letters(&prompt_frames(&frames)), kept, "{to}");
    }
}

#[test]
fn messages_of_harmony_by_the_same_rules() {
    let text = "<|start|>user<|message|>u<|end|><|start|>assistant<|channel|>analysis<|message|>a<|end|>\
        <|start|>assistant<|channel|>final<|message|>f<|return|><|start|>user<|message|>v<|end|>\
        <|start|>assistant<|channel|>analysis<|message|>b<|end|>\
        <|start|>assistant<|channel|>analysis to=python code<|message|>C<|call|>";
    let document = read(text.as_bytes(), &HarmonyReadOptions::default());
    let bodies = |keep| {
        let kept = prompt_messages(&document.messages, keep);
        assert!(kept.iter().all(|message| message.end != End::Return));
        assert_eq!(prompt_messages(&kept, keep), kept, "idempotent");
        kept.iter()
            .map(|message| message.content.as_str())
            .collect::<String>()
    };
    assert_eq!(bodies(ReasoningRetention::OpenTurn), "ufvbC");
    assert_eq!(bodies(ReasoningRetention::FirstFinal), "uafvbC");
    // A message without a channel is no answer in Harmony.
    let text = "<|start|>assistant<|channel|>analysis<|message|>a<|end|><|start|>assistant<|message|>x<|end|>";
    let document = read(text.as_bytes(), &HarmonyReadOptions::default());
    assert_eq!(
        prompt_messages(&document.messages, ReasoningRetention::OpenTurn),
        document.messages
    );
}

#[test]
fn a_channel_that_is_not_named_is_the_answer() {
    let mut frames = history("uaf");
    frames[2].channel = None;
    assert_eq!(letters(&prompt_frames(&frames)), "uf");
}

#[test]
fn envelopes_of_replies() {
    let whole = ReplyEnvelope::parse(
        r#"{"ok":true,"content":{"t":20},"error":null,"provenance":{"source":"x"},"more":1}"#,
    )
    .unwrap();
    assert!(whole.ok && whole.error.is_none() && whole.error_code().is_none());
    assert_eq!(whole.content, json!({"t": 20}));
    assert_eq!(whole.provenance.get("source"), Some(&json!("x")));
    assert_eq!(whole.extra.get("more"), Some(&json!(1)));

    for (error, code, message, known) in [
        (
            json!("E-TOOL-TIMEOUT"),
            Some("E-TOOL-TIMEOUT"),
            None,
            Some(DiagnosticCode::ToolTimeout),
        ),
        (
            json!("E-TOOL-CANCELLED: by the user"),
            Some("E-TOOL-CANCELLED"),
            Some("by the user"),
            Some(DiagnosticCode::ToolCancelled),
        ),
        (
            json!({"code": "E-TOOL-TIMEOUT", "message": "late"}),
            Some("E-TOOL-TIMEOUT"),
            Some("late"),
            Some(DiagnosticCode::ToolTimeout),
        ),
        (
            json!({"code": "E_OTHER", "detail": 1}),
            Some("E_OTHER"),
            None,
            None,
        ),
        (
            json!("E-mail: not sent"),
            Some("E-mail"),
            Some("not sent"),
            None,
        ),
        (
            json!("no such city: Atlantis"),
            None,
            Some("no such city: Atlantis"),
            None,
        ),
        (json!(404), None, None, None),
    ] {
        let body = json!({"ok": false, "error": error}).to_string();
        let reply = ReplyEnvelope::parse(&body).unwrap();
        assert_eq!(reply.error_code(), known, "{body}");
        let error = reply.error.unwrap();
        assert_eq!(
            (error.code.as_deref(), error.message.as_deref()),
            (code, message),
            "{body}"
        );
    }
    assert_eq!(ReplyEnvelope::parse(r#"{"ok":false}"#).unwrap().error, None);

    for body in [
        "",
        "14 °C",
        "[]",
        "{}",
        "{\"ok\":1}",
        "{\"ok\":true,\"error\":\"E-TOOL-TIMEOUT\"}",
        "{\"ok\":true} x",
        "{\"content\":1}",
    ] {
        assert_eq!(ReplyEnvelope::parse(body), None, "{body}");
    }
}

#[test]
fn deadlines_of_calls() {
    for (body, deadline) in [
        (r#"{"deadline_ms":0}"#, None),
        (r#" {"a":{"deadline_ms":1},"deadline_ms":250}"#, Some(250)),
        (r#"{"a":{"deadline_ms":1}}"#, None),
        (r#"{"deadline_ms":-1}"#, None),
        (r#"{"deadline_ms":1.5}"#, None),
        (r#"{"deadline_ms":"9"}"#, None),
        (r#"{"deadline_ms":null}"#, None),
        ("[5]", None),
        ("print(1)", None),
        ("", None),
    ] {
        assert_eq!(deadline_ms(body), deadline, "{body}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::soak::rounds(256, 5_120)))]
    #[test]
    fn only_reasoning_goes(given in "[uafrCRpsx]{0,24}", keep in prop_oneof![Just(ReasoningRetention::OpenTurn), Just(ReasoningRetention::FirstFinal)]) {
        let frames = history(&given);
        let kept = prompt_frames_with(&frames, keep);
        prop_assert_eq!(&prompt_frames_with(&kept, keep), &kept, "idempotent");
        // What is left is a subsequence, equal but for the end of a sampling.
        let mut rest = kept.iter();
        let mut next = rest.next();
        for frame in &frames {
            let mut same = frame.clone();
            if same.terminator == Terminator::Return {
                same.terminator = Terminator::End;
            }
            let is_reasoning = frame.role == FrameRole::Assistant && frame.channel == Some(Channel::Analysis);
            if next == Some(&same) {
                next = rest.next();
            } else {
                prop_assert!(is_reasoning, "{given}: dropped {frame:?}");
            }
        }
        prop_assert!(next.is_none());
        prop_assert!(kept.iter().all(|frame| frame.terminator != Terminator::Return));
        // Nothing becomes visible or gains authority: each frame that is kept was so before.
        let seen = |frames: &[FrameBuf]| {
            let frames = frames.iter().filter(|frame| frame.visibility().is_visible());
            frames.map(|frame| (frame.role.authority(), frame.body.clone())).collect::<Vec<_>>()
        };
        prop_assert_eq!(seen(&frames), seen(&kept));
    }
}
