//! The ids under which the items of a response were streamed.
//!
//! An answer that the model began again has another id than the first one. The events of the turn
//! decide; what they give is kept in the session, because events are removed after a day.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::ids::ResponseId;
use super::stored::{ResponseEnd, ResponseHead};
use super::stream::ResponseEvents;
use crate::chat::api::Api;
use crate::chat::problem::Problem;
use crate::chat::request_records::SENT_IDS;

/// The number of events that are read at once.
const PAGE: usize = 1_000;

/// Replaces the ids of items by those under which they were streamed.
///
/// # Errors
/// Returns a problem if the store or the log fails.
pub(super) async fn set_sent_ids(
    api: &Api,
    id: &ResponseId,
    head: &ResponseHead,
    end: &mut ResponseEnd,
) -> Result<(), Problem> {
    let has_messages = end.output.iter().any(|item| item["type"] == "message");
    if !has_messages {
        return Ok(());
    }
    let sent = sent_ids(api, id, head, end).await?;
    for item in &mut end.output {
        if let Some(own) = item["id"].as_str().and_then(|own| sent.get(own)) {
            item["id"] = json!(own);
        }
    }
    Ok(())
}

async fn sent_ids(
    api: &Api,
    id: &ResponseId,
    head: &ResponseHead,
    end: &ResponseEnd,
) -> Result<HashMap<String, String>, Problem> {
    let name = format!("{SENT_IDS}{}", id.entry);
    let info = api.store().session(&id.session).await?;
    let label = info.and_then(|mut info| info.labels.remove(&name));
    // A copy has the labels of its source.
    let label = label.filter(|label| label["session"] == json!(id.session));
    if let Some(label) = label {
        return Ok(serde_json::from_value(label["ids"].clone()).unwrap_or_default());
    }
    let log = api.turns.hub.log();
    let first = log.first_after_entry(&id.session, id.entry - 1).await?;
    let Some(first) = first else {
        return Ok(HashMap::new());
    };
    let mut events = ResponseEvents::new(head.clone(), id.suffix());
    let mut after = first - 1;
    'pages: loop {
        let page = log.since(&id.session, after, PAGE).await?;
        // A page may have fewer events than it could.
        if page.events.is_empty() {
            break;
        }
        for event in page.events {
            after = event.seq;
            if event.entry > id.entry {
                break 'pages;
            }
            if event.entry == id.entry
                && let Ok(event) = serde_json::from_str(&event.text)
            {
                events.event(&event);
                drop(events.take());
            }
        }
    }
    events.end(end.clone());
    let last = events.take().pop().unwrap_or_default();
    let ids = |output: &[Value]| {
        let ids = output.iter().map(|item| item["id"].as_str());
        ids.map(|id| id.unwrap_or_default().to_owned())
            .collect::<Vec<String>>()
    };
    let own = ids(&end.output);
    let sent = last["response"]["output"].as_array().map(|sent| ids(sent));
    let pairs = own.into_iter().zip(sent.unwrap_or_default());
    let sent: HashMap<String, String> = pairs.filter(|(own, sent)| own != sent).collect();
    if !sent.is_empty() {
        let label = json!({"session": id.session, "ids": sent});
        let now = api.turns.clock.now();
        api.store()
            .set_label(&id.session, &name, label, now)
            .await?;
    }
    Ok(sent)
}
