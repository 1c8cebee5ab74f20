//! Turns in which a model looks through pages: names on the wire, settings, and what is written.

use std::fs;

use insta::assert_snapshot;
use serde_json::json;
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, folder, logue, run};

/// A server that answers with these bodies, one after the other, and its host.
fn site(bodies: &[(&str, &str)]) -> (ModelServer, String) {
    let replies = bodies.iter().map(|(kind, body)| {
        let headers = vec![("content-type".to_owned(), (*kind).to_owned())];
        Reply::Status(200, headers, (*body).to_owned())
    });
    let server = ModelServer::start(replies.collect(), Delivery::Whole).unwrap();
    let base = server.base_url();
    let host = base.trim_start_matches("http://");
    let host = host.split('/').next().unwrap().to_owned();
    (server, host)
}

#[test]
fn a_turn_searches_opens_and_finds() {
    let result =
        json!({"title": "Zoo", "url": "https://zoo.example/zoo", "description": "Animals"});
    let results = json!({"items": [result]}).to_string();
    let (engine, engine_host) = site(&[("application/json", &results)]);
    let (pages, page_host) = site(&[("text/html", "<title>Zoo</title><p>Open from nine.")]);
    let call = |id: &str, name: &str, arguments: serde_json::Value| {
        Reply::Answer(Answer::text("").with_call(id, name, arguments.to_string()))
    };
    let model = ModelServer::start(
        vec![
            call("a", "browser_search", json!({"query": "zoo"})),
            call(
                "b",
                "browser_open",
                json!({"id": format!("http://{page_host}/zoo")}),
            ),
            call("c", "browser_find", json!({"pattern": "NINE"})),
            Reply::Answer(Answer::text("From nine.")),
        ],
        Delivery::Whole,
    )
    .unwrap();
    let settings = format!(
        "[network]\nallowed_hosts = [\"{engine_host}\", \"{page_host}\"]\n[browser]\n\
         search = \"http://{engine_host}/api?q={{query}}\"\nresults = \"items\"\n\
         key_env = \"SEARCH_KEY\"\nkey_header = \"X-Key\"\n"
    );
    let folder = folder(&[
        (
            "prompt.md",
            "<tool name=\"browser\"/>\n<user>When does the zoo open?</user>\n",
        ),
        (".config/logue/config.toml", &settings),
    ]);
    let command = logue(folder.path())
        .args([
            "run",
            "-m",
            "m",
            "--base-url",
            &model.base_url(),
            "prompt.md",
        ])
        .env("SEARCH_KEY", "hush")
        .output();
    let ran = Ran::from(command.unwrap());
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "From nine.\n"),
        "{}",
        ran.stderr
    );
    let engine = engine.received();
    assert!(
        engine[0]
            .headers
            .contains(&("x-key".to_owned(), "hush".to_owned()))
    );
    assert_eq!(pages.received().len(), 1);
    let asked = model.received();
    let last = &asked[3].body;
    let offered = last["tools"].as_array().unwrap().iter();
    let offered: Vec<&str> = offered
        .map(|tool| tool["function"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(offered, ["browser_search", "browser_open", "browser_find"]);
    let messages = last["messages"].as_array().unwrap();
    let called = messages
        .iter()
        .filter_map(|message| message["tool_calls"][0]["function"]["name"].as_str());
    assert_eq!(called.collect::<Vec<_>>(), offered);
    let results = messages.iter().filter(|message| message["role"] == "tool");
    let results: String = results
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    let results = results
        .replace(&engine_host, "ENGINE")
        .replace(&page_host, "PAGES");
    assert_snapshot!(results, @r#"
    [0] "Results for zoo" http://ENGINE/api?q=zoo
    lines 0 to 2 of 0 to 2

    L0: 【0†Zoo】
    L1: Animals
    L2: 

    Links:
    0: https://zoo.example/zoo
    [1] "Zoo" http://PAGES/zoo
    lines 0 to 0 of 0 to 0

    L0: Open from nine.
    [1] "Zoo" http://PAGES/zoo
    "NINE" is in the lines 0

    L0: Open from nine.
    "#);
    // The transcript has the tools' own names, and a run of it goes on with them.
    let transcript = fs::read_to_string(folder.path().join("prompt.md")).unwrap();
    assert!(
        transcript.contains("function_name=\"browser.find\""),
        "{transcript}"
    );
    let checked = run(folder.path(), ["check", "prompt.md"]);
    assert_eq!(checked.status, 0, "{}", checked.stderr);
}

#[test]
fn a_project_names_no_key_and_an_engine_needs_a_query() {
    for (settings, message) in [
        (
            "[browser]\nsearch = \"https://x.example/?q={query}\"\nkey_env = \"HOME\"\n",
            "only your own logue/config.toml may name the key of a search engine",
        ),
        (
            "[browser]\nsearch = \"https://x.example/\"\n",
            "search: `{query}` is missing",
        ),
        (
            "[browser]\nsearch = \"x\"\n",
            "search: an address with http:// or https://",
        ),
        (
            "[browser]\nengine = \"x\"\n",
            "unknown key `engine`; keys of [browser] are search,",
        ),
    ] {
        let folder = folder(&[
            ("prompt.md", "<config model=\"echo:\"/>\n<user>x</user>\n"),
            ("logue.toml", settings),
        ]);
        let ran = run(folder.path(), ["run", "--no-save", "prompt.md"]);
        assert_eq!(ran.status, 3, "{settings}");
        assert!(
            ran.stderr.contains("E-CONFIG-INVALID") && ran.stderr.contains(message),
            "{}",
            ran.stderr
        );
    }
}
