//! Prints the events that the Rust readers emit, one conversation on each line.
//!
//! A line of the input is `[dialect, start_role or null, the bytes in hexadecimal, or a list of ids]`; a line of
//! the output is the list of events, with adjacent deltas joined, each event as the tests of the
//! Python package write it. Spans are in bytes.

use std::io::{self, BufRead, Write};

use logue_source::Diagnostic;
use openchatml::harmony::{self, HarmonyReadOptions, IdStream};
use openchatml::stream::{self, StreamOptions};
use openchatml::{Dialect, FrameRole, v0_1};
use serde_json::{Value, json};

fn main() -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    for line in io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        let role = request[1].as_str();
        let role = role.map(|role| FrameRole::parse(role.as_bytes()));
        let options = HarmonyReadOptions::default().with_start_role(role);
        let mut events = Events(Vec::new());
        if let Some(ids) = request[2].as_array() {
            let ids = ids.iter().filter_map(Value::as_u64);
            events.ids(ids.filter_map(|id| u32::try_from(id).ok()), &options);
        } else {
            let bytes = unhex(request[2].as_str().unwrap_or_default());
            let dialect = Dialect::parse(request[0].as_str().unwrap_or_default());
            let dialect = dialect.ok_or_else(|| io::Error::other("unknown dialect"))?;
            events.text(&bytes, dialect, &options);
        }
        writeln!(out, "{}", Value::from(events.0))?;
    }
    out.flush()
}

fn unhex(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2);
    digits
        .filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

struct Events(Vec<Value>);

impl Events {
    fn delta(&mut self, text: &str, kind: Option<&str>) {
        if let Some(Value::Array(last)) = self.0.last_mut()
            && let [tag, old, old_kind] = last.as_mut_slice()
            && tag == "delta"
            && old_kind.as_str() == kind
        {
            let joined = format!("{}{text}", old.as_str().unwrap_or_default());
            *old = joined.into();
        } else {
            self.0.push(json!(["delta", text, kind]));
        }
    }

    fn found(&mut self, found: &Diagnostic) {
        let span = [found.primary.start, found.primary.end];
        self.0.push(json!([
            "diagnostic",
            found.code.as_str(),
            found.message,
            span
        ]));
    }

    fn ids(&mut self, ids: impl Iterator<Item = u32>, options: &HarmonyReadOptions) {
        let mut stream = IdStream::new(options.clone());
        for id in ids {
            stream.push_harmony(id, &mut |event: harmony::Event<'_>| self.harmony(event));
        }
        stream.finish(&mut |event: harmony::Event<'_>| self.harmony(event));
    }

    fn text(&mut self, bytes: &[u8], dialect: Dialect, options: &HarmonyReadOptions) {
        match dialect {
            Dialect::Harmony => {
                let mut stream = harmony::Stream::new(options.clone());
                stream.push(bytes, &mut |event: harmony::Event<'_>| self.harmony(event));
                stream.finish(&mut |event: harmony::Event<'_>| self.harmony(event));
            }
            Dialect::V0_1 | Dialect::ChatMl => {
                let options = match dialect {
                    Dialect::ChatMl => v0_1::LegacyReadOptions::plain(),
                    _ => v0_1::LegacyReadOptions::default(),
                };
                let mut stream = v0_1::Stream::new(options);
                stream.push(bytes, &mut |event: v0_1::Event<'_>| self.legacy(event));
                stream.finish(&mut |event: v0_1::Event<'_>| self.legacy(event));
            }
            _ => {
                let mut stream = stream::Stream::new(StreamOptions::default());
                stream.push(bytes, &mut |event: stream::Event<'_>| self.frames(event));
                stream.finish(&mut |event: stream::Event<'_>| self.frames(event));
            }
        }
    }

    fn harmony(&mut self, event: harmony::Event<'_>) {
        match event {
            harmony::Event::Start(head) => self.0.push(json!([
                "start",
                head.role.as_str(),
                head.name,
                head.recipient,
                head.channel,
                head.content_type,
                head.call_id,
                head.intent,
                head.stray,
                head.is_visible(),
            ])),
            harmony::Event::Delta(text) => self.delta(text, None),
            harmony::Event::End(end) => self.0.push(json!([
                "end",
                end.end.as_str(),
                end.complete,
                [end.span.start, end.span.end],
            ])),
            harmony::Event::Amended(end) => self.0.push(json!(["amended", end.as_str()])),
            harmony::Event::Diagnostic(found) => self.found(&found),
            _ => {}
        }
    }

    fn frames(&mut self, event: stream::Event<'_>) {
        match event {
            stream::Event::Opened(header) => {
                let version = header.map(openchatml::Header::version);
                self.0.push(json!(["opened", version]));
            }
            stream::Event::Start(head) => {
                let frame = &head.frame;
                self.0.push(json!([
                    "start",
                    frame.role.as_str(),
                    frame.name,
                    frame.to,
                    frame.effective_channel().as_str(),
                    frame.constrain.as_ref().or(frame.content_type.as_ref()),
                    frame.call_id,
                    frame.intent,
                    head.stray,
                    head.is_visible(),
                ]));
            }
            stream::Event::Delta(text) => self.delta(text, None),
            stream::Event::End(end) => {
                let word = match end.terminator.token() {
                    None => "eos",
                    Some(token) => token.as_str().trim_matches(['<', '|', '>']),
                };
                self.0.push(json!([
                    "end",
                    word,
                    end.complete,
                    [end.span.start, end.span.end]
                ]));
            }
            stream::Event::Extended(_) => self.0.push(json!(["amended", "end"])),
            stream::Event::Diagnostic(found) => self.found(&found),
            _ => {}
        }
    }

    fn legacy(&mut self, event: v0_1::Event<'_>) {
        match event {
            v0_1::Event::Start(head) => self.0.push(json!([
                "start",
                head.role.as_str(),
                head.name,
                null,
                null,
                null,
                null,
                null,
                head.stray,
                head.is_visible(),
            ])),
            v0_1::Event::Delta { kind, text } => {
                let kind = match kind {
                    v0_1::TextKind::Text => None,
                    v0_1::TextKind::Thought(thought) => Some(thought.as_str()),
                };
                self.delta(text, kind);
            }
            v0_1::Event::Function(function, text) | v0_1::Event::Unfinished(function, text) => {
                let kind = match function {
                    v0_1::Function::List => "function-list",
                    v0_1::Function::Call => "function-call",
                    v0_1::Function::Output => "function-output",
                };
                self.0.push(json!(["delta", text, kind]));
            }
            v0_1::Event::End(end) => {
                let word = if end.complete { "end" } else { "eos" };
                self.0.push(json!([
                    "end",
                    word,
                    end.complete,
                    [end.span.start, end.span.end]
                ]));
            }
            v0_1::Event::Diagnostic(found) => self.found(&found),
            _ => {}
        }
    }
}
