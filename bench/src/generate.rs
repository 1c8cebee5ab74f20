//! Conversations out of a seed, in both languages, written by the writers of the languages.

use std::collections::VecDeque;

use chatmd::write;
use openchatml::{FrameBuf, HeaderBuf, write_frame, write_header};

/// A small generator (xorshift), so that no run differs from another.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap_or(0) % limit
    }

    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words
            .get(self.below(words.len()))
            .copied()
            .unwrap_or_default()
    }

    /// Prose of about `words` words.
    fn prose(&mut self, words: usize) -> String {
        const WORDS: &[&str] = &[
            "the", "parser", "reads", "a", "frame", "and", "keeps", "every", "byte", "größer",
            "because", "naïve", "code", "loses", "some", "of", "them", "世界", "when", "input",
            "ends", "early", "so", "we", "measure", "it", "first", "✓", "then", "decide",
        ];
        let mut text = String::new();
        for at in 0..words {
            if at > 0 {
                text.push_str(if at % 13 == 0 { ".\n" } else { " " });
            }
            text.push_str(self.pick(WORDS));
        }
        text
    }

    /// Code with the characters that both languages must look at.
    fn code(&mut self, lines: usize) -> String {
        const LINES: &[&str] = &[
            "fn main() -> Result<(), Error> {",
            "    let items: Vec<u32> = text.split(',').map(parse).collect();",
            "    if a < b && c > d { return Err(Error::new(\"x < y\")); }",
            "    for (key, value) in &map { println!(\"{key}: {value}\"); }",
            "}",
            "",
            "// The lexer sees <b>bold</b> and a < b here.",
        ];
        let mut text = String::new();
        for _ in 0..lines {
            text.push_str(self.pick(LINES));
            text.push('\n');
        }
        text
    }

    fn json(&mut self, fields: usize) -> String {
        let field = |at: usize, random: &mut Self| {
            format!(
                "\"field_{at}\": {{\"n\": {}, \"s\": \"{}\"}}",
                random.below(1000),
                random.prose(4)
            )
        };
        let fields: Vec<String> = (0..fields).map(|at| field(at, self)).collect();
        format!("{{{}}}", fields.join(", ")).replace('\n', " ")
    }
}

/// One turn of a conversation.
struct Turn {
    question: String,
    reasoning: String,
    calls: VecDeque<(String, String, String)>,
    answer: String,
}

fn turn(random: &mut Seeded, number: usize) -> Turn {
    let calls = (0..random.below(4)).map(|at| {
        let fields = 1 + random.below(3);
        let result = if random.below(2) == 0 {
            let lines = 5 + random.below(80);
            random.code(lines)
        } else {
            let fields = 3 + random.below(30);
            random.json(fields)
        };
        (format!("call_{number}_{at}"), random.json(fields), result)
    });
    let calls: VecDeque<_> = calls.collect();
    let (short, long) = (5 + random.below(30), 20 + random.below(300));
    let thought = 20 + random.below(120);
    Turn {
        question: random.prose(short),
        reasoning: random.prose(thought),
        calls,
        answer: random.prose(long),
    }
}

pub(crate) fn chatmd(bytes: usize) -> String {
    let mut random = Seeded(0x5EED);
    let mut text = String::from(
        "<config model=\"m\" temperature=\"0\" show_tool_call/>\n<tool name=\"read_file\"/>\n\
         <system>You are careful.</system>\n",
    );
    let mut number = 0;
    while text.len() < bytes {
        let turn = turn(&mut random, number);
        text.push_str(&write::user(&turn.question));
        text.push_str(&write::reasoning(&format!("r{number}"), &[turn.reasoning]));
        for (id, arguments, result) in &turn.calls {
            text.push_str(&write::tool_call(&write::ToolCallRecord::new(
                id,
                "read_file",
                write::Payload::Inline(arguments),
            )));
            text.push_str(&write::tool_response(&write::ToolResponseRecord::new(
                id,
                write::Payload::Inline(result),
            )));
        }
        text.push_str(&write::assistant(&turn.answer, None));
        number += 1;
    }
    text
}

pub(crate) fn openchatml(bytes: usize) -> String {
    let mut random = Seeded(0x5EED);
    let mut text = write_header(&HeaderBuf::default()).unwrap_or_default();
    let mut number = 0;
    while text.len() < bytes {
        let turn = turn(&mut random, number);
        let mut frames = vec![
            FrameBuf::user(turn.question),
            FrameBuf::analysis(turn.reasoning),
        ];
        for (id, arguments, result) in turn.calls {
            frames.push(FrameBuf::call("functions.read_file", &id, arguments));
            frames.push(FrameBuf::reply("functions.read_file", &id, result));
        }
        frames.push(FrameBuf::answer(turn.answer));
        for frame in &frames {
            // Generated frames are valid; one that were not would only be missing.
            drop(write_frame(&mut text, frame));
        }
        number += 1;
    }
    text
}
