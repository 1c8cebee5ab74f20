//! The provider contract for requests and responses, over real sockets.

use std::time::Duration;

use logue_model::{EndpointOptions, HttpLimits, HttpProvider, WireFormat};

mod cancelling;
mod retrying;
mod structured;
mod validity;
mod waiting;

/// A client with limits that no valid response reaches.
fn client(base_url: String) -> HttpProvider {
    client_with(base_url, HttpLimits::default())
}

fn client_with(base_url: String, limits: HttpLimits) -> HttpProvider {
    HttpProvider::new(
        WireFormat::Chat,
        EndpointOptions::new(base_url).with_limits(limits),
    )
    .unwrap()
}

const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}
