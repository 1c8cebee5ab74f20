//! Many tabs of one browser, which opens six connections to a server at most.

use serde_json::{Value, json};
use testkit::{Answer, Delivery, Gate, ModelServer, Received, Reply, end_of_stream, text_delta};

use super::{AGENT, address, count, serve, session_address};
use crate::browser::{Browser, Tab};
use crate::client::Served;
use crate::program::{folder, logue};
use crate::waiting::wait_until;

const TABS: usize = 12;

/// Records the numbers of the events that a tab receives.
const RECORD: &str = "import(new URL('page/stream.js', document.baseURI)).then(({ EventStream }) => { \
    const take = EventStream.prototype.take; window.taken = []; \
    EventStream.prototype.take = function (id, event) { \
        if (!this.isRecorded) { this.isRecorded = true; const own = this.onEvent; \
            this.onEvent = (event) => { taken.push(this.last); return own(event); }; } \
        return take.call(this, id, event); }; })";

/// Whether a tab has the lock of the one that is connected: a lock of its own shows its name.
const ELECTED: &str = "navigator.locks.request(`own ${Math.random()}`, async ({ name }) => { \
    const { held } = await navigator.locks.query(); \
    const own = held.find((lock) => lock.name === name).clientId; \
    return held.some((lock) => lock.name.startsWith('logue ') && lock.clientId === own); })";

/// Fails if a tab has not received each event once and in order.
fn check_events(browser: &mut Browser, tab: &Tab) {
    let taken = browser.evaluate(tab, "taken");
    let taken: Vec<u64> = taken.as_array().unwrap().iter().map(number).collect();
    assert!(taken.len() > 2, "{taken:?}");
    let expected: Vec<u64> = (taken[0]..taken[0] + taken.len() as u64).collect();
    assert_eq!(taken, expected);
}

fn number(id: &Value) -> u64 {
    let (seq, _) = id.as_str().unwrap().split_once('-').unwrap();
    seq.parse().unwrap()
}

fn open_streams(served: &Served) -> u64 {
    let text = served.get("/metrics").text;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("logue_event_streams_open "));
    line.unwrap().parse().unwrap()
}

/// Waits until the server has one open stream of events.
fn wait_for_one_stream(served: &Served) {
    wait_until(
        || format!("{} streams are open", open_streams(served)),
        || open_streams(served) == 1,
    );
}

/// Waits until a tab shows its session and follows its events.
fn wait_ready(browser: &mut Browser, tab: &Tab) {
    browser.wait(
        tab,
        "document.querySelector('.conversation')?.dataset.ready === 'true'",
    );
}

/// Opens tabs with the session `s1`: most in one window, and the last two in their own.
fn open_tabs(browser: &mut Browser, served: &Served) -> Vec<Tab> {
    let address = session_address(served, "s1");
    let tabs: Vec<Tab> = (0..TABS)
        .map(|at| match at {
            at if at + 2 < TABS => browser.open(&address),
            _ => browser.open_window(&address),
        })
        .collect();
    for tab in &tabs {
        wait_ready(browser, tab);
        browser.evaluate(tab, RECORD);
    }
    let hidden = tabs
        .iter()
        .filter(|tab| browser.evaluate(tab, "document.hidden") == true);
    assert_eq!(hidden.count(), TABS - 3);
    tabs
}

fn answers(request: &Received, gate: &Gate) -> Reply {
    let last = request.body["messages"].as_array().unwrap().last().unwrap();
    if last["role"] == "tool" {
        return Reply::Answer(Answer::text("was permitted"));
    }
    match last["content"].as_str().unwrap() {
        // The message of a stopped turn may precede it.
        text if text.ends_with("call") => {
            Reply::Answer(Answer::text("may I?").with_call("c1", "work", "{}"))
        }
        "ready" => Reply::Answer(Answer::text("now")),
        text => {
            let pieces = [
                text_delta(&format!("begin {text} ")),
                text_delta("end"),
                end_of_stream(),
            ];
            // The reply to the turn that is stopped waits on, and would take permits of a later one.
            let is_stopped = text == "two";
            let gate = if is_stopped {
                Gate::new()
            } else {
                gate.clone()
            };
            Reply::Gated(pieces.to_vec(), gate)
        }
    }
}

#[test]
fn twelve_tabs_send_stop_and_approve() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let gate = Gate::new();
    let replies = gate.clone();
    let model = ModelServer::start_by(move |request| answers(request, &replies), Delivery::Whole);
    let model = model.unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model, &["--permission", "work=ask"]);
    let ready = json!({"message": "ready"});
    assert_eq!(served.post("/v1/sessions/s1/send", &ready).status, 200);
    let mut tabs = open_tabs(&mut browser, &served);
    wait_for_one_stream(&served);

    // A message of one tab, whose answer arrives in all of them.
    browser.show(&tabs[2]);
    browser.send(&tabs[2], "one");
    for tab in &tabs {
        browser.wait_for_text(tab, "begin one");
    }
    gate.open();
    gate.open();
    for tab in &tabs {
        browser.wait_for_text(tab, "begin one end");
        browser.wait(tab, "!document.querySelector('.turn')");
        assert_eq!(count(&mut browser, tab, "begin one end"), 1);
    }
    wait_for_one_stream(&served);

    // Another tab stops an answer.
    browser.show(&tabs[5]);
    browser.send(&tabs[5], "two");
    for tab in &tabs {
        browser.wait_for_text(tab, "begin two");
    }
    browser.show(&tabs[7]);
    browser.click(&tabs[7], ".stop");
    for tab in &tabs {
        browser.wait_for_text(tab, "Stopped");
    }

    // A decision in another window.
    browser.send(&tabs[7], "call");
    for tab in &tabs {
        browser.wait(tab, "document.querySelector('.approval')");
    }
    browser.click(&tabs[10], ".approval .primary");
    for tab in &tabs {
        browser.wait_for_text(tab, "was permitted");
        browser.wait(
            tab,
            "!document.querySelector('.approval') && !document.querySelector('.turn')",
        );
        assert_eq!(count(&mut browser, tab, "was permitted"), 1);
        check_events(&mut browser, tab);
    }
    wait_for_one_stream(&served);

    // The tab that is connected is closed while an answer arrives.
    browser.send(&tabs[11], "three");
    for tab in &tabs {
        browser.wait_for_text(tab, "begin three");
    }
    while tabs.len() > 2 {
        let mut elected = None;
        wait_until(
            || "no tab is elected".to_owned(),
            || {
                elected = (0..tabs.len()).find(|at| browser.evaluate(&tabs[*at], ELECTED) == true);
                elected.is_some()
            },
        );
        let closed = tabs.remove(elected.unwrap());
        browser.close(&closed);
    }
    gate.open();
    gate.open();
    for tab in &tabs {
        browser.wait_for_text(tab, "begin three end");
        browser.wait(tab, "!document.querySelector('.turn')");
        assert_eq!(count(&mut browser, tab, "begin three end"), 1);
        check_events(&mut browser, tab);
        browser.check_requests(tab, &served.address);
    }
    wait_for_one_stream(&served);
}

#[test]
fn twelve_tabs_continue_after_the_server_was_killed() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let gate = Gate::new();
    let pieces = vec![text_delta("begin one "), text_delta("end"), end_of_stream()];
    let replies = vec![
        Reply::Answer(Answer::text("now")),
        Reply::Gated(pieces.clone(), Gate::new()),
        Reply::Gated(pieces, gate.clone()),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let command = || {
        let mut command = logue(folder.path());
        command.env("OPENAI_BASE_URL", model.base_url());
        command
    };
    let served = Served::start_with(command(), &["agent.md"]);
    let ready = json!({"message": "ready"});
    assert_eq!(served.post("/v1/sessions/s1/send", &ready).status, 200);
    let listen = served.address.clone();
    let tabs = open_tabs(&mut browser, &served);
    browser.send(&tabs[11], "one");
    for tab in &tabs {
        browser.wait_for_text(tab, "begin one");
    }
    served.kill();
    for tab in &tabs {
        browser.wait_for_text(tab, "Reconnecting");
    }
    let served = Served::start_at(command(), &listen, &["agent.md"]);
    for tab in &tabs {
        browser.wait(tab, "!document.body.innerText.includes('Reconnecting')");
        browser.wait_for_text(tab, "begin one");
    }
    gate.open();
    gate.open();
    for tab in &tabs {
        browser.wait_for_text(tab, "begin one end");
        browser.wait(tab, "!document.querySelector('.turn')");
        assert_eq!(count(&mut browser, tab, "begin one end"), 1);
        check_events(&mut browser, tab);
    }
    wait_for_one_stream(&served);
}

#[test]
fn tabs_with_other_sessions_share_the_connection() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let folder = folder(&[("agent.md", "<config model=\"echo:\"/>\n")]);
    let served = Served::start(folder.path(), &["agent.md"]);
    let send = |session: usize, text: &str| {
        let path = format!("/v1/sessions/s{session}/send");
        assert_eq!(served.post(&path, &json!({ "message": text })).status, 200);
    };
    let mut tabs = Vec::new();
    for session in 0..TABS {
        send(session, "hello");
        let tab = browser.open(&session_address(&served, &format!("s{session}")));
        wait_ready(&mut browser, &tab);
        tabs.push(tab);
    }
    let window = browser.open_window(&session_address(&served, "s3"));
    wait_ready(&mut browser, &window);
    wait_for_one_stream(&served);
    for session in 0..TABS {
        send(session, &format!("news of s{session}"));
    }
    tabs.push(window);
    for (at, tab) in tabs.iter().enumerate() {
        let session = if at == TABS { 3 } else { at };
        browser.wait(
            tab,
            "document.querySelectorAll('.messages .message').length === 4",
        );
        browser.wait_for_text(tab, &format!("news of s{session}"));
    }
    // A tab that changes its session follows the new one, and continues the old one later.
    browser.show(&tabs[4]);
    browser.evaluate(&tabs[4], "location.hash = '#/s9'");
    browser.wait_for_text(&tabs[4], "news of s9");
    send(9, "more");
    send(4, "more");
    browser.wait(
        &tabs[4],
        "document.querySelectorAll('.messages .message').length === 6",
    );
    browser.evaluate(&tabs[4], "location.hash = '#/s4'");
    browser.wait(
        &tabs[4],
        "document.querySelectorAll('.messages .message').length === 6",
    );
    // A removed session leads its tabs away, and the others continue.
    let removed = served.request("DELETE", "/v1/sessions/s3", &[], "");
    assert_eq!(removed.status, 204, "{removed:?}");
    for at in [3, TABS] {
        browser.wait(&tabs[at], "document.querySelector('.welcome')");
    }
    send(9, "last");
    browser.wait(
        &tabs[9],
        "document.querySelectorAll('.messages .message').length === 8",
    );
    wait_for_one_stream(&served);
}

#[test]
fn hidden_tabs_hold_no_connection_without_locks() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let folder = folder(&[("agent.md", "<config model=\"echo:\"/>\n")]);
    let served = Served::start(folder.path(), &["agent.md"]);
    let send = |text: &str| {
        let sent = served.post("/v1/sessions/s1/send", &json!({ "message": text }));
        assert_eq!(sent.status, 200);
    };
    send("hello");
    let mut tabs = Vec::new();
    for _ in 0..TABS {
        let tab = browser.blank(false);
        // Pages without TLS, of another machine, have no locks.
        let script = json!({"source": "delete Navigator.prototype.locks"});
        browser.command(Some(&tab), "Page.addScriptToEvaluateOnNewDocument", script);
        let url = json!({"url": session_address(&served, "s1")});
        browser.command(Some(&tab), "Page.navigate", url);
        wait_ready(&mut browser, &tab);
        assert_eq!(browser.evaluate(&tab, "'locks' in navigator"), false);
        browser.evaluate(&tab, RECORD);
        tabs.push(tab);
    }
    wait_for_one_stream(&served);
    browser.send(&tabs[TABS - 1], "more");
    browser.wait(
        &tabs[TABS - 1],
        "document.querySelectorAll('.messages .message').length === 4",
    );
    send("other");
    for tab in &tabs {
        browser.show(tab);
        browser.wait(
            tab,
            "document.querySelectorAll('.messages .message').length === 6",
        );
        check_events(&mut browser, tab);
    }
    wait_for_one_stream(&served);
    browser.open(&address(&served));
    wait_until(
        || "a hidden tab is connected".to_owned(),
        || open_streams(&served) == 0,
    );
}
