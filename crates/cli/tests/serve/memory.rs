//! Memory of a server after its clients have left.

use std::fs;

use serde_json::json;

use crate::client::Served;
use crate::program::folder;
use crate::waiting::wait_until;

/// The number of clients, of which each receives a long history.
const CLIENTS: usize = 400;

/// Returns the resident memory of a process in kilobytes.
fn resident(served: &Served) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", served.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let words = line.unwrap().split_whitespace().next().unwrap();
    words.parse().unwrap()
}

#[test]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn memory_of_clients_that_left_is_given_back() {
    let folder = folder(&[("agent.md", "<config model=\"echo:\"/>\n")]);
    let served = Served::start(folder.path(), &["agent.md"]);
    let sent = served.post("/v1/sessions/s1/send", &json!({"message": "go"}));
    assert_eq!(sent.status, 200, "{sent:?}");
    let before = resident(&served);
    let path = "/v1/sessions/s1/events";
    let mut streams: Vec<_> = (0..CLIENTS)
        .map(|_| served.events("GET", path, Some("0-1"), ""))
        .collect();
    for stream in &mut streams {
        stream.until("turn.completed");
    }
    let during = resident(&served);
    drop(streams);
    let limit = before + during.saturating_sub(before) / 2;
    println!("{before} kB, then {during} kB");
    wait_until(
        || {
            format!(
                "{} kB of {during} kB, {before} kB before",
                resident(&served)
            )
        },
        || resident(&served) <= limit,
    );
    println!("then {} kB", resident(&served));
}
