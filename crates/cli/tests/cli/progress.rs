//! Progress bars on a terminal, and the files of work that a signal ends.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};

use crate::program::{Ran, folder, logue, run};
use crate::screen::Screen;
use crate::waiting::wait_until;

const ROW: &str = "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}\n";

/// Runs a command on a terminal until it shows a bar, and ends it with a signal.
fn shows(folder: &Path, command: &str, parts: &[&str]) {
    let script = format!(
        "TERM=xterm NO_COLOR=1 exec {} {command}",
        env!("CARGO_BIN_EXE_logue")
    );
    let mut shell = Command::new("sh");
    shell
        .current_dir(folder)
        .env("HOME", folder)
        .env("XDG_DATA_HOME", folder.join(".data"))
        .env("LOGUE_TRUST", "all")
        .args(["-c", &script]);
    let screen = Screen::start(&mut shell);
    wait_until(
        || format!("{command}: no bar: {:?}", screen.text()),
        || parts.iter().all(|part| screen.text().contains(part)),
    );
    kill(pid(screen.child.id()), Signal::SIGTERM).unwrap();
    // Some commands end with the status of the signal, others by the signal.
    let (status, text) = screen.end();
    assert!([-1, 143].contains(&status), "{command}: {status} {text}");
}

fn pid(id: u32) -> Pid {
    Pid::from_raw(id.try_into().unwrap())
}

/// Makes a pipe with a name whose reader and writer stay open.
fn pipe(path: &Path) -> File {
    mkfifo(path, Mode::S_IRWXU).unwrap();
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).open(path).unwrap()
}

/// A text that takes seconds, as it is named many times.
fn many(name: &str) -> String {
    vec![name; 400].join(" ")
}

#[test]
fn work_on_files_shows_its_rate_and_the_time_left() {
    let folder = folder(&[
        ("rows.jsonl", &ROW.repeat(100_000)),
        ("text.txt", &"one two three\n".repeat(400_000)),
    ]);
    // What nobody reads ends the writing of the commands that print much.
    let _unread = pipe(&folder.path().join("unread"));
    let bar = ["/s, ", " left"];
    for command in [
        "convert rows.jsonl --to openai > unread".to_owned(),
        format!("check {} > unread", many("rows.jsonl")),
        format!("scan {} > unread", many("text.txt")),
        format!("tokens count {}", many("text.txt")),
    ] {
        shows(folder.path(), &command, &bar);
    }
}

#[test]
fn work_on_a_pipe_shows_its_rate() {
    let folder = folder(&[]);
    for (number, command) in [
        "convert --jsonl --to openai -o out.jsonl",
        "scan -",
        "tokens count -",
    ]
    .iter()
    .enumerate()
    {
        let name = format!("pipe{number}");
        let mut input = pipe(&folder.path().join(&name));
        input.write_all(ROW.as_bytes()).unwrap();
        shows(folder.path(), &format!("{command} < {name}"), &["/s"]);
    }
}

#[test]
fn an_export_and_a_large_import_show_their_rate() {
    let text = "x".repeat(100_000);
    let message = format!("{{\"role\":\"user\",\"content\":\"{text}\"}}");
    let messages = vec![&*message; 20].join(",");
    let folder = folder(&[("small.json", &format!("{{\"messages\":[{messages}]}}"))]);
    let imported = run(folder.path(), ["sessions", "import", "small.json", "a"]);
    assert_eq!(imported.status, 0, "{}", imported.stderr);
    let _unread = pipe(&folder.path().join("unread"));
    let bar = ["/s, ", " left"];
    shows(folder.path(), "sessions export a > unread", &bar);

    // More than the limit of a text that is read as a whole, without an end.
    let mut input = pipe(&folder.path().join("input"));
    let _open = input.try_clone().unwrap();
    // The thread is not awaited: it waits for the reader that a signal ends.
    drop(std::thread::spawn(move || {
        input.write_all(b"{\"messages\":[").unwrap();
        for _ in 0..700 {
            input.write_all(message.as_bytes()).unwrap();
            input.write_all(b",").unwrap();
        }
    }));
    shows(folder.path(), "sessions import - b < input", &["/s"]);
}

/// Every file below a directory.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
fn a_signal_leaves_no_temporary_file_of_any_command() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        for command in [
            &["convert", "--jsonl", "--to", "openai", "--strict"][..],
            &["tokens", "count", "-"],
            &["scan", "-"],
            &["check", "-"],
            &["fmt", "-"],
            &["fix", "-"],
            &["sessions", "import", "-", "a"],
        ] {
            let folder = folder(&[("tmp/.keep", "")]);
            let input = pipe(&folder.path().join("input"));
            let before = files(folder.path());
            let child = logue(folder.path())
                .args(command)
                .env("TMPDIR", folder.path().join("tmp"))
                .stdin(Stdio::from(input.try_clone().unwrap()))
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let mut filled = input;
            filled.write_all(ROW.as_bytes()).unwrap();
            // The program has read the row when the pipe is empty.
            wait_until(
                || format!("{command:?} reads nothing"),
                || is_empty(&filled),
            );
            kill(pid(child.id()), signal).unwrap();
            let ran = Ran::from(child.wait_with_output().unwrap());
            assert!(ran.status != 0, "{command:?}: {}", ran.stderr);
            let after = files(folder.path());
            let left = after.iter().filter(|path| !before.contains(path));
            let left: Vec<_> = left
                .filter(|path| !path.starts_with(folder.path().join(".data")))
                .collect();
            assert!(left.is_empty(), "{command:?}: {left:?}");
        }
    }
}

/// Returns whether a pipe holds no byte.
fn is_empty(pipe: &File) -> bool {
    rustix::io::ioctl_fionread(pipe).unwrap() == 0
}
