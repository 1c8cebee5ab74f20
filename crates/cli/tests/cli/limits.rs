//! What a run and its agents may spend together, and what it tells of that.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, folder, logue};

/// What the scripted server says of each answer.
const INPUT: u64 = 11;
const OUTPUT: u64 = 7;

const PROMPT: &str = "<config model=\"m\" show_tool_call/>\n<tool name=\"work\" command=\"echo did\"/>\n\
                      <tool name=\"helper\" agent=\"helper.md\" local/>\n<user>go</user>\n";

const HELPER: &str = "<config model=\"small\"/>\n<tool name=\"work\" command=\"echo helped\"/>\n\
                      <system>Help.</system>\n";

/// US dollars for a million tokens: so a token of `m` costs one dollar, or two.
const PRICES: &str = "[prices.\"m\"]\ninput_per_mtok = 1000000\noutput_per_mtok = 2000000.0\n\
                      [prices.small]\ninput_per_mtok = 500000\noutput_per_mtok = 0.0\ncached_input_per_mtok = 1\n";

fn work(id: &str) -> Answer {
    Answer::text("").with_call(id, "work", r#"{"arguments":[]}"#)
}

fn helper(id: &str) -> Answer {
    Answer::text("").with_call(id, "helper", r#"{"input":"help me"}"#)
}

fn server(answers: impl IntoIterator<Item = Answer>) -> ModelServer {
    let replies = answers.into_iter().map(Reply::Answer).collect();
    ModelServer::start(replies, Delivery::Whole).unwrap()
}

fn ask(folder: &Path, server: &ModelServer, arguments: &[&str]) -> Ran {
    let mut command = logue(folder);
    command
        .env("OPENAI_BASE_URL", server.base_url())
        .args(arguments);
    command.output().unwrap().into()
}

fn prepared(config: &str) -> tempfile::TempDir {
    folder(&[
        ("p.md", PROMPT),
        ("helper.md", HELPER),
        ("logue.toml", config),
    ])
}

fn reported_events(ran: &Ran) -> Vec<Value> {
    let lines = ran.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn tokens_are_limited_over_a_run_and_its_agents_and_nothing_is_lost() {
    let answers = || {
        [
            work("c1"),
            helper("c2"),
            Answer::text("helped"),
            Answer::text("done"),
        ]
    };
    // Each request uses 18 tokens and is made as long as fewer than the limit are used.
    for (limit, requests) in [("18", 1), ("19", 2), ("36", 2), ("37", 3), ("54", 3)] {
        let server = server(answers());
        let folder = prepared("");
        let ran = ask(
            folder.path(),
            &server,
            &["run", "--max-total-tokens", limit, "p.md"],
        );
        assert_eq!(ran.status, 3, "{limit}: {}", ran.stderr);
        assert!(
            ran.stderr
                .contains("error[budget_exceeded]: the run has used "),
            "{}",
            ran.stderr
        );
        assert!(
            ran.stderr.contains("raise --max-total-tokens"),
            "{}",
            ran.stderr
        );
        assert_eq!(server.received().len(), requests, "{limit}");
        // What was done stays, and a further run goes on from there.
        let text = std::fs::read_to_string(folder.path().join("p.md")).unwrap();
        let found = chatmd::check(&text);
        assert!(
            !found.iter().any(logue_source::Diagnostic::is_error),
            "{text}"
        );
        assert!(text.contains("did\n[exit status 0]"), "{text}");
        let next = ask(folder.path(), &server, &["run", "p.md"]);
        assert_eq!(next.status, 0, "{limit}: {}", next.stderr);
    }
    let server = server(answers());
    let folder = prepared("[run]\nmax_total_tokens = 55\n");
    let ran = ask(folder.path(), &server, &["run", "p.md"]);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "done\n"),
        "{}",
        ran.stderr
    );
}

#[test]
fn the_last_event_counts_what_agents_used_and_what_it_cost() {
    let server = server([
        helper("c1"),
        work("a1"),
        Answer::text("helped"),
        Answer::text("done"),
    ]);
    let folder = prepared(PRICES);
    let ran = ask(folder.path(), &server, &["run", "--json", "p.md"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let events = reported_events(&ran);
    let last = events.last().unwrap();
    assert_eq!(last["event"], "turn.completed");
    assert_eq!(last["requests"], 4, "the run's own and the agent's");
    assert_eq!(
        last["usage"],
        json!({"input_tokens": 4 * INPUT, "output_tokens": 4 * OUTPUT})
    );
    // Two requests of each model.
    assert_eq!(last["cost"], json!(2.0 * (11.0 + 14.0) + 2.0 * 5.5));
    // The agent's own call is told where it is made: within the call that asks the agent.
    let calls: Vec<(&Value, &Value, &Value)> = events
        .iter()
        .filter(|event| event["event"] == "tool.call" || event["event"] == "tool.result")
        .map(|event| (&event["event"], &event["call_id"], &event["agent"]))
        .collect();
    let agent = json!({"src": "helper.md", "call_id": "c1", "depth": 1});
    assert_eq!(
        calls,
        [
            (&json!("tool.call"), &json!("c1"), &Value::Null),
            (&json!("tool.call"), &json!("a1"), &agent),
            (&json!("tool.result"), &json!("a1"), &agent),
            (&json!("tool.result"), &json!("c1"), &Value::Null),
        ]
    );
    let spoken = events
        .iter()
        .filter(|event| event["event"] == "response.delta");
    let spoken: String = spoken
        .map(|event| event["text"].as_str().unwrap())
        .collect();
    assert_eq!(spoken, "done", "what an agent says is not said to the user");
}

#[test]
fn money_is_limited_by_known_prices() {
    let answers = || {
        [
            work("c1"),
            helper("c2"),
            Answer::text("helped"),
            Answer::text("done"),
        ]
    };
    // Requests of the run cost 25 each, the agent's 5.50.
    for (budget, requests) in [
        ("25", 1),
        ("25.01", 2),
        ("50", 2),
        ("51", 3),
        ("55.5", 3),
        ("60", 4),
    ] {
        let server = server(answers());
        let folder = prepared(PRICES);
        let ran = ask(
            folder.path(),
            &server,
            &["run", "--max-cost", budget, "p.md"],
        );
        assert_eq!(
            server.received().len(),
            requests,
            "{budget}: {}",
            ran.stderr
        );
        let exceeded = ran
            .stderr
            .contains("error[budget_exceeded]: the run has cost ");
        assert_eq!(
            (ran.status, exceeded),
            if requests == 4 { (0, false) } else { (3, true) }
        );
    }
    // A price that nobody knows: refused before anything is asked or written.
    for prices in [
        "",
        "[prices.other]\ninput_per_mtok = 1\noutput_per_mtok = 1\n",
    ] {
        let server = server(answers());
        let folder = prepared(&format!("[run]\nmax_cost_usd = 1\n{prices}"));
        let ran = ask(folder.path(), &server, &["run", "p.md"]);
        assert_eq!(ran.status, 2, "{}", ran.stderr);
        assert!(
            ran.stderr.contains("the price of the model `m` is unknown"),
            "{}",
            ran.stderr
        );
        assert!(ran.stderr.contains("[prices.\"m\"]"), "{}", ran.stderr);
        assert_eq!(server.received().len(), 0);
        let text = std::fs::read_to_string(folder.path().join("p.md")).unwrap();
        assert_eq!(text, PROMPT);
        // What answers by itself costs nothing.
        let ran = ask(
            folder.path(),
            &server,
            &["run", "--no-save", "-m", "echo:", "p.md"],
        );
        assert_eq!(
            (ran.status, ran.stdout.as_str()),
            (0, "go\n"),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn an_agent_whose_price_nobody_knows_is_not_asked() {
    let server = server([helper("c1"), Answer::text("done")]);
    let folder = prepared(
        "[run]\nmax_cost_usd = 1000\n[prices.m]\ninput_per_mtok = 1\noutput_per_mtok = 1\n",
    );
    let ran = ask(folder.path(), &server, &["run", "p.md"]);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "done\n"),
        "{}",
        ran.stderr
    );
    let text = std::fs::read_to_string(folder.path().join("p.md")).unwrap();
    assert!(
        text.contains("E-MD-AGENT-FAILED: the price of the model `small` is unknown"),
        "{text}"
    );
}

#[test]
fn agents_are_only_so_deep() {
    let nested = "<config model=\"m\"/>\n<tool name=\"helper\" agent=\"helper.md\" local/>\n\
                  <system>Help.</system>\n";
    for (depth, requests) in [("0", 1), ("1", 2), ("3", 4)] {
        let answers = (0..requests).map(|number| helper(&format!("c{number}")));
        let answers = answers.chain((0..requests).map(|_| Answer::text("done")));
        let server = server(answers);
        let folder = folder(&[("p.md", PROMPT), ("helper.md", nested)]);
        let ran = ask(
            folder.path(),
            &server,
            &["run", "--max-agent-depth", depth, "p.md"],
        );
        assert_eq!(
            (ran.status, ran.stdout.as_str()),
            (0, "done\n"),
            "{}",
            ran.stderr
        );
        assert_eq!(server.received().len(), 2 * requests, "{depth}");
        let refused = server.received()[requests].body["messages"].to_string();
        let reason = format!("agents call agents more than {depth} deep");
        assert!(refused.contains(&reason), "{refused}");
    }
}

/// A prompt whose documents ask an agent twelve times, which asks another one twelve times.
fn fanned_out(settings: &str) -> tempfile::TempDir {
    let asks = |agent: &str| {
        let asks = (0..12).map(|n| format!("<agent src=\"{agent}\" local>question {n}</agent>"));
        asks.collect::<Vec<_>>().join("\n")
    };
    let config = "<config model=\"m\"/>\n";
    folder(&[
        ("p.md", &format!("{config}<user>{}</user>\n", asks("a.md"))),
        ("a.md", &format!("{config}<user>{}</user>\n", asks("b.md"))),
        ("b.md", &format!("{config}<system>Help.</system>\n")),
        ("logue.toml", settings),
    ])
}

#[test]
fn a_run_and_all_its_agents_share_one_limit_of_requests() {
    const ALL: usize = 12 * 12 + 12 + 1;
    for (settings, flags, requests, status) in [
        ("", &[][..], 100, 3),
        ("", &["--max-requests", "200"], ALL, 0),
        ("", &["--max-requests", "20"], 20, 3),
        ("[run]\nmax_requests = 7\n", &[], 7, 3),
        // A checkout cannot raise it.
        ("[run]\nmax_requests = 1000\n", &[], 100, 3),
    ] {
        let folder = fanned_out(settings);
        let server = server((0..400).map(|_| Answer::text("ok")));
        let arguments = [&["run", "--no-cache", "p.md"], flags].concat();
        let ran = ask(folder.path(), &server, &arguments);
        assert_eq!(ran.status, status, "{settings} {flags:?}: {}", ran.stderr);
        assert_eq!(server.received().len(), requests, "{settings} {flags:?}");
        if status != 0 {
            let reason = format!("the run has made {requests} requests, agents included");
            assert!(ran.stderr.contains(&reason), "{}", ran.stderr);
            assert!(
                ran.stderr.contains("max_requests_reached"),
                "{}",
                ran.stderr
            );
        }
    }
}

#[test]
fn the_rewriting_of_a_prompt_counts_as_a_request() {
    let prompt = "<!-- META_REFINE -->\n<config model=\"m\"/>\n<user>go</user>\n";
    let refined = "<config model=\"m\"/>\n<user>Go, please.</user>\n";
    for (limit, requests, status) in [("1", 1, 3), ("2", 2, 0)] {
        let folder = folder(&[("p.md", prompt)]);
        let server = server([Answer::text(refined), Answer::text("done")]);
        let arguments = ["run", "--no-cache", "--max-requests", limit, "p.md"];
        let ran = ask(folder.path(), &server, &arguments);
        assert_eq!(ran.status, status, "{limit}: {}", ran.stderr);
        assert_eq!(server.received().len(), requests, "{limit}");
        let is_reached = ran.stderr.contains("error[max_requests_reached]");
        assert_eq!(is_reached, status == 3, "{}", ran.stderr);
    }
    // Its tokens count too.
    let folder = folder(&[("p.md", prompt)]);
    let server = server([Answer::text(refined), Answer::text("done")]);
    let arguments = ["run", "--no-cache", "--max-total-tokens", "18", "p.md"];
    let ran = ask(folder.path(), &server, &arguments);
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    assert_eq!(server.received().len(), 1, "{}", ran.stderr);
}

/// The processor time of a run whose model makes `count` calls in one response.
#[cfg(unix)]
fn time_of_calls(count: usize) -> Duration {
    use nix::sys::resource::{UsageWho, getrusage};
    let used = || {
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
        let time = usage.user_time();
        Duration::from_micros(u64::try_from(time.tv_sec() * 1_000_000 + time.tv_usec()).unwrap())
    };
    let event = |calls: Value| format!("data: {}\n\n", json!({"choices": [{"delta": calls}]}));
    let begins = (0..count).map(|n| {
        let function = json!({"name": "nothing", "arguments": "{"});
        event(json!({"tool_calls": [{"index": n, "id": format!("c{n}"), "function": function}]}))
    });
    let ends = (0..count).map(|n| {
        let function = json!({"arguments": "}"});
        event(json!({"tool_calls": [{"index": n, "function": function}]}))
    });
    let stream: String = begins.chain(ends).collect();
    let stream = format!("{stream}data: [DONE]\n\n").into_bytes();
    let replies = vec![
        Reply::Body("text/event-stream", stream),
        Reply::Answer(Answer::text("done")),
    ];
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = prepared("");
    let before = used();
    let ran = ask(folder.path(), &server, &["run", "--no-save", "p.md"]);
    let time = used().saturating_sub(before);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let messages = server.received()[1].body["messages"].clone();
    let results = messages.as_array().unwrap().iter();
    let results = results.filter(|message| message["role"] == "tool");
    assert_eq!(results.count(), count);
    time
}

#[test]
#[cfg(unix)]
fn the_time_of_many_calls_grows_with_their_number() {
    // Four times as many calls take about four times as long, and sixteen times if each call looked at
    // all others.
    let few = time_of_calls(5_000);
    let many = time_of_calls(20_000);
    assert!(
        many < few * 9,
        "{many:?} for 20,000 calls, {few:?} for 5,000"
    );
}

#[test]
fn agents_that_tools_ask_at_the_same_time_share_the_limit() {
    let twelve = |base: usize| {
        (0..12).fold(Answer::text(""), |answer, n| {
            let input = format!("{{\"input\":\"question {n}\"}}");
            answer.with_call(format!("c{}", base + n), "helper", input)
        })
    };
    let server = server(std::iter::once(twelve(0)).chain((0..40).map(|_| Answer::text("ok"))));
    let folder = prepared("");
    let ran = ask(
        folder.path(),
        &server,
        &["run", "--max-requests", "6", "p.md"],
    );
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("error[max_requests_reached]"),
        "{}",
        ran.stderr
    );
    assert_eq!(server.received().len(), 6);
    let transcript = std::fs::read_to_string(folder.path().join("p.md")).unwrap();
    assert_eq!(
        transcript.matches("agents included").count(),
        7,
        "{transcript}"
    );
}

#[test]
fn agents_call_agents_four_deep_unless_a_flag_allows_more() {
    let nested = "<config model=\"m\"/>\n<tool name=\"helper\" agent=\"helper.md\" local/>\n\
                  <system>Help.</system>\n";
    for (flags, requests) in [(&[][..], 5), (&["--max-agent-depth", "6"], 7)] {
        let answers = (0..requests).map(|number| helper(&format!("c{number}")));
        let answers = answers.chain((0..requests).map(|_| Answer::text("done")));
        let server = server(answers);
        let folder = folder(&[("p.md", PROMPT), ("helper.md", nested)]);
        let ran = ask(folder.path(), &server, &[&["run", "p.md"], flags].concat());
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        assert_eq!(server.received().len(), 2 * requests, "{flags:?}");
    }
}

#[test]
fn a_session_keeps_what_was_done_before_its_limit() {
    let server = server([work("c1"), work("c2"), Answer::text("done")]);
    let folder = prepared("");
    let first = [
        "send",
        "--agent",
        "p.md",
        "--max-total-tokens",
        "30",
        "s",
        "do it",
    ];
    let ran = ask(folder.path(), &server, &first);
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("error[budget_exceeded]"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains("raise --max-total-tokens"),
        "{}",
        ran.stderr
    );
    let next = ask(folder.path(), &server, &["send", "--json", "s", "go on"]);
    assert_eq!(next.status, 0, "{}", next.stderr);
    let last = reported_events(&next).pop().unwrap();
    assert_eq!(
        last["usage"],
        json!({"input_tokens": INPUT, "output_tokens": OUTPUT}),
        "a turn of its own"
    );
    let request = server.received().pop().unwrap().body["messages"].clone();
    let roles = request.as_array().unwrap().iter();
    let roles: Vec<&str> = roles
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(
        roles,
        ["user", "assistant", "tool", "assistant", "tool", "user"]
    );
    // A limit that is reached before anything has happened leaves the session as it was.
    let server = self::server([]);
    let folder =
        prepared("[run]\nmax_cost_usd = 0\n[prices.m]\ninput_per_mtok = 1\noutput_per_mtok = 1\n");
    let ran = ask(
        folder.path(),
        &server,
        &["send", "--agent", "p.md", "s", "do it"],
    );
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    let shown = ask(folder.path(), &server, &["sessions", "show", "s"]);
    assert!(!shown.stdout.contains("do it"), "{}", shown.stdout);
}

#[test]
fn of_several_limits_the_strictest_counts_and_a_flag_over_all() {
    let own = "[run]\nmax_total_tokens = 18\n[prices.m]\ninput_per_mtok = 1000000\noutput_per_mtok = 2000000\n";
    let project =
        "[run]\nmax_total_tokens = 1000\n[prices.m]\ninput_per_mtok = 0\noutput_per_mtok = 0\n";
    let files = [
        ("p.md", PROMPT),
        ("helper.md", HELPER),
        ("logue.toml", project),
        (".config/logue/config.toml", own),
    ];
    for (flags, requests) in [
        (&[][..], 1),
        (&["--max-total-tokens", "1000"], 3),
        (&["--max-total-tokens", "1000", "--max-cost", "26"], 2),
    ] {
        let server = server([work("c1"), work("c2"), Answer::text("done")]);
        let folder = folder(&files);
        let arguments = [&["run"], flags, &["p.md"]].concat();
        let ran = ask(folder.path(), &server, &arguments);
        assert_eq!(
            ran.status,
            if requests == 3 { 0 } else { 3 },
            "{}",
            ran.stderr
        );
        assert_eq!(server.received().len(), requests, "{flags:?}");
    }
}

#[test]
fn amounts_that_are_none_are_refused() {
    let server = server([]);
    for config in [
        "[prices.m]\ninput_per_mtok = -1\noutput_per_mtok = 1\n",
        "[prices.m]\ninput_per_mtok = nan\noutput_per_mtok = 1\n",
        "[prices.m]\ninput_per_mtok = 1\n",
        "[prices.m]\ninput_per_mtok = 1\noutput_per_mtok = 1\ncached = 1\n",
        "[run]\nmax_cost_usd = \"much\"\n",
        "[run]\nmax_total_tokens = 0\n",
    ] {
        let ran = ask(prepared(config).path(), &server, &["run", "p.md"]);
        assert_eq!(ran.status, 3, "{config}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("error[E-CONFIG-INVALID]"),
            "{config}: {}",
            ran.stderr
        );
    }
    for flag in [
        "--max-cost=-1",
        "--max-cost=inf",
        "--max-total-tokens=0",
        "--max-agent-depth=-1",
    ] {
        let ran = ask(prepared("").path(), &server, &["run", flag, "p.md"]);
        assert_eq!(ran.status, 2, "{flag}: {}", ran.stderr);
    }
    assert_eq!(server.received().len(), 0);
}
