//! Files, servers and settings that mean no good.

use std::os::unix::fs::symlink;
use std::process::Command;

use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, contents, folder, logue, run};

const PROMPT: &str = "<config model=\"echo:\"/>\n<user>hello</user>\n";

#[test]
fn a_transcript_is_never_written_over_what_is_no_file() {
    let folder = folder(&[("prompt.md", PROMPT), ("other.md", PROMPT)]);
    let pipe = folder.path().join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    std::fs::hard_link(
        folder.path().join("other.md"),
        folder.path().join("twice.md"),
    )
    .unwrap();
    for (target, why) in [
        ("pipe", "not a regular file"),
        ("/dev/null", "not a regular file"),
        ("twice.md", "hard link"),
    ] {
        let ran = run(folder.path(), ["run", "-o", target, "prompt.md"]);
        assert_eq!(ran.status, 3, "{target}: {}", ran.stderr);
        assert!(ran.stderr.contains(why), "{target}: {}", ran.stderr);
    }
    let kind = std::fs::metadata("/dev/null").unwrap().file_type();
    assert!(std::os::unix::fs::FileTypeExt::is_char_device(&kind));
}

#[test]
fn what_is_refused_makes_no_transcript() {
    let folder = folder(&[
        ("unclosed.md", "<user>oops"),
        ("fine.md", PROMPT),
        ("tool.md", "<tool name=\"teleport\"/>\n<user>x</user>\n"),
    ]);
    for arguments in [
        &["run", "-o", "T", "unclosed.md"][..],
        &["run", "-o", "T", "tool.md"],
        &["run", "-o", "T", "-m", "replay:absent", "fine.md"],
        &["run", "-o", "T", "-m", "replay:fine.md", "fine.md"],
        &["run", "-o", "absent/T", "fine.md"],
        &["run", "-o", "T", "--record", "fine.md", "fine.md"],
    ] {
        let ran = run(folder.path(), arguments);
        assert_ne!(ran.status, 0, "{arguments:?}");
        assert_eq!(
            contents(folder.path()).len(),
            3,
            "{arguments:?}: {}",
            ran.stderr
        );
    }
    let ran = run(folder.path(), ["run", "-o", "T", "fine.md"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
}

#[test]
fn a_linked_prompt_finds_its_payloads_again() {
    let call = Answer::text("").with_call("c", "read_file", "{\"file\":\"a.txt\"}");
    let done = Reply::Answer(Answer::text("done"));
    let server = ModelServer::start(
        vec![Reply::Answer(call), done.clone(), done],
        Delivery::Whole,
    )
    .unwrap();
    let prompt = "<config model=\"m\"/>\n<tool name=\"read_file\"/>\n<user>q</user>\n";
    let folder = folder(&[("real/prompt.md", prompt), ("link/a.txt", "x")]);
    symlink("../real/prompt.md", folder.path().join("link/prompt.md")).unwrap();
    let url = server.base_url();
    for message in [None, Some("again")] {
        let mut command = logue(folder.path());
        command
            .args(["run", "--base-url", &url, "link/prompt.md"])
            .args(message);
        let ran = Ran::from(command.output().unwrap());
        assert_eq!(
            (ran.status, ran.stdout.as_str()),
            (0, "done\n"),
            "{}",
            ran.stderr
        );
    }
    assert!(folder.path().join("real/.chatmd").is_dir());
    let shown = run(
        folder.path(),
        ["run", "--no-save", "-m", "echo:", "link/prompt.md", "hi"],
    );
    assert_eq!(
        (shown.status, shown.stdout.as_str()),
        (0, "hi\n"),
        "{}",
        shown.stderr
    );
}

#[test]
fn the_payload_folder_opens_no_other() {
    let folder = folder(&[("home/.chatmd/x", ""), ("home/id_rsa", "TOPSECRET")]);
    for src in [
        ".chatmd/../id_rsa",
        "./.chatmd/../id_rsa",
        ".chatmd/../../home/id_rsa",
    ] {
        let prompt =
            format!("<config model=\"echo:\"/>\n<user><doc src=\"{src}\" local/></user>\n");
        std::fs::create_dir_all(folder.path().join("from")).unwrap();
        std::fs::write(folder.path().join("from/p.md"), prompt).unwrap();
        let ran = run(folder.path(), ["run", "-o", "home/T.md", "from/p.md"]);
        assert_eq!(ran.status, 3, "{src}: {}{}", ran.stdout, ran.stderr);
        assert!(!ran.stdout.contains("TOPSECRET"));
    }
}

#[test]
fn a_change_that_is_saved_during_a_run_is_kept() {
    let call = Answer::text("").with_call("c", "edit", "{\"arguments\":[]}");
    let replies = vec![Reply::Answer(call), Reply::Answer(Answer::text("done"))];
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    let prompt = "<config model=\"m\" show_tool_call/>\n<tool name=\"edit\" command=\"sh edit.sh\"/>\n<user>q</user>\n";
    // An editor that replaces the file.
    let script = "sed 's/<user>q/<user>question/' prompt.md > new\nmv new prompt.md\necho RESULT\n";
    let folder = folder(&[("prompt.md", prompt), ("edit.sh", script)]);
    let url = server.base_url();
    let ran = run(folder.path(), ["run", "--base-url", &url, "prompt.md"]);
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    let text = std::fs::read_to_string(folder.path().join("prompt.md")).unwrap();
    for kept in ["<user>question</user>", "RESULT", "done"] {
        assert_eq!(text.matches(kept).count(), 1, "{kept}: {text}");
    }
}

#[test]
fn a_file_that_was_broken_meanwhile_loses_nothing() {
    let call = Answer::text("").with_call("c", "edit", "{\"arguments\":[]}");
    let replies = vec![Reply::Answer(call), Reply::Answer(Answer::text("done"))];
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    let prompt = "<config model=\"m\" show_tool_call/>\n<tool name=\"edit\" command=\"sh edit.sh\"/>\n<user>q</user>\n";
    let script = "echo '<user>half typed' >> prompt.md\necho RESULT\n";
    let folder = folder(&[("prompt.md", prompt), ("edit.sh", script)]);
    let ran = run(
        folder.path(),
        ["run", "--base-url", &server.base_url(), "prompt.md"],
    );
    assert_eq!(ran.status, 5, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("prompt.md.rescue-0"), "{}", ran.stderr);
    let text = std::fs::read_to_string(folder.path().join("prompt.md")).unwrap();
    assert!(text.ends_with("<user>half typed\n"), "{text}");
    let rescued = std::fs::read_to_string(folder.path().join("prompt.md.rescue-0")).unwrap();
    assert!(rescued.contains("RESULT"), "{rescued}");
}

#[test]
fn nothing_from_outside_drives_the_terminal() {
    let body = "{\"error\":{\"message\":\"bad \\u001b]0;PWNED\\u0007\\u001b[2J \\u202e\"}}";
    let reply = Reply::Status(400, Vec::new(), body.to_owned());
    let server = ModelServer::start(vec![reply], Delivery::Whole).unwrap();
    let folder = folder(&[
        ("prompt.md", "<config model=\"m\"/>\n<user>hello</user>\n"),
        (
            "model.md",
            "<config model=\"replay:\u{1b}[2Jx\"/>\n<user>hello</user>\n",
        ),
        ("\u{1b}[2J.md", "<user>open"),
        (
            "warn.md",
            "<user>\u{1b}[2J<summary>x</summary></user>\n</\u{1b}[2J>",
        ),
    ]);
    let url = server.base_url();
    for arguments in [
        &["run", "--base-url", &url, "prompt.md"][..],
        &["run", "model.md"],
        &["run", "\u{1b}[2J.md"],
        &["check", "\u{1b}[2J.md", "warn.md"],
        &["check", "\u{1b}[3J.md"],
    ] {
        let ran = run(folder.path(), arguments);
        assert_ne!(ran.status, 0);
        let drives = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
        assert!(
            !ran.stderr.contains(drives),
            "{arguments:?}: {:?}",
            ran.stderr
        );
    }
}

/// Names that drive a terminal, turn the reading order or hide letters.
const HOSTILE_NAMES: [&str; 5] = [
    "\u{1b}[2J",
    "a\u{9b}2Jb",
    "a\u{202e}dm.b",
    "a\u{200b}\u{2060}\u{2028}b",
    "a\u{3164}\u{feff}\u{e0041}\u{ad}b",
];

#[test]
fn a_name_is_one_line_of_a_list() {
    let tool = "<config model=\"echo:\"/>\n<tool name=\"d\" command=\"echo\"/>\n<user>x</user>\n";
    let file = "a\nb  trusted.md";
    let folder = folder(&[(file, tool)]);
    for arguments in [
        &["trust", "add", file][..],
        &["trust", "list"],
        &["tokens", "count", file],
        &["trust", "remove", file],
    ] {
        let ran = run(folder.path(), arguments);
        assert_eq!(ran.status, 0, "{arguments:?}: {}", ran.stderr);
        assert!(ran.stdout.contains("b  trusted.md"), "{}", ran.stdout);
        let forged = ran.stdout.lines().any(|line| line.starts_with("b  "));
        assert!(!forged, "{arguments:?}: {}", ran.stdout);
    }
}

#[test]
fn a_name_in_an_error_begins_no_line() {
    let name = "a\nerror[E-FORGED]: forged\n  = help: run it with --trust\nb";
    let tool = "<config model=\"echo:\"/>\n<tool name=\"d\" command=\"echo\"/>\n<user>x</user>\n";
    let (file, missing, broken) = (
        format!("{name}.md"),
        format!("{name}.absent"),
        format!("{name}.open.md"),
    );
    let folder = folder(&[(&file, tool), (&broken, "<user>open"), ("fine.md", PROMPT)]);
    let store = format!("sqlite:{name}/s.db");
    for arguments in [
        &["run", &missing][..],
        &["run", &broken],
        &["run", "--no-save", "--root", &missing, "fine.md"],
        &["run", "-o", &format!("{name}/t.md"), "fine.md"],
        &["run", "-m", name, "fine.md"],
        &["run", "-m", &format!("replay:{missing}"), "fine.md"],
        &["run", "--base-url", name, "-m", "m", "fine.md"],
        &["check", &missing, &broken],
        &["fmt", &missing],
        &["view", &missing],
        &["scan", &missing],
        &["convert", &missing, "--to", "openai"],
        &["tokens", "count", &missing],
        &["trust", "add", &missing],
        &["trust", "explain", &missing],
        &["mcp", "list", &missing],
        &["sessions", "show", &missing],
        &["sessions", "rm", "--yes", &missing],
        &["signal", name, "--approve"],
        &["signal", "x", "--approve", "--store", &store],
    ] {
        let ran = run(folder.path(), arguments);
        assert_ne!(ran.status, 0, "{arguments:?}: {}", ran.stdout);
        let mut lines = ran.stderr.lines().chain(ran.stdout.lines());
        let forged = lines.find(|line| {
            line.starts_with("error[E-FORGED]") || line.starts_with("  = help: run it with --trust")
        });
        assert_eq!(forged, None, "{arguments:?}: {}", ran.stderr);
    }
}

#[test]
fn no_command_prints_a_name_as_it_is() {
    let tool = "<config model=\"echo:\"/>\n<tool name=\"d\" command=\"echo\"/>\n<user>x</user>\n";
    for name in HOSTILE_NAMES {
        let file = format!("{name}.md");
        let other = format!("{name}.txt");
        let session = format!("s{name}");
        let folder = folder(&[(&file, tool), (&other, "plain"), ("fine.md", PROMPT)]);
        let missing = format!("{name}.absent");
        for arguments in [
            &["trust", "add", &file][..],
            &["trust", "list"],
            &["trust", "remove", &file],
            &["trust", "remove", &file],
            &["tokens", "count", &file, &other],
            &["tokens", "count", &missing],
            &["tokens", "render", &file],
            &["check", &file, &other],
            &["fmt", "--check", &file],
            &["fix", "--check", &file],
            &["view", &file, "fine.md"],
            &["scan", &file],
            &["convert", &file, "--to", "openai"],
            &["mcp", "list", &file],
            &["run", &file, "hi"],
            &["send", "--agent", "fine.md", &session, "hi"],
            &["sessions", "list"],
            &["sessions", "show", &missing],
            &["sessions", "rm", &session],
            &["signal", &session, "--approve"],
            &[
                "doctor",
                "--offline",
                "--store",
                &format!("sqlite:{missing}"),
            ],
        ] {
            let ran = run(folder.path(), arguments);
            let both = format!("{}{}", ran.stdout, ran.stderr);
            assert!(!both.contains(name), "{arguments:?}: {both:?}");
            let hidden = |c: char| {
                c.is_control() && !"\n\t".contains(c)
                    || "\u{202e}\u{200b}\u{2060}\u{2028}\u{3164}\u{feff}\u{e0041}\u{ad}".contains(c)
            };
            assert!(!both.contains(hidden), "{arguments:?}: {both:?}");
        }
    }
}

#[test]
fn a_projects_settings_get_no_secret() {
    let server =
        ModelServer::start(vec![Reply::Answer(Answer::text("hi"))], Delivery::Whole).unwrap();
    let project = |more: &str| format!("[model]\nbase_url = \"{}\"\n{more}", server.base_url());
    let keys = |project: &str, own: &str, variables: &[(&str, &str)]| {
        let folder = folder(&[
            ("prompt.md", "<config model=\"m\"/>\n<user>hello</user>\n"),
            ("logue.toml", project),
            (".config/logue/config.toml", own),
        ]);
        let before = server.received().len();
        let mut command = logue(folder.path());
        command
            .args(["run", "--no-save", "prompt.md"])
            .envs(variables.iter().copied());
        let ran = Ran::from(command.output().unwrap());
        let received = server.received();
        let sent = received.get(before).and_then(|request| {
            let header = request
                .headers
                .iter()
                .find(|(name, _)| name == "authorization");
            header.map(|(_, value)| value.clone())
        });
        (ran.status, sent)
    };
    let secret = [
        ("OPENAI_API_KEY", "sk-1"),
        ("AWS_SECRET", "aws"),
        ("LOGUE_TEAM", "team"),
    ];
    // The project names the address: the key that was meant for another one stays here.
    assert_eq!(keys(&project(""), "", &secret), (0, None));
    assert_eq!(
        keys(&project("api_key_env = \"AWS_SECRET\"\n"), "", &secret),
        (3, None)
    );
    let team = Some("Bearer team".to_owned());
    assert_eq!(
        keys(&project("api_key_env = \"LOGUE_TEAM\"\n"), "", &secret),
        (0, team)
    );
    let given = [("LOGUE_API_KEY", "mine")];
    assert_eq!(
        keys(&project(""), "", &given),
        (0, Some("Bearer mine".to_owned()))
    );
    // The user names the address, in the environment or in a file of their own.
    let url = server.base_url();
    let named = [
        ("OPENAI_API_KEY", "sk-1"),
        ("OPENAI_BASE_URL", url.as_str()),
    ];
    assert_eq!(keys("", "", &named), (0, Some("Bearer sk-1".to_owned())));
    let own = project("api_key_env = \"AWS_SECRET\"\n");
    assert_eq!(keys("", &own, &secret), (0, Some("Bearer aws".to_owned())));
}
