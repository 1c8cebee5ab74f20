//! Calls that change, during a run, what trust in its prompt covers.

use serde_json::{Value, json};

use crate::attack::{Arena, Attack, Failure, Outcome, control, promise};
use crate::scene::{INSIDE, Scene, model, words};

const CONTENT: &str = "what was trusted is what runs";
const PROTECTED: &str = "tools write no file that belongs to the run";

pub(crate) const ATTACKS: &[Attack] = &[
    Attack::model("changed-script", CONTENT, script),
    Attack::model("changed-missing-script", CONTENT, missing_script),
    Attack::model("changed-agent", CONTENT, agent),
    Attack::model("changed-by-first-agent", CONTENT, by_first_agent),
    Attack::model(
        "written-agent",
        "no text of a tool becomes a prompt",
        written_agent,
    ),
    Attack::model("written-protected", PROTECTED, protected),
    Attack::model("written-missing-script", PROTECTED, written_script),
];

/// Trusts `p.md` as it is, lets its model make calls, and returns what ran.
fn runs(scene: &Scene, calls: &[(&str, Value)]) -> Result<String, Failure> {
    let ran = scene.logue(["trust", "add", "p.md"]).run()?;
    control(
        ran.status == Some(0),
        format!("not trusted: {}", ran.text()),
    )?;
    let server = model(calls)?;
    let run = scene.logue(["run", "--no-cache", "-o", "t.md", "p.md", "go"]);
    run.with_server(&server).run()?;
    control(server.received().len() > 1, "no call was made")?;
    Ok(scene.text("runs"))
}

fn copy(from: &str, to: &str) -> (&'static str, Value) {
    ("cp", words([from, to]))
}

const COPY: &str = "<tool name=\"cp\" command=\"cp\"/>\n";
const GOOD: &str = "echo good >> runs\n";
const EVIL: &str = "echo evil >> runs\n";

fn script(arena: &Arena) -> Outcome {
    for from in ["same.sh", "evil.sh"] {
        let scene = Scene::new(arena)?;
        let act = "<tool name=\"act\" command=\"sh act.sh\"/>\n";
        scene.file("p.md", format!("<config model=\"m\"/>\n{COPY}{act}"))?;
        for (name, text) in [("act.sh", GOOD), ("same.sh", GOOD), ("evil.sh", EVIL)] {
            scene.file(name, text)?;
        }
        let runs = runs(&scene, &[copy(from, "act.sh"), ("act", words([]))])?;
        control(
            scene.text("act.sh") == scene.text(from),
            "the script was not replaced",
        )?;
        control(from == "evil.sh" || runs == "good\n", "it does not run")?;
        promise(!runs.contains("evil"), runs)?;
    }
    Ok(())
}

fn missing_script(arena: &Arena) -> Outcome {
    for is_missing in [false, true] {
        let scene = Scene::new(arena)?;
        let act = "<tool name=\"act\" command=\"sh ./act.sh\"/>\n";
        scene.file("p.md", format!("<config model=\"m\"/>\n{COPY}{act}"))?;
        scene.file("evil.sh", EVIL)?;
        if !is_missing {
            scene.file("act.sh", EVIL)?;
        }
        let runs = runs(&scene, &[copy("evil.sh", "act.sh"), ("act", words([]))])?;
        control(scene.text("act.sh") == EVIL, "no script was made")?;
        control(is_missing || runs.contains("evil"), "it does not run")?;
        promise(!is_missing || !runs.contains("evil"), runs)?;
    }
    Ok(())
}

fn agent(arena: &Arena) -> Outcome {
    for from in ["same.md", "evil.md"] {
        let scene = Scene::new(arena)?;
        let ask = "<tool name=\"ask\" agent=\"a.md\" local/>\n";
        scene.file("p.md", format!("<config model=\"m\"/>\n{COPY}{ask}"))?;
        let agent = |script: &str| {
            format!("<config model=\"m\"/>\n<tool name=\"act\" command=\"sh {script}\"/>\n")
        };
        for name in ["a.md", "same.md"] {
            scene.file(name, agent("good.sh"))?;
        }
        scene.file("evil.md", agent("evil.sh"))?;
        scene.file("good.sh", GOOD)?;
        scene.file("evil.sh", EVIL)?;
        let ask = ("ask", json!({"input": "go"}));
        let runs = runs(&scene, &[copy(from, "a.md"), ask, ("act", words([]))])?;
        control(
            scene.text("a.md") == scene.text(from),
            "the agent was not replaced",
        )?;
        control(from == "evil.md" || runs == "good\n", "it does not run")?;
        promise(!runs.contains("evil"), runs)?;
    }
    Ok(())
}

/// Lets an agent of a document replace an import or script before the prompt's own model is asked.
fn by_first_agent(arena: &Arena) -> Outcome {
    for (from, to) in [
        ("same.chatmd", "more.chatmd"),
        ("evil.chatmd", "more.chatmd"),
        ("evil.sh", "good.sh"),
    ] {
        let is_evil = from.starts_with("evil");
        let scene = Scene::new(arena)?;
        scene.file(
            "p.md",
            "<config model=\"m\"/>\n<import src=\"more.chatmd\"/>\n\
             <user><agent src=\"a.md\" local>Do it.</agent></user>\n",
        )?;
        scene.file("a.md", format!("<config model=\"m\"/>\n{COPY}"))?;
        let import = |script: &str| format!("<tool name=\"act\" command=\"sh {script}\"/>\n");
        for name in ["more.chatmd", "same.chatmd"] {
            scene.file(name, import("good.sh"))?;
        }
        scene.file("evil.chatmd", import("evil.sh"))?;
        scene.file("good.sh", GOOD)?;
        scene.file("evil.sh", EVIL)?;
        let ran = scene.logue(["trust", "add", "p.md"]).run()?;
        control(
            ran.status == Some(0),
            format!("not trusted: {}", ran.text()),
        )?;
        let call = |id: &str, (name, arguments): (&str, Value)| {
            testkit::Answer::text("").with_call(id, name, arguments.to_string())
        };
        let server = crate::scene::answers(vec![
            call("c0", copy(from, to)),
            testkit::Answer::text("copied"),
            call("c1", ("act", words([]))),
        ])?;
        let run = scene.logue(["run", "--no-cache", "-o", "t.md", "p.md", "go"]);
        run.with_server(&server).run()?;
        let runs = scene.text("runs");
        control(
            scene.text(to) == scene.text(from),
            "the file was not replaced",
        )?;
        control(is_evil || runs == "good\n", "it does not run")?;
        promise(!runs.contains("evil"), runs)?;
    }
    Ok(())
}

fn written_agent(arena: &Arena) -> Outcome {
    let text = format!("<config model=\"m\"/>\n<system>{INSIDE}</system>\n");
    for is_written in [false, true] {
        let scene = Scene::new(arena)?;
        scene.file(
            "p.md",
            "<config model=\"m\"/>\n<tool name=\"write_file\"/>\n\
             <tool name=\"ask\" agent=\"a.md\" local/>\n",
        )?;
        if !is_written {
            scene.file("a.md", &text)?;
        }
        let server = model(&[
            ("write_file", json!({"path": "a.md", "content": text})),
            ("ask", json!({"input": "go"})),
        ])?;
        let run = scene.logue(["run", "--no-save", "--no-cache", "p.md", "go"]);
        run.with_server(&server).with_trust().run()?;
        let requests = server.received();
        let is_asked = requests.iter().any(|request| {
            let first = &request.body["messages"][0];
            first["role"] == "system" && first.to_string().contains(INSIDE)
        });
        control(is_written || is_asked, "the agent is not asked")?;
        // A run whose prompt names a missing agent ends before its first request.
        let is_refused = is_written && requests.is_empty();
        control(
            is_refused || scene.text("a.md") == text,
            "no agent was written",
        )?;
        promise(!is_written || !is_asked, "the written text is a prompt")?;
    }
    Ok(())
}

fn protected(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    scene.file(
        "p.md",
        "<config model=\"m\"/>\n<import src=\"more.chatmd\"/>\n\
         <tool name=\"write_file\"/>\n<tool name=\"append_to_file\"/>\n\
         <tool name=\"apply_patch\"/>\n<tool name=\"ask\" agent=\"a.md\" local/>\n",
    )?;
    scene.file("a.md", "<config model=\"m\"/>\n")?;
    scene.file("more.chatmd", "<system>Help.</system>\n")?;
    scene.file(".git/config", "[core]\n")?;
    scene.file("sub/.git/hooks/old", "")?;
    std::fs::create_dir_all(scene.work().join(".chatmd"))?;
    std::fs::create_dir_all(scene.work().join("more"))?;
    let names = [
        "p.md",
        "a.md",
        "more.chatmd",
        "logue.toml",
        "LOGUE.toml",
        "more/logue.toml",
        ".git/config",
        ".git/hooks/post-checkout",
        "sub/.git/hooks/post-checkout",
        ".GIT/hooks/post-checkout",
        ".chatmd/0.tool-call.c0.json",
    ];
    for name in std::iter::once("free.txt").chain(names) {
        let patch = format!("*** Begin Patch\n*** Add File: {name}\n+PLANTED\n*** End Patch\n");
        let calls = [
            ("write_file", json!({"path": name, "content": "PLANTED"})),
            (
                "append_to_file",
                json!({"path": name, "content": "PLANTED"}),
            ),
            ("apply_patch", json!({"input": patch})),
        ];
        let server = model(&calls)?;
        let run = scene.logue(["run", "--no-save", "p.md", "go"]);
        run.with_server(&server).with_trust().run()?;
        control(server.received().len() == 4, format!("{name}: no calls"))?;
        let is_written = scene.text(name).contains("PLANTED");
        control(name != "free.txt" || is_written, "no file is written")?;
        promise(name == "free.txt" || !is_written, name)?;
    }
    Ok(())
}

fn written_script(arena: &Arena) -> Outcome {
    for name in ["act.sh", "other.sh"] {
        let scene = Scene::new(arena)?;
        scene.file(
            "p.md",
            "<config model=\"m\"/>\n<tool name=\"act\" command=\"sh ./act.sh\"/>\n\
             <tool name=\"write_file\"/>\n",
        )?;
        let write = json!({"path": name, "content": EVIL});
        let runs = runs(&scene, &[("write_file", write), ("act", words([]))])?;
        let is_written = scene.text(name) == EVIL;
        control(name == "act.sh" || is_written, "no file is written")?;
        promise(name != "act.sh" || !is_written, "the script was written")?;
        promise(!runs.contains("evil"), runs)?;
    }
    Ok(())
}
