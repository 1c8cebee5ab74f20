//! The switch of the debug view in a browser.

use super::{check_clean, count, session_address};
use crate::browser::Browser;
use crate::debug_view::{hidden_session, serve};

#[test]
fn hidden_messages_are_shown_by_a_switch() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let (folder, model) = hidden_session();
    let served = serve(folder.path(), &model, &["--debug-view"]);
    let tab = browser.open(&session_address(&served, "s1"));
    browser.wait_for_text(&tab, "seen");
    assert_eq!(count(&mut browser, &tab, "HIDDEN"), 0);
    browser.click(&tab, ".debug-switch[aria-pressed=false]");
    browser.wait(
        &tab,
        "document.querySelectorAll('.hidden-part').length === 3",
    );
    let labels =
        "[...document.querySelectorAll('.hidden-label')].map((one) => one.textContent).join()";
    assert_eq!(
        browser.evaluate(&tab, labels),
        "Hidden · system,Hidden · developer,Hidden · reasoning"
    );
    assert_eq!(count(&mut browser, &tab, "seen"), 1);
    browser.screenshot(&tab, "debug");
    // New messages follow the switch.
    browser.send(&tab, "go");
    browser.wait(
        &tab,
        "document.querySelectorAll('.messages .hidden-part').length === 4",
    );
    browser.click(&tab, ".debug-switch[aria-pressed=true]");
    browser.wait(&tab, "!document.querySelector('.hidden-part')");
    assert_eq!(count(&mut browser, &tab, "HIDDEN"), 0);
    check_clean(&mut browser, &tab, &served);

    served.kill();
    let served = serve(folder.path(), &model, &[]);
    let tab = browser.open(&session_address(&served, "s1"));
    browser.wait_for_text(&tab, "seen");
    assert_eq!(
        browser.evaluate(&tab, "document.querySelector('.debug-switch')"),
        serde_json::Value::Null
    );
}
