//! Backups that are restored into a store whose sessions were moved.

use crate::migrate_scene::on;
use crate::program::{Ran, folder, logue};
use crate::resumed::{DEPLOY, PROMPT, SETTINGS, ask, call, runs, server, text};

const OLD: &str = "sqlite:old.db";
const NEW: &str = "sqlite:new.db";

#[test]
fn a_restore_keeps_the_marks_of_moved_sessions() {
    let folder = folder(&[
        ("p.md", PROMPT),
        ("e.md", "<config model=\"echo:\"/>\n"),
        ("deploy.sh", DEPLOY),
        ("logue.toml", SETTINGS),
    ]);
    let place = folder.path();
    let model = server(vec![call(), text("done")]);
    let sends = |session: &str, key: &str| -> Ran {
        let keyed = ["send", "--idempotency-key", key, "--agent", "e.md"];
        on(place, OLD, &[&keyed[..], &[session, "Hello."]].concat())
    };
    let waits = ["send", "--store", OLD, "--agent", "p.md"];
    let asks = ["--permission", "deploy=ask", "waits", "Ship it."];
    let waits = ask(place, &model, &[&waits[..], &asks[..]].concat());
    assert_eq!(waits.status, 6, "{}", waits.stderr);
    let mut lines = waits.stderr.lines();
    let line = lines.find(|line| line.contains("logue signal"));
    let signal = line.unwrap().split_whitespace().nth(2).unwrap().to_owned();
    assert_eq!(sends("stays", "k").status, 0);
    let backup = on(place, OLD, &["sessions", "backup", "backup.db"]);
    assert_eq!(backup.status, 0, "{}", backup.stderr);
    assert_eq!(sends("later", "k").status, 0);
    let migration = ["sessions", "migrate", "--from", OLD, "--to", NEW];
    let moved = on(place, OLD, &[&migration[..], &["waits", "later"]].concat());
    assert_eq!(moved.status, 0, "{}", moved.stderr);

    let restored = on(
        place,
        OLD,
        &["sessions", "restore", "--replace", "backup.db"],
    );
    assert_eq!(restored.status, 0, "{}", restored.stderr);
    for session in ["later", "waits"] {
        let line = format!("session `{session}` stays moved to sqlite:");
        assert!(restored.stderr.contains(&line), "{}", restored.stderr);
    }
    let verified = on(place, OLD, &["sessions", "verify"]);
    assert_eq!(verified.status, 0, "{}", verified.stdout);
    // The decision counts in one store, and a known key begins no turn, also if the backup is older
    // than its session.
    let decide = |store: &str| {
        let arguments = ["signal", "--store", store, &signal, "--approve"];
        ask(place, &model, &arguments)
    };
    for refused in [decide(OLD), sends("later", "k"), sends("later", "other")] {
        assert_eq!(refused.status, 3, "{}", refused.stderr);
        let code = "error[session_moved]";
        assert!(refused.stderr.contains(code), "{}", refused.stderr);
    }
    assert_eq!(runs(place), "");
    let decided = decide(NEW);
    assert_eq!((decided.status, &*decided.stdout), (0, "done\n"));
    assert_eq!(runs(place), "ran\n");
    assert_eq!(sends("stays", "k2").status, 0);

    // A new file knows of no move, so the command says what may be in both stores.
    let mut fresh = logue(place);
    fresh.args([
        "sessions",
        "restore",
        "backup.db",
        "--store",
        "sqlite:fresh.db",
    ]);
    let fresh: Ran = fresh.output().unwrap().into();
    assert_eq!(fresh.status, 0, "{}", fresh.stderr);
    assert!(
        fresh.stderr.contains("moved to another"),
        "{}",
        fresh.stderr
    );
    assert!(fresh.stderr.contains("sessions rm"), "{}", fresh.stderr);
}

#[test]
fn the_record_of_a_moved_session_is_removed_by_name() {
    let folder = folder(&[("p.md", "<config model=\"echo:\"/>\n")]);
    let place = folder.path();
    let sent = on(place, OLD, &["send", "--agent", "p.md", "a", "Hello."]);
    assert_eq!(sent.status, 0, "{}", sent.stderr);
    let migration = ["sessions", "migrate", "--from", OLD, "--to", NEW];
    assert_eq!(on(place, OLD, &migration).status, 0);
    let removed = on(place, OLD, &["sessions", "rm", "--yes", "a"]);
    assert_eq!(removed.status, 0, "{}", removed.stderr);
    let list = on(place, OLD, &["sessions", "list", "--json"]);
    assert_eq!((list.status, &*list.stdout), (0, ""), "{}", list.stderr);
}
