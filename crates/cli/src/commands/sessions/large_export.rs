//! Reading of an exported session in parts, whatever its size.

use std::io::{BufReader, Read};

use logue_message::ChatMessage;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::commands::sessions::copy::invalid;
use crate::exit::CliError;

/// Some messages, or the error that ends them.
pub(super) type Batch = Result<Vec<Value>, CliError>;

/// The maximum number of messages of a batch, and the bytes of text after which it ends.
const MOST: usize = 1_000;
const ENOUGH_BYTES: usize = 8 << 20;

/// Reads `{"messages": […]}` or a list of messages, and sends them in batches.
pub(super) fn read_batches(input: impl Read, sender: &mpsc::Sender<Batch>) {
    let mut messages = Messages {
        sender,
        batch: Vec::new(),
        bytes: 0,
        count: 0,
        failure: None,
    };
    let mut json = serde_json::Deserializer::from_reader(BufReader::new(input));
    let read = Document(&mut messages).deserialize(&mut json);
    let read = read.and_then(|()| json.end());
    let failure = match (messages.failure.take(), read) {
        (Some(failure), _) => Some(failure),
        (None, Err(error)) => {
            let message =
                format!("the file is larger than 64 MiB and not an exported session: {error}");
            Some(
                CliError::user("E-SOURCE-TOO-LARGE", message)
                    .with_help("only the JSON of `logue sessions export` may be larger"),
            )
        }
        (None, Ok(())) => None,
    };
    let last = match failure {
        Some(failure) => Err(failure),
        None => Ok(messages.batch),
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
    failure: Option<CliError>,
}

impl Messages<'_> {
    /// Checks a message; returns whether more are wanted.
    fn push(&mut self, value: &Value) -> bool {
        let message = ChatMessage::from_json(value)
            .map_err(|cause| invalid(self.count, &cause))
            .and_then(|message| match message.validate() {
                Ok(()) => Ok(message),
                Err(cause) => Err(invalid(self.count, &cause)),
            });
        let message = match message {
            Ok(message) => message,
            Err(failure) => {
                self.failure = Some(failure);
                return false;
            }
        };
        self.count += 1;
        self.bytes += message.text().len();
        self.batch.push(message.to_json());
        if self.batch.len() < MOST && self.bytes < ENOUGH_BYTES {
            return true;
        }
        self.bytes = 0;
        let batch = std::mem::take(&mut self.batch);
        self.sender.blocking_send(Ok(batch)).is_ok()
    }
}

/// The whole text.
struct Document<'a, 'b>(&'a mut Messages<'b>);

impl<'de> DeserializeSeed<'de> for Document<'_, '_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Document<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("an object with `messages`, or a list of messages")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut has_messages = false;
        while let Some(key) = map.next_key::<String>()? {
            if key == "messages" && !has_messages {
                has_messages = true;
                map.next_value_seed(Document(self.0))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        if has_messages {
            return Ok(());
        }
        Err(A::Error::missing_field("messages"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(message) = list.next_element::<Value>()? {
            if !self.0.push(&message) {
                return Err(A::Error::custom("the import ended"));
            }
        }
        Ok(())
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
        let message = r#"{"role":"user","content":"x"}"#;
        let many = vec![message; 2_500].join(",");
        let expected = (vec![1_000, 1_000, 500], None);
        assert_eq!(batches(&format!("[{many}]")), expected);
        let object = format!(r#"{{"other":[1],"messages":[{many}]}}"#);
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
