//! Exported sessions: their messages, read in parts whatever their size.

use std::io::{BufRead, BufReader, Read};

use logue_message::ChatMessage;
use openchatml::project::JsonFormat;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::conversion::form::Form;
use crate::exit::CliError;
use crate::setup::stored_messages::invalid;

/// The form of an exported session.
pub(super) const JSON: Form = Form::Projection(JsonFormat::Json);

/// Some messages, or the error that ends them.
pub(super) type Batch = Result<Vec<Value>, CliError>;

/// The maximum number of messages of a batch.
const MOST: usize = 1_000;
/// The bytes of text after which a batch ends.
const ENOUGH_BYTES: usize = 8 << 20;

/// Reads `{"messages": […]}` or a list of messages, and sends them in batches.
pub(super) fn read_batches(input: impl Read, sender: &mpsc::Sender<Batch>) {
    let mut messages = Messages {
        sender,
        batch: Vec::new(),
        bytes: 0,
        count: 0,
    };
    let mut list = List(BufReader::with_capacity(1 << 20, input));
    let last = match list.read(&mut messages) {
        Ok(()) => Ok(messages.batch),
        Err(failure) => Err(failure),
    };
    // The receiver may have failed before.
    drop(sender.blocking_send(last));
}

/// The messages that have been read.
struct Messages<'a> {
    sender: &'a mpsc::Sender<Batch>,
    batch: Vec<Value>,
    bytes: usize,
    count: usize,
}

impl Messages<'_> {
    /// Checks a message and adds it.
    fn push(&mut self, text: &[u8]) -> Result<(), CliError> {
        let value: Value = serde_json::from_slice(text).map_err(|error| not_exported(&error))?;
        let message = ChatMessage::from_json(&value);
        let message = message.map_err(|cause| invalid(self.count, &cause))?;
        let checked = message.validate();
        checked.map_err(|cause| invalid(self.count, &cause))?;
        self.count += 1;
        self.bytes += text.len();
        self.batch.push(message.to_json());
        if self.batch.len() < MOST && self.bytes < ENOUGH_BYTES {
            return Ok(());
        }
        self.bytes = 0;
        let batch = std::mem::take(&mut self.batch);
        let sent = self.sender.blocking_send(Ok(batch));
        sent.map_err(|_| not_exported(&"the import ended"))
    }
}

/// Returns the error of a text that is not an exported session.
fn not_exported(cause: &dyn std::fmt::Display) -> CliError {
    let message = format!("the file is larger than 64 MiB and not an exported session: {cause}");
    CliError::user("E-SOURCE-TOO-LARGE", message)
        .with_help("only the JSON of `logue sessions export` may be larger")
}

/// The texts of the messages of an exported session.
struct List<R>(R);

impl<R: BufRead> List<R> {
    /// Reads all messages, and the end of the text.
    fn read(&mut self, messages: &mut Messages<'_>) -> Result<(), CliError> {
        let is_object = self.peek()? == Some(b'{');
        if is_object {
            self.expect(b"{")?;
            self.expect(br#""messages""#)?;
            self.expect(b":")?;
        }
        self.expect(b"[")?;
        if self.peek()? != Some(b']') {
            loop {
                messages.push(&self.element()?)?;
                if self.peek()? != Some(b',') {
                    break;
                }
                self.expect(b",")?;
            }
        }
        self.expect(b"]")?;
        if is_object {
            self.expect(b"}")?;
        }
        match self.peek()? {
            None => Ok(()),
            Some(_) => Err(not_exported(&"text after its end")),
        }
    }

    fn filled(&mut self) -> Result<&[u8], CliError> {
        self.0.fill_buf().map_err(|error| not_exported(&error))
    }

    /// Returns the next byte that is not white space, without reading it.
    fn peek(&mut self) -> Result<Option<u8>, CliError> {
        loop {
            let Some(byte) = self.filled()?.first().copied() else {
                return Ok(None);
            };
            if !byte.is_ascii_whitespace() {
                return Ok(Some(byte));
            }
            self.0.consume(1);
        }
    }

    /// Reads a text after white space.
    fn expect(&mut self, text: &[u8]) -> Result<(), CliError> {
        self.peek()?;
        for expected in text {
            if self.filled()?.first() != Some(expected) {
                let text = String::from_utf8_lossy(text);
                return Err(not_exported(&format!("expected `{text}`")));
            }
            self.0.consume(1);
        }
        Ok(())
    }

    /// Reads the text of one message, up to the comma or bracket that follows it.
    fn element(&mut self) -> Result<Vec<u8>, CliError> {
        let mut text = Vec::new();
        let (mut depth, mut is_quoted, mut is_escaped) = (0_usize, false, false);
        loop {
            let chunk = self.filled()?;
            if chunk.is_empty() {
                return Err(not_exported(&"it ends in a message"));
            }
            let (mut used, mut has_ended) = (0, false);
            while let Some(byte) = chunk.get(used).filter(|_| !has_ended) {
                if is_escaped {
                    is_escaped = false;
                } else if is_quoted {
                    let rest = chunk.get(used..).unwrap_or_default();
                    let Some(at) = memchr::memchr2(b'"', b'\\', rest) else {
                        used = chunk.len();
                        break;
                    };
                    is_escaped = rest.get(at) == Some(&b'\\');
                    is_quoted = is_escaped;
                    used += at;
                } else {
                    match byte {
                        b'"' => is_quoted = true,
                        b'{' | b'[' => depth += 1,
                        b',' | b'}' | b']' if depth == 0 => {
                            has_ended = true;
                            continue;
                        }
                        b'}' | b']' => depth -= 1,
                        _ => {}
                    }
                }
                used += 1;
            }
            text.extend_from_slice(chunk.get(..used).unwrap_or_default());
            self.0.consume(used);
            if has_ended {
                return Ok(text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the numbers of messages of the batches, and the code that ends them.
    fn batches(input: &str) -> (Vec<usize>, Option<String>) {
        let (sender, mut batches) = mpsc::channel(9);
        read_batches(input.as_bytes(), &sender);
        drop(sender);
        let (mut sizes, mut code) = (Vec::new(), None);
        while let Some(batch) = batches.blocking_recv() {
            match batch {
                Ok(messages) => sizes.push(messages.len()),
                Err(failure) => code = Some(format!("{}: {}", failure.code, failure.message)),
            }
        }
        (sizes, code)
    }

    #[test]
    fn messages_come_in_batches_and_errors_end_them() {
        let message = r#"{"role":"user","content":"a \"]},{[\\"}"#;
        let many = vec![message; 2_500].join(",");
        let expected = (vec![1_000, 1_000, 500], None);
        assert_eq!(batches(&format!("[{many}]")), expected);
        let object = format!(r#" {{ "messages": [{many}] }} "#);
        assert_eq!(batches(&object), expected);
        let (sizes, code) = batches(&format!(r#"[{many},{{"role":"robot"}}]"#));
        assert_eq!(sizes, [1_000, 1_000]);
        assert!(code.is_some_and(|code| code.contains("message 2501")));
        for broken in ["[", "7", "{}", &format!("[{message}] x")] {
            let (_, code) = batches(broken);
            assert!(
                code.is_some_and(|code| code.starts_with("E-SOURCE-TOO-LARGE")),
                "{broken}"
            );
        }
    }
}
