//! `logue sessions migrate`: complete sessions in another store, whenever the program ends.

use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use testkit::{Reply, soak};

use crate::migrate_scene::{SESSIONS, Scene, json_of, on, seed};
use crate::program::{Ran, folder, logue};
use crate::resumed::server;

const OLD: &str = "sqlite:old.db";
const NEW: &str = "sqlite:new.db";

fn migrate(folder: &Path, further: &[&str]) -> Ran {
    let arguments = ["sessions", "migrate", "--from", OLD, "--to", NEW];
    let mut command = logue(folder);
    command.args(arguments).args(further);
    command.output().unwrap().into()
}

#[test]
fn moved_sessions_continue_where_they_were() {
    let scene = Scene::new(OLD, 1);
    scene.moves_and_continues(NEW);
}

#[test]
fn moved_sessions_are_refused_by_every_command() {
    let folder = folder(&[("p.md", "<config model=\"echo:\"/>\n")]);
    let place = folder.path();
    for id in ["a", "b"] {
        let sent = on(place, OLD, &["send", "--agent", "p.md", id, "Hello."]);
        assert_eq!(sent.status, 0, "{}", sent.stderr);
    }
    let moved = migrate(place, &["a"]);
    assert_eq!(
        (moved.status, moved.stdout.as_str()),
        (0, "a\n"),
        "{}",
        moved.stderr
    );
    for command in [
        &["send", "a", "More."][..],
        &["sessions", "fork", "a", "c"],
        &["sessions", "rerun", "a", "--step", "1"],
    ] {
        let refused = on(place, OLD, command);
        assert_eq!(
            refused.status, 3,
            "{command:?}: {} {}",
            refused.stdout, refused.stderr
        );
        let code = "error[session_moved]";
        assert!(
            refused.stderr.contains(code),
            "{command:?}: {}",
            refused.stderr
        );
        assert!(
            refused.stderr.contains("new.db"),
            "{command:?}: {}",
            refused.stderr
        );
    }
    // It can still be read, and the others continue.
    let read = on(place, OLD, &["sessions", "show", "a"]);
    assert_eq!(read.status, 0, "{}", read.stderr);
    assert!(read.stdout.contains("moved to sqlite:"), "{}", read.stdout);
    let all = on(place, OLD, &["sessions", "recover", "--all"]);
    assert_eq!(all.status, 0, "{}", all.stderr);
    let other = on(place, OLD, &["send", "b", "More."]);
    assert_eq!(other.status, 0, "{}", other.stderr);
    let there = on(place, NEW, &["send", "a", "More."]);
    assert_eq!(
        (there.status, there.stdout.as_str()),
        (0, "More.\n"),
        "{}",
        there.stderr
    );

    // The way back replaces the record that had stayed.
    let back = ["sessions", "migrate", "--from", NEW, "--to", OLD];
    let back: Ran = logue(place).args(back).output().unwrap().into();
    assert_eq!(
        (back.status, back.stdout.as_str()),
        (0, "a\n"),
        "{}",
        back.stderr
    );
    let here = on(place, OLD, &["send", "a", "Home."]);
    assert_eq!(here.status, 0, "{}", here.stderr);
    let shown = on(place, OLD, &["sessions", "show", "a", "--json"]);
    assert_eq!(json_of(&shown)["messages"].as_array().unwrap().len(), 6);
    let gone = on(place, NEW, &["send", "a", "x"]);
    assert!(
        gone.stderr.contains("error[session_moved]"),
        "{}",
        gone.stderr
    );
}

/// A restored backup may have a session that a third store continues.
#[test]
fn a_restored_backup_does_not_become_a_second_session() {
    const BACKUP: &str = "sqlite:backup.db";
    let folder = folder(&[("p.md", "<config model=\"echo:\"/>\n")]);
    let place = folder.path();
    let sent = on(place, OLD, &["send", "--agent", "p.md", "a", "Hello."]);
    assert_eq!(sent.status, 0, "{}", sent.stderr);
    let backup = on(place, OLD, &["sessions", "backup", "backup.db"]);
    assert_eq!(backup.status, 0, "{}", backup.stderr);
    assert_eq!(migrate(place, &["a"]).status, 0);

    let restore = |further: &[&str]| -> Ran {
        let mut command = logue(place);
        command.args(["sessions", "migrate", "--from", BACKUP, "--to", OLD]);
        command.args(further).output().unwrap().into()
    };
    for further in [&["--dry-run"][..], &[], &["--copy"], &["a"]] {
        let refused = restore(further);
        let case = format!("{further:?}: {} {}", refused.stdout, refused.stderr);
        assert_eq!((refused.status, &*refused.stdout), (3, ""), "{case}");
        assert!(refused.stderr.contains("error[session_moved]"), "{case}");
        assert!(refused.stderr.contains("new.db"), "{case}");
        assert!(refused.stderr.contains("logue sessions rm a"), "{case}");
    }
    // One store continues it still.
    for (store, status) in [(NEW, 0), (OLD, 3), (BACKUP, 0)] {
        let shown = on(place, store, &["sessions", "show", "a", "--json"]);
        assert_eq!(shown.status, 0, "{}", shown.stderr);
        if store != BACKUP {
            let more = on(place, store, &["send", "a", "More."]);
            assert_eq!(more.status, status, "{store}: {}", more.stderr);
        }
    }

    // If the third store is lost, the way that the message names leads on.
    let removed = on(place, OLD, &["sessions", "rm", "--yes", "a"]);
    assert_eq!(removed.status, 0, "{}", removed.stderr);
    let restored = restore(&[]);
    assert_eq!(
        (restored.status, &*restored.stdout),
        (0, "a\n"),
        "{}",
        restored.stderr
    );
    let more = on(place, OLD, &["send", "a", "More."]);
    assert_eq!(more.status, 0, "{}", more.stderr);
}

/// What a moved session had left to do is left to its new store, and said so.
#[test]
fn moved_sessions_are_neither_recovered_nor_tried_again() {
    let scene = Scene::new(OLD, 3);
    let (place, server, signal) = (scene.place(), &scene.model, &scene.signal);
    assert_eq!(migrate(place, &[]).status, 0);
    let count = server.received().len();
    for command in [
        ["sessions", "recover", "crashed"],
        ["sessions", "recover", "waiting"],
        ["sessions", "recover", "chat"],
        ["sessions", "retry", "failed"],
        ["sessions", "retry", "crashed"],
        ["sessions", "retry", "chat"],
    ] {
        let mut refused = logue(place);
        let base = server.base_url();
        refused.env("LOGUE_STORE", OLD).env("OPENAI_BASE_URL", base);
        let refused: Ran = refused.args(command).output().unwrap().into();
        assert_eq!(refused.status, 3, "{command:?}: {}", refused.stderr);
        let said = &refused.stderr;
        assert!(said.contains("error[session_moved]"), "{command:?}: {said}");
        assert!(said.contains("new.db"), "{command:?}: {said}");
    }
    let all = on(place, OLD, &["sessions", "recover", "--all"]);
    assert_eq!(
        (all.status, &*all.stdout, &*all.stderr),
        (0, "", ""),
        "a moved session has work in its new store only"
    );
    assert_eq!(server.received().len(), count, "the model was asked");

    let address = format!("sqlite:{}/new.db", place.canonicalize().unwrap().display());
    let table = on(place, OLD, &["sessions", "list"]).stdout;
    let rows: Vec<&str> = table.lines().skip(1).collect();
    assert_eq!(rows.len(), SESSIONS.len(), "{table}");
    for row in rows {
        assert!(row.contains(&format!("moved to {address}")), "{table}");
        assert!(!row.contains(signal), "a signal is refused here: {table}");
    }
    let lines = on(place, OLD, &["sessions", "list", "--json"]).stdout;
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["moved_to"], address, "{line}");
        assert_eq!(line["suspended"], serde_json::json!([]), "{line}");
        assert_eq!(line["pending"], 0, "{line}");
    }
    let there = on(place, NEW, &["sessions", "list", "--json"]).stdout;
    assert!(!there.contains("moved_to"), "{there}");
    assert!(there.contains(signal), "{there}");

    // The record that stayed is not in use, so that its age decides.
    let prune = |further: &str| {
        let arguments = ["sessions", "prune", "--older-than", "1s", further];
        let ran = on(place, OLD, &arguments);
        let mut ids: Vec<String> = ran.stdout.lines().map(str::to_owned).collect();
        ids.sort();
        ids
    };
    crate::waiting::wait_until(
        || "the sessions stay young".to_owned(),
        || prune("--dry-run") == SESSIONS,
    );
    assert_eq!(prune("--json").len(), 1);
    let left = on(place, OLD, &["sessions", "list", "--json"]);
    assert_eq!(left.stdout, "");
}

/// Killed at any moment, the same command ends what it had begun.
#[test]
fn a_killed_migration_continues() {
    let seed = seed(7);
    let scene = Scene::new(OLD, seed);
    let source = |round: u32| {
        let file = format!("from-{round}.db");
        let copied = on(scene.place(), OLD, &["sessions", "backup", &file]);
        assert_eq!(copied.status, 0, "{}", copied.stderr);
        format!("sqlite:{file}")
    };
    let target = |round| format!("sqlite:to-{round}.db");
    scene.survives_kills(seed, soak::rounds(30, 300), &source, &target);
}

#[test]
fn a_changed_row_of_the_new_store_is_found() {
    let folder = folder(&[("p.md", "<config model=\"echo:\"/>\n")]);
    let place = folder.path();
    let words = "A sentence that is there once.";
    for (id, words) in [("a", words), ("b", "Other words.")] {
        let sent = on(place, OLD, &["send", "--agent", "p.md", id, words]);
        assert_eq!(sent.status, 0, "{}", sent.stderr);
    }
    assert_eq!(migrate(place, &[]).status, 0);
    let file = place.join("new.db");
    let mut content = std::fs::read(&file).unwrap();
    let at = content
        .windows(words.len())
        .position(|part| part == words.as_bytes())
        .unwrap();
    content[at] ^= 1;
    std::fs::write(&file, content).unwrap();
    let verified = migrate(place, &["--verify", "--json"]);
    assert_eq!(verified.status, 8, "{}", verified.stderr);
    let found = json_of(&verified);
    assert_eq!(found["failed"][0]["session_id"], "a", "{found}");
    assert_eq!(found["failed"][0]["code"], "store_corrupt", "{found}");
    assert_eq!(found["equal"][0]["session_id"], "b", "{found}");

    // A damaged source is not made sound by being copied.
    let back = [
        "sessions",
        "migrate",
        "--from",
        NEW,
        "--to",
        "sqlite:third.db",
    ];
    let back: Ran = logue(place).args(back).output().unwrap().into();
    assert_eq!(back.status, 5, "{}", back.stderr);
    assert_eq!(back.stdout, "b\n");
    assert!(
        back.stderr.contains("error[store_corrupt]: `a`"),
        "{}",
        back.stderr
    );
}

#[test]
fn other_sessions_of_the_target_are_kept() {
    let folder = folder(&[("p.md", "<config model=\"echo:\"/>\n")]);
    let place = folder.path();
    for (store, id, words) in [(OLD, "a", "old"), (NEW, "a", "new"), (OLD, "b", "old")] {
        let sent = on(place, store, &["send", "--agent", "p.md", id, words]);
        assert_eq!(sent.status, 0, "{}", sent.stderr);
    }
    let moved = migrate(place, &[]);
    assert_eq!(
        (moved.status, moved.stdout.as_str()),
        (3, "b\n"),
        "{}",
        moved.stderr
    );
    assert!(
        moved.stderr.contains("error[session_exists]: `a`"),
        "{}",
        moved.stderr
    );
    for (store, words) in [(OLD, "old"), (NEW, "new")] {
        let kept = on(place, store, &["sessions", "export", "a"]);
        assert!(kept.stdout.contains(words), "{}", kept.stdout);
        let more = on(place, store, &["send", "a", "more"]);
        assert_eq!(more.status, 0, "{}", more.stderr);
    }
}

#[test]
fn sessions_in_use_are_left_for_a_later_run() {
    let folder = folder(&[
        ("p.md", "<config model=\"m\"/>\n"),
        ("echo.md", "<config model=\"echo:\"/>\n"),
    ]);
    let place = folder.path();
    let server = server(vec![Reply::Silent]);
    let idle = on(
        place,
        OLD,
        &["send", "--agent", "echo.md", "idle", "Hello."],
    );
    assert_eq!(idle.status, 0, "{}", idle.stderr);
    let mut running = logue(place)
        .env("LOGUE_STORE", OLD)
        .env("OPENAI_BASE_URL", server.base_url())
        .args(["send", "--agent", "p.md", "busy", "Wait."])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    crate::waiting::wait_until(
        || "the model was not asked".to_owned(),
        || !server.received().is_empty(),
    );
    let planned = json_of(&migrate(place, &["--dry-run", "--json"]));
    assert_eq!(planned["in_use"][0]["session_id"], "busy", "{planned}");
    let moved = migrate(place, &["--json"]);
    assert_eq!(moved.status, 7, "{}", moved.stderr);
    let summary = json_of(&moved);
    assert_eq!(summary["moved"][0]["session_id"], "idle", "{summary}");
    assert_eq!(summary["in_use"][0]["session_id"], "busy", "{summary}");
    assert!(running.try_wait().unwrap().is_none(), "its turn was ended");
    running.kill().unwrap();
    running.wait().unwrap();
    let moved = migrate(place, &[]);
    assert_eq!(
        (moved.status, moved.stdout.as_str()),
        (0, "busy\n"),
        "{}",
        moved.stderr
    );
    let shown = on(place, NEW, &["sessions", "show", "busy", "--json"]);
    assert_eq!(
        json_of(&shown)["inbox"][0]["state"],
        "running",
        "{}",
        shown.stdout
    );
}

#[test]
fn addresses_that_cannot_be_used_are_errors() {
    let folder = folder(&[
        ("p.md", "<config model=\"echo:\"/>\n"),
        ("text", "no store\n"),
    ]);
    let place = folder.path();
    let sent = on(place, OLD, &["send", "--agent", "p.md", "a", "Hello."]);
    assert_eq!(sent.status, 0, "{}", sent.stderr);
    std::os::unix::fs::symlink("old.db", place.join("link.db")).unwrap();
    std::fs::hard_link(place.join("old.db"), place.join("hard.db")).unwrap();
    for (from, to, status, words) in [
        ("sqlite:missing.db", NEW, 3, "no session store is there"),
        ("memory:", NEW, 2, "a store in memory ends with the program"),
        (OLD, "memory:", 2, "a store in memory ends with the program"),
        (
            OLD,
            "mysql://ana:secret@host/db",
            3,
            "error[store_unavailable]",
        ),
        (OLD, "sqlite:", 3, "error[store_unavailable]"),
        (OLD, OLD, 2, "the same store"),
        (OLD, "sqlite:./old.db", 2, "the same store"),
        (OLD, "sqlite:link.db", 2, "the same store"),
        (OLD, "sqlite:hard.db", 2, "the same store"),
        (OLD, "sqlite:text", 3, "error[store_unavailable]"),
        ("sqlite:text", NEW, 3, "error[store_unavailable]"),
    ] {
        let ran: Ran = logue(place)
            .args(["sessions", "migrate", "--from", from, "--to", to])
            .output()
            .unwrap()
            .into();
        assert_eq!(ran.status, status, "{from} {to}: {}", ran.stderr);
        assert!(ran.stderr.contains(words), "{from} {to}: {}", ran.stderr);
        assert!(!ran.stderr.contains("secret"), "{}", ran.stderr);
    }
    assert!(!place.join("missing.db").exists());
    assert!(!place.join("new.db").exists());
    let unknown = migrate(place, &["nowhere"]);
    assert_eq!(unknown.status, 3, "{}", unknown.stderr);
    assert!(
        unknown
            .stderr
            .contains("error[session_not_found]: `nowhere`"),
        "{}",
        unknown.stderr
    );
    let more = on(place, OLD, &["send", "a", "More."]);
    assert_eq!(more.status, 0, "{}", more.stderr);
}

#[test]
fn a_full_target_leaves_the_sessions_where_they_are() {
    let folder = folder(&[("p.md", "<config model=\"echo:\"/>\n")]);
    let place = folder.path();
    let large = "0123456789abcdef".repeat(8_000);
    for (id, words) in [("a", "small"), ("b", large.as_str()), ("c", "small")] {
        let sent = on(place, OLD, &["send", "--agent", "p.md", id, words]);
        assert_eq!(sent.status, 0, "{}", sent.stderr);
    }
    // The limit is that of a file, in blocks of 512 bytes, and the log is one as well.
    let limited = "trap '' XFSZ; ulimit -f 400; exec \"$0\" \"$@\"";
    let program = logue(place).get_program().to_owned();
    let mut shell = std::process::Command::new("sh");
    let environment = logue(place);
    shell.env_clear().current_dir(place);
    for (name, value) in environment.get_envs() {
        if let Some(value) = value {
            shell.env(name, value);
        }
    }
    shell.args(["-c", limited]).arg(program);
    let full: Ran = shell
        .args(["sessions", "migrate", "--from", OLD, "--to", NEW])
        .output()
        .unwrap()
        .into();
    assert_eq!(full.status, 4, "{}", full.stderr);
    assert!(
        full.stderr.contains("error[store_unavailable]: sqlite:"),
        "{}",
        full.stderr
    );
    assert!(full.stderr.contains("new.db"), "{}", full.stderr);
    let more = on(place, OLD, &["send", "b", "More."]);
    assert_eq!(more.status, 0, "{}", more.stderr);
    let moved = migrate(place, &["--json"]);
    assert_eq!(moved.status, 0, "{}", moved.stderr);
    let summary = json_of(&moved);
    let count = |name: &str| summary[name].as_array().unwrap().len();
    assert_eq!(count("moved") + count("moved_before"), 3, "{summary}");
    let verified = on(place, NEW, &["sessions", "verify"]);
    assert_eq!(verified.status, 0, "{}", verified.stdout);
}

#[test]
fn copies_are_sessions_of_their_own() {
    let folder = folder(&[("p.md", "<config model=\"echo:\"/>\n")]);
    let place = folder.path();
    let sent = on(place, OLD, &["send", "--agent", "p.md", "a", "Hello."]);
    assert_eq!(sent.status, 0, "{}", sent.stderr);
    let copied = json_of(&migrate(place, &["--copy", "--json"]));
    assert_eq!(copied["copied"][0]["session_id"], "a", "{copied}");
    assert_eq!(copied["copied"][0]["messages"], 2, "{copied}");
    for store in [OLD, NEW] {
        let more = on(place, store, &["send", "a", "More."]);
        assert_eq!(
            (more.status, more.stdout.as_str()),
            (0, "More.\n"),
            "{}",
            more.stderr
        );
    }
}

#[test]
fn a_session_comes_back_over_a_third_store() {
    let folder = folder(&[("p.md", "<config model=\"echo:\"/>\n")]);
    let place = folder.path();
    let stores = ["sqlite:a.db", "sqlite:b.db", "sqlite:c.db"];
    let sent = on(
        place,
        stores[0],
        &["send", "--agent", "p.md", "s", "Hello."],
    );
    assert_eq!(sent.status, 0, "{}", sent.stderr);
    comes_back(place, stores);
}

/// Moves the session `s` from each store to the next one, and continues it in the first.
pub(crate) fn comes_back(place: &Path, stores: [&str; 3]) {
    let [first, second, third] = stores;
    let migrate = |from: &str, to: &str| -> Ran {
        let mut command = logue(place);
        command.args(["sessions", "migrate", "--from", from, "--to", to]);
        command.output().unwrap().into()
    };
    for (from, to) in [(first, second), (second, third), (third, first)] {
        if to == first {
            // The first store gave it to the second one, and has to be asked to forget that.
            let refused = migrate(from, to);
            assert_eq!(refused.status, 3, "{}", refused.stderr);
            assert!(
                refused.stderr.contains("error[session_moved]"),
                "{}",
                refused.stderr
            );
            let removed = on(place, first, &["sessions", "rm", "--yes", "s"]);
            assert_eq!(removed.status, 0, "{}", removed.stderr);
        }
        let moved = migrate(from, to);
        assert_eq!(
            (moved.status, moved.stdout.as_str()),
            (0, "s\n"),
            "{}",
            moved.stderr
        );
    }
    let more = on(place, first, &["send", "s", "More."]);
    assert_eq!(
        (more.status, more.stdout.as_str()),
        (0, "More.\n"),
        "{}",
        more.stderr
    );
    for gone in [second, third] {
        let refused = on(place, gone, &["send", "s", "More."]);
        assert!(
            refused.stderr.contains("error[session_moved]"),
            "{}",
            refused.stderr
        );
    }
}
