//! What the provider contract asks of a request and its answer, over real sockets.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use logue_model::{ChatCompletions, ChatOptions, Limits};

mod cancelling;
mod retrying;
mod structured;
mod validity;
mod waiting;

/// A client for a server, with limits that no good answer reaches.
fn client(base_url: String) -> ChatCompletions {
    client_with(base_url, Limits::default())
}

fn client_with(base_url: String, limits: Limits) -> ChatCompletions {
    ChatCompletions::new(ChatOptions {
        base_url,
        api_key: None,
        limits,
    })
    .unwrap()
}

const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}
