//! Links that replace files and folders before and during a run.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use logue_tools::sandbox::probe;
use serde_json::{Value, json};
use testkit::soak::rounds;
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, contents, folder, run};

const SECRET: &str = "TOPSECRET";

/// The folder that attacks are after; `project` beside it contains the prompt.
const OUTSIDE: &[(&str, &str)] = &[
    (".ssh/id_rsa", SECRET),
    (".ssh/a.txt", SECRET),
    (".ssh/picture.png", "\u{89}PNG TOPSECRET"),
];

/// A home with `files` in the folder `project`.
fn home(files: &[(&str, &str)]) -> tempfile::TempDir {
    let home = folder(OUTSIDE);
    for (name, text) in files {
        let path = home.path().join("project").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    home
}

fn outside(home: &Path) -> Vec<(String, Vec<u8>)> {
    contents(&home.join(".ssh"))
}

fn server(answers: Vec<Answer>) -> ModelServer {
    let replies = answers.into_iter().map(Reply::Answer).collect();
    ModelServer::start(replies, Delivery::Whole).unwrap()
}

/// Runs a prompt of the project; further arguments follow.
fn run_prompt(home: &Path, server: &ModelServer, arguments: &[&str]) -> Ran {
    let url = server.base_url();
    let words = ["run", "--base-url", url.as_str()];
    run(home, words.iter().chain(arguments))
}

/// All bytes that the model received.
fn received(server: &ModelServer) -> String {
    let received = server.received();
    let bodies = received.iter().map(|request| request.body.to_string());
    bodies.collect()
}

fn tool_results(server: &ModelServer, request: usize) -> Vec<String> {
    let received = server.received();
    let messages = received[request].body["messages"].as_array().unwrap();
    let results = messages.iter().filter(|message| message["role"] == "tool");
    results
        .map(|message| message["content"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_payload_folder_that_is_a_link_sends_nothing() {
    for (target, element, code) in [
        (
            "../.ssh",
            "<doc src=\"./.chatmd/id_rsa\" local/>",
            "E-MD-PAYLOAD-FOLDER",
        ),
        (
            "../.ssh",
            "<doc src=\".chatmd/id_rsa\" local/>",
            "E-MD-PAYLOAD-FOLDER",
        ),
        // A link within the project is one as well.
        (
            "inner",
            "<doc src=\"./.chatmd/a.txt\" local/>",
            "E-MD-PAYLOAD-FOLDER",
        ),
        (
            "../.ssh",
            "<doc src=\"././.chatmd/id_rsa\" local/>",
            "E-OUTSIDE-ROOTS",
        ),
        (
            "../.ssh",
            "<img src=\"./.chatmd/picture.png\" local/>",
            "E-MD-PAYLOAD-FOLDER",
        ),
        (
            "../.ssh",
            "<import src=\"./.chatmd/id_rsa\"/>",
            "E-OUTSIDE-ROOTS",
        ),
    ] {
        let prompt = format!("<config model=\"m\"/>\n<user>{element}</user>\n");
        let home = home(&[("p.md", &prompt), ("inner/a.txt", SECRET)]);
        symlink(target, home.path().join("project/.chatmd")).unwrap();
        let server = server(vec![Answer::text("done")]);
        // Without a transcript only the reader of the element refuses the link.
        for arguments in [&["project/p.md"][..], &["--no-save", "project/p.md"]] {
            let ran = run_prompt(home.path(), &server, arguments);
            assert_eq!(ran.status, 3, "{element}: {}", ran.stderr);
            assert!(ran.stderr.contains(code), "{element}: {}", ran.stderr);
            assert_eq!(received(&server), "", "{element}");
            let printed = ran.stdout + &ran.stderr;
            assert!(!printed.contains(SECRET), "{element}: {printed}");
        }
    }
}

#[test]
fn a_link_in_the_payload_folder_sends_nothing() {
    let prompt = "<config model=\"m\"/>\n<user><doc src=\"./.chatmd/x\" local/></user>\n";
    let home = home(&[("p.md", prompt), (".chatmd/y", "")]);
    symlink("../../.ssh/id_rsa", home.path().join("project/.chatmd/x")).unwrap();
    let server = server(vec![Answer::text("done")]);
    let ran = run_prompt(home.path(), &server, &["project/p.md"]);
    assert_eq!((ran.status, received(&server).as_str()), (3, ""));
}

#[test]
fn payloads_are_not_written_through_a_link() {
    let prompt = "<config model=\"m\"/>\n<tool name=\"read_file\"/>\n<user>go</user>\n";
    let home = home(&[("p.md", prompt), ("a.txt", "text")]);
    symlink("../.ssh", home.path().join("project/.chatmd")).unwrap();
    let before = contents(home.path());
    let call = Answer::text("").with_call("c", "read_file", "{\"file\":\"a.txt\"}");
    let server = server(vec![call, Answer::text("done")]);
    let ran = run_prompt(home.path(), &server, &["project/p.md"]);
    assert_eq!(contents(home.path()), before, "{}", ran.stderr);
    assert_eq!((ran.status, received(&server).as_str()), (3, ""));
    assert!(ran.stderr.contains("E-MD-PAYLOAD-FOLDER"), "{}", ran.stderr);
}

#[test]
fn a_conversion_prints_nothing_through_a_link() {
    let text = "<user>go</user>\n<tool_call tool_call_id=\"c\" function_name=\"f\">\
                <doc src=\"./.chatmd/id_rsa\" local/></tool_call>\n\
                <tool_response tool_call_id=\"c\">ok</tool_response>\n";
    let home = home(&[("t.chatmd", text)]);
    symlink("../.ssh", home.path().join("project/.chatmd")).unwrap();
    for form in ["ocml2.2", "json"] {
        let ran = run(home.path(), ["convert", "project/t.chatmd", "--to", form]);
        assert!(!ran.stdout.contains(SECRET), "{form}: {}", ran.stdout);
        assert!(
            ran.stderr.contains("a document is not fetched"),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn a_prompt_plays_no_recording_from_outside() {
    let asked = "<config model=\"m\"/>\n<user>go</user>\n";
    let home = home(&[("p.md", asked)]);
    let server = server(vec![Answer::text(SECRET)]);
    let ran = run_prompt(
        home.path(),
        &server,
        &["--no-save", "--record", "tape.ocml", "project/p.md"],
    );
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let project = home.path().join("project");
    fs::copy(home.path().join("tape.ocml"), project.join("inside.ocml")).unwrap();
    symlink("../tape.ocml", project.join("link.ocml")).unwrap();
    let absolute = home.path().join("tape.ocml").display().to_string();
    let play = |arguments: &[&str]| run(home.path(), [&["run", "--no-save"], arguments].concat());
    for (name, status) in [
        ("inside.ocml", 0),
        ("../tape.ocml", 3),
        ("link.ocml", 3),
        (&absolute, 3),
        ("../absent.ocml", 3),
    ] {
        let prompt = format!("<config model=\"replay:{name}\"/>\n<user>go</user>\n");
        fs::write(project.join("p.md"), &prompt).unwrap();
        let outer = "<config model=\"echo:\"/>\n<user>go<agent src=\"p.md\" local/></user>\n";
        fs::write(project.join("outer.md"), outer).unwrap();
        for file in ["project/p.md", "project/outer.md"] {
            let ran = play(&[file]);
            let case = format!("{file} {name}: {}{}", ran.stdout, ran.stderr);
            assert_eq!(ran.status, status, "{case}");
            assert_eq!(ran.stdout.contains(SECRET), status == 0, "{case}");
            let is_refused = ran.stderr.contains("is outside the directories");
            assert_eq!(is_refused, status == 3, "{case}");
        }
    }
    // The user may name any file.
    fs::write(project.join("p.md"), asked).unwrap();
    let ran = play(&["-m", "replay:tape.ocml", "project/p.md"]);
    assert_eq!(
        (ran.status, ran.stdout.trim()),
        (0, SECRET),
        "{}",
        ran.stderr
    );
}

/// Commands that replace the folder `sub` of the project by a link, and then use it.
fn swap_and_use(path: &Path) -> [String; 2] {
    let path = path.display();
    [
        format!("mv {path} {path}-old; ln -s ../.ssh {path} && echo SWAPPED"),
        format!(
            "cat id_rsa; cat {path}/id_rsa; echo x > planted; echo x > {path}/planted; \
             echo x >> {path}/a.txt; echo TRIED"
        ),
    ]
}

fn sh(id: &str, script: &str) -> Answer {
    Answer::text("").with_call(id, "sh", json!({"arguments": [script]}).to_string())
}

#[test]
fn a_root_that_a_command_replaces_opens_nothing_to_the_next() {
    if probe().landlock.is_none() && probe().bubblewrap.is_none() {
        eprintln!("skipped: no sandbox here");
        return;
    }
    let prompt = "<config model=\"m\" show_tool_call/>\n<tool name=\"sh\" command=\"sh -c\"/>\n\
                  <tool name=\"python\"/>\n<user>go</user>\n";
    // The prompt's own folder inside a root, a further root in it, and a writable folder that a
    // command creates.
    for (file, arguments, target, settings) in [
        ("sub/p.md", &["--root", "project"][..], "sub", ""),
        ("p.md", &["--root", "project/sub"], "sub", ""),
        (
            "p.md",
            &[],
            "later",
            "[tools]\nwritable = [\"~/project/later\"]\n",
        ),
        (
            "p.md",
            &[],
            "later",
            "[tools]\nreadable = [\"~/project/later\"]\n",
        ),
        (
            "p.md",
            &[],
            "sub",
            "[tools]\nwritable = [\"~/project/sub\"]\n",
        ),
    ] {
        let home = home(&[(file, prompt), ("sub/a.txt", "inside")]);
        fs::create_dir_all(home.path().join(".config/logue")).unwrap();
        fs::write(home.path().join(".config/logue/config.toml"), settings).unwrap();
        let before = outside(home.path());
        let target = home.path().join("project").join(target);
        let [swap, use_it] = swap_and_use(&target);
        let code = format!(
            "for path in ['id_rsa', {0:?} + '/id_rsa']:\n try: print(open(path).read())\n \
             except OSError as error: print(error)\n",
            target.display().to_string()
        );
        let python = Answer::text("").with_call("c", "python", json!({ "code": code }).to_string());
        let server = server(vec![
            sh("a", &swap),
            sh("b", &use_it),
            python,
            Answer::text("done"),
        ]);
        let prompt = format!("project/{file}");
        let words = [arguments, &["--no-save", &prompt]].concat();
        let ran = run_prompt(home.path(), &server, &words);
        let results = tool_results(&server, 3);
        let case = format!("{file} {arguments:?} {settings}: {results:?}");
        assert_eq!(ran.status, 0, "{case}: {}", ran.stderr);
        assert!(
            target.is_symlink() && results[0].contains("SWAPPED"),
            "{case}"
        );
        assert!(results[1].contains("TRIED"), "{case}");
        assert!(!received(&server).contains(SECRET), "{case}");
        assert_eq!(outside(home.path()), before, "{case}");
    }
}

#[test]
fn a_transcript_whose_folder_a_command_replaces_is_not_written_elsewhere() {
    let prompt = "<config model=\"m\"/>\n<tool name=\"sh\" command=\"sh -c\"/>\n\
                  <user>go</user>\n";
    for (file, arguments) in [
        ("project/sub/p.md", &["--root", "project"][..]),
        (
            "project/p.md",
            &["--root", "project", "-o", "project/sub/t.chatmd"],
        ),
    ] {
        let name = if file.contains("sub") {
            "p.md"
        } else {
            "t.chatmd"
        };
        let home = home(&[("p.md", prompt), ("sub/p.md", prompt)]);
        let project = home.path().join("project");
        let before = outside(home.path());
        let [swap, _] = swap_and_use(&project.join("sub"));
        let server = server(vec![sh("a", &swap), Answer::text("the answer")]);
        let ran = run_prompt(home.path(), &server, &[arguments, &[file]].concat());
        assert!(project.join("sub").is_symlink(), "{}", ran.stderr);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        assert_eq!(outside(home.path()), before, "{file}");
        let written = fs::read_to_string(project.join("sub-old").join(name)).unwrap();
        assert!(written.contains("the answer"), "{file}: {written}");
    }
}

#[test]
fn an_agent_folder_that_a_command_replaces_is_not_entered() {
    let agent = "<config model=\"m\"/>\n<tool name=\"sh\" command=\"sh -c\"/>\n\
                 <tool name=\"read_file\"/>\n<user>go</user>\n";
    let prompt = "<config model=\"m\" show_tool_call/>\n<tool name=\"sh\" command=\"sh -c\"/>\n\
                  <tool name=\"helper\" agent=\"sub/agent.md\" local/>\n<user>go</user>\n";
    let home = home(&[("p.md", prompt), ("sub/agent.md", agent)]);
    fs::write(home.path().join(".ssh/agent.md"), agent).unwrap();
    let before = outside(home.path());
    let target = home.path().join("project/sub");
    let [swap, use_it] = swap_and_use(&target);
    let help = Answer::text("").with_call("h", "helper", "{\"input\":\"go\"}");
    let read = sh("b", &use_it).with_call("r", "read_file", "{\"file\":\"id_rsa\"}");
    let server = server(vec![
        sh("a", &swap),
        help,
        read,
        Answer::text("done"),
        Answer::text("done"),
    ]);
    let ran = run_prompt(home.path(), &server, &["--no-save", "project/p.md"]);
    assert!(target.is_symlink(), "{}", ran.stderr);
    assert!(!received(&server).contains(SECRET), "{}", received(&server));
    assert_eq!(outside(home.path()), before);
}

/// A thread that exchanges entries of the project for links until it is dropped.
struct Swapping {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Swapping {
    fn start(project: &Path, names: &'static [&'static str]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, project) = (Arc::clone(&stop), project.to_owned());
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                for name in names {
                    swap(&project.join(name), &project);
                }
            }
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

/// Replaces `path` by a link to the outside, and brings it back.
fn swap(path: &Path, project: &Path) {
    let parked = path.with_extension("parked");
    let outside = project.parent().unwrap().join(".ssh");
    let target: PathBuf = if path.is_dir() {
        outside
    } else {
        outside.join("a.txt")
    };
    // A tool may have created something of that name in between.
    if fs::rename(path, &parked).is_err() {
        return;
    }
    drop(symlink(&target, path));
    std::thread::yield_now();
    drop(fs::remove_file(path));
    drop(fs::remove_dir_all(path));
    drop(fs::rename(&parked, path));
}

impl Drop for Swapping {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        drop(self.thread.take().map(JoinHandle::join));
    }
}

#[test]
fn documents_and_payloads_that_become_links_lead_nowhere() {
    for (element, names) in [
        ("<doc src=\"d/a.txt\" local/>", &["d"][..]),
        ("<doc src=\"a.txt\" local/>", &["a.txt"]),
        ("<doc src=\"./.chatmd/a.txt\" local/>", &[".chatmd"]),
        ("<img src=\"d/picture.png\" local/>", &["d"]),
        ("<import src=\"d/a.txt\"/>", &["d"]),
    ] {
        let prompt = format!("<config model=\"m\"/>\n<user>q{element}</user>\n");
        let home = home(&[
            ("p.md", &prompt),
            ("a.txt", "inside"),
            ("d/a.txt", "inside"),
            ("d/picture.png", "\u{89}PNG inside"),
            (".chatmd/a.txt", "inside"),
        ]);
        let before = outside(home.path());
        let runs = rounds(8, 2_000);
        let answers = (0..runs).map(|_| Answer::text("done")).collect();
        let server = server(answers);
        let swapping = Swapping::start(&home.path().join("project"), names);
        for _ in 0..runs {
            let ran = run_prompt(home.path(), &server, &["--no-save", "project/p.md"]);
            let printed = ran.stdout + &ran.stderr;
            assert!(!printed.contains(SECRET), "{element}: {printed}");
        }
        drop(swapping);
        assert!(!received(&server).contains(SECRET), "{element}");
        assert_eq!(outside(home.path()), before, "{element}");
    }
}

/// One call of each tool that reaches files, with a path that is exchanged meanwhile.
fn calls(folder: &str) -> Answer {
    let patch = |body: String| json!({"input": format!("*** Begin Patch\n{body}*** End Patch")});
    let file = format!("{folder}a.txt");
    let calls: Vec<(&str, Value)> = vec![
        ("read_file", json!({"file": file})),
        ("read_directory", json!({"path": format!("{folder}.")})),
        ("search", json!({"pattern": "."})),
        ("search", json!({"pattern": ".", "path": file})),
        ("append_to_file", json!({"path": file, "content": "x"})),
        (
            "write_file",
            json!({"path": format!("{folder}new/n.txt"), "content": "x"}),
        ),
        ("write_file", json!({"path": file, "content": "inside"})),
        (
            "find_and_replace",
            json!({"path": file, "find": "i", "replace": "x"}),
        ),
        (
            "apply_patch",
            patch(format!("*** Add File: {folder}added.txt\n+x\n")),
        ),
        ("apply_patch", patch(format!("*** Delete File: {file}\n"))),
    ];
    let calls = calls.into_iter().enumerate();
    calls.fold(Answer::text(""), |answer, (at, (name, arguments))| {
        answer.with_call(format!("c{at}"), name, arguments.to_string())
    })
}

#[test]
fn files_of_tools_that_become_links_lead_nowhere() {
    let tools = [
        "read_file",
        "read_dir",
        "search",
        "append_to_file",
        "write_file",
        "find_and_replace",
        "apply_patch",
    ];
    let tools = tools.map(|name| format!("<tool name=\"{name}\"/>\n"));
    let prompt = format!("<config model=\"m\"/>\n{}<user>go</user>\n", tools.concat());
    for (path, names) in [
        ("d/", &["d"][..]),
        ("", &["a.txt"]),
        ("d/e/", &["d/e", "d"]),
    ] {
        let home = home(&[
            ("p.md", &prompt),
            ("a.txt", "inside"),
            ("d/a.txt", "inside"),
            ("d/e/a.txt", "inside"),
        ]);
        let before = outside(home.path());
        let runs = rounds(10, 2_000);
        let answers = (0..runs).flat_map(|_| [calls(path), Answer::text("done")]);
        let server = server(answers.collect());
        let swapping = Swapping::start(&home.path().join("project"), names);
        for _ in 0..runs {
            let ran = run_prompt(home.path(), &server, &["--no-save", "project/p.md"]);
            let printed = ran.stdout + &ran.stderr;
            assert!(!printed.contains(SECRET), "{path}: {printed}");
        }
        drop(swapping);
        let received = received(&server);
        assert!(!received.contains(SECRET), "{path}");
        assert!(
            !received.contains("id_rsa"),
            "{path}: a folder outside was listed"
        );
        assert_eq!(outside(home.path()), before, "{path}");
    }
}
