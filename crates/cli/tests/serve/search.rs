//! The search of sessions and its bound.

use serde_json::{Value, json};

use crate::client::Served;
use crate::program::{folder, run};

/// The most messages of a session that a search reads.
const MOST: usize = 10_000;

#[test]
fn a_search_states_that_it_left_messages_out() {
    let messages = |count: usize| {
        let all = (0..count).map(|at| match at % 2 {
            0 => json!({"role": "user", "content": format!("question w{at}x")}),
            _ => json!({"role": "assistant", "content": format!("answer w{at}x")}),
        });
        json!({"messages": all.collect::<Vec<_>>()}).to_string()
    };
    let folder = folder(&[
        ("agent.md", "<config model=\"echo:\"/>\n"),
        ("short.json", &messages(MOST)),
        ("long.json", &messages(MOST + 2)),
    ]);
    let import = |name: &str| {
        let file = format!("{name}.json");
        let arguments = ["sessions", "import", &file, name, "--agent", "agent.md"];
        let ran = run(
            folder.path(),
            [&arguments[..], &["--store", "sqlite:s.db"]].concat(),
        );
        assert_eq!(ran.status, 0, "{}", ran.stderr);
    };
    import("short");
    let served = Served::start(folder.path(), &["agent.md"]);
    let found = |words: &str| {
        let listed = served.get(&format!("/v1/sessions?search={words}")).json();
        let names = listed["sessions"].as_array().unwrap().iter();
        let names: Vec<Value> = names.map(|own| own["session"].clone()).collect();
        (names, listed["search_cut"].clone())
    };
    assert_eq!(found("w0x"), (vec![json!("short")], json!(false)));
    assert_eq!(found("w9999x"), (vec![json!("short")], json!(false)));
    import("long");
    // The first message of the long session is not read.
    assert_eq!(found("question+w0x"), (vec![json!("short")], json!(true)));
    // Its last messages are enough to find it.
    assert_eq!(found("w10001x"), (vec![json!("long")], json!(false)));
    let listed = served.get("/v1/sessions").json();
    assert_eq!(listed.get("search_cut"), None, "{listed}");
}
