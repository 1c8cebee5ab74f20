//! Only files that the user or root has written are obeyed, and nothing is written through links.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, folder, strict};

const PROMPT: &str = "<config model=\"m\"/>\n<tool name=\"t\" command=\"sh mark.sh\"/>\n";
const TRUST: &str = ".data/logue/trust.json";
const SETTINGS: &str = ".config/logue/config.toml";
const STORE: &str = ".data/logue/sessions.db";

/// A user without any file of this machine.
const OTHER: u32 = 54_321;

/// A folder with a trusted prompt whose tool leaves a mark.
fn trusted() -> tempfile::TempDir {
    let folder = folder(&[("p.md", PROMPT), ("mark.sh", "echo ran >> marks\n")]);
    let ran: Ran = strict(folder.path())
        .args(["trust", "add", "p.md"])
        .output()
        .unwrap()
        .into();
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    folder
}

/// Runs the program on a model that calls the tool; returns whether the tool ran.
fn marks(folder: &Path, arguments: &[&str]) -> (bool, Ran) {
    let call = Answer::text("").with_call("c", "t", "{\"arguments\":[]}");
    let replies = vec![Reply::Answer(call), Reply::Answer(Answer::text("done"))];
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    let mut command = strict(folder);
    command.env("OPENAI_BASE_URL", server.base_url());
    let ran: Ran = command.args(arguments).output().unwrap().into();
    let marks = folder.join("marks");
    let is_marked = marks.exists();
    drop(std::fs::remove_file(marks));
    (is_marked, ran)
}

/// Returns whether the address in the user's settings gets the conversation.
fn settings_apply(folder: &Path, write: impl FnOnce(&Path, &str)) -> (bool, Ran) {
    let server =
        ModelServer::start(vec![Reply::Answer(Answer::text("hi"))], Delivery::Whole).unwrap();
    let file = folder.join(SETTINGS);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    drop(std::fs::remove_file(&file));
    write(
        &file,
        &format!("[model]\nbase_url = {:?}\n", server.base_url()),
    );
    let prompt = "<config model=\"m\"/>\n<user>q</user>\n";
    std::fs::write(folder.join("q.md"), prompt).unwrap();
    let ran: Ran = strict(folder)
        .args(["run", "--no-save", "--retries", "0", "q.md"])
        .output()
        .unwrap()
        .into();
    (!server.received().is_empty(), ran)
}

fn give_away(path: &Path) {
    chown(path, Some(OTHER), Some(OTHER)).unwrap();
}

/// Whether tests can create files of another user.
fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn assert_refused(ran: &Ran, code: &str, found: &str) {
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    for part in [code, found, "help: "] {
        assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
    }
}

#[test]
fn a_trust_list_of_another_user_or_that_others_write_grants_nothing() {
    let folder = trusted();
    let list = folder.path().join(TRUST);
    assert!(marks(folder.path(), &["run", "p.md", "go"]).0);
    for mode in [0o602, 0o620] {
        set_mode(&list, mode);
        if mode == 0o620 {
            // A group with the number of the user is that user's alone.
            let has_own_group = list.metadata().unwrap().uid() == list.metadata().unwrap().gid();
            if has_own_group && !is_root() {
                continue;
            }
            drop(chown(&list, None, Some(OTHER)));
        }
        let (is_marked, ran) = marks(folder.path(), &["run", "p.md", "go"]);
        assert!(!is_marked, "{mode:o}: {}", ran.stderr);
        assert_refused(&ran, "trust_unavailable", "other users may write");
    }
    set_mode(&list, 0o600);
    assert!(marks(folder.path(), &["run", "p.md", "go"]).0);
    if is_root() {
        give_away(&list);
        let (is_marked, ran) = marks(folder.path(), &["run", "p.md", "go"]);
        assert!(!is_marked, "{}", ran.stderr);
        assert_refused(&ran, "trust_unavailable", "another user, number 54321");
    }
}

#[test]
fn settings_of_another_user_or_that_others_write_have_no_effect() {
    let folder = folder(&[]);
    let plain = |file: &Path, text: &str| std::fs::write(file, text).unwrap();
    assert!(settings_apply(folder.path(), plain).0);
    // As programs that manage settings lay them out.
    let linked = |file: &Path, text: &str| {
        let target = folder.path().join("dotfiles.toml");
        std::fs::write(&target, text).unwrap();
        symlink(target, file).unwrap();
    };
    assert!(settings_apply(folder.path(), linked).0);
    let (applies, ran) = settings_apply(folder.path(), |file, text| {
        plain(file, text);
        set_mode(file, 0o666);
    });
    assert!(!applies, "{}", ran.stderr);
    assert_refused(&ran, "E-CONFIG-INVALID", "other users may write");
    if !is_root() {
        return;
    }
    let target = folder.path().join("dotfiles.toml");
    let (others_file, others_target, others_link): (Writer, Writer, Writer) = (
        &|file, text| {
            plain(file, text);
            give_away(file);
        },
        &|file, text| {
            linked(file, text);
            give_away(&target);
        },
        &|file, text| {
            drop(std::fs::remove_file(&target));
            linked(file, text);
            std::os::unix::fs::lchown(file, Some(OTHER), None).unwrap();
        },
    );
    for write in [others_file, others_target, others_link] {
        let (applies, ran) = settings_apply(folder.path(), write);
        assert!(!applies, "{}", ran.stderr);
        assert_refused(&ran, "E-CONFIG-INVALID", "another user, number 54321");
    }
}

type Writer<'a> = &'a dyn Fn(&Path, &str);

#[test]
fn root_obeys_the_files_of_the_person_whose_home_it_uses() {
    if !is_root() {
        return;
    }
    let folder = trusted();
    let owned = [".data", ".data/logue", TRUST].map(|name| folder.path().join(name));
    for path in &owned {
        give_away(path);
    }
    // The home directory is root's, so the list is that of another user.
    assert!(!marks(folder.path(), &["run", "p.md", "go"]).0);
    give_away(folder.path());
    assert!(marks(folder.path(), &["run", "p.md", "go"]).0);
    // In a directory of somebody else, the person's file may have been put by that one.
    chown(&owned[1], Some(OTHER + 1), None).unwrap();
    assert!(!marks(folder.path(), &["run", "p.md", "go"]).0);
}

#[test]
fn a_store_of_another_user_or_in_a_folder_of_others_grants_nothing() {
    let folder = folder(&[("p.md", PROMPT), ("mark.sh", "echo ran >> marks\n")]);
    let start = [
        "send",
        "--agent",
        "p.md",
        "--permission",
        "*=allow",
        "s",
        "go",
    ];
    assert!(marks(folder.path(), &start).0);
    let send = || marks(folder.path(), &["send", "s", "go"]);
    assert!(send().0);
    let (store, parent) = (folder.path().join(STORE), folder.path().join(".data/logue"));
    set_mode(&store, 0o606);
    let (is_marked, ran) = send();
    assert!(!is_marked, "{}", ran.stderr);
    assert_refused(&ran, "store_unavailable", "other users may write");
    set_mode(&store, 0o600);
    set_mode(&parent, 0o777);
    let (is_marked, ran) = send();
    assert!(!is_marked, "{}", ran.stderr);
    assert_refused(&ran, "store_unavailable", "replace files of its directory");
    set_mode(&parent, 0o700);
    assert!(send().0);
    if !is_root() {
        return;
    }
    for path in [&store, &parent] {
        give_away(path);
        let (is_marked, ran) = send();
        assert!(!is_marked, "{}", ran.stderr);
        assert_refused(&ran, "store_unavailable", "another user, number 54321");
        chown(path, Some(0), Some(0)).unwrap();
    }
    // SQLite would replay a journal that somebody has put beside the file.
    let journal = parent.join("sessions.db-wal");
    std::fs::write(&journal, "").unwrap();
    give_away(&journal);
    let (is_marked, ran) = send();
    assert!(!is_marked, "{}", ran.stderr);
    assert_refused(&ran, "store_unavailable", "another user, number 54321");
    std::fs::remove_file(&journal).unwrap();
    assert!(send().0);
}

/// Returns the audit of the only conversation.
fn audit(folder: &Path) -> PathBuf {
    let entries = std::fs::read_dir(folder.join(".data/logue/audit")).unwrap();
    let mut paths = entries.map(|entry| entry.unwrap().path());
    paths.next().unwrap()
}

#[test]
fn an_audit_is_not_written_through_a_link_and_its_call_does_not_run() {
    let folder = trusted();
    assert!(marks(folder.path(), &["run", "p.md", "go"]).0);
    let (log, target) = (audit(folder.path()), folder.path().join("target"));
    for is_there in [true, false] {
        std::fs::remove_file(&log).unwrap();
        if is_there {
            std::fs::write(&target, "mine").unwrap();
        } else {
            std::fs::remove_file(&target).unwrap();
        }
        symlink(&target, &log).unwrap();
        let (is_marked, ran) = marks(folder.path(), &["run", "p.md", "go"]);
        assert!(!is_marked, "{}", ran.stderr);
        assert_eq!(ran.status, 4, "{}", ran.stderr);
        assert!(ran.stderr.contains("it is a link"), "{}", ran.stderr);
        let text = std::fs::read_to_string(&target).ok();
        assert_eq!(text.as_deref(), is_there.then_some("mine"));
    }
}

#[test]
fn a_pipe_in_the_place_of_a_private_file_stops_nothing() {
    let folder = trusted();
    assert!(marks(folder.path(), &["run", "p.md", "go"]).0);
    let log = audit(folder.path());
    let started = [
        "send",
        "--agent",
        "p.md",
        "--permission",
        "*=allow",
        "s",
        "go",
    ];
    assert!(marks(folder.path(), &started).0);
    let lock = folder.path().join(".data/logue/trust.lock");
    let settings = folder.path().join(SETTINGS);
    std::fs::create_dir_all(settings.parent().unwrap()).unwrap();
    let [trust, store] = [TRUST, STORE].map(|name| folder.path().join(name));
    let server = ModelServer::start(
        vec![Reply::Answer(Answer::text("").with_call(
            "c",
            "t",
            "{\"arguments\":[]}",
        ))],
        Delivery::Whole,
    )
    .unwrap();
    for (file, arguments) in [
        (&trust, &["run", "p.md", "go"][..]),
        (&log, &["run", "p.md", "go"]),
        (&settings, &["run", "p.md", "go"]),
        (&lock, &["trust", "add", "p.md"]),
        (&store, &["send", "s", "go"]),
        (&log, &["sessions", "show", "p.md", "--audit"]),
    ] {
        let before = std::fs::read(file).ok();
        drop(std::fs::remove_file(file));
        let made = Command::new("mkfifo").arg(file).status().unwrap();
        assert!(made.success());
        let mut child = strict(folder.path())
            .env("OPENAI_BASE_URL", server.base_url())
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if begun.elapsed() > Duration::from_secs(20) {
                child.kill().unwrap();
                panic!("it waits for {}", file.display());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let ran: Ran = child.wait_with_output().unwrap().into();
        assert_ne!(ran.status, 0, "{}", file.display());
        assert!(
            ran.stderr.contains("it is a pipe, socket or device"),
            "{}: {}",
            file.display(),
            ran.stderr
        );
        std::fs::remove_file(file).unwrap();
        if let Some(before) = before {
            std::fs::write(file, before).unwrap();
            set_mode(file, 0o600);
        }
    }
}

#[test]
fn a_cached_response_of_another_user_is_not_used() {
    let prompt = "<config model=\"m\"/>\n<user><agent src=\"a.md\" local>hi</agent></user>\n";
    let agent = "<config model=\"m\"/>\n<system>Help.</system>\n";
    let folder = folder(&[("p.md", prompt), ("a.md", agent)]);
    let answers = ["of the agent", "1", "2", "of the agent", "3", "4"].map(Answer::text);
    let replies = answers.into_iter().map(Reply::Answer);
    let server = ModelServer::start(replies.collect(), Delivery::Whole).unwrap();
    let requests = || {
        let before = server.received().len();
        let ran: Ran = strict(folder.path())
            .env("OPENAI_BASE_URL", server.base_url())
            .args(["run", "--no-save", "p.md"])
            .output()
            .unwrap()
            .into();
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        server.received().len() - before
    };
    assert_eq!((requests(), requests()), (2, 1));
    let cache = folder.path().join(".cache/logue/agents");
    for entry in std::fs::read_dir(cache).unwrap() {
        set_mode(&entry.unwrap().path(), 0o666);
    }
    assert_eq!((requests(), requests()), (2, 1));
}
