//! Deciding about calls: by rules, by a person who can be asked at once, or by a signal later; and the
//! record of each decision, without which none counts.

use std::borrow::Cow;

use logue_graph::{NodeContext, NodeError};
use logue_harness::chat::SignalUnrecorded;
use logue_tools::{Preview, Router};
use serde_json::Value;

use crate::permission::approval::{ApprovalSignal, Decision, PendingCall};
use crate::permission::approver::ApprovalRequest;
use crate::permission::audit::{AUDIT_FAILED, AuditEdit, AuditError, AuditRecord};
use crate::permission::decision_source::{DecisionSource, PermissionDecision};
use crate::permission::edit::{EditedCall, edit_in};
use crate::permission::redacted_call::redacted_call;
use crate::permission::rules::Permission;
use crate::transcript::journal::undecided_note;
use crate::turn::assistant::Assistant;
use crate::turn::continuation::repeats_interrupted;
use crate::turn::listener::TurnEvent;
use crate::turn::redacted::TurnRedaction;

/// The remedy for a decision of a signal that could not be recorded.
const RECORD_LATER: &str = "the decision is kept, and none of its calls has run; once it can be \
     recorded, the next attempt of the turn continues with it";

impl Assistant {
    /// Decides what can be decided now. What is left as [`Permission::Ask`] waits for a signal.
    pub(crate) async fn decide(
        &self,
        router: &Router,
        ctx: &NodeContext<TurnEvent>,
        calls: &mut [PendingCall],
        redaction: &TurnRedaction,
    ) -> Result<(), NodeError> {
        for gated in calls.iter_mut() {
            gated.decision = self.permissions.decide(&gated.call.name);
            // A tool that does not exist is refused by the toolbox without a request.
            if router.toolbox().get(&gated.call.name).is_none() {
                gated.decision.permission = Permission::Allow;
                gated.decision.by = DecisionSource::Declared;
            }
        }
        self.withdraw_changed(calls).await;
        let in_fork = self.budget.is_in_fork();
        for gated in calls.iter_mut() {
            let has_effects = router
                .toolbox()
                .get(&gated.call.name)
                .is_some_and(|tool| !tool.is_read_only());
            if gated.decision.permission == Permission::Allow
                && has_effects
                && repeats_interrupted(ctx, &redacted_call(redaction.redact(), &gated.call))
            {
                gated.decision.permission = Permission::Ask;
                gated.decision.by = DecisionSource::Interrupted;
            }
            if in_fork && has_effects && gated.decision.permission == Permission::Allow {
                gated.decision = PermissionDecision {
                    permission: Permission::Ask,
                    by: DecisionSource::Fork,
                };
            }
            if gated.decision.permission == Permission::Ask {
                gated.preview = router.preview(&gated.call).await;
                let shown = gated.preview.as_ref();
                gated.fingerprint = router.fingerprint(&gated.call, shown).await;
            }
        }
        let is_asking = |gated: &PendingCall| gated.decision.permission == Permission::Ask;
        let approver = self.permissions.approver.as_ref();
        let approver = approver.filter(|_| calls.iter().any(is_asking));
        if let Some(approver) = approver {
            ctx.journal(undecided_note(true)).await?;
            let waiting = calls.iter_mut();
            for gated in waiting.filter(|gated| gated.decision.permission == Permission::Ask) {
                let question = ApprovalRequest {
                    call: &gated.call,
                    preview: gated.preview.as_ref(),
                    why: &gated.decision.by,
                    router,
                    permissions: &self.permissions,
                };
                let Some(answer) = approver.ask(question).await else {
                    break;
                };
                gated.decision.permission = if answer.approved {
                    Permission::Allow
                } else {
                    Permission::Deny
                };
                gated.decision.by = DecisionSource::Terminal {
                    asked: answer.asked,
                };
                gated.note = answer.note;
                let edited = answer.edited.filter(|_| answer.approved);
                gated.edited = edited.filter(|edited| edited.differs_from(&gated.call));
            }
        }
        if in_fork {
            // A fork is a part of a call, so it cannot be suspended.
            calls.iter_mut().for_each(deny_undecided);
        }
        let decided = calls
            .iter()
            .filter(|gated| gated.decision.permission != Permission::Ask);
        if let Err(error) = self.record(ctx, decided, None, redaction).await {
            for gated in calls {
                gated.decision.permission = Permission::Deny;
                gated.decision.by = DecisionSource::Unrecorded;
                gated.note.clone_from(&error.0);
            }
        }
        if approver.is_some() {
            ctx.journal(undecided_note(false)).await?;
        }
        Ok(())
    }

    /// Requires approval for calls of a trusted prompt whose files have changed during the run.
    async fn withdraw_changed(&self, calls: &mut [PendingCall]) {
        let is_trusted =
            |gated: &PendingCall| matches!(gated.decision.by, DecisionSource::Trust { .. });
        let trust = &self.permissions.trust;
        if !calls.iter().any(is_trusted) || !trust.has_changed().await {
            return;
        }
        let permissions = self.permissions.clone();
        let permissions = permissions.with_trust(trust.clone().withdrawn());
        for gated in calls.iter_mut().filter(|gated| is_trusted(gated)) {
            gated.decision = permissions.decide(&gated.call.name);
        }
    }

    /// Records what a signal decided about the calls that waited.
    ///
    /// # Errors
    /// Returns an error if that fails. The turn then stays queued with its decision: none of the calls
    /// has run, and none of them was refused.
    pub(crate) async fn signalled(
        &self,
        ctx: &NodeContext<TurnEvent>,
        calls: &mut [PendingCall],
        signal: &ApprovalSignal<'_>,
        redaction: &TurnRedaction,
    ) -> Result<(), NodeError> {
        let waited = |gated: &&PendingCall| gated.decision.permission == Permission::Ask;
        for gated in calls.iter_mut().filter(|gated| waited(&&**gated)) {
            let is_approved = signal.decision(&gated.call.id) == Some(Decision::Approve);
            let edited = edit_in(ctx.state(), &gated.call.id);
            gated.edited = edited.filter(|_| is_approved);
        }
        let decided = calls.iter().filter(waited);
        let recorded = self.record(ctx, decided, Some(signal), redaction);
        recorded.await.map_err(|error| {
            let failed = NodeError::new(error.to_string()).with_category(AUDIT_FAILED);
            failed
                .with_source(SignalUnrecorded::new(error.0))
                .with_help(RECORD_LATER)
        })
    }

    async fn record<'a>(
        &self,
        ctx: &NodeContext<TurnEvent>,
        decided: impl Iterator<Item = &'a PendingCall>,
        signal: Option<&ApprovalSignal<'_>>,
        redaction: &TurnRedaction,
    ) -> Result<(), AuditError> {
        let toolbox = self.toolbox.current().await;
        let declared = decided.filter(|gated| toolbox.get(&gated.call.name).is_some());
        let records: Vec<AuditRecord> = declared
            .map(|gated| {
                let (allowed, by, note) = match signal {
                    None => {
                        let allowed = gated.decision.permission == Permission::Allow;
                        (allowed, gated.decision.by.clone(), gated.note.clone())
                    }
                    Some(signal) => {
                        let decision = signal.decision(&gated.call.id);
                        let allowed = decision == Some(Decision::Approve);
                        (allowed, signal.authority(decision), signal.note.to_owned())
                    }
                };
                let shown = gated.preview.as_ref().map(|preview| preview.text.clone());
                // A hash of the original would reveal a short secret.
                let call = redacted_call(redaction.redact(), &gated.call);
                let fingerprint = gated.fingerprint.clone();
                let fingerprint = fingerprint.filter(|_| matches!(call, Cow::Borrowed(_)));
                let edited = gated.edited.clone();
                let edited = edited.map(|edited| edited.redacted(redaction.redact()));
                AuditRecord {
                    invocation_id: ctx.invocation_id().to_owned(),
                    call_id: gated.call.id.clone(),
                    tool: gated.call.name.clone(),
                    arguments: AuditRecord::hash_of(&call),
                    agent: self.permissions.agent.clone(),
                    shown: shown.unwrap_or_else(|| call.arguments.as_str().to_owned()),
                    fingerprint,
                    edited: edited.as_ref().map(AuditEdit::new),
                    decision: if allowed { "allow" } else { "deny" }.to_owned(),
                    by,
                    note,
                }
            })
            .collect();
        if records.is_empty() {
            return Ok(());
        }
        self.permissions.audit.record(records).await
    }
}

/// Denies a call that no person has decided about.
fn deny_undecided(gated: &mut PendingCall) {
    if gated.decision.permission == Permission::Ask {
        gated.decision = PermissionDecision {
            permission: Permission::Deny,
            by: DecisionSource::Unattended {
                why: Box::new(gated.decision.by.clone()),
            },
        };
    }
}

/// The error of a turn whose decisions could not be recorded, if that is so. Its calls were not run.
pub(crate) fn unrecorded(calls: &[PendingCall]) -> Result<(), NodeError> {
    let is_unrecorded = |gated: &&PendingCall| gated.decision.by == DecisionSource::Unrecorded;
    match calls.iter().find(is_unrecorded) {
        Some(gated) => {
            let error = AuditError(gated.note.clone());
            Err(NodeError::new(error.to_string()).with_category(AUDIT_FAILED))
        }
        None => Ok(()),
    }
}

impl PendingCall {
    /// The fingerprint that a person approved; `None` if no person was asked.
    ///
    /// A turn stored by an earlier version may lack it. No call has the empty one, so such a call is
    /// not run.
    pub(crate) fn approved(&self) -> Option<&str> {
        let asked = self.decision.permission == Permission::Ask
            || matches!(self.decision.by, DecisionSource::Terminal { .. });
        let fingerprint = match &self.edited {
            Some(edited) => &edited.fingerprint,
            None => &self.fingerprint,
        };
        asked.then(|| fingerprint.as_deref().unwrap_or_default())
    }

    /// Returns the part of the decision that a suspended turn stores beside the permission.
    pub(crate) fn decision_to_json(&self) -> Value {
        let preview = self.preview.as_ref();
        serde_json::json!({
            "by": self.decision.by,
            "note": self.note,
            "shown": preview.map(|preview| &preview.text),
            "fingerprint": self.fingerprint,
            "edited": self.edited.as_ref().map(EditedCall::to_json),
        })
    }

    /// Restores a stored decision. Turns stored by earlier versions have none.
    pub(crate) fn restore_decision(&mut self, kept: Option<&Value>) {
        let Some(kept) = kept else { return };
        let text = |key: &str| kept.get(key).and_then(Value::as_str).map(str::to_owned);
        if let Some(by) = kept.get("by") {
            self.decision.by =
                serde_json::from_value(by.clone()).unwrap_or(DecisionSource::Declared);
        }
        self.note = text("note").unwrap_or_default();
        self.preview = text("shown").map(Preview::new);
        self.fingerprint = text("fingerprint");
        self.edited = kept.get("edited").and_then(EditedCall::from_json);
    }
}
