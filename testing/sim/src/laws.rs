//! Invariants at the end of every run.

use std::collections::{BTreeMap, BTreeSet};

use logue_harness::chat::ChatTurnOutcome;
use logue_harness::store::{OutcomeKind, SessionFilter, Store as _, StoredOutcome};
use logue_message::{ChatMessage, Role, repair_history};
use serde_json::{Map, Value};

use crate::agent::Starts;
use crate::settings::Report;
use crate::shards::Shards;
use crate::store::SimStore;
use crate::world::{Effects, Told, has_final, is_final, lock, now_or_never};

/// Checks every invariant.
pub(crate) fn check(
    store: &SimStore,
    effects: &Effects,
    told: &Told,
    (starts, least_recoveries): (&Starts, u64),
    report: &mut Report,
) -> Result<(), String> {
    let effects = lock(effects).clone();
    if let Some((call, times)) = effects.iter().find(|(_, times)| **times > 1) {
        return Err(format!("the effect of {call} happened {times} times"));
    }
    one_effect_each(&effects)?;
    if let Some(wrong) = store.wrong_lease().or_else(|| starts.repeated()) {
        return Err(wrong);
    }
    report.effects = effects.len() as u64;
    one_outcome_each(&lock(told))?;

    let memory = store.memory();
    match now_or_never(memory.misplaced()) {
        Some(Ok(None)) => {}
        Some(Ok(Some(misplaced))) => return Err(misplaced),
        _ => return Err("the stores cannot be compared".to_owned()),
    }
    let counts = store.counts();
    report.routed = counts.routed;
    report.asked_all = counts.asked_all;
    report.sessions_of_stores = sizes_of(memory);
    let checked = now_or_never(async { memory.verify(None).await });
    let Some(Ok(verified)) = checked else {
        return Err("the store cannot be verified".to_owned());
    };
    if let Some(fault) = verified.faults.first() {
        return Err(fault.to_string());
    }
    let Some(Ok(sessions)) = now_or_never(async { memory.list(SessionFilter::default()).await })
    else {
        return Err("the sessions cannot be listed".to_owned());
    };
    let mut heard = BTreeSet::new();
    let mut kept = BTreeSet::new();
    for session in sessions {
        let name = &session.session;
        let read = now_or_never(async {
            let history = memory.history(name, 0, usize::MAX).await?;
            let outcomes = memory.outcomes_since(name, 0, usize::MAX).await?;
            Ok::<_, logue_harness::store::StoreError>((history, outcomes))
        });
        let Some(Ok((history, outcomes))) = read else {
            return Err(format!("{name} cannot be read"));
        };
        let history: Result<Vec<_>, _> = history.iter().map(ChatMessage::from_json).collect();
        let history = history.map_err(|error| format!("{name}: {error}"))?;
        is_valid(name, &history)?;
        let interrupted = outcomes.iter().any(|outcome| {
            let category = outcome.body.get("category").and_then(Value::as_str);
            category == Some("turn_interrupted")
        });
        in_order(name, &history, interrupted)?;
        results_tell_effects(name, &history, &effects)?;
        orders_are_kept(name, &session.fields, &history, &outcomes)?;
        for outcome in &outcomes {
            match outcome.kind {
                OutcomeKind::Completed => report.completed += 1,
                OutcomeKind::Suspended => {}
                _ => report.failed += 1,
            }
            report.resumed += u64::from(outcome.resumed);
            // A resumed turn fails only with the provider, after which its signal counts again, and
            // with the store, which does not settle it.
            let body = &outcome.body;
            let category = body.get("category").and_then(Value::as_str);
            let recoveries = store.recoveries(name, outcome.entry);
            if category == Some("turn_interrupted") {
                report.given_up += 1;
                if recoveries < least_recoveries {
                    let given_up = format!("{name} gave a turn up after {recoveries} recoveries");
                    return Err(given_up);
                }
            }
            let is_over = category.is_some_and(|it| {
                matches!(it, "turn_cancelled" | "turn_interrupted") || it.starts_with("provider_")
            });
            if outcome.resumed && outcome.kind == OutcomeKind::Errored && !is_over {
                return Err(format!("{name} lost an accepted signal: {body}"));
            }
        }
        let entries = outcomes.iter().map(|outcome| outcome.entry);
        if entries.clone().collect::<BTreeSet<_>>().len() != outcomes.len() {
            return Err(format!("an entry of {name} has two outcomes"));
        }
        let results = history.iter().filter(|m| m.role == Role::Tool);
        kept.extend(results.filter_map(|m| m.tool_call_id.clone()));
        heard.extend(
            history
                .iter()
                .filter(|m| m.role == Role::User)
                .map(ChatMessage::text),
        );
    }
    if let Some(lost) = effects.keys().find(|call| !kept.contains(*call)) {
        return Err(format!("the effect of {lost} is in no history"));
    }
    answers_are_history(&lock(told), &heard)
}

/// Checks that no call of a message is repeated under another id.
fn one_effect_each(effects: &BTreeMap<String, u64>) -> Result<(), String> {
    let mut seen: BTreeMap<(String, &str), &String> = BTreeMap::new();
    for call in effects.keys() {
        let mut parts = call.split('-');
        let key = [parts.next(), parts.next()].map(Option::unwrap_or_default);
        let number = call.rsplit('-').next().unwrap_or_default();
        if let Some(other) = seen.insert((key.join("-"), number), call) {
            return Err(format!("{call} repeats the effect of {other}"));
        }
    }
    Ok(())
}

/// Checks that every message has one final outcome for any number of deliveries.
///
/// A delivery after the decision about a suspended turn receives the outcome of the decided one.
fn one_outcome_each(told: &BTreeMap<String, Vec<ChatTurnOutcome>>) -> Result<(), String> {
    for (key, outcomes) in told {
        if !has_final(outcomes) {
            return Err(format!("{key} never received an answer: {outcomes:?}"));
        }
        for waits in [true, false] {
            let all: BTreeSet<String> = outcomes
                .iter()
                .filter(|one| is_final(one))
                .filter(|one| matches!(one, ChatTurnOutcome::Suspended(_)) == waits)
                .map(|one| one.to_json().to_string())
                .collect();
            if all.len() > 1 {
                return Err(format!("{key} received different outcomes: {all:?}"));
            }
        }
    }
    Ok(())
}

/// Checks that one result follows each call, and that no other result exists.
fn is_valid(name: &str, history: &[ChatMessage]) -> Result<(), String> {
    let (_, repairs) = repair_history(history.to_vec());
    match repairs.first() {
        None => Ok(()),
        Some(repair) => Err(format!("the history of {name} needs a repair: {repair:?}")),
    }
}

/// Checks that each message of a client occurs in order.
///
/// It occurs once, unless its turn failed after an effect, or after too many recoveries, and the
/// session went on before it was tried again, by its client or by its signal.
fn in_order(name: &str, history: &[ChatMessage], interrupted: bool) -> Result<(), String> {
    let mut latest: BTreeMap<String, String> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for message in history.iter().filter(|message| message.role == Role::User) {
        let text = message.text();
        let key = text.split(' ').next_back().unwrap_or_default().to_owned();
        let client = key.split('-').next().unwrap_or_default().to_owned();
        let may_repeat = interrupted || text.starts_with("tool");
        if !seen.insert(key.clone()) && may_repeat {
            continue;
        }
        if let Some(before) = latest.insert(client, key.clone())
            && before >= key
        {
            return Err(format!("{key} follows {before} in {name}"));
        }
    }
    Ok(())
}

/// Checks that the session has the order of each answered or suspended turn.
fn orders_are_kept(
    name: &str,
    fields: &Map<String, Value>,
    history: &[ChatMessage],
    outcomes: &[StoredOutcome],
) -> Result<(), String> {
    let orders = fields.get("orders").and_then(Value::as_array);
    let orders: BTreeSet<_> = orders
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let ended = [OutcomeKind::Completed, OutcomeKind::Suspended];
    for outcome in outcomes.iter().filter(|one| ended.contains(&one.kind)) {
        let from = usize::try_from(outcome.replies_from).unwrap_or(usize::MAX);
        let to = usize::try_from(outcome.replies_to).unwrap_or(usize::MAX);
        for reply in history.get(from..to).unwrap_or_default() {
            let text = reply.text();
            let key = text.strip_prefix("answer to ");
            if let Some(key) = key.or(text.strip_prefix("pending "))
                && !orders.contains(key)
            {
                return Err(format!("{name} lost the order of {key}"));
            }
        }
    }
    Ok(())
}

/// Checks that each reported effect of a tool has happened.
fn results_tell_effects(
    name: &str,
    history: &[ChatMessage],
    effects: &BTreeMap<String, u64>,
) -> Result<(), String> {
    for message in history.iter().filter(|message| message.role == Role::Tool) {
        let id = message.tool_call_id.clone().unwrap_or_default();
        if message.text() == "worked" && !effects.contains_key(&id) {
            return Err(format!("{name} has a result of {id}, which never ran"));
        }
    }
    Ok(())
}

/// Checks that the history contains completed messages and no failed ones.
fn answers_are_history(
    told: &BTreeMap<String, Vec<ChatTurnOutcome>>,
    heard: &BTreeSet<String>,
) -> Result<(), String> {
    for (key, outcomes) in told {
        let said = heard.iter().any(|text| text.ends_with(&format!(" {key}")));
        for outcome in outcomes {
            let should = match outcome {
                ChatTurnOutcome::Completed(_) | ChatTurnOutcome::Suspended(_) => Some(true),
                // The calls of a failed turn are history, and so is its message.
                ChatTurnOutcome::Errored(turn) => turn.resumable.then_some(true),
            };
            if should.is_some_and(|should| should != said) {
                let outcome: Value = outcome.to_json();
                return Err(format!(
                    "{key} received {outcome}, and is in the history: {said}"
                ));
            }
        }
    }
    Ok(())
}

/// Returns the least and the largest number of sessions of a store.
fn sizes_of(memory: &Shards) -> (u64, u64) {
    let sizes = (0..memory.count()).map(|shard| {
        let sessions = now_or_never(memory.sessions_of(shard));
        let sessions = sessions.and_then(Result::ok).unwrap_or_default();
        sessions.len() as u64
    });
    let sizes: Vec<u64> = sizes.collect();
    let least = sizes.iter().min().copied().unwrap_or_default();
    let largest = sizes.iter().max().copied().unwrap_or_default();
    (least, largest)
}
