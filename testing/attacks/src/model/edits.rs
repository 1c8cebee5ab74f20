//! Approved and edited calls whose circumstances another call or file changes.

use serde_json::json;

use crate::attack::{Arena, Attack, Failure, Outcome, control, promise};
use crate::scene::{Scene, answers, model, words};

const APPROVED: &str = "what was approved is what runs";
const EDITED: &str = "an edited call is checked like one of the model";

pub(crate) const ATTACKS: &[Attack] = &[
    Attack::model("approval-same-answer", APPROVED, same_answer),
    Attack::model("approval-edit-script-changed", APPROVED, script_changed),
    Attack::model("approval-edit-denied", EDITED, denied),
    Attack::model("approval-edit-outside", EDITED, outside),
];

const DEPLOY: &str = "<config model=\"m\"/>\n<tool name=\"deploy\" command=\"sh deploy.sh\"/>\n\
    <tool name=\"write_file\"/>\n";

/// Lets a call of a new prompt wait, makes a change and approves an edit of its arguments.
fn edited(
    arena: &Arena,
    call: (&str, serde_json::Value),
    edit: &serde_json::Value,
    change: impl Fn(&Scene) -> Outcome,
) -> Result<Scene, Failure> {
    let scene = Scene::new(arena)?;
    scene.file("p.md", DEPLOY)?;
    scene.file("deploy.sh", "echo \"ran $1\" >> runs\n")?;
    let server = model(&[call])?;
    let run = scene.logue(["run", "p.md", "go"]);
    let signal = run.with_server(&server).run()?.signal()?;
    scene.file("edit.json", edit.to_string())?;
    change(&scene)?;
    let run = scene.logue(["signal", &signal, "--approve", "--edit", "edit.json"]);
    run.with_server(&server).run()?;
    Ok(scene)
}

/// Expects the edited call of `deploy` to run without a change, and not with it.
fn stops(arena: &Arena, change: impl Fn(&Scene) -> Outcome) -> Outcome {
    let call = || ("deploy", words(["model"]));
    let scene = edited(arena, call(), &words(["person"]), |_| Ok(()))?;
    control(
        scene.text("runs") == "ran person\n",
        "the edited call does not run",
    )?;
    let scene = edited(arena, call(), &words(["person"]), change)?;
    promise(scene.text("runs").is_empty(), scene.text("runs"))
}

fn script_changed(arena: &Arena) -> Outcome {
    stops(arena, |scene| {
        scene.file("deploy.sh", "echo \"evl $1\" >> runs\n")?;
        Ok(())
    })
}

fn denied(arena: &Arena) -> Outcome {
    stops(arena, |scene| {
        scene.configure("", "[permissions.rules]\ndeploy = \"deny\"\n")
    })
}

fn outside(arena: &Arena) -> Outcome {
    let write = |path: &str| json!({"path": path, "content": "x"});
    let call = || ("write_file", write("model.txt"));
    let scene = edited(arena, call(), &write("person.txt"), |_| Ok(()))?;
    control(
        scene.text("person.txt") == "x",
        "the edited call does not run",
    )?;
    for path in ["../planted", "../../outside/id_rsa", "deploy.sh"] {
        let scene = edited(arena, call(), &write(path), |_| Ok(()))?;
        promise(!scene.home().join("planted").exists(), path)?;
        let secret = std::fs::read_to_string(scene.outside().join("id_rsa"))?;
        promise(secret != "x", path)?;
        promise(scene.text("deploy.sh") != "x", path)?;
    }
    Ok(())
}

fn same_answer(arena: &Arena) -> Outcome {
    for is_swapped in [false, true] {
        let scene = Scene::new(arena)?;
        scene.file(
            "p.md",
            "<config model=\"m\"/>\n<tool name=\"deploy\" command=\"sh deploy.sh settings.sh\"/>\n\
             <tool name=\"swap\" command=\"sh swap.sh\"/>\n",
        )?;
        // The script reads its settings late, so that a concurrent call could replace them.
        scene.file(
            "deploy.sh",
            "n=0\nwhile [ ! -e swapped ] && [ $n -lt 20 ]; do n=$((n+1)); sleep 0.05; done\n\
             . ./settings.sh\n",
        )?;
        scene.file("settings.sh", "echo agreed >> runs\n")?;
        scene.file(
            "swap.sh",
            "echo 'echo evil >> runs' > settings.sh\ntouch swapped\n",
        )?;
        let answer = testkit::Answer::text("").with_call("c1", "deploy", words([]).to_string());
        let answer = if is_swapped {
            answer.with_call("c2", "swap", words([]).to_string())
        } else {
            answer
        };
        let server = answers(vec![answer])?;
        let run = scene.logue(["run", "--permission", "*=ask", "p.md", "go"]);
        let signal = run.with_server(&server).with_trust().run()?.signal()?;
        let run = scene.logue(["signal", &signal, "--approve"]);
        run.with_server(&server).with_trust().run()?;
        let runs = scene.text("runs");
        control(is_swapped || runs == "agreed\n", "the call does not run")?;
        promise(!runs.contains("evil"), runs)?;
    }
    Ok(())
}
