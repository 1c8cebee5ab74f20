//! A session of 10,000 messages in a browser.

use serde_json::json;

use super::{check_clean, session_address};
use crate::browser::Browser;
use crate::client::Served;
use crate::program::{folder, run};

/// The most elements of the page, however long the session is.
const MOST_ELEMENTS: u64 = 6_000;

#[test]
fn a_long_session_has_a_bounded_page() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let messages: Vec<_> = (0..10_000)
        .map(|at| match at % 2 {
            0 => json!({"role": "user", "content": format!("question {at}.")}),
            _ => json!({"role": "assistant", "content":
                format!("answer **{at}**.\n\n- one\n- two\n\n```rust\nfn main() {{}}\n```")}),
        })
        .collect();
    let text = json!({ "messages": messages }).to_string();
    let folder = folder(&[
        ("agent.md", "<config model=\"echo:\"/>\n"),
        ("long.json", &text),
    ]);
    let imported = run(
        folder.path(),
        [
            "sessions",
            "import",
            "long.json",
            "s1",
            "--agent",
            "agent.md",
            "--store",
            "sqlite:s.db",
        ],
    );
    assert_eq!(imported.status, 0, "{}", imported.stderr);
    let served = Served::start(folder.path(), &["agent.md"]);
    let tab = browser.open(&session_address(&served, "s1"));
    browser.wait_for_text(&tab, "answer 9999.");
    let ready = browser.evaluate(
        &tab,
        "Math.round(performance.getEntriesByName('readable')[0]?.startTime ?? -1)",
    );
    let elements = "document.getElementsByTagName('*').length";
    let most = browser.evaluate(&tab, elements).as_u64().unwrap();
    println!("10,000 messages: readable after {ready} ms with {most} elements");
    assert!(most < MOST_ELEMENTS, "{most} elements");
    // The newest message is in sight.
    let seen = "(() => { const all = document.querySelectorAll('.messages .message'); \
        const box = all[all.length - 1].getBoundingClientRect(); return box.bottom > 0 && box.top < innerHeight; })()";
    browser.wait(&tab, seen);
    // Scrolling loads older messages and removes newer ones.
    let first = "Number(document.querySelector('.message.user').dataset.position)";
    let mut last = browser.evaluate(&tab, first).as_u64().unwrap();
    for _ in 0..8 {
        browser.evaluate(&tab, "document.querySelector('.scroller').scrollTop = 0");
        browser.wait(&tab, &format!("{first} < {last}"));
        last = browser.evaluate(&tab, first).as_u64().unwrap();
        let found = browser.evaluate(&tab, elements).as_u64().unwrap();
        assert!(found < MOST_ELEMENTS, "{found} elements");
    }
    browser.click(&tab, ".jump");
    browser.wait_for_text(&tab, "answer 9999.");
    check_clean(&mut browser, &tab, &served);
}
