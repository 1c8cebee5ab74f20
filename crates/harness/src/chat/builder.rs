//! Building a chat: its graph, its ports and its settings.

use std::sync::{Arc, Mutex};

use logue_graph::{
    BoxFuture, CompiledGraph, ElementType, Field, FieldType, IdSource, Reducer, SignalDescriptor,
    TypedElement,
};
use logue_message::ChatMessage;
use serde_json::{Map, Value};

use crate::classification::{Classifier, DefaultClassifier};
use crate::clock::{Clock, Timestamp};
use crate::sessions::Migrations;
use crate::store::{SharedStore, Suspension};

use super::options::{ChatConfig, DefaultErrorMessages, ErrorMessages, OnCrash};
use super::owned_ids::OwnedIds;
use super::redact::Redact;
use super::state_cache::StateCache;
use super::subscribe::Listeners;
use super::{ChatHarness, Inner, MESSAGES};

/// The reason that a graph cannot hold conversations.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChatGraphError {
    /// The state has no field `messages`.
    #[error("a chat's state declares `messages: list[ChatMessage]`; this one has no such field")]
    NoMessages,
    /// The field is not a list of typed messages.
    #[error(
        "a chat's field `messages` is a `list<ChatMessage>` of typed elements; this one is {0}"
    )]
    NoList(FieldType),
    /// The field's reducer is another one.
    #[error("a chat's field `messages` has the reducer `append`; this one has `{0}`")]
    NotAppended(Reducer),
}

/// The field `messages` of a chat's state: a list of typed messages to which updates append.
///
/// A node may append [`ChatMessage`]s or their JSON. A message that breaks the rules of its role
/// ([`ChatMessage::validate`]) fails the node with `state_validation_error`.
pub fn messages_field() -> Field {
    let check = |message: &ChatMessage| message.validate().map_err(|error| error.to_string());
    let element = TypedElement::checked::<ChatMessage>("ChatMessage", check);
    let list = FieldType::List(ElementType::Typed(element));
    Field::new(MESSAGES, list).with_reducer(Reducer::Append)
}

/// Returns the violation in a payload for a signal.
type PayloadCheck =
    dyn Fn(&SignalDescriptor, &Map<String, Value>) -> Result<(), String> + Send + Sync;

/// Returns the payload to store for a checked one, or the violation in it.
type PayloadPreparation = dyn Fn(
        SignalDescriptor,
        Map<String, Value>,
    ) -> BoxFuture<'static, Result<Map<String, Value>, String>>
    + Send
    + Sync;

/// Returns the payload of a turn whose time to wait is over.
type Expiry = dyn Fn(&Suspension, Timestamp) -> Option<Map<String, Value>> + Send + Sync;

/// Returns a checked payload as it is stored.
type PayloadRedaction = dyn Fn(&Map<String, Value>) -> Map<String, Value> + Send + Sync;

/// Describes the earlier payload of a signal if a later one contradicts it.
type Contradiction =
    dyn Fn(&Suspension, &Map<String, Value>, &Map<String, Value>) -> Option<String> + Send + Sync;

/// Makes what a run has emitted durable.
type Flush = dyn Fn() -> BoxFuture<'static, ()> + Send + Sync;

/// The number of recoveries after crashes after which a turn ends.
pub(super) const MAX_RECOVERIES: usize = 3;

/// The key of a stored outcome's body with the reported fields of its turn.
pub const REPORTED_FIELDS: &str = "fields";

/// The settings of a chat.
pub(super) struct Settings {
    pub(super) classifier: Box<dyn Classifier>,
    pub(super) error_messages: Box<dyn ErrorMessages>,
    pub(super) payload_check: Option<Box<PayloadCheck>>,
    pub(super) payload_preparation: Option<Box<PayloadPreparation>>,
    pub(super) on_crash: OnCrash,
    pub(super) expiry: Option<Box<Expiry>>,
    pub(super) contradiction: Option<Box<Contradiction>>,
    pub(super) flush: Option<Box<Flush>>,
    pub(super) config: ChatConfig,
    pub(super) migrations: Migrations,
    pub(super) redaction: Option<Arc<dyn Redact>>,
    pub(super) payload_redaction: Option<Box<PayloadRedaction>>,
    /// The fields that outcomes repeat.
    pub(super) reported_fields: Vec<&'static str>,
}

/// Collects the settings of a [`ChatHarness`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct ChatHarnessBuilder<E = ()> {
    graph: CompiledGraph<E>,
    store: SharedStore,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
    settings: Settings,
}

impl<E: Send + 'static> ChatHarnessBuilder<E> {
    pub(super) fn new(
        graph: CompiledGraph<E>,
        store: SharedStore,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn IdSource>,
    ) -> Self {
        Self {
            graph,
            store,
            clock,
            ids,
            settings: Settings {
                classifier: Box::new(DefaultClassifier),
                error_messages: Box::new(DefaultErrorMessages),
                payload_check: None,
                payload_preparation: None,
                on_crash: OnCrash::default(),
                expiry: None,
                contradiction: None,
                flush: None,
                config: ChatConfig::default(),
                migrations: Migrations::new(),
                redaction: None,
                payload_redaction: None,
                reported_fields: Vec::new(),
            },
        }
    }

    /// Sets the fields of the state that stored outcomes repeat.
    ///
    /// They are in the object `fields` of [`StoredOutcome::body`](crate::store::StoredOutcome::body)
    /// if the turn changed them.
    pub fn with_reported_fields(mut self, names: impl IntoIterator<Item = &'static str>) -> Self {
        self.settings.reported_fields = names.into_iter().collect();
        self
    }

    /// Sets the rule that classifies errors.
    pub fn with_classifier(mut self, classifier: impl Classifier + 'static) -> Self {
        self.settings.classifier = Box::new(classifier);
        self
    }

    /// Sets the texts that users read after an error.
    pub fn with_error_messages(mut self, messages: impl ErrorMessages + 'static) -> Self {
        self.settings.error_messages = Box::new(messages);
        self
    }

    /// Sets a check of signal payloads that runs before a suspension is consumed.
    ///
    /// The schema of the state is checked in addition.
    pub fn with_payload_check(
        mut self,
        check: impl Fn(&SignalDescriptor, &Map<String, Value>) -> Result<(), String>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.settings.payload_check = Some(Box::new(check));
        self
    }

    /// Sets the last step before a checked payload is stored and its suspension consumed.
    ///
    /// It returns the payload to store, for example with the state of files at the time of the signal,
    /// or the violation in it. It may run for a signal that another one precedes.
    pub fn with_payload_preparation(
        mut self,
        prepare: impl Fn(
            SignalDescriptor,
            Map<String, Value>,
        ) -> BoxFuture<'static, Result<Map<String, Value>, String>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.settings.payload_preparation = Some(Box::new(prepare));
        self
    }

    /// Sets the policy for turns whose process died.
    pub fn with_on_crash(mut self, on_crash: OnCrash) -> Self {
        self.settings.on_crash = on_crash;
        self
    }

    /// Limits the time that turns wait for a signal.
    ///
    /// `expiry` returns the payload with which an overdue turn resumes, in place of its signal's, or
    /// nothing for a turn that may still wait.
    pub fn with_expiry(
        mut self,
        expiry: impl Fn(&Suspension, Timestamp) -> Option<Map<String, Value>> + Send + Sync + 'static,
    ) -> Self {
        self.settings.expiry = Some(Box::new(expiry));
        self
    }

    /// Refuses a signal that contradicts the one that its turn got before.
    ///
    /// `contradiction` gets the earlier and the later payload, and describes the earlier one if they
    /// differ. Without it a repeated signal gets the outcome of the first, whatever it contains.
    pub fn with_contradiction_check(
        mut self,
        contradiction: impl Fn(&Suspension, &Map<String, Value>, &Map<String, Value>) -> Option<String>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.settings.contradiction = Some(Box::new(contradiction));
        self
    }

    /// Sets what makes the emitted part of an answer durable before a cancelled run ends.
    ///
    /// The run is polled until the future completes, at most for two seconds, and then dropped. A run
    /// that is rolled back is not flushed.
    pub fn with_flush(
        mut self,
        flush: impl Fn() -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        self.settings.flush = Some(Box::new(flush));
        self
    }

    /// Sets lease, polling and cache configuration.
    pub fn with_config(mut self, config: ChatConfig) -> Self {
        self.settings.config = config;
        self
    }

    /// Sets the migrations that bring stored fields to the version of the graph's schema.
    ///
    /// The conversation has one form in all versions and is not migrated.
    pub fn with_migrations(mut self, migrations: Migrations) -> Self {
        self.settings.migrations = migrations;
        self
    }

    /// Sets what removes secrets from messages and payloads before they are accepted.
    ///
    /// Idempotency keys are bound to the redacted message. Without a redaction, nothing is searched.
    pub fn with_redaction(mut self, redaction: Arc<dyn Redact>) -> Self {
        self.settings.redaction = Some(redaction);
        self
    }

    /// Sets what the redaction does with payloads of signals.
    ///
    /// The process that accepts a signal resumes its turn with the original payload, every other one
    /// with the stored one. Without this, every text of a payload is redacted.
    pub fn with_payload_redaction(
        mut self,
        redacted: impl Fn(&Map<String, Value>) -> Map<String, Value> + Send + Sync + 'static,
    ) -> Self {
        self.settings.payload_redaction = Some(Box::new(redacted));
        self
    }

    /// Builds the chat.
    ///
    /// # Errors
    /// Returns [`ChatGraphError`] if the graph's state has no appended list `messages` of
    /// [`ChatMessage`]s; see [`messages_field`].
    pub fn build(self) -> Result<ChatHarness<E>, ChatGraphError> {
        check_messages(&self.graph)?;
        let ids = OwnedIds::new(self.ids);
        let inner = Inner {
            owner: ids.owner(),
            graph: self.graph,
            store: self.store,
            clock: self.clock,
            ids,
            state_cache: Arc::new(StateCache::new(self.settings.config.cached_sessions)),
            settings: self.settings,
            listeners: Arc::<Listeners>::default(),
            locks: Mutex::default(),
            changed: tokio::sync::Notify::new(),
            live_payloads: Mutex::default(),
        };
        Ok(ChatHarness {
            inner: Arc::new(inner),
        })
    }
}

fn check_messages<E: 'static>(graph: &CompiledGraph<E>) -> Result<(), ChatGraphError> {
    let field = graph.schema().field(MESSAGES);
    let field = field.ok_or(ChatGraphError::NoMessages)?;
    let is_typed = match field.field_type() {
        FieldType::List(ElementType::Typed(element)) => element.is::<ChatMessage>(),
        _ => false,
    };
    if !is_typed {
        return Err(ChatGraphError::NoList(field.field_type().clone()));
    }
    if *field.reducer() != Reducer::Append {
        return Err(ChatGraphError::NotAppended(field.reducer().clone()));
    }
    Ok(())
}

impl<E> std::fmt::Debug for ChatHarnessBuilder<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatHarnessBuilder")
            .field("graph", &self.graph)
            .finish_non_exhaustive()
    }
}
