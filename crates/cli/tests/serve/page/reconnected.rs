//! A browser whose connections are cut while an answer arrives.

use testkit::{Delivery, Gate, ModelServer, Relay, Reply, end_of_stream, text_delta};

use super::{AGENT, count, serve};
use crate::browser::Browser;
use crate::program::folder;

/// Returns the last id that each request of events names, and the ids that its stream received.
fn streams(relay: &Relay) -> Vec<(String, Vec<u64>)> {
    let mut streams = Vec::new();
    for (sent, received) in relay.traffic() {
        // A connection can have several requests; a stream is its last one.
        let Some((_, named)) = sent.rsplit_once("/events?session=") else {
            continue;
        };
        let named = named.split_once(' ').unwrap().0;
        let (_, last) = named.split_once("%3A").unwrap();
        let ids = received.lines().filter_map(|line| {
            let (_, id) = line.strip_prefix("data: ")?.split_once("\"id\":\"")?;
            id.split_once('-')?.0.parse().ok()
        });
        streams.push((last.to_owned(), ids.collect()));
    }
    streams
}

#[test]
fn a_cut_stream_continues_after_its_last_event() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let gate = Gate::new();
    let pieces = vec![
        text_delta("# one\n\ntwo "),
        text_delta("three "),
        text_delta("four "),
        end_of_stream(),
    ];
    let model = ModelServer::start(vec![Reply::Gated(pieces, gate.clone())], Delivery::Whole);
    let model = model.unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model, &[]);
    let relay = Relay::start(&served.address, None).unwrap();
    let tab = browser.open(&format!("http://{}/", relay.address()));
    browser.send(&tab, "a question");
    browser.wait(
        &tab,
        "document.querySelector('.streaming h1')?.textContent === 'one'",
    );
    let mark = "window.kept = [document.querySelector('.streaming'), document.querySelector('.streaming h1').firstChild, \
        document.querySelector('.live .bubble').firstChild], 0";
    browser.evaluate(&tab, mark);
    for (piece, text) in ["three", "four"]
        .into_iter()
        .zip(["two three", "two three four"])
    {
        let before = streams(&relay).len();
        relay.cut();
        browser.wait_for_text(&tab, "Reconnecting");
        // The event arrives at the server while the page is away.
        gate.open();
        relay.restore();
        browser.wait_for_text(&tab, text);
        browser.wait(&tab, "!document.body.innerText.includes('Reconnecting')");
        assert_eq!(count(&mut browser, &tab, piece), 1);
        assert_eq!(count(&mut browser, &tab, "a question"), 1);
        // What was shown is neither doubled nor built again.
        let kept = "window.kept.every((node) => node.isConnected) && document.querySelectorAll('.streaming').length";
        assert_eq!(browser.evaluate(&tab, kept), 1);
        assert!(streams(&relay).len() > before);
    }
    gate.open();
    browser.wait(&tab, "document.querySelector('.messages .prose h1')");
    assert_eq!(count(&mut browser, &tab, "four"), 1);

    let streams = streams(&relay);
    assert!(streams.len() >= 3, "{streams:?}");
    let mut seen: Vec<u64> = Vec::new();
    let mut last = None;
    for (named, ids) in &streams {
        let named: u64 = named.split_once('-').unwrap().0.parse().unwrap();
        if let Some(last) = last {
            assert_eq!(named, last, "{streams:?}");
        }
        seen.extend(ids);
        last = ids.last().copied().or(Some(named));
    }
    // Each event was sent once, in order, and none is missing.
    let first = seen[0];
    let expected: Vec<u64> = (first..first + seen.len() as u64).collect();
    assert_eq!(seen, expected, "{streams:?}");
}
