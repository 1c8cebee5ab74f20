//! Calls that try to get past the decision of a person.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;

use crate::attack::{Arena, Attack, Failure, Outcome, control, promise};
use crate::scene::{Scene, model, words};

const APPROVED: &str = "what was approved is what runs";
const ONCE: &str = "a decision counts once";
const DEPLOY: &str = "<config model=\"m\"/>\n<tool name=\"deploy\" command=\"sh deploy.sh\"/>\n";

pub(crate) const ATTACKS: &[Attack] = &[
    Attack::model("approval-script-changed", APPROVED, script_changed),
    Attack::model("approval-argument-changed", APPROVED, argument_changed),
    Attack::model(
        "approval-declaration-changed",
        APPROVED,
        declaration_changed,
    ),
    Attack::model("approval-folder-replaced", APPROVED, folder_replaced),
    Attack::model("approval-target-changed", APPROVED, target_changed),
    Attack::model("approval-denied-then-approved", ONCE, denied_then_approved),
    Attack::model("approval-twice", ONCE, approved_twice),
    Attack::model("approval-other-turn", ONCE, other_turn),
    Attack::model(
        "permission-unknown-tool",
        "a rule for an unknown tool is an error",
        unknown_tool,
    ),
    Attack::model(
        "undeclared-tool",
        "a model calls declared tools only",
        undeclared,
    ),
    Attack::model("command-injection", "no shell reads arguments", injection),
];

/// Lets `deploy` wait for a decision; returns the signal.
fn waiting(scene: &Scene) -> Result<(testkit::ModelServer, String), Failure> {
    let server = model(&[("deploy", words(["data.txt"]))])?;
    let run = scene.logue(["run", "--permission", "deploy=ask", "p.md", "go"]);
    let ran = run.with_server(&server).with_trust().run()?;
    control(
        ran.status == Some(6),
        format!("the turn does not wait: {}", ran.text()),
    )?;
    Ok((server, ran.signal()?))
}

fn decide(scene: &Scene, server: &testkit::ModelServer, words: [&str; 3]) -> Outcome {
    scene.logue(words).with_server(server).with_trust().run()?;
    Ok(())
}

fn prepared(arena: &Arena) -> Result<Scene, Failure> {
    let scene = Scene::new(arena)?;
    scene.file("p.md", DEPLOY)?;
    scene.file("deploy.sh", "echo \"ran $1\" >> runs\n")?;
    scene.file("data.txt", "1")?;
    Ok(scene)
}

/// Makes a change while a call waits, and approves it.
fn changed(arena: &Arena, change: impl Fn(&Scene) -> Outcome) -> Outcome {
    let scene = prepared(arena)?;
    let (server, signal) = waiting(&scene)?;
    decide(&scene, &server, ["signal", &signal, "--approve"])?;
    control(
        scene.text("runs") == "ran data.txt\n",
        "the approved call does not run",
    )?;
    let scene = prepared(arena)?;
    let (server, signal) = waiting(&scene)?;
    change(&scene)?;
    decide(&scene, &server, ["signal", &signal, "--approve"])?;
    promise(scene.text("runs").is_empty(), scene.text("runs"))
}

fn script_changed(arena: &Arena) -> Outcome {
    changed(arena, |scene| {
        scene.file("deploy.sh", "echo \"evl $1\" >> runs\n")?;
        Ok(())
    })
}

fn argument_changed(arena: &Arena) -> Outcome {
    changed(arena, |scene| {
        scene.file("data.txt", "2")?;
        Ok(())
    })
}

fn declaration_changed(arena: &Arena) -> Outcome {
    changed(arena, |scene| {
        scene.file("evil.sh", "echo evil >> runs\n")?;
        let text = scene.text("p.md").replacen("sh deploy.sh", "sh evil.sh", 1);
        scene.file("p.md", text)?;
        Ok(())
    })
}

fn folder_replaced(arena: &Arena) -> Outcome {
    changed(arena, |scene| {
        let copy = scene.home().join("copy");
        fs::create_dir_all(&copy)?;
        for (path, bytes) in crate::scene::tree(&scene.work()) {
            let name = path
                .strip_prefix(scene.work())
                .map_err(std::io::Error::other)?;
            if let Some(parent) = copy.join(name).parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(copy.join(name), bytes)?;
        }
        fs::write(copy.join("deploy.sh"), "echo evil >> runs\n")?;
        fs::rename(scene.work(), scene.home().join("before"))?;
        Ok(symlink(&copy, scene.work())?)
    })
}

fn target_changed(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    scene.file(
        "p.md",
        "<config model=\"m\"/>\n<tool name=\"write_file\"/>\n",
    )?;
    for change in ["", "mine", "link"] {
        let server = model(&[("write_file", json!({"path": "x", "content": "1"}))])?;
        let arguments = [
            "run",
            "--permission",
            "write_file=ask",
            "-o",
            "t.md",
            "p.md",
            "go",
        ];
        let run = scene.logue(arguments);
        let signal = run.with_server(&server).run()?.signal()?;
        match change {
            "" => {}
            "link" => symlink(scene.outside().join("id_rsa"), scene.work().join("x"))?,
            text => drop(scene.file("x", text)?),
        }
        decide(&scene, &server, ["signal", &signal, "--approve"])?;
        let is_written = scene.text("x") == "1";
        control(
            !change.is_empty() || is_written,
            "the approved file is not written",
        )?;
        promise(
            change.is_empty() || !is_written,
            format!("written over: {change}"),
        )?;
        drop(fs::remove_file(scene.work().join("x")));
        drop(fs::remove_file(scene.work().join("t.md")));
    }
    Ok(())
}

fn denied_then_approved(arena: &Arena) -> Outcome {
    let scene = prepared(arena)?;
    let (server, signal) = waiting(&scene)?;
    decide(&scene, &server, ["signal", &signal, "--deny"])?;
    control(
        server.received().len() == 2,
        "the denied turn does not go on",
    )?;
    promise(scene.text("runs").is_empty(), "the denied call ran")?;
    let approve = scene.logue(["signal", &signal, "--approve"]);
    let ran = approve.with_server(&server).with_trust().run()?;
    promise(
        scene.text("runs").is_empty(),
        "the denied call ran after an approval",
    )?;
    // A script that approves must not take the denial for its success.
    promise(ran.status != Some(0), "the approval seemed to succeed")
}

fn approved_twice(arena: &Arena) -> Outcome {
    let scene = prepared(arena)?;
    let (server, signal) = waiting(&scene)?;
    let runs: Result<Vec<_>, Failure> = (0..4)
        .map(|_| {
            let run = scene.logue(["signal", &signal, "--approve"]);
            run.with_server(&server).with_trust().start()
        })
        .collect();
    for running in runs? {
        running.wait(std::time::Duration::from_secs(30))?;
    }
    decide(&scene, &server, ["signal", &signal, "--approve"])?;
    let runs = scene.text("runs");
    control(!runs.is_empty(), "the approved call does not run")?;
    promise(
        runs == "ran data.txt\n",
        format!("it ran more than once: {runs}"),
    )
}

fn other_turn(arena: &Arena) -> Outcome {
    let scene = prepared(arena)?;
    let (server, signal) = waiting(&scene)?;
    // The conversation goes on without the decision, and another call waits.
    let other = model(&[("deploy", words(["other.txt"]))])?;
    let run = scene.logue(["run", "--permission", "deploy=ask", "p.md", "again"]);
    run.with_server(&other).with_trust().run()?;
    control(
        !other.received().is_empty(),
        "the conversation does not go on",
    )?;
    decide(&scene, &server, ["signal", &signal, "--approve"])?;
    promise(scene.text("runs").is_empty(), scene.text("runs"))
}

fn unknown_tool(arena: &Arena) -> Outcome {
    for (rule, runs) in [
        ("deploy=allow", true),
        ("deplyo=deny", false),
        ("Deploy=deny", false),
    ] {
        let scene = prepared(arena)?;
        let server = model(&[("deploy", words([]))])?;
        let run = scene.logue(["run", "--permission", rule, "--no-save", "p.md", "go"]);
        run.with_server(&server).with_trust().run()?;
        let has_run = !scene.text("runs").is_empty();
        control(!runs || has_run, "an allowed call does not run")?;
        promise(runs || !has_run, rule)?;
    }
    Ok(())
}

fn undeclared(arena: &Arena) -> Outcome {
    let scene = prepared(arena)?;
    let calls = [
        ("write_file", json!({"path": "x", "content": "1"})),
        ("python", json!({"code": "open('x', 'w')"})),
        ("Deploy", words([])),
        ("deploy ", words([])),
        ("functions.deploy", words([])),
        ("", words([])),
        ("deploy\0", words([])),
    ];
    let server = model(&calls)?;
    let run = scene.logue(["run", "--no-save", "--permission", "*=allow", "p.md", "go"]);
    run.with_server(&server).with_trust().run()?;
    control(server.received().len() >= 2, "no call was answered")?;
    promise(
        scene.text("runs").is_empty(),
        "a call with another name ran",
    )?;
    promise(!scene.work().join("x").exists(), "an undeclared tool ran")
}

fn injection(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    scene.file(
        "p.md",
        "<config model=\"m\"/>\n<tool name=\"t\" command=\"echo safe\"/>\n",
    )?;
    let words = [
        "; touch x",
        "$(touch x)",
        "`touch x`",
        "| touch x",
        "&& touch x",
        "\ntouch x\n",
        "> x",
    ];
    let calls: Vec<_> = words
        .iter()
        .map(|word| ("t", json!({"arguments": [word]})))
        .collect();
    let server = model(&calls)?;
    let run = scene.logue(["run", "--no-save", "p.md", "go"]);
    run.with_server(&server).with_trust().run()?;
    control(
        server.received().len() == words.len() + 1,
        "not every call was answered",
    )?;
    control(
        crate::scene::traffic(&server).contains("safe $(touch x)"),
        "no word was printed",
    )?;
    promise(
        !scene.work().join("x").exists(),
        "a shell read the arguments",
    )
}
