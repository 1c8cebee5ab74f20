//! Sessions in every state, and what holds for each pair of stores that they are moved between.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{ModelServer, Random};

use crate::program::{Ran, folder, logue};
use crate::resumed::{call, server, status, text};
use crate::waiting::{wait_for_file, wait_until};

/// The sessions of a [`Scene`], in the order of their ids.
pub(crate) const SESSIONS: [&str; 7] = [
    "chat", "copy", "crashed", "failed", "large", "queued", "waiting",
];

/// Runs a command on a store.
pub(crate) fn on(folder: &Path, store: &str, arguments: &[&str]) -> Ran {
    let mut command = logue(folder);
    command.env("LOGUE_STORE", store).args(arguments);
    command.output().unwrap().into()
}

pub(crate) fn json_of(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.stdout))
}

/// Returns the seed of a test, which the environment may set, and prints it.
#[expect(clippy::print_stdout, reason = "a test reports what it ran")]
pub(crate) fn seed(default: u64) -> u64 {
    let seed = std::env::var("LOGUE_TEST_SEED").ok();
    let seed = seed.and_then(|seed| seed.parse().ok()).unwrap_or(default);
    println!("seed {seed}");
    seed
}

/// A store with sessions of real turns: finished, failed, cut, waiting for a person and for a turn.
pub(crate) struct Scene {
    folder: TempDir,
    pub(crate) model: ModelServer,
    /// The signal of the session that waits.
    pub(crate) signal: String,
    store: String,
}

impl Scene {
    /// Creates the sessions in a store.
    pub(crate) fn new(store: &str, seed: u64) -> Self {
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
        let say = |arguments: &[&str]| {
            let ran = on(place, store, arguments);
            assert_eq!(ran.status, 0, "{arguments:?}: {}", ran.stderr);
        };
        for turn in 0..=random.below(4) {
            let words = format!("Turn {turn}: \"é\u{1F980}\" \\ {}", random.next_u64());
            let key = format!("key-{turn}");
            let keyed = ["--idempotency-key", &key, "chat", &words];
            say(&[&["send", "--agent", "echo.md"], &keyed[..]].concat());
        }
        // Above 8 KiB, so that a database keeps it once for both.
        let large = "0123456789abcdef".repeat(600 + random.below(6_000));
        say(&["send", "--agent", "echo.md", "large", &large]);
        say(&["sessions", "fork", "large", "copy"]);

        let replies = vec![
            call(),
            call(),
            status(503),
            call(),
            text("done"),
            text("continued"),
            text("afterwards"),
        ];
        let model = server(replies);
        let ask = |arguments: &[&str]| asking(place, &model, store, arguments);
        let asked = ["send", "--agent", "p.md", "--permission", "deploy=ask"];
        let waits: Ran = ask(&[&asked[..], &["waiting", "Ship it."]].concat())
            .output()
            .unwrap()
            .into();
        assert_eq!(waits.status, 6, "{}", waits.stderr);
        let mut lines = waits.stderr.lines();
        let line = lines.find(|line| line.contains("logue signal"));
        let signal = line.unwrap().split_whitespace().nth(2).unwrap().to_owned();
        let failed = ["send", "--agent", "p.md", "failed", "Ship it."];
        let failed: Ran = ask(&failed).output().unwrap().into();
        assert_eq!(failed.status, 4, "{}", failed.stderr);
        assert!(place.join("runs").exists());

        let start = |mut command: Command| -> Child {
            command.stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().unwrap()
        };
        let slow = ["send", "--agent", "slow.md", "crashed", "Ship it slowly."];
        let mut crashed = start(ask(&slow));
        wait_for_file(&place.join("slow-runs"));
        let mut later = start(ask(&LATER));
        wait_until(
            || "the message is not in the inbox".to_owned(),
            || {
                let shown = on(place, store, &["sessions", "show", "crashed", "--json"]);
                json_of(&shown)["inbox"].as_array().unwrap().len() == 2
            },
        );
        for child in [&mut later, &mut crashed] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        say(&["send", "--agent", "echo.md", "queued", "Hello."]);
        Self {
            folder,
            model,
            signal,
            store: store.to_owned(),
        }
    }

    pub(crate) fn place(&self) -> &Path {
        self.folder.path()
    }

    /// Returns everything that commands show of the sessions of a store.
    pub(crate) fn shown(&self, store: &str) -> Vec<(String, String)> {
        let place = self.place();
        let mut all = Vec::new();
        let list = on(place, store, &["sessions", "list", "--json"]);
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
                let ran = on(place, store, command);
                assert_eq!(ran.status, 0, "{command:?}: {}", ran.stderr);
                all.push((command.join(" "), ran.stdout));
            }
        }
        all
    }

    /// Runs `sessions migrate` with JSON.
    fn migrate(&self, from: &str, to: &str, further: &[&str]) -> Ran {
        let mut command = self.migration(from, to);
        command.args(further).output().unwrap().into()
    }

    fn migration(&self, from: &str, to: &str) -> Command {
        let mut command = logue(self.place());
        command.args(["sessions", "migrate", "--json", "--from", from, "--to", to]);
        command
    }

    /// Runs a command on a store with the model of the scene.
    fn ask(&self, store: &str, arguments: &[&str]) -> Ran {
        let mut command = asking(self.place(), &self.model, store, arguments);
        command.output().unwrap().into()
    }

    /// Moves the sessions to an empty store: complete, and each continues there and only there.
    pub(crate) fn moves_and_continues(&self, to: &str) {
        let (place, from) = (self.place(), self.store.as_str());
        let before = self.shown(from);
        let planned = json_of(&self.migrate(from, to, &["--dry-run"]));
        assert_eq!(ids(&planned["moved"]), SESSIONS, "{planned}");
        if let Some(file) = to.strip_prefix("sqlite:") {
            assert!(!place.join(file).exists());
        }

        let moved = self.migrate(from, to, &[]);
        assert_eq!(moved.status, 0, "{}", moved.stderr);
        let summary = json_of(&moved);
        assert_eq!(ids(&summary["moved"]), SESSIONS);
        let address = summary["to"].as_str().unwrap();
        assert!(!address.contains('@'), "{address}");
        assert_eq!(self.shown(to), before);
        let verified = on(place, to, &["sessions", "verify"]);
        assert_eq!(verified.status, 0, "{}", verified.stdout);
        let verified = self.migrate(from, to, &["--verify"]);
        assert_eq!(verified.status, 0, "{}", verified.stderr);
        let verified = json_of(&verified);
        assert_eq!(ids(&verified["equal"]), SESSIONS);
        // The same record, by the hash with which it was moved.
        assert_eq!(hashes(&verified["equal"]), hashes(&summary["moved"]));

        // The decision runs the call once, in the new store only.
        let runs = || {
            let runs = std::fs::read_to_string(place.join("runs")).unwrap();
            runs.lines().count()
        };
        let had_run = runs();
        let decide = ["signal", &self.signal, "--approve"];
        let old = self.ask(from, &decide);
        assert_eq!(old.status, 3, "{}", old.stderr);
        assert!(
            old.stderr.contains("error[session_moved]"),
            "{}",
            old.stderr
        );
        assert!(old.stderr.contains(address), "{}", old.stderr);
        assert_eq!(runs(), had_run);
        for _ in 0..2 {
            let approved = self.ask(to, &decide);
            assert_eq!(
                (approved.status, approved.stdout.as_str()),
                (0, "done\n"),
                "{}",
                approved.stderr
            );
            assert_eq!(runs(), had_run + 1);
        }
        // The turn whose process died continues with the result of its call, and then the message
        // that had waited for it.
        let recovered = self.ask(to, &["sessions", "recover", "--all"]);
        assert_eq!(recovered.status, 0, "{}", recovered.stderr);
        let slow_runs = std::fs::read_to_string(place.join("slow-runs")).unwrap();
        assert_eq!(slow_runs, "ran\n");
        let asked = self.model.received().len();
        let later = self.ask(to, &LATER);
        assert_eq!(
            (later.status, later.stdout.as_str()),
            (0, "afterwards\n"),
            "{}",
            later.stderr
        );
        assert_eq!(
            self.model.received().len(),
            asked,
            "the model was asked again"
        );
        // A known key is answered, and not run again.
        let exported = || on(place, to, &["sessions", "export", "chat"]).stdout;
        let chat: Value = serde_json::from_str(&before[1].1).unwrap();
        let words = chat["messages"][0]["content"].as_str().unwrap();
        let keyed = ["--idempotency-key", "key-0", "chat", words];
        let unchanged = exported();
        let known = on(
            place,
            to,
            &[&["send", "--agent", "echo.md"], &keyed[..]].concat(),
        );
        assert_eq!(
            (known.status, known.stdout),
            (0, format!("{words}\n")),
            "{}",
            known.stderr
        );
        assert_eq!(exported(), unchanged);

        let verified = json_of(&self.migrate(from, to, &["--verify"]));
        let continued = json!(["crashed", "waiting"]);
        assert_eq!(verified["continued"], continued, "{verified}");
        assert_eq!(ids(&verified["equal"]).len(), 5, "{verified}");
        let again = self.migrate(from, to, &[]);
        assert_eq!(again.status, 0, "{}", again.stderr);
        assert_eq!(json_of(&again)["moved_before"], json!(SESSIONS));
    }

    /// Kills migrations at random moments: the same command ends each, and nothing is missing.
    ///
    /// `source` returns a copy of the scene's store for a round, and `target` an empty one.
    #[expect(clippy::print_stdout, reason = "a test reports what it ran")]
    pub(crate) fn survives_kills(
        &self,
        seed: u64,
        rounds: u32,
        source: &dyn Fn(u32) -> String,
        target: &dyn Fn(u32) -> String,
    ) {
        let mut random = Random::new(seed ^ 0x6b69_6c6c);
        let before = self.shown(&self.store);
        let (from, to) = (source(0), target(0));
        let started = Instant::now();
        let whole = self.migrate(&from, &to, &[]);
        assert_eq!(whole.status, 0, "{}", whole.stderr);
        let whole = started.elapsed();

        let (mut cut, mut partial) = (0, 0);
        for round in 1..=rounds {
            let (from, to) = (source(round), target(round));
            let mut migration = self.migration(&from, &to);
            migration.stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = migration.spawn().unwrap();
            let share = u32::try_from(random.below(1_000)).unwrap();
            std::thread::sleep(whole * share / 1_000);
            child.kill().unwrap();
            cut += u32::from(!child.wait().unwrap().success());
            let usable: Vec<Vec<String>> = [&from, &to].map(|store| self.usable(store)).into();
            for session in &usable[0] {
                let place = format!("round {round}, seed {seed}: {session}");
                assert!(!usable[1].contains(session), "{place} is in both stores");
            }
            partial += u32::from(!usable[1].is_empty() && usable[1].len() < SESSIONS.len());
            let ended = self.migrate(&from, &to, &[]);
            assert_eq!(
                ended.status, 0,
                "round {round}, seed {seed}: {}",
                ended.stderr
            );
            if round % 10 == 0 {
                assert_eq!(self.shown(&to), before, "round {round}, seed {seed}");
            }
            let verified = self.migrate(&from, &to, &["--verify"]);
            assert_eq!(
                verified.status, 0,
                "round {round}, seed {seed}: {}",
                verified.stderr
            );
            let equal = json_of(&verified);
            assert_eq!(ids(&equal["equal"]), SESSIONS, "round {round}, seed {seed}");
        }
        println!("{cut} of {rounds} migrations were cut, {partial} between two sessions");
        assert!(cut > 0, "every migration had ended before it was killed");
    }

    /// Returns the sessions that a store continues.
    fn usable(&self, store: &str) -> Vec<String> {
        if let Some(file) = store.strip_prefix("sqlite:") {
            let found = self.place().join(file).metadata();
            if !found.is_ok_and(|file| file.len() > 0) {
                return Vec::new();
            }
        }
        let listed = on(self.place(), store, &["sessions", "list", "--json"]);
        // A file in which nothing was created yet is not a store.
        let lines = listed.stdout.lines().map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            line
        });
        let usable =
            lines.filter(|one| one["moved_to"].is_null() && one["arriving_from"].is_null());
        usable
            .map(|one| one["session_id"].as_str().unwrap().to_owned())
            .collect()
    }
}

/// The message that waits for the turn whose process died.
const LATER: [&str; 5] = ["send", "--idempotency-key", "later", "crashed", "And then?"];

fn asking(folder: &Path, model: &ModelServer, store: &str, arguments: &[&str]) -> Command {
    let mut command = logue(folder);
    command.env("LOGUE_STORE", store);
    command.env("OPENAI_BASE_URL", model.base_url());
    command.args(arguments);
    command
}

/// Returns the ids of a list of a report.
fn ids(list: &Value) -> Vec<&str> {
    let list = list.as_array().unwrap().iter();
    list.map(|one| one["session_id"].as_str().unwrap())
        .collect()
}

/// Returns the hashes of a list of a report.
fn hashes(list: &Value) -> Vec<&str> {
    let list = list.as_array().unwrap().iter();
    list.map(|one| one["hash"].as_str().unwrap()).collect()
}
