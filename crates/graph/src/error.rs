//! What can go wrong in a run, and which category a caller sees.
//!
//! The engine wraps what a node raises as `node_exception`, but what a caller must know is why the
//! node failed: `provider_unavailable`, say. So an error has two names. [`EngineError::category`] is
//! what the engine saw; [`EngineError::derived_category`] looks through the carriers to the first
//! error that has something to say.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::build::edge::EdgeTarget;
use crate::state::reducer::Reducer;
use crate::state::snapshot::StateError;

/// An error that a node, or the function of a conditional edge, raises.
///
/// ```
/// use logue_graph::NodeError;
///
/// let error = NodeError::new("the server answered 503").with_category("provider_unavailable");
/// assert_eq!(error.category(), Some("provider_unavailable"));
/// ```
#[derive(Clone)]
pub struct NodeError {
    category: Option<String>,
    message: String,
    source: Option<Arc<dyn Error + Send + Sync>>,
    /// In a box, as most errors know nothing of it.
    advice: Option<Box<Advice>>,
    /// The nodes from a graph inside the failed node down to the one that failed there.
    pub(crate) namespace: Vec<Arc<str>>,
}

/// What is known of what to do about an error.
#[derive(Clone, Debug, Default)]
struct Advice {
    help: Option<String>,
    retry_after: Option<Duration>,
}

impl NodeError {
    /// An error without a category. The message may be shown to the user.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            category: None,
            message: message.into(),
            source: None,
            advice: None,
            namespace: Vec::new(),
        }
    }

    /// Another error as a node's error, with its message: for `map_err(NodeError::wrap)?`.
    pub fn wrap(error: impl Error + Send + Sync + 'static) -> Self {
        Self::new(error.to_string()).with_source(error)
    }

    /// Names the category, by which callers classify the error.
    #[must_use]
    pub fn with_category(mut self, category: impl Into<String>) -> Self {
        self.category = Some(category.into());
        self
    }

    /// Names the cause, whose category counts if this error has none.
    #[must_use]
    pub fn with_source(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Says what to do. It may be shown to the user.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.advice.get_or_insert_default().help = Some(help.into());
        self
    }

    /// Says how long whoever failed asks to wait before the next try.
    #[must_use]
    pub fn with_retry_after(mut self, wait: Duration) -> Self {
        self.advice.get_or_insert_default().retry_after = Some(wait);
        self
    }

    /// What to do, if that is known.
    pub fn help(&self) -> Option<&str> {
        self.advice.as_ref()?.help.as_deref()
    }

    /// How long to wait before the next try, if that is known.
    pub fn retry_after(&self) -> Option<Duration> {
        self.advice.as_ref()?.retry_after
    }

    /// The category, if it has one that is not empty.
    pub fn category(&self) -> Option<&str> {
        self.category
            .as_deref()
            .filter(|category| !category.is_empty())
    }

    /// What happened.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeError")
            .field("category", &self.category)
            .field("message", &self.message)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

impl Error for NodeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source
            .as_deref()
            .map(|source| source as &(dyn Error + 'static))
    }
}

/// Why a run cannot be suspended somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SuspensionErrorKind {
    /// The attempt of the node that it belongs to was over.
    NodeEnded,
    /// A middleware asked for it, not the node that it wraps.
    Middleware,
    /// It came from one of several graphs of a node that collects errors.
    Collect,
}

impl fmt::Display for SuspensionErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NodeEnded => "was awaited when that node had ended",
            Self::Middleware => "was asked for by a middleware",
            Self::Collect => "came from inside it, where errors are collected",
        })
    }
}

/// Why a run ended in an error.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A node raised an error.
    #[error("the node `{node}` failed")]
    NodeException {
        /// The node.
        node: String,
        /// What it raised.
        source: NodeError,
    },
    /// The function of a conditional edge raised an error.
    #[error("the edge out of the node `{node}` failed")]
    EdgeException {
        /// The node that the edge leaves.
        node: String,
        /// What the function raised.
        source: NodeError,
    },
    /// A reducer could not merge a node's update.
    #[error(
        "the reducer `{reducer}` of the field `{field}` failed on the update of the node `{node}`: {cause}"
    )]
    ReducerError {
        /// The field.
        field: String,
        /// Its reducer.
        reducer: Reducer,
        /// The node whose update it was.
        node: String,
        /// Why.
        cause: String,
    },
    /// The function of a conditional edge chose a target that the edge does not declare.
    #[error("the edge out of the node `{node}` chose {target}, which is not one of its targets")]
    RoutingError {
        /// The node that the edge leaves.
        node: String,
        /// What was chosen.
        target: EdgeTarget,
    },
    /// The initial state or a node's update does not fit the schema.
    #[error("{}: {cause}", match node {
        Some(node) => format!("the update of the node `{node}` is not valid"),
        None => "the initial state is not valid".to_owned(),
    })]
    StateValidation {
        /// The node whose update it was; none for the initial state.
        node: Option<String>,
        /// What does not fit.
        cause: StateError,
    },
    /// The run would take more steps than it may.
    #[error(
        "the run took {limit} steps without reaching END; the next would have been the node `{next}`"
    )]
    MaxSteps {
        /// How many nodes may run.
        limit: usize,
        /// The node that did not run any more.
        next: String,
    },
    /// A run was to be suspended where that is not possible.
    #[error("the suspension {signal_id:?} of the node `{node}` {reason}")]
    SuspensionUnsupported {
        /// The node whose suspension it was.
        node: String,
        /// The signal that it asked for.
        signal_id: String,
        /// Why it is not possible there.
        reason: SuspensionErrorKind,
    },
    /// The payload of a signal does not fit the state of the run that waits for it.
    #[error("the payload of the signal is not valid: {cause}")]
    SuspensionResumePayloadInvalid {
        /// What does not fit.
        cause: StateError,
    },
    /// A paused run cannot be resumed: it is damaged, of another graph, or not there.
    #[error("the paused run cannot be resumed: {cause}")]
    SuspensionRecordInvalid {
        /// What is wrong with it.
        cause: String,
    },
}

impl EngineError {
    /// The engine's own name for what happened.
    pub const fn category(&self) -> &'static str {
        match self {
            Self::NodeException { .. } => "node_exception",
            Self::EdgeException { .. } => "edge_exception",
            Self::ReducerError { .. } => "reducer_error",
            Self::RoutingError { .. } => "routing_error",
            Self::StateValidation { .. } => "state_validation_error",
            Self::MaxSteps { .. } => "max_steps_exceeded",
            Self::SuspensionUnsupported { .. } => "suspension_in_unsupported_context",
            Self::SuspensionResumePayloadInvalid { .. } => "suspension_resume_payload_invalid",
            Self::SuspensionRecordInvalid { .. } => "suspension_record_invalid",
        }
    }

    /// The category that a caller acts on: that of the outermost error in the chain of causes
    /// which has one and is not merely a carrier of its cause; an error in an [`Arc`], a [`Box`] or
    /// an [`io::Error`] is seen too. `node_exception` and
    /// `edge_exception` are carriers; they count only when no cause has a category.
    pub fn derived_category(&self) -> &str {
        match self.telling_link() {
            Some((category, _)) => category,
            None => self.category(),
        }
    }

    /// The message of the error whose category is the derived one, else of the outermost cause.
    pub fn diagnostic(&self) -> String {
        match (self.telling_link(), self) {
            (Some((_, link)), _) => link.to_string(),
            (None, Self::NodeException { source, .. } | Self::EdgeException { source, .. }) => {
                source.message.clone()
            }
            (None, _) => self.to_string(),
        }
    }

    /// What to do, as the error says whose category is the derived one.
    pub fn help(&self) -> Option<&str> {
        self.telling_node_error()?.help()
    }

    /// How long to wait before the next try, as the error says whose category is the derived one.
    pub fn retry_after(&self) -> Option<Duration> {
        self.telling_node_error()?.retry_after()
    }

    /// The node in which it happened, or after which the run could not go on; of a suspension that
    /// came too late, the node that it belongs to.
    pub fn node(&self) -> Option<&str> {
        match self {
            Self::NodeException { node, .. }
            | Self::EdgeException { node, .. }
            | Self::ReducerError { node, .. }
            | Self::RoutingError { node, .. }
            | Self::MaxSteps { next: node, .. }
            | Self::SuspensionUnsupported { node, .. } => Some(node),
            Self::StateValidation { node, .. } => node.as_deref(),
            Self::SuspensionResumePayloadInvalid { .. } | Self::SuspensionRecordInvalid { .. } => {
                None
            }
        }
    }

    /// Whether nothing between the place where it happened and the outcome may handle it.
    pub(crate) const fn escapes(&self) -> bool {
        matches!(self, Self::SuspensionUnsupported { .. })
    }

    fn is_carrier(&self) -> bool {
        matches!(
            self,
            Self::NodeException { .. } | Self::EdgeException { .. }
        )
    }

    fn telling_node_error(&self) -> Option<&NodeError> {
        match self.telling_link() {
            Some((_, link)) => link.downcast_ref(),
            None => match self {
                Self::NodeException { source, .. } | Self::EdgeException { source, .. } => {
                    Some(source)
                }
                _ => None,
            },
        }
    }

    fn telling_link(&self) -> Option<(&str, &(dyn Error + 'static))> {
        let mut next: Option<&(dyn Error + 'static)> = Some(self);
        while let Some(link) = next {
            if let Some(category) = category_of(link) {
                return Some((category, link));
            }
            next = wrapped(link).or_else(|| link.source());
        }
        None
    }
}

fn category_of<'a>(link: &'a (dyn Error + 'static)) -> Option<&'a str> {
    if let Some(error) = link.downcast_ref::<NodeError>() {
        return error.category();
    }
    let error = link.downcast_ref::<EngineError>()?;
    (!error.is_carrier()).then(|| error.category())
}

/// What a pointer or an [`io::Error`] holds. Each says of itself what the error in it says, its
/// cause included, so that the error itself would be passed over on the way down the causes.
fn wrapped<'a>(link: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    let io = |error: &'a io::Error| error.get_ref().map(|inner| inner as &(dyn Error + 'static));
    if let Some(error) = link.downcast_ref::<io::Error>() {
        return io(error);
    }
    if let Some(error) = pointed_at::<io::Error>(link) {
        return io(error);
    }
    let node = pointed_at::<NodeError>(link).map(|error| error as &(dyn Error + 'static));
    node.or_else(|| pointed_at::<EngineError>(link).map(|error| error as _))
}

fn pointed_at<'a, E: Error + 'static>(link: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let shared = link.downcast_ref::<Arc<E>>().map(|error| &**error);
    shared.or_else(|| link.downcast_ref::<Box<E>>().map(|error| &**error))
}
