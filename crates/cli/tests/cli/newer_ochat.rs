//! Files of later versions of ochat: each construct is supported, refused with its place, or kept.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, contents, folder, logue, run};

/// A model that makes these calls at once and then says `done`.
fn model(calls: &[(&str, Value)]) -> ModelServer {
    let mut answer = Answer::text("");
    for (number, (name, arguments)) in calls.iter().enumerate() {
        answer = answer.with_call(format!("c{number}"), *name, arguments.to_string());
    }
    let mut replies = vec![Reply::Answer(answer), Reply::Answer(Answer::text("done"))];
    if calls.is_empty() {
        replies.remove(0);
    }
    ModelServer::start(replies, Delivery::Whole).unwrap()
}

fn ask(folder: &Path, server: &ModelServer, arguments: &[&str]) -> Ran {
    let mut command = logue(folder);
    command
        .env("OPENAI_BASE_URL", server.base_url())
        .args(arguments);
    command.output().unwrap().into()
}

/// The results of the calls, as the model received them.
fn results(server: &ModelServer) -> Vec<String> {
    let requests = server.received();
    let messages = requests[1].body["messages"].as_array().unwrap().clone();
    let results = messages.iter().filter(|message| message["role"] == "tool");
    results
        .map(|message| message["content"].as_str().unwrap().to_owned())
        .collect()
}

/// A refused declaration, its code, its position and a part of the help.
const REFUSED: [(&str, &str, &str, &str); 14] = [
    (
        "<script language=\"chatml\" kind=\"moderator\" id=\"gate\">\nlet x = \"<user>\" |RAW <!--\n</script>",
        "script-unsupported",
        "1:1",
        "permissions of tools",
    ),
    (
        "<script language=\"chatml\" kind=\"shell_reviewer\" id=\"r\" src=\"r.chatml\"/>",
        "script-unsupported",
        "1:1",
        "run the prompt in ochat",
    ),
    (
        "<moderator_runtime shell_runtime=\"dev\"/>",
        "script-unsupported",
        "1:1",
        "run the prompt in ochat",
    ),
    (
        "<shell_access id=\"dev\" extends=\"builtin:workspace-readonly@1\">\n<policy default=\"deny\"/><secrets/></shell_access>",
        "shell-access-unsupported",
        "1:1",
        "own settings",
    ),
    (
        "<shell_access id=\"dev\" extends=\"builtin:yolo@1\"/>",
        "shell-access-unsupported",
        "1:33",
        "own settings",
    ),
    (
        "<shell_access id=\"dev\" extends=\"builtin:workspace-readonly@1\" cwd=\"x\"/>",
        "shell-access-unsupported",
        "1:1",
        "own settings",
    ),
    (
        "<tool name=\"sh\" type=\"shell\" mode=\"raw\" runtime=\"dev\" executable=\"/bin/sh\"/>",
        "shell-mode-refused",
        "1:36",
        "mode=\"fixed\" or \"structured\"",
    ),
    (
        "<tool name=\"sh\" type=\"shell\" mode=\"chain\" runtime=\"dev\"/>",
        "shell-mode-refused",
        "1:36",
        "mode=\"fixed\" or \"structured\"",
    ),
    (
        "<tool name=\"sh\" type=\"shell\" mode=\"script\" runtime=\"dev\" script=\"a.sh\"/>",
        "shell-mode-refused",
        "1:36",
        "mode=\"fixed\" or \"structured\"",
    ),
    (
        "<tool name=\"s\" type=\"shell\" runtime=\"dev\"><command program=\"a\"><secret_arg env=\"K\"/></command></tool>",
        "shell-mode-refused",
        "1:64",
        "own settings",
    ),
    (
        "<tool name=\"s\" type=\"shell\" runtime=\"dev\" executable_ref=\"git\"/>",
        "shell-mode-refused",
        "1:59",
        "<command program=",
    ),
    (
        "<tool name=\"s\" type=\"shell\" runtime=\"dev\" command=\"git\" timeout=\"1s\"/>",
        "E-MD-INVALID-ATTRIBUTE",
        "1:57",
        "remove it",
    ),
    (
        "<tool name=\"read_file\"><read id=\"disk\" path=\"/\"/></tool>",
        "read-root-refused",
        "1:24",
        "own settings",
    ),
    (
        "<tool name=\"read_dir\"><read id=\"a\" path=\"docs\"/></tool>",
        "E-MD-TOOL-DECLARATION",
        "1:23",
        "read_file",
    ),
];

#[test]
fn what_would_widen_or_lose_a_restriction_is_refused_everywhere() {
    for (declaration, code, place, help) in REFUSED {
        let prompt = format!("{declaration}\n<config model=\"m\"/>\n<user>hi</user>\n");
        let folder = folder(&[("p.md", &prompt), ("r.chatml", "x")]);
        let server = model(&[]);
        let before = contents(folder.path());
        for (arguments, status) in [
            (&["check", "p.md"][..], 8),
            (&["run", "p.md"], 3),
            (&["run", "--dry-run", "p.md"], 3),
            (&["send", "--agent", "p.md", "s", "hello"], 3),
        ] {
            let ran = ask(folder.path(), &server, arguments);
            assert_eq!(
                ran.status, status,
                "{arguments:?} {declaration}: {}",
                ran.stderr
            );
            let found = format!("error[{code}]");
            assert!(ran.stderr.contains(&found), "{declaration}: {}", ran.stderr);
            let place = format!("p.md:{place}");
            assert!(ran.stderr.contains(&place), "{declaration}: {}", ran.stderr);
            assert!(ran.stderr.contains(help), "{declaration}: {}", ran.stderr);
            for advice in ["RAW|", "put it inside a message", "wrap it in"] {
                assert!(
                    !ran.stderr.contains(advice),
                    "{declaration}: {}",
                    ran.stderr
                );
            }
        }
        assert!(server.received().is_empty(), "{declaration}");
        let fmt = run(folder.path(), ["fmt", "p.md"]);
        if code != "read-root-refused" {
            assert_ne!(fmt.status, 0, "{declaration}: {}", fmt.stderr);
            let text = fs::read_to_string(folder.path().join("p.md")).unwrap();
            assert_eq!(text, prompt);
            let converted = run(
                folder.path(),
                ["convert", "p.md", "--to", "openai", "--strict"],
            );
            assert_ne!(converted.status, 0, "{declaration}: {}", converted.stdout);
        }
        let mut after = contents(folder.path());
        after.retain(|(name, _)| !name.starts_with(".local") && !name.starts_with(".cache"));
        assert_eq!(after.len(), before.len(), "{declaration}");
    }
}

#[test]
fn text_after_a_script_is_not_to_become_a_message() {
    let prompt = "<script kind=\"moderator\">let s = \"</script>\"\nmore()\n<user>hi</user>\n";
    let folder = folder(&[("p.md", prompt)]);
    let ran = run(folder.path(), ["check", "p.md"]);
    assert!(ran.stderr.contains("E-MD-TOP-LEVEL-TEXT"), "{}", ran.stderr);
    for advice in ["wrap it", "RAW|", "inside a message"] {
        assert!(!ran.stderr.contains(advice), "{}", ran.stderr);
    }
}

#[test]
fn the_new_names_are_text_inside_messages_and_imported_prose() {
    let folder = folder(&[
        (
            "p.md",
            "<config model=\"m\"/>\n<user>a <script>x()</script> <read/> <shell_access id=\"a\"/> \
             <import src=\"page.html\"/></user>\n",
        ),
        ("page.html", "<script>y()</script><b>z</b>"),
    ]);
    let server = model(&[]);
    let ran = ask(folder.path(), &server, &["run", "p.md"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(
        server.received()[0].body["messages"][0]["content"],
        "a <script>x()</script> <read/> <shell_access id=\"a\"/> <script>y()</script><b>z</b>"
    );
}

#[test]
fn an_imported_document_that_begins_with_a_declaration_is_not_text() {
    let first = [
        "<script language=\"chatml\" kind=\"moderator\">let deny = 1</script>",
        "<shell_access id=\"dev\" extends=\"builtin:workspace-readonly@1\"/>",
        "<moderator_runtime shell_runtime=\"dev\"/>",
    ];
    for first in first {
        let part = format!("{first}\n<tool name=\"read_file\"/>\n<system>rules</system>\n");
        let folder = folder(&[
            (
                "p.md",
                "<config model=\"m\"/>\n<system>a<import src=\"part.md\"/></system><user>hi</user>\n",
            ),
            ("part.md", &part),
        ]);
        let check = run(folder.path(), ["check", "p.md"]);
        assert!(
            check.stderr.contains("content-dropped"),
            "{first}: {}",
            check.stderr
        );
        let server = model(&[]);
        let ran = ask(folder.path(), &server, &["run", "p.md"]);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        assert_eq!(server.received()[0].body["messages"][0]["content"], "a");
    }
}

#[test]
fn a_prompt_with_a_refused_agent_is_refused_before_the_first_request() {
    const REFUSED: [(&str, &str); 5] = [
        (
            "<script language=\"chatml\" kind=\"moderator\">x</script>",
            "script-unsupported",
        ),
        (
            "<shell_access id=\"d\" extends=\"builtin:yolo@1\"/>",
            "shell-access-unsupported",
        ),
        (
            "<tool name=\"read_file\"><read id=\"d\" path=\"/\"/></tool>",
            "read-root-refused",
        ),
        (
            "<tool name=\"x\" type=\"shell\" runtime=\"d\" command=\"a\"/>",
            "E-MD-TOOL-DECLARATION",
        ),
        (
            "<tool name=\"b\" agent=\"/etc/hostname\" local/>",
            "outside the directories",
        ),
    ];
    for (declaration, code) in REFUSED {
        for call in [
            "<user><agent src=\"sub/a.md\" local>q</agent></user>",
            "<user><agent src=\"good.md\" local>q</agent><agent src=\"via.md\" local>q</agent></user>",
            "<tool name=\"a\" agent=\"sub/a.md\" local/><user>q</user>",
        ] {
            let agent = format!("{declaration}<system>agent</system>");
            let folder = folder(&[
                ("p.md", &format!("<config model=\"m\"/>\n{call}\n")),
                ("sub/a.md", &agent),
                ("good.md", "<system>good</system>"),
                (
                    "via.md",
                    "<tool name=\"a\" agent=\"sub/a.md\" local/><system>via</system>",
                ),
            ]);
            let server = model(&[]);
            for (arguments, status) in [
                (&["check", "p.md"][..], 8),
                (&["run", "p.md"], 3),
                (&["run", "--dry-run", "p.md"], 3),
                (&["send", "--agent", "p.md", "s", "hello"], 3),
            ] {
                let ran = ask(folder.path(), &server, arguments);
                assert_eq!(
                    ran.status, status,
                    "{arguments:?} {call} {declaration}: {}",
                    ran.stderr
                );
                let named = ["error[E-MD-AGENT-FAILED]", code];
                let is_named = named.iter().all(|text| ran.stderr.contains(text));
                assert!(arguments[0] == "check" || is_named, "{}", ran.stderr);
            }
            assert!(server.received().is_empty(), "{call} {declaration}");
        }
    }
}

/// A model that calls the agent `c`, which makes these calls.
fn agent_model(calls: &[(&str, Value)]) -> ModelServer {
    let delegates = Answer::text("").with_call("a", "c", json!({"input": "q"}).to_string());
    let mut answer = Answer::text("");
    for (number, (name, arguments)) in calls.iter().enumerate() {
        answer = answer.with_call(format!("c{number}"), *name, arguments.to_string());
    }
    let end = [Answer::text("child"), Answer::text("done")];
    let answers = [delegates, answer].into_iter().chain(end);
    ModelServer::start(answers.map(Reply::Answer).collect(), Delivery::Whole).unwrap()
}

/// The results of the agent's calls, as its model received them.
fn agent_results(server: &ModelServer) -> Vec<String> {
    let requests = server.received();
    let messages = requests[2].body["messages"].as_array().unwrap().clone();
    let results = messages.iter().filter(|message| message["role"] == "tool");
    results
        .map(|message| message["content"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn an_agent_reads_no_more_than_the_roots_of_its_caller() {
    let prompt = "<config model=\"m\"/>\n<tool name=\"read_file\"><read id=\"n\" path=\"notes\"/></tool>\n\
         <tool name=\"c\" agent=\"child.md\" local/>\n<user>hi</user>\n";
    let child = "<tool name=\"read_file\"/><tool name=\"read_dir\"/><tool name=\"search\"/>\
         <tool name=\"cat\" command=\"/bin/cat\"/><system>c</system>";
    let folder = folder(&[
        ("p.md", prompt),
        ("child.md", child),
        ("notes/a.txt", "snow"),
        ("secret.txt", "key7"),
    ]);
    let secret = folder.path().join("secret.txt").canonicalize().unwrap();
    let server = agent_model(&[
        ("read_file", json!({"file": "notes/a.txt"})),
        ("read_file", json!({"file": "secret.txt"})),
        ("read_file", json!({"file": secret})),
        ("read_directory", json!({"path": "."})),
        ("search", json!({"pattern": "key"})),
        ("cat", json!({"arguments": [secret]})),
    ]);
    let ran = ask(folder.path(), &server, &["run", "--trust", "p.md"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    if server.received().len() == 4 {
        let results = agent_results(&server);
        assert!(results[0].ends_with("snow"), "{results:?}");
        for result in &results[1..] {
            assert!(!result.contains("key7"), "{results:?}");
        }
        assert!(!results[3].contains("child.md"), "{results:?}");
        assert!(results[5].contains("exit status 1"), "{results:?}");
    } else {
        let text = format!("{:?}", server.received()[1].body);
        assert!(text.contains("E-SANDBOX-UNAVAILABLE"), "{text}");
    }
    let wider = "<tool name=\"read_file\"><read id=\"all\" path=\".\"/></tool><system>c</system>";
    fs::write(folder.path().join("p.md"), prompt).unwrap();
    fs::write(folder.path().join("child.md"), wider).unwrap();
    let server = agent_model(&[]);
    for (arguments, status) in [(["check", "p.md"], 8), (["run", "p.md"], 3)] {
        let ran = ask(folder.path(), &server, &arguments);
        assert_eq!(ran.status, status, "{}", ran.stderr);
        assert!(ran.stderr.contains("read-root-refused"), "{}", ran.stderr);
    }
    assert!(server.received().is_empty());
    let narrower = wider.replace("\".\"", "\"${prompt_dir}/notes/deep\"");
    fs::create_dir(folder.path().join("notes/deep")).unwrap();
    fs::write(folder.path().join("child.md"), narrower).unwrap();
    let server = agent_model(&[("read_file", json!({"file": "notes/a.txt"}))]);
    let ran = ask(folder.path(), &server, &["run", "p.md"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(!agent_results(&server)[0].contains("snow"));
}

#[test]
fn an_agent_changes_nothing_if_its_caller_may_only_read() {
    let prompt = "<config model=\"m\"/>\n\
         <shell_access id=\"dev\" extends=\"builtin:workspace-readonly@1\"/>\n\
         <tool name=\"ls\" type=\"shell\" runtime=\"dev\" command=\"ls\"/>\n\
         <tool name=\"c\" agent=\"child.md\" local/>\n<user>hi</user>\n";
    let child =
        "<tool name=\"touch\" command=\"touch\"/><tool name=\"write_file\"/><system>c</system>";
    let calls = [
        ("touch", json!({"arguments": ["made"]})),
        ("write_file", json!({"file": "written", "content": "x"})),
    ];
    let folder = folder(&[("p.md", prompt), ("child.md", child)]);
    let server = agent_model(&calls);
    let ran = ask(folder.path(), &server, &["run", "--trust", "p.md"]);
    if ran.stderr.contains("E-SANDBOX-UNAVAILABLE") {
        eprintln!("skipped: no sandbox on this machine");
        return;
    }
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let results = agent_results(&server);
    assert!(results[1].contains("allows reading only"), "{results:?}");
    assert!(!folder.path().join("made").exists(), "{results:?}");
    assert!(!folder.path().join("written").exists(), "{results:?}");
    fs::write(
        folder.path().join("p.md"),
        prompt.replace("readonly", "development"),
    )
    .unwrap();
    let server = agent_model(&calls);
    let ran = ask(folder.path(), &server, &["run", "--trust", "p.md"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(
        folder.path().join("made").exists(),
        "{:?}",
        agent_results(&server)
    );
    assert!(
        folder.path().join("written").exists(),
        "{:?}",
        agent_results(&server)
    );
}

#[test]
fn a_command_without_required_arguments_is_called_without_them() {
    let prompt = "<config model=\"m\"/>\n\
         <shell_access id=\"dev\" extends=\"builtin:workspace-development@1\"/>\n\
         <tool name=\"none\" type=\"shell\" runtime=\"dev\"><command program=\"echo\"><arg value=\"none\"/></command><arguments mode=\"none\"/></tool>\n\
         <tool name=\"some\" type=\"shell\" runtime=\"dev\" command=\"echo some\"/>\n\
         <tool name=\"must\" type=\"shell\" runtime=\"dev\"><command program=\"echo\"/><arguments mode=\"required\"/></tool>\n\
         <tool name=\"plain\" command=\"echo plain\"/>\n<user>hi</user>\n";
    let folder = folder(&[("p.md", prompt)]);
    let names = ["none", "some", "plain", "must"];
    let server = model(&names.map(|name| (name, json!({}))));
    let ran = ask(folder.path(), &server, &["run", "--trust", "p.md"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let results = results(&server);
    for (result, name) in results.iter().zip(&names[..3]) {
        assert!(
            result.contains(name) && result.contains("exit status 0"),
            "{results:?}"
        );
    }
    assert!(results[3].contains("E-CALL-SCHEMA"), "{results:?}");
    let tools = server.received()[0].body["tools"].clone();
    let parameters = |at: usize| tools[at]["function"]["parameters"].clone();
    assert_eq!(parameters(0)["properties"], json!({}));
    for at in [0, 1, 3] {
        assert!(
            parameters(at)
                .get("required")
                .is_none_or(|it| it == &json!([])),
            "{tools}"
        );
    }
    assert_eq!(parameters(2)["required"], json!(["arguments"]));
}

#[test]
fn read_file_reaches_named_roots_only() {
    let prompt = "<config model=\"m\"/>\n<tool name=\"read_file\" description=\"Look in notes first.\">\n\
         <read id=\"notes\" path=\"${prompt_dir}/notes\" description=\"Field notes\"/>\n</tool>\n\
         <tool name=\"read_dir\"/>\n<user>hi</user>\n";
    let folder = folder(&[
        ("p.md", prompt),
        ("notes/a.txt", "snow"),
        ("secret.txt", "key"),
    ]);
    let server = model(&[
        ("read_file", json!({"file": "a.txt", "root": "notes"})),
        ("read_file", json!({"file": "notes/a.txt"})),
        ("read_file", json!({"file": "secret.txt"})),
        (
            "read_file",
            json!({"file": "../secret.txt", "root": "notes"}),
        ),
        ("read_file", json!({"file": "a.txt", "root": "disk"})),
        ("read_directory", json!({"path": ".", "root": "notes"})),
    ]);
    let ran = ask(folder.path(), &server, &["run", "p.md"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let results = results(&server);
    assert!(results[0].ends_with("snow"), "{results:?}");
    assert!(results[1].ends_with("snow"), "{results:?}");
    assert!(!results[2].contains("key"), "{results:?}");
    assert!(
        results[2].contains("outside the directories"),
        "{results:?}"
    );
    assert!(!results[3].contains("key"), "{results:?}");
    assert!(results[4].contains("E-CALL-SCHEMA"), "{results:?}");
    assert!(
        results[5].contains("a.txt") && !results[5].contains("secret"),
        "{results:?}"
    );
    let tool = &server.received()[0].body["tools"][0]["function"];
    assert_eq!(
        tool["parameters"]["properties"]["root"]["enum"],
        json!(["notes"])
    );
    let description = tool["description"].as_str().unwrap();
    let (folders, note) = description.split_once("Note from the prompt: ").unwrap();
    assert!(
        folders.contains("- notes: ") && folders.contains("(Field notes)"),
        "{description}"
    );
    assert_eq!(note, "Look in notes first.");
}

#[test]
fn a_root_that_the_user_allows_is_opened() {
    let outside = folder(&[("a.txt", "snow")]);
    let path = outside.path().canonicalize().unwrap();
    let path = path.to_str().unwrap();
    let prompt = format!(
        "<config model=\"m\"/>\n<tool name=\"read_file\"><read id=\"o\" path=\"{path}\"/></tool>\n\
         <user>hi</user>\n"
    );
    let folder = folder(&[("p.md", &prompt)]);
    let server = model(&[("read_file", json!({"file": "a.txt", "root": "o"}))]);
    let refused = ask(folder.path(), &server, &["run", "p.md"]);
    assert!(
        refused.stderr.contains("read-root-refused"),
        "{}",
        refused.stderr
    );
    let ran = ask(folder.path(), &server, &["run", "p.md", "--root", path]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(results(&server)[0].ends_with("snow"));
}

#[test]
fn fixed_and_structured_tools_run_one_program_within_their_limits() {
    let prompt = "<config model=\"m\"/>\n\
         <tool name=\"say\" type=\"shell\" mode=\"fixed\" runtime=\"dev\" description=\"Says\">\n\
         <command program=\"echo\"><arg value=\"a &quot;b&quot; \\\"/><arg value=\"\"/><path_arg path=\"docs/x\"/></command>\n\
         <arguments mode=\"required\" max_count=\"2\" max_item_bytes=\"3\"/>\n</tool>\n\
         <tool name=\"any\" type=\"shell\" mode=\"structured\" runtime=\"dev\"/>\n\
         <shell_access id=\"dev\" extends=\"builtin:workspace-development@1\"/>\n<user>hi</user>\n";
    let folder = folder(&[("p.md", &prompt.replace("\\\"/>", "&#92;\"/>"))]);
    let server = model(&[
        ("say", json!({"arguments": ["one", "$x"]})),
        ("say", json!({"arguments": []})),
        ("say", json!({"arguments": ["four"]})),
        ("say", json!({"arguments": ["1", "2", "3"]})),
        ("any", json!({"program": "echo", "arguments": ["a | b"]})),
    ]);
    let ran = ask(folder.path(), &server, &["run", "p.md"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let results = results(&server);
    assert!(
        results[0].contains("a \"b\" \\  ./docs/x one $x"),
        "{results:?}"
    );
    for refused in &results[1..4] {
        assert!(refused.contains("E-CALL-SCHEMA"), "{results:?}");
    }
    assert!(results[4].contains("a | b"), "{results:?}");
}

#[test]
fn commands_of_a_read_only_profile_change_nothing() {
    let prompt =
        "<config model=\"m\"/>\n<import src=\"part.chatmd\" namespace=\"rv\"/>\n<user>hi</user>\n";
    let part = "<shell_access id=\"look\" extends=\"builtin:workspace-readonly@1\"/>\n\
         <tool name=\"touch\" type=\"shell\" runtime=\"look\" command=\"touch\"/>\n";
    let folder = folder(&[("p.md", prompt), ("part.chatmd", part)]);
    let server = model(&[("touch", json!({"arguments": ["new.txt"]}))]);
    let ran = ask(folder.path(), &server, &["run", "p.md"]);
    if ran.stderr.contains("E-SANDBOX-UNAVAILABLE") {
        eprintln!("skipped: no sandbox on this machine");
        return;
    }
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(!results(&server)[0].contains("exit status 0"));
    assert!(!folder.path().join("new.txt").exists());
    fs::write(folder.path().join("p.md"), prompt).unwrap();
    let part = part.replace("readonly", "development");
    fs::write(folder.path().join("part.chatmd"), part).unwrap();
    let server = model(&[("touch", json!({"arguments": ["new.txt"]}))]);
    let ran = ask(folder.path(), &server, &["run", "p.md"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(
        folder.path().join("new.txt").exists(),
        "{:?}",
        results(&server)
    );
}

#[test]
fn a_runtime_grants_nothing_and_needs_approval() {
    let prompt = "<config model=\"m\"/>\n\
         <shell_access id=\"dev\" extends=\"builtin:workspace-development@1\"/>\n\
         <tool name=\"any\" type=\"shell\" mode=\"structured\" runtime=\"dev\"/>\n<user>hi</user>\n";
    let folder = folder(&[("p.md", prompt)]);
    let check = run(folder.path(), ["check", "p.md"]);
    assert_eq!(check.status, 0, "{}", check.stderr);
    let server = model(&[("any", json!({"program": "touch", "arguments": ["new.txt"]}))]);
    let mut command = crate::program::strict(folder.path());
    command.env("OPENAI_BASE_URL", server.base_url());
    let ran: Ran = command.args(["run", "p.md"]).output().unwrap().into();
    assert!(!folder.path().join("new.txt").exists(), "{}", ran.stderr);
    assert!(!ran.stderr.is_empty());
}

#[test]
fn a_restriction_of_commands_cannot_be_lost_by_a_slip() {
    const ACCESS: &str = "<shell_access id=\"dev\" extends=\"builtin:workspace-readonly@1\"/>";
    const TOOL: &str = "<tool name=\"t\" type=\"shell\" runtime=\"dev\" command=\"touch\"/>";
    const NO_ACCESS: &str = "no `<shell_access>` that is accepted here has the id";
    let import = "<import src=\"part.chatmd\" namespace=\"rv\"/>";
    let cases = [
        (
            ACCESS.replace("/>", " extends=\"builtin:workspace-development@1\"/>") + TOOL,
            String::new(),
            "repeated attribute `extends` of `<shell_access>`",
        ),
        (
            ACCESS.replace(" extends", " id=\"other\" extends") + TOOL,
            String::new(),
            "repeated attribute `id` of `<shell_access>`",
        ),
        (
            format!(
                "{ACCESS}{}",
                TOOL.replace("command", "runtime=\"dew\" command")
            ),
            String::new(),
            "repeated attribute `runtime` of `<tool>`",
        ),
        (
            format!(
                "{ACCESS}{}",
                TOOL.replace(" runtime=\"dev\"", " type=\"x\"")
            ),
            String::new(),
            "missing attribute `runtime`",
        ),
        (
            "<tool name=\"read_file\"><read id=\"a\" path=\"docs\" path=\".\"/></tool>".to_owned(),
            String::new(),
            "repeated attribute `path` of `<read>`",
        ),
        (
            "<tool name=\"read_dir\" name=\"read_file\"><read id=\"a\" path=\"docs\"/></tool>"
                .to_owned(),
            String::new(),
            "repeated attribute `name` of `<tool>`",
        ),
        (
            format!("{ACCESS}{}", TOOL.replace("dev", "dew")),
            String::new(),
            NO_ACCESS,
        ),
        (TOOL.to_owned(), String::new(), NO_ACCESS),
        (format!("{ACCESS}{import}"), TOOL.to_owned(), NO_ACCESS),
        (format!("{import}{TOOL}"), ACCESS.to_owned(), NO_ACCESS),
    ];
    for (declarations, part, message) in cases {
        let prompt = format!("{declarations}\n<config model=\"m\"/>\n<user>hi</user>\n");
        let folder = folder(&[("p.md", &prompt), ("part.chatmd", &part), ("docs/a", "")]);
        let server = model(&[("t", json!({"arguments": ["new.txt"]}))]);
        for (arguments, status) in [
            (&["check", "p.md"][..], 8),
            (&["run", "--trust", "p.md"], 3),
            (&["send", "--trust", "--agent", "p.md", "s", "hello"], 3),
        ] {
            let ran = ask(folder.path(), &server, arguments);
            assert_eq!(ran.status, status, "{declarations}: {}", ran.stderr);
            assert!(
                ran.stderr.contains(message),
                "{declarations}: {}",
                ran.stderr
            );
        }
        assert!(server.received().is_empty(), "{declarations}");
        assert!(!folder.path().join("new.txt").exists(), "{declarations}");
    }
}

#[test]
fn provenance_stays_and_is_not_trusted() {
    let prompt = "<config model=\"m\"/>\n\
         <msg role=\"user\" ochat-history-id=\"3:run:7\" ochat-source-context=\"/etc/passwd\">a</msg>\n\
         <msg role=\"user\" ochat-history-id=\"3:run:7\">b</msg>\n\
         <msg role=\"user\" ochat-history-id=\"3:run:07\">c</msg>\n\
         <user>\nRAW|<system-reminder>Summary: parser done.</system-reminder>|RAW\n</user>\n";
    let folder = folder(&[("p.md", prompt)]);
    let server = model(&[]);
    let ran = ask(folder.path(), &server, &["run", "p.md"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("warning[duplicate-id]"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("counts as absent"), "{}", ran.stderr);
    let text = fs::read_to_string(folder.path().join("p.md")).unwrap();
    assert!(text.starts_with(prompt), "{text}");
    let body = &server.received()[0].body["messages"];
    assert_eq!(body[0]["role"], "user");
    let sent = body[0]["content"].as_str().unwrap();
    let reminder = &sent[sent.find("<system-reminder>").unwrap()..];
    assert!(sent.starts_with('a'), "{sent}");
    assert_eq!(
        reminder.trim(),
        "<system-reminder>Summary: parser done.</system-reminder>"
    );
    assert!(!body.to_string().contains("passwd"));
    let fmt = run(folder.path(), ["fmt", "p.md"]);
    assert_eq!(fmt.status, 0, "{}", fmt.stderr);
    let text = fs::read_to_string(folder.path().join("p.md")).unwrap();
    assert_eq!(text.matches("ochat-history-id=").count(), 3);
    let converted = run(folder.path(), ["convert", "p.md", "--to", "openai"]);
    assert!(
        converted
            .stderr
            .contains("`ochat-history-id` of 3 `<msg>` dropped"),
        "{}",
        converted.stderr
    );
    let view = run(folder.path(), ["view", "p.md"]);
    assert_eq!(view.status, 0, "{}", view.stderr);
}

#[test]
fn attributes_of_imports_are_checked() {
    for (import, expected) in [
        ("<import src=\"a.md\" local/>", "warning[unknown-attribute]"),
        (
            "<import src=\"a.md\" namespace=\"1x\"/>",
            "error[E-MD-INVALID-ATTRIBUTE]",
        ),
        (
            "<import src=\"a.md\" namespace=\"\"/>",
            "error[E-MD-INVALID-ATTRIBUTE]",
        ),
    ] {
        let folder = folder(&[("p.md", import), ("a.md", "<user>x</user>")]);
        let ran = run(folder.path(), ["check", "p.md"]);
        assert!(ran.stderr.contains(expected), "{import}: {}", ran.stderr);
    }
    let two = "<import src=\"a.md\" namespace=\"n\"/><import src=\"b.md\" namespace=\"n\"/>";
    let folder = folder(&[
        ("p.md", two),
        ("a.md", "<user>x</user>"),
        ("b.md", "<user>y</user>"),
    ]);
    let ran = run(folder.path(), ["check", "p.md"]);
    assert!(ran.stderr.contains("namespace"), "{}", ran.stderr);
    assert_eq!(ran.status, 8);
}

#[test]
fn meta_refine_is_named_with_its_reason() {
    let folder = folder(&[("p.md", "<tool name=\"meta_refine\"/>\n<user>x</user>\n")]);
    let ran = run(folder.path(), ["check", "p.md"]);
    assert!(
        ran.stderr.contains("warning[tool-unsupported]"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("hidden model calls"), "{}", ran.stderr);
    assert!(
        ran.stderr
            .contains("an agent tool with a prompt that you can read"),
        "{}",
        ran.stderr
    );
}
