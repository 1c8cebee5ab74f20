//! The dispatch path of a transmission, decided by its content alone.

use serde_json::{Map, Value};

use logue_graph::Update;

use super::error::DispatchError;

/// The mode of a harness: with sessions or without. Fixed at construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HarnessMode {
    /// Each turn belongs to a session.
    Sessioned,
    /// No turn belongs to one.
    Stateless,
}

/// The intent of the caller of a sessioned harness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DispatchIntent {
    /// A turn of a session that begins with it.
    NewSession,
    /// A turn of a session that there is.
    ExistingSession,
    /// The resumption of a suspended turn.
    SignalResume,
}

/// The dispatch path of a transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DispatchPath {
    /// Without a session.
    Stateless,
    /// A new session.
    NewSession,
    /// An existing session.
    ExistingSession,
    /// A suspended turn.
    SignalResume,
}

impl DispatchPath {
    /// The section of the contract that describes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stateless => "3.0",
            Self::NewSession => "3.1",
            Self::ExistingSession => "3.2",
            Self::SignalResume => "3.3",
        }
    }
}

/// A signal, and which run it is for: by the run's id, or by the name of the signal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SignalArrival {
    /// The run that waits.
    pub invocation_id: Option<String>,
    /// The signal that it waits for.
    pub signal_id: Option<String>,
    /// The payload of the signal: fields of the state with their new values.
    pub payload: Map<String, Value>,
}

/// An incoming transmission.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transmission {
    /// The session that the caller named.
    pub session_id: Option<String>,
    /// The intent of the caller; a stateless harness accepts only signals.
    pub intent: Option<DispatchIntent>,
    /// The fields of the initial state.
    pub fields: Update,
    /// The signal, if it is one.
    pub signal: Option<SignalArrival>,
}

/// A transmission whose way is known.
#[derive(Debug)]
pub(super) enum Classified {
    Start { path: DispatchPath, session: Named },
    Signal { arrival: SignalArrival },
}

/// The session that a turn belongs to.
#[derive(Debug)]
pub(super) enum Named {
    None,
    ByCaller(String),
    /// One that is to get an id.
    New,
}

impl Classified {
    pub(super) const fn path(&self) -> DispatchPath {
        match self {
            Self::Start { path, .. } => *path,
            Self::Signal { .. } => DispatchPath::SignalResume,
        }
    }
}

impl HarnessMode {
    pub(super) fn classify(self, sent: &Transmission) -> Result<Classified, DispatchError> {
        let ambiguous = |reason: &str| {
            Err(DispatchError::PathClassificationAmbiguous {
                reason: reason.to_owned(),
            })
        };
        match (sent.intent, &sent.signal) {
            (Some(DispatchIntent::SignalResume), Some(arrival)) => {
                return match (&arrival.invocation_id, &arrival.signal_id) {
                    (None, None) => ambiguous("the signal names neither a run nor itself"),
                    _ => Ok(Classified::Signal {
                        arrival: arrival.clone(),
                    }),
                };
            }
            (Some(DispatchIntent::SignalResume), None) => {
                return ambiguous("a signal was announced and there is none");
            }
            (_, Some(_)) => return ambiguous("it is a signal and asks for a turn of its own"),
            (_, None) => {}
        }
        let named = sent.session_id.clone().filter(|id| !id.trim().is_empty());
        match (self, sent.intent) {
            (Self::Stateless, None) => Ok(Classified::Start {
                path: DispatchPath::Stateless,
                session: Named::None,
            }),
            (Self::Stateless, Some(_)) => ambiguous("a stateless harness has no sessions"),
            (Self::Sessioned, None) => ambiguous("it asks neither for a new session nor for one"),
            (Self::Sessioned, Some(DispatchIntent::NewSession)) => {
                if sent.session_id.is_some() && named.is_none() {
                    return Err(DispatchError::SessionIdUnresolved);
                }
                Ok(Classified::Start {
                    path: DispatchPath::NewSession,
                    session: named.map_or(Named::New, Named::ByCaller),
                })
            }
            (Self::Sessioned, Some(_)) => Ok(Classified::Start {
                path: DispatchPath::ExistingSession,
                session: Named::ByCaller(named.ok_or(DispatchError::SessionIdUnresolved)?),
            }),
        }
    }
}
