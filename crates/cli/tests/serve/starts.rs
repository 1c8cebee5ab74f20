//! Servers that start at the same moment, or while another one ends, on one store.

use serde_json::json;

use crate::client::Served;
use crate::program::folder;

const AGENT: &str = "<config model=\"echo:\"/>\n";
const ROUNDS: usize = 8;

#[test]
fn servers_that_start_at_once_on_a_new_store_all_start() {
    for _ in 0..ROUNDS {
        let folder = folder(&[("agent.md", AGENT)]);
        let start = || Served::start(folder.path(), &["agent.md"]);
        let servers = std::thread::scope(|scope| {
            let started: Vec<_> = (0..3).map(|_| scope.spawn(start)).collect();
            let joined = started.into_iter().map(|one| one.join().unwrap());
            joined.collect::<Vec<_>>()
        });
        for (number, served) in servers.iter().enumerate() {
            let path = format!("/v1/sessions/s{number}/send");
            let sent = served.post(&path, &json!({"message": "go"}));
            assert_eq!(sent.status, 200, "{sent:?}");
        }
        let listed = servers[0].get("/v1/sessions").json();
        assert_eq!(listed["sessions"].as_array().unwrap().len(), servers.len());
    }
}

#[test]
fn a_server_starts_while_another_one_ends() {
    let folder = folder(&[("agent.md", AGENT)]);
    let mut served = Served::start(folder.path(), &["agent.md"]);
    for round in 0..ROUNDS {
        let path = format!("/v1/sessions/s{round}/send");
        let sent = served.post(&path, &json!({"message": "go"}));
        assert_eq!(sent.status, 200, "{sent:?}");
        served = std::thread::scope(|scope| {
            let next = scope.spawn(|| Served::start(folder.path(), &["agent.md"]));
            let ended = served.end();
            assert_eq!(ended.status, Some(143), "{ended:?}");
            next.join().unwrap()
        });
    }
    let listed = served.get("/v1/sessions").json();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), ROUNDS);
}
