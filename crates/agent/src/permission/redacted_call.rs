//! Calls whose arguments were redacted, because they were stored before they ran.
//!
//! Such a call never runs with its placeholders. A person may approve it with complete arguments.

use std::borrow::Cow;

use logue_harness::chat::Redact;
use logue_message::{Arguments, ToolCall};
use logue_tools::{ARGUMENTS_REDACTED, Preview, Router, ToolResult};
use serde_json::{Map, Value, json};

use crate::permission::approval::{DECIDED_BY, NOTE, PendingCall};
use crate::permission::edit::{EDITS, EditedCall};

/// The remedy, for the person who decides about such a call.
const REMEDY: &str = "A secret of these arguments is not stored, so approval alone cannot run this \
     call. Approve it with complete arguments (--approve --edit ARGUMENTS.json), or deny it.";

impl PendingCall {
    /// Removes what must not be stored before the turn suspends.
    pub(crate) async fn redact(&mut self, redact: &dyn Redact, router: &Router) {
        if redact.call(&mut self.call) {
            self.redacted = true;
            // Neither the effect nor its hash may reveal the original.
            self.preview = router.preview(&self.call).await;
            self.fingerprint = router.fingerprint(&self.call, self.preview.as_ref()).await;
        }
        redact_text(redact, &mut self.note);
        redact_preview(redact, &mut self.preview);
        if self.redacted {
            let shown = self.preview.take();
            let shown = shown.map_or_else(String::new, |shown| format!("{}\n", shown.text));
            self.preview = Some(Preview::new(format!("{shown}{REMEDY}")));
        }
        if let Some(edited) = &mut self.edited {
            edited.redact(redact);
        }
    }

    /// Returns the result of a call whose arguments are not complete.
    pub(crate) fn refusal(&self) -> Option<ToolResult> {
        let is_lost = match &self.edited {
            Some(edited) => edited.is_redacted,
            None => self.redacted,
        };
        is_lost.then(|| {
            ToolResult::failure(format!(
                "{ARGUMENTS_REDACTED}: this call of `{}` was not run. A secret in its arguments was \
                 replaced by a placeholder when the call was stored, and the original is lost. Do \
                 not call it with the placeholder. A person can approve such a call with complete \
                 arguments.",
                self.call.name
            ))
        })
    }
}

impl EditedCall {
    /// Returns the edit as it is stored.
    pub(crate) fn redacted(mut self, redact: Option<&dyn Redact>) -> Self {
        if let Some(redact) = redact {
            self.redact(redact);
        }
        self
    }

    /// Removes what must not be stored.
    fn redact(&mut self, redact: &dyn Redact) {
        if let Cow::Owned(redacted) = redact.arguments(self.arguments.as_str()) {
            self.arguments = Arguments::from_text(redacted);
            self.fingerprint = None;
            self.is_redacted = true;
        }
        redact_preview(redact, &mut self.preview);
    }
}

fn redact_text(redact: &dyn Redact, text: &mut String) {
    if let Cow::Owned(redacted) = redact.text(text) {
        *text = redacted;
    }
}

fn redact_preview(redact: &dyn Redact, preview: &mut Option<Preview>) {
    if let Some(preview) = preview {
        redact_text(redact, &mut preview.text);
        if is_divided_by_marks(redact, &preview.text) {
            DIVIDED.clone_into(&mut preview.text);
        }
    }
}

/// The preview of a difference in which a secret extends over several lines.
const DIVIDED: &str =
    "[redacted:lines] the preview contains a secret that extends over several lines";

/// Returns whether a secret extends over several lines of a difference.
///
/// The marks at the beginning of its lines divide the secret, so that no pattern finds it.
fn is_divided_by_marks(redact: &dyn Redact, text: &str) -> bool {
    [[' ', '+'], [' ', '-']].iter().any(|marks| {
        let lines = text.lines().filter_map(|line| line.strip_prefix(marks));
        let side = lines.collect::<Vec<_>>().join("\n");
        matches!(redact.text(&side), Cow::Owned(_))
    })
}

/// Returns a call as it is stored.
pub(crate) fn redacted_call<'a>(
    redact: Option<&dyn Redact>,
    call: &'a ToolCall,
) -> Cow<'a, ToolCall> {
    let Some(redact) = redact else {
        return Cow::Borrowed(call);
    };
    let mut redacted = call.clone();
    if redact.call(&mut redacted) {
        Cow::Owned(redacted)
    } else {
        Cow::Borrowed(call)
    }
}

/// Returns the payload of a checked signal as it is stored.
pub(crate) fn redacted_decision(
    redact: &dyn Redact,
    payload: &Map<String, Value>,
) -> Map<String, Value> {
    let mut payload = payload.clone();
    for name in [NOTE, DECIDED_BY] {
        if let Some(Value::String(text)) = payload.get_mut(name) {
            redact_text(redact, text);
        }
    }
    if let Some(Value::Object(edits)) = payload.get_mut(EDITS) {
        for edit in edits.values_mut() {
            if let Some(mut edited) = EditedCall::from_json(edit) {
                edited.redact(redact);
                *edit = edited.to_json();
            }
        }
    }
    payload
}

/// Returns the payload of a requested signal with its edits as they would be stored.
pub(crate) fn redacted_request(
    redact: &dyn Redact,
    payload: &Map<String, Value>,
) -> Map<String, Value> {
    let mut payload = payload.clone();
    if let Some(Value::Object(edits)) = payload.get_mut(EDITS) {
        for edit in edits.values_mut() {
            let text = match &*edit {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            if let Cow::Owned(redacted) = redact.arguments(&text) {
                *edit = json!(redacted);
            }
        }
    }
    payload
}
