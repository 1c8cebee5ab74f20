//! Every row of `conformance/shapes` through every command and form.
//!
//! The exit status follows from the listed losses, words are in the output or listed as content, and
//! what reads back otherwise is listed.

use std::collections::BTreeMap;

use openchatml::convert::ConvertOptions;
use openchatml::{FrameBuf, FrameRole, HeaderBuf, parse, project};
use serde_json::Value;

use crate::program::{Ran, folder, run, run_with_input};

const FORMS: [&str; 12] = [
    "ocml2.2",
    "ocml2.0",
    "ocml0.1",
    "chatml",
    "harmony",
    "chatmd",
    "json",
    "json2.0",
    "openai",
    "sharegpt",
    "anthropic",
    "responses",
];

/// The rows with findings of `check`.
const FAULTY: [(&str, &str); 1] = [("One id for two calls", "two calls have the id `k1`")];

#[test]
fn messages() {
    table(include_str!("../../../../conformance/shapes/messages.md"));
}

#[test]
fn sharegpt() {
    table(include_str!("../../../../conformance/shapes/sharegpt.md"));
}

#[test]
fn providers() {
    table(include_str!("../../../../conformance/shapes/providers.md"));
}

#[test]
fn rows() {
    table(include_str!("../../../../conformance/shapes/rows.md"));
}

#[test]
fn frames() {
    table(include_str!("../../../../conformance/shapes/frames.md"));
}

#[test]
fn unknown() {
    table(include_str!("../../../../conformance/shapes/unknown.md"));
}

/// A row, its form and its reading.
struct Case<'t> {
    title: &'t str,
    form: &'t str,
    row: &'t str,
    reading: &'t str,
}

fn table(suite: &str) {
    let mut wrong = Vec::new();
    let mut count = 0;
    for part in suite.split("\n## ").skip(1) {
        let (title, rest) = part.split_once('\n').unwrap();
        let mut blocks = rest.split("```");
        let form = blocks.next().unwrap().trim();
        let row = blocks.next().unwrap().strip_prefix("json\n").unwrap();
        let reading = blocks.nth(1).unwrap().strip_prefix("text\n").unwrap();
        let case = Case {
            title,
            form,
            row,
            reading,
        };
        case.check(&mut wrong);
        count += 1;
    }
    assert!(count >= 3, "only {count} rows were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

impl Case<'_> {
    fn check(&self, wrong: &mut Vec<String>) {
        let folder = folder(&[("row.json", self.row)]);
        let run = |arguments: &[&str]| {
            let ran = run(folder.path(), arguments);
            assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
            ran
        };
        let mut expect = |is_so: bool, what: &str, ran: &Ran| {
            if !is_so {
                let (status, out, err) = (ran.status, &ran.stdout, &ran.stderr);
                wrong.push(format!("{}: {what}: {status}\n{out}{err}", self.title));
            }
        };
        if self.form == "refused" {
            for (arguments, status) in [("check", 8), ("view", 3), ("tokens render", 3)] {
                let arguments: Vec<&str> = arguments.split(' ').chain(["row.json"]).collect();
                let ran = run(&arguments);
                let is_named = ran.stderr.contains(self.reading.trim_end())
                    || self.reading.starts_with("JSON without");
                expect(ran.status == status && is_named, arguments[0], &ran);
            }
            for form in FORMS {
                let ran = run(&["convert", "row.json", "--to", form]);
                expect((ran.status, ran.stdout.as_str()) == (3, ""), form, &ran);
            }
            return;
        }
        let ran = run(&["check", "row.json"]);
        match FAULTY.iter().find(|(title, _)| *title == self.title) {
            Some((_, fault)) => {
                let is_found = ran.stderr.contains("E-CALL-SCHEMA") && ran.stderr.contains(fault);
                expect(ran.status == 8 && is_found, "check", &ran);
            }
            None => expect(ran.status == 0, "check", &ran),
        }
        let readings = self.readings();
        let visible = |frame: &&FrameBuf| frame.visibility().is_visible();
        let shown = readings.iter().flat_map(|(frames, _)| frames);
        let shown = words(shown.filter(visible).map(|frame| frame.body.as_str()));
        let ran = run(&["view", "--full", "row.json"]);
        let seen = words([ran.stdout.as_str()]);
        expect(
            ran.status == 0 && lacking(&shown, &seen).is_empty(),
            "view",
            &ran,
        );
        if let [(frames, _)] = readings.as_slice() {
            let ran = run(&["tokens", "render", "--text", "--keep-reasoning", "row.json"]);
            let is_lost = ran.stderr.contains(": content: ");
            let missing = lacking(&words(bodies(frames)), &words([ran.stdout.as_str()]));
            let is_listed = is_lost || missing.is_empty();
            expect(ran.status == status(is_lost) && is_listed, "render", &ran);
        } else {
            let ran = run(&["tokens", "render", "row.json"]);
            let is_whole = ran.stdout.lines().count() == readings.len();
            expect(ran.status == 0 && is_whole, "render", &ran);
        }
        for form in FORMS {
            for flags in [&["--keep-reasoning"][..], &[]] {
                let arguments = [&["convert", "row.json", "--to", form, "--json"], flags].concat();
                let ran = run(&arguments);
                let fault = self.converted(form, &readings, &ran, flags);
                expect(fault.is_none(), &fault.unwrap_or_default(), &ran);
            }
        }
    }

    /// Returns a description of the fault of a conversion.
    fn converted(
        &self,
        form: &str,
        readings: &[(Vec<FrameBuf>, Option<HeaderBuf>)],
        ran: &Ran,
        flags: &[&str],
    ) -> Option<String> {
        let lines = ran.stdout.lines();
        let values = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
        let values: Vec<Value> = values.filter(|it| it["summary"].is_null()).collect();
        if values.len() != readings.len() {
            return Some(format!("{form}: {} conversations", values.len()));
        }
        let is_content = |value: &Value| losses(value).any(|loss| loss["severity"] == "content");
        if ran.status != status(values.iter().any(is_content)) {
            return Some(format!("{form}: the status"));
        }
        let row = self.row.as_bytes();
        let format = project::recognize(row).unwrap();
        let part = logue_source::Span::new(0, row.len());
        let options = ConvertOptions::default().with_thinking(true);
        let read = project::read_all(row, part, format, &options);
        let mut listed: Vec<String> = Vec::new();
        for ((value, (frames, header)), read) in values.iter().zip(readings).zip(read) {
            let text = value["text"].as_str()?;
            if form == "ocml2.2" && !flags.is_empty() {
                let kind = |loss: &Value| format!("{} {}", loss["severity"], loss["kind"]);
                let kinds: Vec<String> = losses(value).map(kind).collect();
                listed.push(kinds.join(" ").replace('"', ""));
            }
            let missing = lacking(&words(bodies(frames)), &words(texts(text)));
            let may_hide =
                flags.is_empty() && losses(value).any(|it| it["kind"] == "hidden-omitted");
            if !missing.is_empty() && !may_hide && !is_content(value) {
                return Some(format!("{form}: words are lost: {missing:?}"));
            }
            if flags.is_empty() {
                continue;
            }
            let folder = folder(&[]);
            let back = ["convert", "--from", form, "--to", "ocml2.2", "--json"];
            let back = run_with_input(folder.path(), &back, text);
            let again: Value = serde_json::from_str(back.stdout.lines().next()?).unwrap();
            let (again_frames, again_header) = parsed(again["text"].as_str().unwrap_or_default());
            let is_same = (&again_frames, &again_header) == (frames, header);
            let count = losses(value).skip(read.losses.len()).count() + losses(&again).count();
            if !is_same && count == 0 {
                return Some(format!("{form}: reads back otherwise: {}", back.stdout));
            }
        }
        let expected = self.losses();
        (form == "ocml2.2" && !flags.is_empty() && listed != expected)
            .then(|| format!("the losses of reading: {listed:?}, and not {expected:?}"))
    }

    /// The severities and kinds of the losses of each conversation.
    fn losses(&self) -> Vec<String> {
        let documents = self.reading.split("version: 2.2\n").skip(1);
        let kind = |line: &str| Some(line.split_once(':')?.0.to_owned());
        let of_document = |text: &str| {
            let kinds = text.lines().filter(is_loss).filter_map(kind);
            kinds.collect::<Vec<String>>().join(" ")
        };
        documents.map(of_document).collect()
    }

    /// The frames and the header of each conversation.
    fn readings(&self) -> Vec<(Vec<FrameBuf>, Option<HeaderBuf>)> {
        let documents = self.reading.split("version: 2.2\n").skip(1);
        let document = |text: &str| {
            let lines: Vec<&str> = text.lines().filter(|line| !is_loss(line)).collect();
            parsed(&format!("version: 2.2\n{}\n", lines.join("\n")))
        };
        documents.map(document).collect()
    }
}

/// Returns whether a line of a reading is a loss.
fn is_loss(line: &&str) -> bool {
    let word = line.split(' ').next().unwrap_or_default();
    ["content", "structure", "identity", "note"].contains(&word)
}

fn parsed(text: &str) -> (Vec<FrameBuf>, Option<HeaderBuf>) {
    let transcript = parse(text.as_bytes()).to_transcript();
    let header = transcript.header.filter(|header| {
        let is_version_only = HeaderBuf::new(header.version.as_str()) == *header;
        !is_version_only
    });
    let mut frames = transcript.frames;
    for frame in &mut frames {
        frame.channel = Some(frame.effective_channel());
        if frame.role == FrameRole::Tool {
            // A reply is the assistant's, whether it states that or not.
            frame.to = Some("assistant".to_owned());
        }
    }
    (frames, header)
}

fn losses(value: &Value) -> impl Iterator<Item = &Value> {
    value["losses"].as_array().into_iter().flatten()
}

const fn status(is_content_lost: bool) -> i32 {
    if is_content_lost { 8 } else { 0 }
}

fn bodies(frames: &[FrameBuf]) -> impl Iterator<Item = &str> {
    let known = frames.iter().filter(|frame| frame.role != FrameRole::Other);
    known.map(|frame| frame.body.as_str())
}

/// The texts of an output: all strings of JSON, those inside of strings included.
fn texts(output: &str) -> Vec<String> {
    let Ok(value) = serde_json::from_str::<Value>(output) else {
        return vec![output.to_owned()];
    };
    let mut texts = Vec::new();
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        match value {
            Value::Array(items) => waiting.extend(items),
            Value::Object(entries) => {
                for (key, value) in entries {
                    texts.push(key);
                    waiting.push(value);
                }
            }
            Value::String(text) => match serde_json::from_str::<Value>(&text) {
                Ok(inner) if inner.is_object() || inner.is_array() => waiting.push(inner),
                _ => texts.push(text),
            },
            other => texts.push(other.to_string()),
        }
    }
    texts
}

/// The words of some texts, each with its number.
fn words<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> BTreeMap<String, usize> {
    let mut words = BTreeMap::new();
    for text in texts {
        let parts = text
            .as_ref()
            .split(|letter: char| !letter.is_alphanumeric());
        for word in parts.filter(|word| !word.is_empty()) {
            *words.entry(word.to_owned()).or_insert(0) += 1;
        }
    }
    words
}

/// The words that occur less often in an output.
fn lacking(words: &BTreeMap<String, usize>, output: &BTreeMap<String, usize>) -> Vec<String> {
    let is_less = |(word, count): &(&String, &usize)| output.get(*word).unwrap_or(&0) < *count;
    words
        .iter()
        .filter(is_less)
        .map(|(word, _)| word.clone())
        .collect()
}
