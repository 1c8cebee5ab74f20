//! Errors of nodes and runs, and their categories.
//!
//! The engine wraps the error of a node as `node_exception`, but callers need the cause of the
//! failure, such as `provider_unavailable`. An error therefore has two names.
//! [`EngineError::category`] is the error that the engine observed;
//! [`EngineError::derived_category`] looks through the carriers to the first error with a category.

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
    /// Boxed, because most errors carry no advice.
    advice: Option<Box<Advice>>,
    /// The path from a graph inside the failed node to the failing node.
    pub(crate) namespace: Vec<Arc<str>>,
}

/// Optional advice on the handling of an error.
#[derive(Clone, Debug, Default)]
struct Advice {
    help: Option<String>,
    retry_after: Option<Duration>,
}

impl NodeError {
    /// Creates an error without a category. The message may be shown to the user.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            category: None,
            message: message.into(),
            source: None,
            advice: None,
            namespace: Vec::new(),
        }
    }

    /// Wraps another error and its message, for `map_err(NodeError::from_error)?`.
    pub fn from_error(error: impl Error + Send + Sync + 'static) -> Self {
        Self::new(error.to_string()).with_source(error)
    }

    /// Sets the category by which callers classify the error.
    #[must_use]
    pub fn with_category(mut self, category: impl Into<String>) -> Self {
        self.category = Some(category.into());
        self
    }

    /// Sets the cause, whose category counts if this error has none.
    #[must_use]
    pub fn with_source(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Sets the remedy, which may be shown to the user.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.advice.get_or_insert_default().help = Some(help.into());
        self
    }

    /// Sets the delay that the failed service requests before the next try.
    #[must_use]
    pub fn with_retry_after(mut self, wait: Duration) -> Self {
        self.advice.get_or_insert_default().retry_after = Some(wait);
        self
    }

    /// Returns the remedy, if one is set.
    pub fn help(&self) -> Option<&str> {
        self.advice.as_ref()?.help.as_deref()
    }

    /// Returns the delay before the next try, if one is set.
    pub fn retry_after(&self) -> Option<Duration> {
        self.advice.as_ref()?.retry_after
    }

    /// Returns the category, if one is set and not empty.
    pub fn category(&self) -> Option<&str> {
        self.category
            .as_deref()
            .filter(|category| !category.is_empty())
    }

    /// Returns the message.
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

/// The reason why a suspension is not possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SuspensionErrorKind {
    /// The attempt that the suspension belongs to had ended.
    NodeEnded,
    /// A middleware requested it, not the node that it wraps.
    Middleware,
    /// It came from one of several graphs of a node that collects errors.
    Collect,
}

impl fmt::Display for SuspensionErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NodeEnded => "was awaited after that node had ended",
            Self::Middleware => "was requested by a middleware",
            Self::Collect => "came from an inner graph, where errors are collected",
        })
    }
}

/// An error that ends a run.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A node raised an error.
    #[error("the node `{node}` failed")]
    NodeException {
        /// The node.
        node: String,
        /// The error of the node.
        source: NodeError,
    },
    /// The function of a conditional edge raised an error.
    #[error("the edge from the node `{node}` failed")]
    EdgeException {
        /// The node that the edge leaves.
        node: String,
        /// The error of the function.
        source: NodeError,
    },
    /// A reducer could not merge a node's update.
    #[error(
        "the reducer `{reducer}` of the field `{field}` failed on the update of the node `{node}`: {cause}"
    )]
    ReducerError {
        /// The field.
        field: String,
        /// The reducer of the field.
        reducer: Reducer,
        /// The node that returned the update.
        node: String,
        /// The reason.
        cause: String,
    },
    /// The function of a conditional edge chose a target that the edge does not declare.
    #[error(
        "the edge from the node `{node}` chose {target}, which it does not declare as a target"
    )]
    RoutingError {
        /// The node that the edge leaves.
        node: String,
        /// The chosen target.
        target: EdgeTarget,
    },
    /// The initial state or a node's update does not fit the schema.
    #[error("{}: {cause}", match node {
        Some(node) => format!("invalid update of the node `{node}`"),
        None => "invalid initial state".to_owned(),
    })]
    StateValidation {
        /// The node that returned the update; none for the initial state.
        node: Option<String>,
        /// The violation of the schema.
        cause: StateError,
    },
    /// The run reached its limit of steps.
    #[error(
        "the run took {limit} steps without reaching END; the next would have been the node `{next}`"
    )]
    MaxSteps {
        /// The maximum number of nodes that may run.
        limit: usize,
        /// The node that was next and did not run.
        next: String,
    },
    /// A node or middleware requested a suspension where none is possible.
    #[error("the suspension {signal_id:?} of the node `{node}` {reason}")]
    SuspensionUnsupported {
        /// The node that the suspension belongs to.
        node: String,
        /// The id of the requested signal.
        signal_id: String,
        /// The reason why the suspension is not possible.
        reason: SuspensionErrorKind,
    },
    /// The payload of a signal does not fit the state of the waiting run.
    #[error("invalid signal payload: {cause}")]
    SuspensionResumePayloadInvalid {
        /// The violation of the schema.
        cause: StateError,
    },
    /// A paused run cannot be resumed: it is damaged, missing, or of another graph.
    #[error("cannot resume the paused run: {cause}")]
    SuspensionRecordInvalid {
        /// The defect of the record.
        cause: String,
    },
}

impl EngineError {
    /// Returns the engine's own name for the error.
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

    /// Returns the category that a caller acts on.
    ///
    /// It is the category of the outermost error in the chain of causes which has one and is not
    /// merely a carrier of its cause. An error in an [`Arc`], a [`Box`] or an [`io::Error`] counts
    /// too. `node_exception` and `edge_exception` are carriers; they count only when no cause has a
    /// category.
    pub fn derived_category(&self) -> &str {
        match self.telling_link() {
            Some((category, _)) => category,
            None => self.category(),
        }
    }

    /// Returns the message of the error that determines the derived category.
    ///
    /// Falls back to the message of the outermost cause.
    pub fn diagnostic(&self) -> String {
        match (self.telling_link(), self) {
            (Some((_, link)), _) => link.to_string(),
            (None, Self::NodeException { source, .. } | Self::EdgeException { source, .. }) => {
                source.message.clone()
            }
            (None, _) => self.to_string(),
        }
    }

    /// Returns the remedy of the error that determines the derived category.
    pub fn help(&self) -> Option<&str> {
        self.telling_node_error()?.help()
    }

    /// Returns the retry delay of the error that determines the derived category.
    pub fn retry_after(&self) -> Option<Duration> {
        self.telling_node_error()?.retry_after()
    }

    /// Returns the node in which, or after which, the run failed.
    ///
    /// For a suspension that came too late, returns the node that it belongs to.
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

    /// Returns whether no node on the way to the outcome may handle the error.
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

/// Returns the error inside a pointer or an [`io::Error`].
///
/// Each forwards `source` to the cause of the inner error, so that a walk along the causes would
/// skip the inner error.
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
