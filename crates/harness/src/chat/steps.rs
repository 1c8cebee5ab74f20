//! The numbered steps of a session.
//!
//! Numbers are those of the durable records, in their order: a message of the history is a step, and
//! each call that it contains is one, and so is each suspension. A step keeps its number. The steps of
//! the running turn come from its journal, with the numbers that they have once the turn is history.

use logue_message::{ChatMessage, Role};

use crate::clock::Timestamp;
use crate::store::{OutcomeKind, Store, StoreError};

use super::timeline::{RunningTurn, Timeline, TurnRows, open_calls};

/// A step of a session's turns.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SessionStep {
    /// The number, from 1.
    pub number: u64,
    /// The kind of the step.
    pub kind: StepKind,
    /// The progress of the step.
    pub state: StepState,
    /// The position of its message in the history.
    ///
    /// Of a suspension, the number of messages before it. None while its turn runs.
    pub position: Option<u64>,
    /// The call, of a call and of its result.
    pub call_id: Option<String>,
    /// The tool, or the name of the signal.
    pub name: Option<String>,
    /// The text, or the arguments of a call.
    pub text: String,
    /// The turn that it belongs to.
    ///
    /// None for a copied or imported message, and for one whose turn is unknown.
    pub turn: Option<StepTurn>,
    /// Whether the turn may be unknown because its record was damaged.
    pub is_turn_lost: bool,
}

/// The turn of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StepTurn {
    /// The entry of the inbox that it is a part of.
    pub entry: u64,
    /// The invocation, which a resumed turn keeps.
    pub invocation_id: String,
    /// The idempotency key of the entry.
    pub key: Option<String>,
    /// The end of the entry; none while it runs.
    pub outcome: Option<OutcomeKind>,
    /// The time of acceptance of a message, and else that of the commit.
    pub at: Timestamp,
}

/// The kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StepKind {
    /// A message to the model.
    Message,
    /// A text of the model.
    Answer,
    /// A call of a tool.
    Call,
    /// The result of a call.
    Result,
    /// A wait for a signal.
    Suspension,
}

impl StepKind {
    /// The stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Answer => "answer",
            Self::Call => "call",
            Self::Result => "result",
            Self::Suspension => "suspension",
        }
    }
}

/// The progress of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StepState {
    /// It is over.
    Done,
    /// A call that was not started, or a turn that waits for its signal.
    Waiting,
    /// A call that was started and has no result.
    Running,
    /// A result of a call that was interrupted or did not run.
    Cancelled,
}

impl StepState {
    /// The stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Returns the steps of a session.
///
/// Costs the length of the history.
///
/// # Errors
/// Returns the error of the store; [`StoreError::NotFound`] if there is no such session.
pub async fn session_steps(
    store: &dyn Store,
    session: &str,
) -> Result<Vec<SessionStep>, StoreError> {
    let timeline = Timeline::read(store, session).await?;
    let mut steps = steps_of(&timeline);
    for step in steps.iter_mut().rev() {
        // The latest suspension of an invocation may still wait.
        let (StepKind::Suspension, Some(turn)) = (step.kind, &step.turn) else {
            continue;
        };
        let waiting = store.suspension(&turn.invocation_id).await?;
        let is_latest = timeline.suspended_at(&turn.invocation_id) == step.position;
        if is_latest && waiting.is_some_and(|one| super::timeline::is_open(one.status)) {
            step.state = StepState::Waiting;
        }
    }
    Ok(steps)
}

/// The steps of a timeline; each suspension counts as over.
pub(super) fn steps_of(timeline: &Timeline) -> Vec<SessionStep> {
    let known = (0..).zip(&timeline.messages);
    let known = known.filter_map(|(position, message)| Some((position, message.as_ref()?)));
    let open: Vec<(u64, String)> = open_calls(known)
        .into_iter()
        .map(|(position, call)| (position, call.id))
        .collect();
    let mut steps = Steps::default();
    let mut turns = timeline.turns.iter().peekable();
    for (position, message) in (0..).zip(&timeline.messages) {
        while let Some(turn) = turns.next_if(|turn| turn.to <= position) {
            steps.end(turn);
        }
        let turn = timeline.turn_at(position);
        let Some(message) = message else {
            steps.push(SessionStep {
                position: Some(position),
                turn: turn.map(|turn| part_of(turn, false)),
                ..SessionStep::new(StepKind::Message, "unreadable message")
            });
            continue;
        };
        let is_message = matches!(message.role, Role::User | Role::System);
        if timeline.is_superseded(position) {
            steps.superseded(message);
            continue;
        }
        let turn = turn.map(|turn| part_of(turn, is_message));
        let state = |id: &str| {
            let mut open = open.iter();
            if open.any(|(at, call)| *at == position && call == id) {
                StepState::Waiting
            } else {
                StepState::Done
            }
        };
        steps.message(message, Some(position), turn.as_ref(), state);
    }
    for turn in turns {
        steps.end(turn);
    }
    if let Some(running) = &timeline.running {
        steps.running(running);
    }
    for step in &mut steps.steps {
        let is_unknown = step.turn.is_none();
        let position = step.position.filter(|_| is_unknown);
        step.is_turn_lost = position.is_some_and(|position| timeline.may_be_lost(position));
    }
    steps.steps
}

fn part_of(turn: &TurnRows, is_message: bool) -> StepTurn {
    let at = if is_message {
        turn.accepted_at
    } else {
        turn.outcome.at
    };
    StepTurn {
        entry: turn.outcome.entry,
        invocation_id: turn.outcome.invocation_id.clone(),
        key: turn.key.clone(),
        outcome: Some(turn.outcome.kind),
        at,
    }
}

impl SessionStep {
    fn new(kind: StepKind, text: impl Into<String>) -> Self {
        Self {
            number: 0,
            kind,
            state: StepState::Done,
            position: None,
            call_id: None,
            name: None,
            text: text.into(),
            turn: None,
            is_turn_lost: false,
        }
    }
}

/// Counts steps.
#[derive(Default)]
struct Steps {
    steps: Vec<SessionStep>,
    /// The number of the latest step, or of a result that is still to come.
    last: u64,
}

impl Steps {
    fn push(&mut self, step: SessionStep) {
        self.last += 1;
        self.steps.push(SessionStep {
            number: self.last,
            ..step
        });
    }

    /// Adds a message, and each call that it contains.
    fn message(
        &mut self,
        message: &ChatMessage,
        position: Option<u64>,
        turn: Option<&StepTurn>,
        state: impl Fn(&str) -> StepState,
    ) {
        let text = message.text();
        let placed = |kind, text| SessionStep {
            position,
            turn: turn.cloned(),
            ..SessionStep::new(kind, text)
        };
        match message.role {
            Role::Tool => {
                let is_cancelled = text.starts_with("E-TOOL-CANCELLED");
                self.push(SessionStep {
                    call_id: message.tool_call_id.clone(),
                    name: message.name.clone(),
                    state: if is_cancelled {
                        StepState::Cancelled
                    } else {
                        StepState::Done
                    },
                    ..placed(StepKind::Result, text)
                });
            }
            Role::Assistant => {
                if !text.is_empty() || message.tool_calls.is_empty() {
                    self.push(placed(StepKind::Answer, text));
                }
                for call in &message.tool_calls {
                    self.push(SessionStep {
                        call_id: Some(call.id.clone()),
                        name: Some(call.name.clone()),
                        state: state(&call.id),
                        ..placed(StepKind::Call, call.arguments.as_str().to_owned())
                    });
                }
            }
            _ => self.push(placed(StepKind::Message, text)),
        }
    }

    /// Counts the steps of a superseded part, whose numbers stay its own.
    fn superseded(&mut self, message: &ChatMessage) {
        let has_answer = !message.text().is_empty() || message.tool_calls.is_empty();
        self.last += u64::from(has_answer) + message.tool_calls.len() as u64;
    }

    /// Adds the suspension with which an entry ended, if it did.
    fn end(&mut self, turn: &TurnRows) {
        if turn.outcome.kind == OutcomeKind::Suspended {
            let signal = turn.outcome.body.get("signal_id");
            let signal = signal.and_then(serde_json::Value::as_str);
            self.push(SessionStep {
                name: signal.map(str::to_owned),
                position: Some(turn.to),
                turn: Some(part_of(turn, false)),
                ..SessionStep::new(StepKind::Suspension, "")
            });
        }
    }

    /// Adds the journal of the running turn.
    ///
    /// Results take the numbers that they have in the history, in the order of their calls.
    fn running(&mut self, running: &RunningTurn) {
        let turn = StepTurn {
            entry: running.entry,
            invocation_id: running.invocation_id.clone(),
            key: running.key.clone(),
            outcome: None,
            at: running.accepted_at,
        };
        if let Some(message) = &running.message {
            self.message(message, None, Some(&turn), |_| StepState::Done);
        }
        for part in running.journalled.parts() {
            let state = |id: &str| match (part.result(id), part.is_started(id)) {
                (Some(_), _) => StepState::Done,
                (None, true) => StepState::Running,
                (None, false) => StepState::Waiting,
            };
            for message in &part.messages {
                self.message(message, None, Some(&turn), state);
            }
            for call in part.calls() {
                match part.result(&call.id) {
                    Some(result) => self.message(result, None, Some(&turn), |_| StepState::Done),
                    None => self.last += 1,
                }
            }
        }
    }
}
