//! Texts of prompts that drive a terminal or look like something else.

use serde_json::json;

use crate::attack::{Arena, Attack, Failure, Outcome, control, promise};
use crate::scene::{Scene, answers, model};
use crate::screen::{EVIL, raw_character, screen};

const TERMINAL: &str = "nothing from outside drives or deceives the terminal";

pub(crate) const ATTACKS: &[Attack] = &[
    Attack::author("display-trust-add", TERMINAL, trust_add),
    Attack::author("display-trust-question", TERMINAL, trust_question),
    Attack::author("display-paths", TERMINAL, paths),
    Attack::author("display-errors", TERMINAL, errors),
    Attack::author("display-settings", TERMINAL, settings),
    Attack::author("display-view", TERMINAL, view),
    Attack::model("display-arguments", TERMINAL, arguments),
    Attack::model("display-mcp-arguments", TERMINAL, mcp_arguments),
    Attack::model(
        "display-spelled-arguments",
        "a question shows what a call says",
        spelled_arguments,
    ),
    Attack::model("display-mcp-description", TERMINAL, mcp_description),
    Attack::model("display-answer", TERMINAL, answer),
    Attack::model("display-server-error", TERMINAL, server_error),
    Attack::model(
        "display-ambiguous-arguments",
        "different commands are different questions",
        ambiguous_arguments,
    ),
];

/// Expects a text to contain the marks of an attacker's text, and none of its characters.
pub(crate) fn is_safe(text: &str, place: &str) -> Outcome {
    let character = raw_character(text);
    promise(
        character.is_none(),
        format!("{place} prints {character:?}: {text:?}"),
    )
}

fn has_mark(text: &str) -> Outcome {
    control(
        text.contains("MARK") && text.contains("END"),
        format!("nothing was shown: {text}"),
    )
}

/// A prompt whose tools have hostile names, commands and folders.
fn prepare(scene: &Scene) -> Outcome {
    let line = EVIL.replace(['"', '\u{2028}'], "");
    scene.file(
        "p.md",
        format!(
            "<config model=\"m\"/>\n<tool name=\"deploy\" command=\"sh 'a{EVIL}.sh' '{EVIL}'\" \
             description=\"{line}\"/>\n<tool mcp_server=\"stdio:sh 'b{EVIL}.sh'\"/>\n\
             <tool name=\"ask\" agent=\"c{line}.md\" local/>\n"
        ),
    )?;
    scene.file(&format!("a{EVIL}.sh"), "echo\n")?;
    scene.file(&format!("b{EVIL}.sh"), "echo\n")?;
    scene.file(
        &format!("c{line}.md"),
        "<config model=\"m\"/>\n<tool name=\"python\"/>\n",
    )?;
    Ok(())
}

fn trust_add(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    prepare(&scene)?;
    let name = format!("q{EVIL}.md");
    scene.file(&name, scene.text("p.md"))?;
    let mut shown = String::new();
    for words in [
        ["trust", "explain", "p.md"],
        ["trust", "add", "p.md"],
        ["trust", "add", &name],
        ["trust", "explain", &name],
        ["trust", "remove", &name],
    ] {
        let text = scene.logue(words).run()?.text();
        is_safe(&text, &words.join(" "))?;
        shown.push_str(&text);
        let text = scene.logue(["trust", "list"]).run()?.text();
        is_safe(&text, "trust list")?;
    }
    has_mark(&shown)
}

fn trust_question(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    prepare(&scene)?;
    let server = answers(Vec::new())?;
    let run = scene.logue(["run", "p.md", "go"]).with_server(&server);
    let text = screen(run.into_command(), &[("?] ", "\n")])?;
    is_safe(&text, "the question")?;
    has_mark(&text)
}

fn paths(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    let name = format!("{EVIL}.md");
    let mut shown = String::new();
    for text in ["<config model=\"m\"/>\n<user>q</user>\n", "<user>open"] {
        scene.file(&name, text)?;
        for words in [
            ["tokens", "count", &name].as_slice(),
            &["check", &name],
            &["check", "."],
            &["fmt", "--check", &name],
            &["fix", "--check", &name],
            &["scan", &name],
            &["run", "-m", "echo:", "--no-save", &name],
            &["mcp", "list", &name],
            &["sessions", "show", &name],
        ] {
            let mut run = scene.logue([]);
            for word in words {
                run = run.with_arg(word);
            }
            let text = run.run()?.text();
            is_safe(&text, words[0])?;
            shown.push_str(&text);
        }
    }
    has_mark(&shown)
}

fn errors(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    let mut shown = String::new();
    for prompt in [
        format!("<config model=\"replay:{EVIL}\"/>\n<user>q</user>\n"),
        format!("<config model=\"m\"/>\n<user><doc src=\"{EVIL}\" local/></user>\n"),
        format!("<config model=\"m\"/>\n<import src=\"{EVIL}\"/>\n"),
        format!("<config model=\"m\"/>\n<tool name=\"{EVIL}\"/>\n<user>q</user>\n"),
        format!("<config model=\"m\"/>\n<tool mcp_server=\"{EVIL}\"/>\n<user>q</user>\n"),
        format!(
            "<config model=\"m\" {EVIL}=\"1\"/>\n<user>{EVIL}<summary>x</summary></user>\n</{EVIL}>"
        ),
    ] {
        scene.file("p.md", &prompt)?;
        for verb in ["run", "check"] {
            let server = answers(Vec::new())?;
            let text = scene
                .logue([verb, "p.md"])
                .with_server(&server)
                .run()?
                .text();
            is_safe(&text, &prompt)?;
            shown.push_str(&text);
        }
    }
    has_mark(&shown)
}

fn settings(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    scene.file("p.md", "<config model=\"m\"/>\n<user>q</user>\n")?;
    let escaped = EVIL
        .chars()
        .map(|letter| format!("\\U{:08X}", letter as u32));
    let escaped = escaped.collect::<Vec<_>>().concat();
    let mut shown = String::new();
    for setting in [
        format!("[tools]\nroots = [\"{escaped}\"]\n"),
        format!("[model]\nbase_url = \"http://{escaped}/\"\n"),
        format!("[model]\napi_key_env = \"{escaped}\"\n"),
        format!("[tools]\nenvironment = [\"A{escaped}\"]\n"),
        format!("[\"{escaped}\"]\nx = 1\n"),
        format!("[mcp.servers.\"http://{escaped}\"]\nbearer_env = \"LOGUE_X\"\n"),
    ] {
        scene.file("logue.toml", &setting)?;
        for words in [
            ["run", "p.md"].as_slice(),
            &["doctor"],
            &["trust", "add", "."],
            &["trust", "explain", "."],
            &["trust", "list"],
        ] {
            let mut run = scene.logue([]);
            for word in words {
                run = run.with_arg(word);
            }
            let text = run.run()?.text();
            is_safe(&text, &format!("{words:?}: {setting}"))?;
            shown.push_str(&text);
        }
    }
    has_mark(&shown)
}

fn view(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    scene.file(
        "p.md",
        format!("<config model=\"m\"/>\n<user>{EVIL}</user>\n<assistant>{EVIL}</assistant>\n"),
    )?;
    for words in [["view", "p.md"], ["debug", "p.md"]] {
        let run = scene.logue([words[0]]);
        let run = if words[0] == "debug" {
            run.with_arg("tree")
        } else {
            run
        };
        let text = screen(run.with_arg("p.md").into_command(), &[])?;
        is_safe(&text, words[0])?;
        has_mark(&text)?;
    }
    Ok(())
}

/// Lets a call wait for a decision on a terminal, and denies it; returns the screen.
fn question(scene: &Scene, calls: &[(&str, serde_json::Value)]) -> Result<String, Failure> {
    let server = model(calls)?;
    let run = scene.logue(["run", "--no-save", "--permission", "*=ask", "p.md", "go"]);
    let run = run.with_server(&server).with_trust();
    let text = screen(run.into_command(), &[("/?] ", "n\n")])?;
    control(server.received().len() == 2, "the turn does not go on")?;
    Ok(text)
}

fn arguments(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    scene.file(
        "p.md",
        "<config model=\"m\"/>\n<tool name=\"t\" command=\"echo\"/>\n<tool name=\"python\"/>\n\
         <tool name=\"write_file\"/>\n",
    )?;
    for (tool, arguments) in [
        ("t", json!({"arguments": [EVIL]})),
        ("python", json!({"code": EVIL})),
        (
            "write_file",
            json!({"path": format!("{EVIL}.txt"), "content": EVIL}),
        ),
    ] {
        let text = question(&scene, &[(tool, arguments)])?;
        is_safe(&text, tool)?;
        has_mark(&text)?;
    }
    Ok(())
}

fn serve(scene: &Scene, description: &str) -> Outcome {
    scene.file(
        "tools.json",
        json!({
            "instructions": description,
            "tools": [{"name": "t", "description": description, "inputSchema": {"type": "object"}}],
            "result": {"content": [{"type": "text", "text": description}]},
        })
        .to_string(),
    )?;
    let prompt = format!(
        "<config model=\"m\"/>\n<tool mcp_server=\"stdio:{} mcp-file tools.json\"/>\n",
        scene.probe()
    );
    scene.file("p.md", prompt)?;
    Ok(())
}

fn mcp_arguments(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    serve(&scene, "plain")?;
    let text = question(&scene, &[("t", json!({"text": EVIL, EVIL: [EVIL]}))])?;
    is_safe(&text, "the question")?;
    has_mark(&text)
}

fn mcp_description(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    serve(&scene, EVIL)?;
    let ran = scene.logue(["mcp", "list", "--trust", "p.md"]).run()?;
    is_safe(&ran.text(), "mcp list")?;
    has_mark(&ran.text())
}

fn answer(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    scene.file("p.md", "<config model=\"m\"/>\n<user>q</user>\n")?;
    let server = answers(vec![testkit::Answer::text(EVIL).with_reasoning(EVIL)])?;
    let run = scene
        .logue(["run", "--no-save", "p.md"])
        .with_server(&server);
    let text = screen(run.into_command(), &[])?;
    is_safe(&text, "the answer")?;
    has_mark(&text)
}

fn server_error(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    scene.file("p.md", "<config model=\"m\"/>\n<user>q</user>\n")?;
    let mut shown = String::new();
    for body in [
        json!({"error": {"message": EVIL}}).to_string(),
        EVIL.to_owned(),
    ] {
        let reply = testkit::Reply::Status(400, Vec::new(), body);
        let server = testkit::ModelServer::start(vec![reply], testkit::Delivery::Whole)?;
        let ran = scene
            .logue(["run", "--no-save", "p.md"])
            .with_server(&server)
            .run()?;
        is_safe(&ran.text(), "the error")?;
        shown.push_str(&ran.text());
    }
    has_mark(&shown)
}

fn ambiguous_arguments(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    scene.file(
        "p.md",
        "<config model=\"m\"/>\n<tool name=\"t\" command=\"echo\"/>\n",
    )?;
    let vectors: [&[&str]; 8] = [
        &["a b"],
        &["a", "b"],
        &["a' 'b"],
        &["a", "", "b"],
        &["a\nb"],
        &["a\\nb"],
        &["a\\", "b"],
        &["`a`", "b"],
    ];
    let mut shown: Vec<String> = Vec::new();
    for words in vectors {
        let text = question(&scene, &[("t", json!({"arguments": words}))])?;
        let lines = text.lines().filter(|line| line.contains("\u{2502}"));
        let call = lines.collect::<Vec<_>>().concat();
        control(call.contains("echo"), format!("no call is shown: {text}"))?;
        promise(
            !shown.contains(&call),
            format!("{words:?} looks like another call"),
        )?;
        shown.push(call);
    }
    Ok(())
}

/// Spells a word with escapes of JSON, which a question must decode.
fn spelled_arguments(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    serve(&scene, "plain")?;
    let spelled = "{\"text\": \"\\u0072\\u006d -\\u0072f everything\"}";
    let call = testkit::Answer::text("").with_call("c0", "t", spelled);
    let server = answers(vec![call])?;
    let run = scene.logue(["run", "--no-save", "--permission", "*=ask", "p.md", "go"]);
    let run = run.with_server(&server).with_trust();
    let text = screen(run.into_command(), &[("/?] ", "n\n")])?;
    control(server.received().len() == 2, "the turn does not go on")?;
    promise(
        text.contains("rm -rf everything"),
        format!("the words are shown as escapes: {text}"),
    )
}
