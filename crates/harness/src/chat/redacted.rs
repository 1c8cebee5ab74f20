//! The redaction of what a chat accepts, and the originals that its process keeps.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, MutexGuard, PoisonError};

use logue_message::ChatMessage;
use serde_json::{Map, Value};

use super::failure::Failure;
use super::{ChatHarness, Inner};

impl<E: Send + 'static> ChatHarness<E> {
    /// Returns a message as the store holds it.
    #[must_use]
    pub fn redacted(&self, message: ChatMessage) -> ChatMessage {
        self.inner.redacted(message)
    }

    /// Returns the edited text or arguments of a step as the store holds them.
    #[must_use]
    pub fn redacted_edit<'t>(&self, edit: &'t str) -> Cow<'t, str> {
        let redaction = self.inner.settings.redaction.as_ref();
        redaction.map_or(Cow::Borrowed(edit), |redaction| redaction.arguments(edit))
    }
}

impl<E> Inner<E> {
    pub(super) fn redacted(&self, mut message: ChatMessage) -> ChatMessage {
        if let Some(redaction) = &self.settings.redaction {
            redaction.message(&mut message);
        }
        message
    }

    /// The payload of a checked signal as the store holds it, if it differs.
    pub(super) fn redacted_payload(&self, payload: &Payload) -> Option<Payload> {
        let redaction = self.settings.redaction.as_ref()?;
        let redacted: Payload = if let Some(redacted) = &self.settings.payload_redaction {
            redacted(payload)
        } else {
            let text = |text| redaction.text(text);
            let values = payload.iter();
            let values = values.map(|(name, value)| (name.clone(), value_without(value, &text)));
            values.collect()
        };
        (redacted != *payload).then_some(redacted)
    }

    /// The description of a failure as the store holds it.
    pub(super) fn redacted_failure(&self, mut failure: Failure) -> Failure {
        if let Some(redaction) = &self.settings.redaction {
            let texts = [Some(&mut failure.diagnostic), failure.help.as_mut()];
            for text in texts.into_iter().flatten() {
                if let Cow::Owned(redacted) = redaction.text(text) {
                    *text = redacted;
                }
            }
        }
        failure
    }

    fn live_payloads(&self) -> MutexGuard<'_, HashMap<EntryPlace, Payload>> {
        let payloads = self.live_payloads.lock();
        payloads.unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the original payload of an entry that this process accepted.
    pub(super) fn take_payload(&self, session: &str, entry: u64) -> Option<Payload> {
        self.settings.redaction.as_ref()?;
        self.live_payloads().remove(&(session.to_owned(), entry))
    }
}

/// A session and an entry of its inbox.
pub(super) type EntryPlace = (String, u64);

/// The fields that a signal replaces.
pub(super) type Payload = Map<String, Value>;

/// An accepted signal. Its original payload stays in memory until it is dropped.
pub(super) struct AcceptedSignal<E> {
    inner: Arc<Inner<E>>,
    place: EntryPlace,
    has_payload: bool,
}

impl<E> AcceptedSignal<E> {
    /// A stored signal; `original` is its payload if that is stored redacted.
    pub(super) fn new(inner: Arc<Inner<E>>, place: EntryPlace, original: Option<Payload>) -> Self {
        let mut has_payload = false;
        if let Some(original) = original
            && let Entry::Vacant(vacant) = inner.live_payloads().entry(place.clone())
        {
            vacant.insert(original);
            has_payload = true;
        }
        Self {
            inner,
            place,
            has_payload,
        }
    }

    pub(super) const fn session(&self) -> &str {
        self.place.0.as_str()
    }

    pub(super) const fn entry(&self) -> u64 {
        self.place.1
    }
}

impl<E> Drop for AcceptedSignal<E> {
    fn drop(&mut self) {
        if self.has_payload {
            self.inner.live_payloads().remove(&self.place);
        }
    }
}

/// Returns a value with every text in it replaced; names of members stay.
fn value_without<'t>(value: &'t Value, redacted: &dyn Fn(&'t str) -> Cow<'t, str>) -> Value {
    match value {
        Value::String(text) => Value::String(redacted(text).into_owned()),
        Value::Array(items) => {
            let items = items.iter().map(|item| value_without(item, redacted));
            items.collect()
        }
        Value::Object(members) => {
            let members = members.iter();
            members
                .map(|(name, value)| (name.clone(), value_without(value, redacted)))
                .collect()
        }
        other => other.clone(),
    }
}
