//! Random conversations of every kind.

use openchatml::{Channel, FrameBuf, FrameRole, HeaderBuf, Terminator, Transcript};
use proptest::prelude::*;

/// Pieces of texts that look like structure of some form.
const HOSTILE: &[&str] = &[
    "<|start|>",
    "<|start|>system<|message|>",
    "<|end|>",
    "<|message|>",
    "<|channel|>final",
    "<|channel|>",
    "<|call|>",
    "<|return|>",
    "<|constrain|>",
    "<|literal|>",
    "<|endliteral|>",
    "<|im_start|>system\n",
    "<|im_end|>",
    "<|start_reason|>",
    "<|end_reason|>",
    "<|function_call|>",
    "<|function_output|>",
    "<|fim_prefix|>",
    "[EOS]",
    "[BOS]",
    "<system>",
    "</user>",
    "<user>",
    "<tool_call>",
    "<assistant name=\"x\">",
    "RAW|",
    "|RAW",
    "&lt;",
    "&amp;",
    "<!-- ",
    " -->",
    "<doc src=\"a\"/>",
    "<import src=\"a\"/>",
    "{{topic}}",
    "version: 2.2\n",
    "---\n",
    "Human: ",
    "```\n",
    "{\"name\": \"f\", \"arguments\": {}}",
    "\"",
    "\\",
    "\\u003c|",
    "\r\n",
    "\n\n",
    "\t",
    " ",
    "<",
    "|>",
    "x",
];

/// Words around the marker of a body.
fn text() -> impl Strategy<Value = (String, String)> {
    let hostile = || {
        let pieces = proptest::collection::vec(proptest::sample::select(HOSTILE), 0..3);
        pieces.prop_map(|pieces| pieces.concat())
    };
    let plain = ("", "[a-zé🦀 \"\\\\\n]{0,5}").prop_map(|(before, after)| (before, after));
    prop_oneof![4 => plain, 1 => (hostile(), hostile())]
}

/// A call: its tool, the shape of its id, arguments, reply, and the place of the reply.
type Call = (&'static str, u8, u8, bool, u8);

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let tools = proptest::sample::select(vec![
        "functions.f",
        "functions.g",
        "f",
        "python",
        "browser.search",
    ]);
    let call = (tools, 0..16_u8, 0..8_u8, any::<bool>(), any::<u8>());
    proptest::collection::vec(call, 1..4)
}

/// Returns random conversations.
///
/// Each body contains a marker `[n]` of its own, unless it is empty, so that a law finds it again.
pub fn conversation() -> impl Strategy<Value = Transcript> {
    let turn = (0..16_u8, text(), calls(), 0..8_u8);
    let turns = proptest::collection::vec(turn, 1..6);
    (turns, header(), any::<bool>()).prop_map(|(turns, header, are_unusual)| {
        let mut build = Build::default();
        for (kind, text, calls, variant) in turns {
            build.turn(kind, &text, &calls, variant, are_unusual);
        }
        let mut transcript = Transcript::new(build.frames);
        transcript.header = header;
        transcript
    })
}

fn header() -> impl Strategy<Value = Option<HeaderBuf>> {
    let parts = (any::<bool>(), 0..4_u8, any::<bool>(), 0..3_u8);
    parts.prop_map(|(model, settings, extra, some)| {
        let mut header = HeaderBuf::default();
        if model {
            header = header.with_model("m");
        }
        if settings & 1 != 0 {
            header = header.with_setting("temperature", 0.5);
        }
        if settings & 2 != 0 {
            // No request has such a key.
            header = header.with_setting("beam width", 4);
        }
        if extra {
            header = header.with_extra("a", "b");
        }
        (some == 0).then_some(header)
    })
}

#[derive(Default)]
struct Build {
    frames: Vec<FrameBuf>,
    count: usize,
}

impl Build {
    fn body(&mut self, (before, after): &(String, String)) -> String {
        self.count += 1;
        format!("{before}[{}]{after}", self.count)
    }

    fn turn(
        &mut self,
        kind: u8,
        text: &(String, String),
        calls: &[Call],
        variant: u8,
        are_unusual: bool,
    ) {
        let body = self.body(text);
        let named = |mut frame: FrameBuf| {
            frame.name = match variant {
                1 => Some("ada".to_owned()),
                2 => Some("bob".to_owned()),
                _ => None,
            };
            frame
        };
        let frame = match kind {
            0 => named(FrameBuf::system(body)),
            1 => FrameBuf::developer(body),
            2 | 3 => {
                let user = named(FrameBuf::user(body));
                return self.parts(user, variant);
            }
            4 | 5 => {
                let thought = named(FrameBuf::analysis(body));
                self.frames.push(thought);
                named(FrameBuf::answer(
                    self.body(&(String::new(), "answer".to_owned())),
                ))
            }
            6 => named(FrameBuf::preamble(body)),
            7 => {
                let mut thought = named(FrameBuf::analysis(body));
                if variant == 3 {
                    let proof = Some(format!("proof{}", self.count));
                    thought.attributes.push(("signature".to_owned(), proof));
                }
                thought
            }
            8..=10 => return self.called(calls, variant, are_unusual, body),
            11 if are_unusual => unusual(body, variant),
            12 if are_unusual => empty(variant),
            _ => named(FrameBuf::answer(body)),
        };
        self.frames.push(frame);
    }

    /// A message of a user, with or without images.
    fn parts(&mut self, user: FrameBuf, variant: u8) {
        let name = user.name.clone();
        let part = |body: String, continues: bool| {
            let mut frame = FrameBuf::user(body);
            frame.name.clone_from(&name);
            if continues {
                let value = Some("message".to_owned());
                frame.attributes.push(("continues".to_owned(), value));
            }
            frame
        };
        let address = |count: usize| format!("https://example.org/?a=[{count}]&b");
        let has_text = variant != 3;
        if has_text {
            self.frames.push(user);
        }
        if matches!(variant, 2..=4) {
            self.count += 1;
            let image = part(address(self.count), has_text).with_content_type("image_url");
            self.frames.push(image);
        }
        if variant == 2 {
            self.count += 1;
            let count = self.count;
            self.frames.push(part(format!(" after [{count}]"), true));
        }
    }

    /// Parallel calls, and their replies in any order.
    fn called(&mut self, calls: &[Call], variant: u8, are_unusual: bool, body: String) {
        match variant {
            0 => self.frames.push(FrameBuf::preamble(body)),
            1 => self.frames.push(FrameBuf::analysis(body)),
            _ => {}
        }
        let mut replies = Vec::new();
        for (tool, id, arguments, is_answered, order) in calls {
            self.count += 1;
            let count = self.count;
            let id = match id {
                0 if are_unusual => None,
                1 if are_unusual => Some("same".to_owned()),
                2..=4 => Some(format!("call_{count}")),
                _ => Some(format!("id{count}")),
            };
            let (text, is_json) = match arguments {
                0 if are_unusual => (format!("raw [{count}]"), false),
                1 => (
                    format!("{{\"call\": [{count}], \"text\": \"<|end|></tool_call>\"}}"),
                    true,
                ),
                2 => (format!("{{\n  \"call\": [{count}]\n}}"), true),
                _ => (format!("{{\"call\": [{count}]}}"), true),
            };
            let mut call = FrameBuf::call(*tool, "", text);
            call.call_id.clone_from(&id);
            call.constrain = is_json.then(|| "json".to_owned());
            if *arguments == 3 && are_unusual {
                call.terminator = Terminator::End;
            }
            self.frames.push(call);
            if variant == 3 && are_unusual {
                let between = self.body(&(String::new(), "between".to_owned()));
                let between = if *arguments % 2 == 0 {
                    FrameBuf::analysis(between)
                } else {
                    FrameBuf::preamble(between)
                };
                self.frames.push(between);
            }
            if *is_answered {
                let mut reply =
                    FrameBuf::reply(*tool, "", self.body(&("reply ".to_owned(), String::new())));
                reply.call_id = id;
                if *arguments == 4 && are_unusual {
                    reply.name = None;
                }
                replies.push((*order, reply));
            }
        }
        replies.sort_by_key(|(order, _)| *order);
        self.frames
            .extend(replies.into_iter().map(|(_, reply)| reply));
    }
}

/// A frame that a form may not know: hidden, cut, addressed to somebody, of an unknown channel or role.
fn unusual(body: String, variant: u8) -> FrameBuf {
    match variant {
        0 => FrameBuf::new(FrameRole::Assistant, body).with_channel(Channel::Commentary),
        1 => FrameBuf::answer(body).with_terminator(Terminator::None),
        2 => FrameBuf::new(FrameRole::User, body).with_channel(Channel::Analysis),
        3 => FrameBuf::answer(body).with_channel(Channel::Unknown),
        4 => FrameBuf::new(FrameRole::Other, body).with_channel(Channel::Unknown),
        5 => FrameBuf::answer(body).with_to("user"),
        6 => FrameBuf::answer(body).with_terminator(Terminator::Return),
        _ => FrameBuf::call("functions.f", "cut", body).with_terminator(Terminator::None),
    }
}

/// A frame without words.
fn empty(variant: u8) -> FrameBuf {
    match variant {
        0 => FrameBuf::user(""),
        1 => FrameBuf::analysis(""),
        2 => FrameBuf::preamble(""),
        3 => FrameBuf::system(""),
        4 => FrameBuf::reply("functions.f", "none", ""),
        5 => FrameBuf::call("functions.f", "empty", ""),
        _ => FrameBuf::answer(""),
    }
}
