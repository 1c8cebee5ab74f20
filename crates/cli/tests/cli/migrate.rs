//! `logue sessions migrate`: complete sessions in another store, whenever the program ends.

use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use serde_json::Value;
use tempfile::TempDir;
use testkit::{Random, Reply, soak};

use crate::program::{Ran, folder, logue};
use crate::resumed::{call, server, status, text};
use crate::waiting::wait_for_file;

const OLD: &str = "sqlite:old.db";
const NEW: &str = "sqlite:new.db";

/// Runs a command on a store.
fn on(folder: &Path, store: &str, arguments: &[&str]) -> Ran {
    let mut command = logue(folder);
    command.env("LOGUE_STORE", store).args(arguments);
    command.output().unwrap().into()
}

fn migrate(folder: &Path, further: &[&str]) -> Ran {
    let arguments = ["sessions", "migrate", "--from", OLD, "--to", NEW];
    let mut command = logue(folder);
    command.args(arguments).args(further);
    command.output().unwrap().into()
}

fn json_of(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.stdout))
}

/// The sessions of [`varied`], in the order of their ids.
const SESSIONS: [&str; 7] = [
    "chat", "copy", "crashed", "failed", "large", "queued", "waiting",
];

/// Creates sessions in every state by real turns, and returns the signal of the one that waits.
fn varied(seed: u64) -> (TempDir, testkit::ModelServer, String) {
    let mut random = Random::new(seed);
    let folder = folder(&[
        ("echo.md", "<config model=\"echo:\"/>\n"),
        (
            "p.md",
            "<config model=\"m\"/>\n<tool name=\"deploy\" command=\"sh deploy.sh\"/>\n",
        ),
        (
            "slow.md",
            "<config model=\"m\"/>\n<tool name=\"deploy\" command=\"sh slow.sh\"/>\n",
        ),
        ("deploy.sh", "echo ran >> runs\necho deployed\n"),
        ("slow.sh", "echo ran >> slow-runs\nsleep 30\n"),
        ("logue.toml", "[model]\nretries = 0\n"),
    ]);
    let place = folder.path();
    let say = |arguments: &[&str], expected: i32| {
        let ran = on(place, OLD, arguments);
        assert_eq!(ran.status, expected, "{arguments:?}: {}", ran.stderr);
    };
    for turn in 0..=random.below(4) {
        let words = format!("Turn {turn}: \"é\u{1F980}\" \\ {}", random.next_u64());
        let key = format!("key-{turn}");
        let keyed = ["--idempotency-key", &key, "chat", &words];
        say(&[&["send", "--agent", "echo.md"], &keyed[..]].concat(), 0);
    }
    let large = "0123456789abcdef".repeat(600 + random.below(6_000));
    say(&["send", "--agent", "echo.md", "large", &large], 0);
    say(&["sessions", "fork", "large", "copy"], 0);

    let replies = vec![
        call(),
        call(),
        status(503),
        call(),
        text("done"),
        text("continued"),
    ];
    let server = server(replies);
    let ask = |arguments: &[&str]| -> Ran {
        let mut command = logue(place);
        let base = server.base_url();
        command.env("LOGUE_STORE", OLD).env("OPENAI_BASE_URL", base);
        command.args(arguments).output().unwrap().into()
    };
    let asking = ["send", "--agent", "p.md", "--permission", "deploy=ask"];
    let waits = ask(&[&asking[..], &["waiting", "Ship it."]].concat());
    assert_eq!(waits.status, 6, "{}", waits.stderr);
    let line = waits
        .stderr
        .lines()
        .find(|line| line.contains("logue signal"));
    let signal = line.unwrap().split_whitespace().nth(2).unwrap().to_owned();
    let failed = ask(&["send", "--agent", "p.md", "failed", "Ship it."]);
    assert_eq!(failed.status, 4, "{}", failed.stderr);
    assert!(place.join("runs").exists());

    let mut crashed = logue(place)
        .env("LOGUE_STORE", OLD)
        .env("OPENAI_BASE_URL", server.base_url())
        .args(["send", "--agent", "slow.md", "crashed", "Ship it slowly."])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for_file(&place.join("slow-runs"));
    crashed.kill().unwrap();
    crashed.wait().unwrap();
    say(&["send", "--agent", "echo.md", "queued", "Hello."], 0);
    (folder, server, signal)
}

/// Everything that commands show of the sessions of a store.
fn shown(folder: &Path, store: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let list = on(folder, store, &["sessions", "list", "--json"]);
    assert_eq!(list.status, 0, "{}", list.stderr);
    all.push(("list".to_owned(), list.stdout));
    for session in SESSIONS {
        for command in [
            &["sessions", "show", session, "--json"][..],
            &["sessions", "show", session, "--audit", "--json"],
            &["sessions", "show", session, "--steps", "--json"],
            &["sessions", "outcomes", session, "--json"],
            &["sessions", "outcomes", session, "--after", "1", "--json"],
            &["sessions", "export", session],
        ] {
            let ran = on(folder, store, command);
            assert_eq!(ran.status, 0, "{command:?}: {}", ran.stderr);
            all.push((command.join(" "), ran.stdout));
        }
    }
    all
}

/// Copies the old store, with what is in its log.
fn copy_store(folder: &Path, into: &str) {
    let ran = on(folder, OLD, &["sessions", "backup", into]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
}

#[test]
fn moved_sessions_continue_where_they_were() {
    let (folder, server, signal) = varied(1);
    let place = folder.path();
    let before = shown(place, OLD);
    let planned = migrate(place, &["--dry-run"]);
    assert_eq!(planned.status, 0, "{}", planned.stderr);
    assert_eq!(planned.stdout.lines().collect::<Vec<_>>(), SESSIONS);
    assert!(!place.join("new.db").exists());

    let moved = migrate(place, &["--json"]);
    assert_eq!(moved.status, 0, "{}", moved.stderr);
    let summary = json_of(&moved);
    let ids = summary["moved"].as_array().unwrap().iter();
    let ids: Vec<&str> = ids.map(|one| one["session_id"].as_str().unwrap()).collect();
    assert_eq!(ids, SESSIONS);
    assert_eq!(
        summary["to"],
        format!("sqlite:{}/new.db", place.canonicalize().unwrap().display())
    );
    assert_eq!(shown(place, NEW), before);
    let verified = on(place, NEW, &["sessions", "verify"]);
    assert_eq!(verified.status, 0, "{}", verified.stdout);
    let verified = migrate(place, &["--verify"]);
    assert_eq!(verified.status, 0, "{}", verified.stderr);
    assert_eq!(verified.stdout.lines().count(), SESSIONS.len());

    // The decision runs the call once, in the new store only.
    let runs = || {
        std::fs::read_to_string(place.join("runs"))
            .unwrap()
            .lines()
            .count()
    };
    let had_run = runs();
    let old = on(place, OLD, &["signal", &signal, "--approve"]);
    assert_eq!(old.status, 3, "{}", old.stderr);
    assert!(
        old.stderr.contains("error[session_moved]"),
        "{}",
        old.stderr
    );
    assert!(old.stderr.contains("new.db"), "{}", old.stderr);
    assert_eq!(runs(), had_run);
    for _ in 0..2 {
        let mut approve = logue(place);
        let base = server.base_url();
        approve.env("LOGUE_STORE", NEW).env("OPENAI_BASE_URL", base);
        let approved: Ran = approve
            .args(["signal", &signal, "--approve"])
            .output()
            .unwrap()
            .into();
        assert_eq!(
            (approved.status, approved.stdout.as_str()),
            (0, "done\n"),
            "{}",
            approved.stderr
        );
        assert_eq!(runs(), had_run + 1);
    }
    // The turn whose process died continues with the result of its call.
    let mut recover = logue(place);
    recover
        .env("LOGUE_STORE", NEW)
        .env("OPENAI_BASE_URL", server.base_url());
    let recovered: Ran = recover
        .args(["sessions", "recover", "--all"])
        .output()
        .unwrap()
        .into();
    assert_eq!(recovered.status, 0, "{}", recovered.stderr);
    let slow_runs = std::fs::read_to_string(place.join("slow-runs")).unwrap();
    assert_eq!(slow_runs, "ran\n");
    // A known key is answered, and not run again.
    let first: Value = serde_json::from_str(&before[1].1).unwrap();
    let words = first["messages"][0]["content"].as_str().unwrap();
    let keyed = [
        "send",
        "--agent",
        "echo.md",
        "--idempotency-key",
        "key-0",
        "chat",
        words,
    ];
    let known = on(place, NEW, &keyed);
    assert_eq!(
        (known.status, known.stdout),
        (0, format!("{words}\n")),
        "{}",
        known.stderr
    );
    let after = on(place, NEW, &["sessions", "export", "chat"]);
    assert_eq!(
        Some(&after.stdout),
        before
            .iter()
            .find(|(name, _)| name == "sessions export chat")
            .map(|(_, text)| text)
    );

    let verified = json_of(&migrate(place, &["--verify", "--json"]));
    assert_eq!(
        verified["continued"],
        serde_json::json!(["crashed", "waiting"]),
        "{verified}"
    );
    assert_eq!(verified["equal"].as_array().unwrap().len(), 5, "{verified}");
    let again = migrate(place, &["--json"]);
    assert_eq!(again.status, 0, "{}", again.stderr);
    assert_eq!(json_of(&again)["moved_before"].as_array().unwrap().len(), 7);
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

/// Killed at any moment, the same command ends what it had begun.
#[test]
fn a_killed_migration_continues() {
    let seed = std::env::var("LOGUE_TEST_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or(7);
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let (folder, _server, _signal) = varied(seed);
    let place = folder.path();
    let before = shown(place, OLD);
    let arguments = |round: u32| {
        let (from, to) = (
            format!("sqlite:from-{round}.db"),
            format!("sqlite:to-{round}.db"),
        );
        (from, to)
    };
    copy_store(place, "from-0.db");
    let (from, to) = arguments(0);
    let migrate = |from: &str, to: &str| {
        let mut command = logue(place);
        command.args(["sessions", "migrate", "--json", "--from", from, "--to", to]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let started = Instant::now();
    assert!(migrate(&from, &to).status().unwrap().success());
    let whole = started.elapsed();

    let mut cut = 0;
    for round in 1..=soak::rounds(30, 300) {
        copy_store(place, &format!("from-{round}.db"));
        let (from, to) = arguments(round);
        let mut child = migrate(&from, &to).spawn().unwrap();
        let share = u32::try_from(random.below(1_000)).unwrap();
        std::thread::sleep(whole * share / 1_000);
        child.kill().unwrap();
        cut += u32::from(!child.wait().unwrap().success());
        // No session is one that both stores continue.
        for session in ["chat", "waiting"] {
            let usable = [&from, &to].into_iter().filter(|store| {
                let path = store.strip_prefix("sqlite:").unwrap();
                let is_there = place.join(path).metadata().is_ok_and(|file| file.len() > 0);
                is_there && {
                    let shown = on(place, store, &["sessions", "show", session, "--json"]);
                    shown.status == 0 && {
                        let shown = json_of(&shown);
                        shown["moved_to"].is_null() && shown["arriving_from"].is_null()
                    }
                }
            });
            assert!(usable.count() <= 1, "round {round}, seed {seed}: {session}");
        }
        let ended = migrate(&from, &to).output().unwrap();
        let ended: Ran = ended.into();
        assert_eq!(
            ended.status, 0,
            "round {round}, seed {seed}: {}",
            ended.stderr
        );
        if round % 10 == 0 {
            assert_eq!(shown(place, &to), before, "round {round}, seed {seed}");
        }
        let mut verify = migrate(&from, &to);
        let verified: Ran = verify.arg("--verify").output().unwrap().into();
        assert_eq!(
            verified.status, 0,
            "round {round}, seed {seed}: {}",
            verified.stderr
        );
        let equal = json_of(&verified)["equal"].as_array().unwrap().len();
        assert_eq!(equal, SESSIONS.len(), "round {round}, seed {seed}");
    }
    println!("{cut} of the rounds were cut");
    assert!(cut > 0, "every migration had ended before it was killed");
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
