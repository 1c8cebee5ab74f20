//! Cases that run their graph directly: sessions and suspension.

use std::fmt::Display;
use std::sync::Arc;

use logue_graph::{CompiledGraph, Invocation as Start, RunPorts, Update};
use logue_harness::sessions::{
    Migrations, PausedStatus, PausedStore, Projection, RunOptions, SessionError, SessionOutcome,
    SessionRecord, SessionStore, Sessions,
};
use serde_json::{Map, Value, json};

use crate::build::{BuildError, Builder};
use crate::checks::{Checks, EarlierRuns};
use crate::seen::{Ids, Machine, Seen};
use crate::spans::SpanRecorder;
use crate::stores::{Asked, CountedStore};
use crate::vocabulary::{
    Case, ErrorExpected, Invocation, ReadError, RunExpected, StoreBehavior, UNKNOWN,
};

/// A backend that the runner does not have.
const MISSING: &str = "harness_primitive_missing";

/// The shared state of the runs of a case.
pub(crate) struct World {
    pub(crate) seen: Arc<Seen>,
    pub(crate) ids: Arc<Ids>,
    pub(crate) store: CountedStore,
    pub(crate) spans: SpanRecorder,
    has_store: bool,
}

/// One run and what was seen of it.
pub(crate) struct Ran {
    pub(crate) outcome: SessionOutcome,
    pub(crate) started_from: usize,
    pub(crate) asked_before: Asked,
    pub(crate) asked: Asked,
    pub(crate) migrations: Vec<String>,
    pub(crate) log: Vec<String>,
    pub(crate) resumed: Option<String>,
    /// The result of the last load, if the store was asked.
    pub(crate) loaded: Option<Value>,
    pub(crate) session_id: Option<String>,
}

/// The reason that a case has no runs.
pub(crate) enum NoRun {
    Words(ReadError),
    /// The graph, its migrations or its projection are refused.
    Refused(Box<Refusal>),
}

/// A refusal before any run.
pub(crate) struct Refusal {
    /// `compile` for the graph, `registration` for what is registered with it.
    pub(crate) at: &'static str,
    pub(crate) category: String,
    pub(crate) carries: Map<String, Value>,
    pub(crate) words: String,
}

impl NoRun {
    pub(crate) fn refused(at: &'static str, category: &str, words: &dyn Display) -> Self {
        Self::Refused(Box::new(Refusal {
            at,
            category: category.to_owned(),
            carries: Map::new(),
            words: words.to_string(),
        }))
    }
}

impl World {
    pub(crate) fn new(case: &Case, spans: &SpanRecorder) -> Result<Self, ReadError> {
        let missing = |kind: &str| ReadError {
            category: MISSING,
            message: format!("there is no backend `{kind}`"),
        };
        let (kind, behavior) = match &case.session_store {
            Some(def) => {
                let (kind, behavior) = def.parts();
                (Some(kind), behavior)
            }
            None => (None, StoreBehavior::default()),
        };
        for kind in kind.into_iter().chain(case.checkpointer.as_deref()) {
            if kind != "in_memory" {
                return Err(missing(kind));
            }
        }
        for observer in &case.observers {
            let behavior = observer.behavior.as_deref().unwrap_or("record");
            let attach = observer.attach.as_deref().unwrap_or("graph");
            let target = observer.target.as_deref().unwrap_or("outer");
            if !matches!(behavior, "record" | "otel") || attach != "graph" || target != "outer" {
                return Err(ReadError {
                    category: MISSING,
                    message: format!("no observer `{behavior}`, attached to {attach} {target}"),
                });
            }
        }
        Ok(Self {
            seen: Arc::default(),
            ids: Arc::default(),
            store: CountedStore::new(behavior),
            spans: spans.clone(),
            has_store: kind.is_some(),
        })
    }

    pub(crate) fn graph(&self, case: &Case) -> Result<CompiledGraph, NoRun> {
        let builder = Builder::new(case, &self.seen, &self.ids);
        builder
            .outermost(&case.graph())
            .map_err(|error| match error {
                BuildError::Words(error) => NoRun::Words(error),
                BuildError::Graph(error) => NoRun::refused("compile", error.name(), &error),
            })
    }

    /// The graph with its memory, as a process has it that has just begun.
    pub(crate) fn sessions(&self, case: &Case) -> Result<Sessions, NoRun> {
        let migrations = migrations(case, &self.seen)?;
        let graph = self.graph(case)?;
        let mut sessions = Sessions::new(graph, Arc::new(Machine))
            .with_migrations(migrations)
            .with_conflicts(case.refuse_conflicts)
            .with_auto_save(case.auto_save.unwrap_or(true));
        sessions = if self.has_store {
            sessions.with_store(self.store.clone())
        } else {
            sessions.with_paused(self.store.clone())
        };
        match &case.session_state {
            None => Ok(sessions),
            Some(shape) => sessions
                .with_projection(Projection::fields(shape.fields.clone()))
                .map_err(|error| {
                    let category = "mapping_references_undeclared_field";
                    NoRun::refused("registration", category, &error)
                }),
        }
    }

    pub(crate) async fn seed(&self, case: &Case) {
        let Some(seeded) = &case.seeded_session else {
            return;
        };
        let id = seeded.session_id.as_ref().or(case.session_id.as_ref());
        let mut record = SessionRecord::new(id.cloned().unwrap_or_default(), seeded.state.clone());
        record.schema_version = seeded.schema_version.clone();
        // In memory nothing fails.
        drop(self.store.kept().save(record, None).await);
    }
}

/// Returns the migrations of the case, each of which records its run.
pub(crate) fn migrations(case: &Case, seen: &Arc<Seen>) -> Result<Migrations, NoRun> {
    let mut migrations = Migrations::new();
    for migration in &case.session_migrations {
        let (from, to) = (migration.from_version.clone(), migration.to_version.clone());
        let seen = Arc::clone(seen);
        let step = format!("{from}->{to}");
        let mock = mock(&migration.migrate).ok_or_else(|| {
            NoRun::Words(ReadError {
                category: UNKNOWN,
                message: format!("there is no migration `{}`", migration.migrate),
            })
        })?;
        migrations = migrations
            .with(&from, &to, move |state| {
                let migrated = mock(state)?;
                seen.migrated(step.clone());
                Ok(migrated)
            })
            .map_err(|error| {
                let error = SessionError::from(error);
                NoRun::Refused(Box::new(Refusal {
                    at: "registration",
                    category: error.category().to_owned(),
                    carries: carried(&error),
                    words: error.to_string(),
                }))
            })?;
    }
    Ok(migrations)
}

type Mock = fn(Map<String, Value>) -> Result<Map<String, Value>, String>;

fn mock(name: &str) -> Option<Mock> {
    fn changed(
        mut state: Map<String, Value>,
        change: fn(i64) -> i64,
    ) -> Result<Map<String, Value>, String> {
        let value = state.get("value").and_then(Value::as_i64);
        let value = value.ok_or_else(|| "KeyError: 'value'".to_owned())?;
        state.insert("value".to_owned(), json!(change(value)));
        Ok(state)
    }
    Some(match name {
        "add_ten_to_value" => |state| changed(state, |value| value + 10),
        "multiply_value_by_two" => |state| changed(state, |value| value * 2),
        "raises_keyerror" => |_| Err("KeyError: 'missing'".to_owned()),
        _ => return None,
    })
}

/// Returns the data of a session error, without its message.
pub(crate) fn carried(error: &SessionError) -> Map<String, Value> {
    use logue_harness::sessions::MigrationError;
    let carried = match error {
        SessionError::Migration(MigrationError::Missing {
            from_version,
            to_version,
            registered_migrations_count,
            registry_description,
        }) => json!({
            "from_version": from_version,
            "to_version": to_version,
            "registered_migrations_count": registered_migrations_count,
            "registry_description": registry_description,
        }),
        SessionError::Migration(
            MigrationError::Ambiguous {
                from_version,
                to_version,
            }
            | MigrationError::Failed {
                from_version,
                to_version,
                ..
            },
        ) => json!({ "from_version": from_version, "to_version": to_version }),
        SessionError::LoadFailed { session_id, .. }
        | SessionError::SaveFailed { session_id, .. }
        | SessionError::WriteConflict { session_id } => json!({ "session_id": session_id }),
        SessionError::RecordInvalid { invocation_id, .. }
        | SessionError::PayloadInvalid { invocation_id, .. } => {
            json!({ "invocation_id": invocation_id })
        }
        _ => json!({}),
    };
    match carried {
        Value::Object(carried) => carried,
        _ => Map::new(),
    }
}

/// The runs of a case: those that it lists, or the one that it is.
pub(crate) fn listed(case: &Case) -> Vec<Invocation> {
    match &case.invocations {
        Some(invocations) => invocations.clone(),
        None => vec![Invocation {
            session_id: case.session_id.clone(),
            initial_state: case.initial_state.clone(),
            expected: case.expected.clone(),
            expected_error: case.expected_error.clone(),
            ..Invocation::default()
        }],
    }
}

/// Runs the case and says of each run what was found.
pub(crate) async fn run_case(case: &Case, world: &World, checks: &mut Checks) -> Vec<Ran> {
    let mut sessions = match world.sessions(case) {
        Ok(sessions) => sessions,
        Err(no_run) => {
            refused(case, no_run, checks);
            return Vec::new();
        }
    };
    let at_registration = case
        .expected_error
        .as_ref()
        .and_then(|error| error.raised_at.as_deref());
    if matches!(at_registration, Some("registration" | "compile")) {
        checks.fail("nothing was refused before the first run");
    }
    world.seed(case).await;
    let mut suspended = EarlierRuns::default();
    let mut all = Vec::new();
    for (number, invocation) in listed(case).iter().enumerate() {
        checks.at(match &invocation.name {
            Some(name) => name.clone(),
            None => format!("run {}", number + 1),
        });
        if invocation.fresh_process {
            match world.sessions(case) {
                Ok(fresh) => sessions = fresh,
                Err(_) => checks.fail("the graph of the new process is refused"),
            }
        }
        let ran = run(world, &sessions, case, invocation, &suspended, checks).await;
        if let Some(id) = ran.outcome.invocation_id() {
            suspended.note(invocation.name.as_deref(), id, ran.outcome.as_str());
        }
        let last = number + 1 == listed(case).len();
        let of_case = case
            .expected
            .as_ref()
            .filter(|_| last && case.invocations.is_some());
        for expected in invocation.expected.iter().chain(of_case) {
            crate::expectations::check(world, case, expected, &ran, checks).await;
        }
        let errors = [&invocation.expected_error, &case.expected_error];
        let error = errors
            .into_iter()
            .flatten()
            .next()
            .filter(|_| last || invocation.expected_error.is_some());
        let wanted = invocation
            .expected
            .as_ref()
            .and_then(|expected| expected.outcome.as_deref());
        crate::expectations::check_ending(world, wanted, error, &ran, checks);
        loaded_and_saved(world, case, invocation, &ran, checks).await;
        all.push(ran);
    }
    checks.at("");
    all
}

async fn run(
    world: &World,
    sessions: &Sessions,
    case: &Case,
    invocation: &Invocation,
    suspended: &EarlierRuns,
    checks: &mut Checks,
) -> Ran {
    let _earlier = (
        world.seen.take_migrations(),
        world.seen.take_log(),
        world.spans.take(),
        world.store.take_loaded(),
    );
    let started_from = world.seen.event_count();
    let asked_before = world.store.asked();
    let session_id = invocation
        .session_id
        .clone()
        .or_else(|| case.session_id.clone());
    let resumed = invocation
        .resume_invocation
        .as_ref()
        .map(|words| suspended.meant(words))
        .transpose()
        .unwrap_or_else(|error| {
            checks.fail(error);
            Some(String::new())
        });
    let outcome = if let Some(id) = &resumed {
        let payload = invocation.signal_payload.clone().unwrap_or_default();
        if invocation.at_once > 1 {
            // All but the first one must be refused.
            let racing = (1..invocation.at_once).map(|_| {
                let (sessions, id, payload) = (sessions.clone(), id.clone(), payload.clone());
                tokio::spawn(async move { sessions.resume(&id, &payload, RunPorts::new()).await })
            });
            let racing: Vec<_> = racing.collect();
            let mut ended = vec![sessions.resume(id, &payload, RunPorts::new()).await];
            for other in racing {
                ended.extend(other.await);
            }
            let refused = |one: &SessionOutcome| {
                one.error().map(SessionError::category) == Some("suspension_record_invalid")
            };
            let went_on = ended.iter().filter(|one| !refused(one)).count();
            checks.equal("the number of runs that went on", &1, &went_on);
            let first = ended.iter().position(|one| !refused(one)).unwrap_or(0);
            ended.swap_remove(first)
        } else {
            sessions.resume(id, &payload, RunPorts::new()).await
        }
    } else if let (Some(inbound), Some(session)) = (&invocation.inbound_update, &session_id) {
        match sessions.open_session(session).await {
            Ok(open) => {
                let mut options = RunOptions::default();
                options.invocation_id.clone_from(&invocation.invocation_id);
                let inbound = Update::from(inbound.clone());
                sessions.invoke_open(open, inbound, options).await
            }
            Err(error) => {
                checks.fail(format!("the session does not open: {error}"));
                sessions.invoke(Start::new(Update::new())).await
            }
        }
    } else {
        let initial = invocation
            .initial_state
            .clone()
            .or_else(|| case.initial_state.clone());
        let mut start = Start::new(Update::from(initial.unwrap_or_default()));
        if let Some(session) = &session_id {
            start = start.with_session_id(session);
        }
        if let Some(id) = &invocation.invocation_id {
            start = start.with_invocation_id(id);
        }
        if let Some(id) = &invocation.correlation_id {
            start = start.with_correlation_id(id);
        }
        sessions.invoke(start).await
    };
    sessions.graph().drain().await;
    // A resumed run has the session that it had.
    let session_id = match &outcome {
        SessionOutcome::Completed(completed) => completed.session_id.clone(),
        SessionOutcome::Suspended(waits) => waits.session_id.clone(),
        SessionOutcome::Errored(_) => None,
    }
    .or(session_id);
    Ran {
        outcome,
        started_from,
        asked_before,
        asked: world.store.asked(),
        migrations: world.seen.take_migrations(),
        log: world.seen.take_log(),
        resumed,
        loaded: world.store.take_loaded(),
        session_id,
    }
}

/// Checks the stored session before and after a run of a sessions case.
async fn loaded_and_saved(
    world: &World,
    case: &Case,
    invocation: &Invocation,
    ran: &Ran,
    checks: &mut Checks,
) {
    let events = world.seen.events_from(ran.started_from);
    let first = events.first().map(|seen| seen.event.pre_state.to_json());
    if let Some(expected) = &invocation.loaded_session_state {
        // Without a record, null is loaded and the defaults stay; a record is loaded as a whole.
        checks.same("the loaded state", expected, ran.loaded.as_ref());
        let first = first.clone().unwrap_or_default();
        if let Value::Object(fields) = expected {
            checks.includes("the loaded state in the first node", fields, &first);
        } else {
            let defaults = case.state.fields.0.iter();
            let supplied = invocation.initial_state.clone().unwrap_or_default();
            for (name, field) in defaults.filter(|(name, _)| !supplied.contains_key(name)) {
                let default = field.default.clone().unwrap_or_default();
                checks.same(&format!("the field {name}"), &default, first.get(name));
            }
        }
    }
    if let Some(expected) = &invocation.loaded_invoke_state_for_scratch {
        let first = first.unwrap_or_default();
        checks.same("the field scratch", expected, first.get("scratch"));
    }
    if let Some(expected) = &invocation.expected_final_state {
        let expected = RunExpected {
            final_state: Some(expected.clone()),
            ..RunExpected::default()
        };
        crate::expectations::check(world, case, &expected, ran, checks).await;
    }
    if let Some(saved) = &invocation.saved_session_assertions {
        let expected = RunExpected {
            saved_session_assertions: Some(saved.clone()),
            ..RunExpected::default()
        };
        crate::expectations::check(world, case, &expected, ran, checks).await;
    }
}

/// A case whose graph is refused expects that.
pub(crate) fn refused(case: &Case, no_run: NoRun, checks: &mut Checks) {
    let refusal = match no_run {
        NoRun::Words(error) => return checks.fail(error.to_string()),
        NoRun::Refused(refusal) => refusal,
    };
    let (category, words) = (refusal.category, refusal.words);
    let Some(expected) = &case.expected_error else {
        return checks.fail(format!("the graph is refused: {category}: {words}"));
    };
    let ErrorExpected {
        category: wanted,
        raised_from,
        raised_at,
        carries,
        cause,
        message_includes,
    } = expected;
    if let Some(raised_at) = raised_at {
        checks.equal("where it is raised", &raised_at.as_str(), &refusal.at);
    }
    if raised_from.is_some() || cause.is_some() {
        checks.fail("a refusal comes from no node and has no cause");
    }
    checks.equal("error.category", wanted, &category);
    if let Some(wanted) = carries {
        checks.carried(wanted, &refusal.carries);
    }
    for part in message_includes.iter().flatten() {
        checks.holds(
            words.contains(part),
            format!("{words:?} does not say {part:?}"),
        );
    }
}

/// Returns whether the record of a run still waits for its signal.
pub(crate) async fn still_waits(world: &World, invocation_id: &str) -> bool {
    let record = world.store.kept().paused(invocation_id).await;
    matches!(record, Ok(Some(record)) if record.status == PausedStatus::Suspended)
}
