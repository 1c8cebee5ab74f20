//! Failed turns of sessions: what is shown of them, and what a later turn may repeat.

use serde_json::json;

use crate::program::run;
use crate::resumed::{DEPLOY, KEYED, ask, call, prepared, server, status, text};
use crate::send::show;

#[test]
fn a_failed_turn_is_shown_with_its_reason_and_remedy() {
    let server = server(vec![status(503), call(), status(503), text("fine")]);
    let folder = prepared(DEPLOY);
    for (attempt, turn) in [(1, "turn 1"), (2, "turn 2")] {
        let failed = ask(folder.path(), &server, &KEYED);
        assert_eq!(failed.status, 4, "{}", failed.stderr);
        let shown = run(folder.path(), ["sessions", "show", "s"]);
        let expected = format!("── {turn} failed: provider_unavailable\n");
        assert!(shown.stdout.contains(&expected), "{}", shown.stdout);
        assert!(shown.stdout.contains("away"), "{}", shown.stdout);
        assert!(
            shown.stdout.contains("\nhelp: logue sessions retry s\n"),
            "{}",
            shown.stdout
        );
        // The second attempt replaces the first one.
        assert_eq!(shown.stdout.matches(" failed: ").count(), 1, "{attempt}");
        let shown = show(folder.path(), "s");
        let last = shown["failed"].as_array().unwrap().last().unwrap();
        assert_eq!(last["code"], "provider_unavailable", "{last}");
        assert!(last["message"].as_str().unwrap().contains("away"), "{last}");
        assert_eq!(last["help"], "logue sessions retry s", "{last}");
        assert_eq!(last["continued"], json!(false), "{last}");
    }
    let store = format!("sqlite:{}", folder.path().join("none.db").display());
    let other = [&KEYED[..], &["--store", &store]].concat();
    let done = ask(folder.path(), &server, &["sessions", "retry", "s"]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let shown = run(folder.path(), ["sessions", "show", "s"]);
    assert!(!shown.stdout.contains("failed"), "{}", shown.stdout);
    let shown = show(folder.path(), "s");
    for failed in shown["failed"].as_array().unwrap() {
        assert_eq!(failed["continued"], json!(true), "{failed}");
        assert!(failed.get("help").is_none(), "{failed}");
    }
    // The hint names a store that is not the usual one.
    let away = crate::resumed::server(vec![status(503)]);
    assert_eq!(ask(folder.path(), &away, &other).status, 4);
    let shown = run(folder.path(), ["sessions", "show", "--store", &store, "s"]);
    let hint = format!("help: logue sessions retry s --store {store}\n");
    assert!(shown.stdout.contains(&hint), "{}", shown.stdout);
}
