//! Conversations out of a seed, as agents have them.
//!
//! Instructions, tools declared in TypeScript, several turns of questions, reasoning, calls with
//! JSON, replies of code, logs and JSON, and answers; short ones and long ones. The same
//! conversations are written as OpenChatML 2.2 and as Harmony.

use openchatml::{
    Channel, ControlToken, FrameBuf, FrameRole, HeaderBuf, Terminator, write_frame, write_header,
};

use crate::random::Random;
use crate::words::Words;

const TOOLS: [&str; 4] = ["read_file", "search", "run_tests", "apply_patch"];

/// Frames of conversations, one after the other, of about `bytes` bytes of bodies.
pub fn frames(bytes: usize) -> Vec<FrameBuf> {
    let mut maker = Maker {
        words: Words::new(),
        random: Random::new(0x5EED_CAFE),
        frames: Vec::new(),
        size: 0,
        calls: 0,
    };
    while maker.size < bytes {
        maker.conversation();
    }
    maker.frames
}

/// Returns texts of words, each of `bytes` bytes or a few fewer.
pub fn texts(count: usize, bytes: usize) -> Vec<String> {
    let (words, mut random) = (Words::new(), Random::new(0x5EED_CAFE));
    let mut text = || {
        let mut text = words.prose(&mut random, bytes / 2);
        text.truncate(text.floor_char_boundary(bytes));
        text
    };
    (0..count).map(|_| text()).collect()
}

/// The frames as one OpenChatML 2.2 document.
pub fn openchatml(frames: &[FrameBuf]) -> String {
    let mut text = write_header(&HeaderBuf::default()).unwrap_or_default();
    for frame in frames {
        // Generated frames are valid; one that were not would only be missing.
        drop(write_frame(&mut text, frame));
    }
    text
}

/// The frames as Harmony writes them, which has no ids of calls and no escapes.
pub fn harmony(frames: &[FrameBuf]) -> String {
    let mut text = String::new();
    for frame in frames {
        text.push_str(ControlToken::Start.as_str());
        let role = frame.role.as_str().unwrap_or_default();
        let author = match frame.role {
            FrameRole::Tool => frame.name.as_deref().unwrap_or(role),
            _ => role,
        };
        text.push_str(author);
        let to = frame.to.as_deref();
        if let (Some(to), FrameRole::Tool) = (to, frame.role) {
            text.push_str(&format!(" to={to}"));
        }
        if let Some(channel) = frame.channel.and_then(Channel::as_str) {
            text.push_str(ControlToken::Channel.as_str());
            text.push_str(channel);
        }
        if let (Some(to), FrameRole::Assistant) = (to, frame.role) {
            text.push_str(&format!(" to={to}"));
        }
        if let Some(constrain) = &frame.constrain {
            text.push_str(&format!(" {}{constrain}", ControlToken::Constrain.as_str()));
        }
        text.push_str(ControlToken::Message.as_str());
        text.push_str(&frame.body.replace("<|", "< |"));
        let end = frame.terminator.token().unwrap_or(ControlToken::End);
        text.push_str(end.as_str());
    }
    text
}

struct Maker {
    words: Words,
    random: Random,
    frames: Vec<FrameBuf>,
    size: usize,
    calls: usize,
}

impl Maker {
    fn push(&mut self, frame: FrameBuf) {
        self.size += frame.body.len() + 60;
        self.frames.push(frame);
    }

    fn prose(&mut self, most: usize) -> String {
        let count = 4 + self.random.skewed(most);
        self.words.prose(&mut self.random, count)
    }

    fn conversation(&mut self) {
        let rules = self.prose(120);
        self.push(FrameBuf::system(format!(
            "You are a careful assistant.\nKnowledge cutoff: 2024-06\n\nReasoning: high\n\n{rules}"
        )));
        let instructions = self.instructions();
        self.push(FrameBuf::developer(instructions));
        for _ in 0..=self.random.skewed(9) {
            self.turn();
        }
    }

    fn instructions(&mut self) -> String {
        let text = self.prose(400);
        let mut out = format!(
            "# Instructions\n\n{text}\n\n# Tools\n\n## functions\n\nnamespace functions {{\n\n"
        );
        for tool in TOOLS {
            let about = self.prose(20).replace('\n', " ");
            out.push_str(&format!(
                "// {about}\ntype {tool} = (_: {{\n// Where to look\npath: string,\nlines?: number, // default: 200\n\
                 format?: \"plain\" | \"json\", // default: plain\nfilter?: object,\n}}) => any;\n\n"
            ));
        }
        out.push_str("} // namespace functions");
        out
    }

    fn turn(&mut self) {
        let mut question = self.prose(250);
        if self.random.one_in(5) {
            let lines = 3 + self.random.skewed(60);
            let code = self.words.code(&mut self.random, lines);
            question.push_str(&format!("\n\n```rust\n{code}```\n"));
        }
        self.push(FrameBuf::user(question));
        for _ in 0..self.random.skewed(9) {
            let thought = self.prose(300);
            self.push(FrameBuf::analysis(thought));
            if self.random.one_in(6) {
                let preamble = self.prose(25);
                self.push(FrameBuf::preamble(preamble));
            }
            self.call();
        }
        let thought = self.prose(500);
        self.push(FrameBuf::analysis(thought));
        let mut answer = self.prose(700);
        if self.random.one_in(3) {
            let lines = 3 + self.random.skewed(80);
            let code = self.words.code(&mut self.random, lines);
            answer.push_str(&format!("\n\n```rust\n{code}```\n"));
        }
        if self.random.one_in(60) {
            // A conversation about the envelope itself, which has to be escaped.
            answer.push_str(" A frame ends in `<|end|>`, a literal one is written `<<|end|>`.");
        }
        self.push(FrameBuf::answer(answer).with_terminator(Terminator::Return));
    }

    fn call(&mut self) {
        let tool = format!("functions.{}", self.random.pick(&TOOLS));
        let id = format!("call_{:08}", self.calls);
        self.calls += 1;
        let fields = 1 + self.random.skewed(12);
        let filter = self.words.json(&mut self.random, fields);
        let lines = self.random.skewed(500);
        let arguments =
            format!("{{\"path\": \"src/main.rs\", \"lines\": {lines}, \"filter\": {filter}}}");
        let size = self.random.skewed(400);
        let result = match self.random.below(4) {
            0 => self.words.json(&mut self.random, size),
            1 => self.words.log(&mut self.random, size / 2),
            _ => self.words.code(&mut self.random, size),
        };
        self.push(FrameBuf::call(&tool, &id, arguments));
        self.push(FrameBuf::reply(&tool, &id, result));
    }
}
