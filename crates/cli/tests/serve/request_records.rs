//! Records of requests in the store: hidden from the list, and removed by their age.

use std::path::Path;

use serde_json::{Value, json};

use crate::client::Served;
use crate::program::{Ran, folder, logue};
use crate::waiting::wait_until;

fn sessions(folder: &Path, arguments: &[&str]) -> Ran {
    let mut command = logue(folder);
    command.env("LOGUE_STORE", "sqlite:s.db").arg("sessions");
    let ran: Ran = command.args(arguments).output().unwrap().into();
    assert_eq!(ran.status, 0, "{arguments:?}: {}", ran.stderr);
    ran
}

fn listed(folder: &Path, arguments: &[&str]) -> Vec<String> {
    let lines = sessions(folder, &[&["list", "--json"], arguments].concat());
    let lines = lines.stdout.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["session_id"].as_str().unwrap().to_owned()
    });
    lines.collect()
}

#[test]
fn keys_are_hidden_and_end_by_their_age() {
    let folder = folder(&[("agent.md", "<config model=\"echo:\"/>\n")]);
    let place = folder.path();
    let served = Served::start(place, &["agent.md"]);
    let create = |served: &Served, key: &str| {
        let body = json!({"model": "agent", "input": "Hello."}).to_string();
        let headers = [("idempotency-key", key)];
        let answer = served.request("POST", "/v1/responses", &headers, &body);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["id"].clone()
    };
    let ids: Vec<Value> = ["a", "b"].map(|key| create(&served, key)).to_vec();
    served.kill();

    let shown = listed(place, &[]);
    assert_eq!(shown.len(), 2, "{shown:?}");
    assert!(!shown.iter().any(|id| id.starts_with("idempotency-")));
    let all = listed(place, &["--all"]);
    assert_eq!(all.len(), 4, "{all:?}");
    // The limit counts what is listed, whatever the records in between.
    for limit in 1..=3_usize {
        let limited = listed(place, &["--limit", &limit.to_string()]);
        assert_eq!(limited, shown[..limit.min(2)]);
        let limited = listed(place, &["--all", "--limit", &limit.to_string()]);
        assert_eq!(limited, all[..limit]);
    }
    let table = sessions(place, &["list"]).stdout;
    assert!(!table.contains("idempotency-"), "{table}");

    // The default keeps a young key, and a conversation of any age.
    let pruned = sessions(place, &["prune"]);
    assert_eq!(pruned.stdout, "");
    let mut removed = Vec::new();
    wait_until(
        || "the keys stay young".to_owned(),
        || {
            let ran = sessions(place, &["prune", "--keys-older-than", "1s", "--keep", "2"]);
            removed.extend(ran.stdout.lines().map(str::to_owned));
            removed.len() == 2
        },
    );
    assert!(removed.iter().all(|id| id.starts_with("idempotency-")));
    assert_eq!(listed(place, &["--all"]), shown);

    // The key of a removed record begins a new response; the old one stays readable.
    let served = Served::start(place, &["agent.md"]);
    let again = create(&served, "a");
    assert!(!ids.contains(&again), "{again}");
    for id in ids {
        let path = format!("/v1/responses/{}", id.as_str().unwrap());
        assert_eq!(served.get(&path).status, 200);
    }
}
