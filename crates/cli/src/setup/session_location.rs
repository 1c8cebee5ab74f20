//! The store that continues a session, where it is another one.

use logue_harness::store::SessionLocation;
use serde_json::{Value, json};

/// Adds the address of the store that continues a session, if it is another one.
pub(crate) fn put_location(object: &mut Value, location: Option<&SessionLocation>) {
    match location {
        Some(SessionLocation::Moved { to }) => object["moved_to"] = json!(to),
        Some(SessionLocation::Arriving { from }) => object["arriving_from"] = json!(from),
        _ => {}
    }
}

/// Returns the words for a session that another store continues.
pub(crate) fn elsewhere(location: &SessionLocation) -> Option<String> {
    match location {
        SessionLocation::Moved { to } => Some(format!("moved to {to}")),
        SessionLocation::Arriving { from } => Some(format!("being moved here from {from}")),
        _ => None,
    }
}
