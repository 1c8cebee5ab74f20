//! Prompts that try to start a program while they are looked at.

use crate::attack::{Arena, Attack, Outcome, control, promise};
use crate::scene::Scene;

const NOTHING: &str = "nothing is inspected by running it";

pub(crate) const ATTACKS: &[Attack] = &[
    Attack::author("inspect-mcp-list", NOTHING, mcp_list),
    Attack::author("inspect-verbs", NOTHING, verbs),
    Attack::author("inspect-trust", NOTHING, trust),
    Attack::author(
        "inspect-path",
        "no program of the checkout replaces one of the system",
        path,
    ),
];

/// Writes a prompt all of whose programs leave a mark.
fn prepare(scene: &Scene) -> Outcome {
    scene.file(
        "p.md",
        "<config model=\"m\"/>\n<tool name=\"deploy\" command=\"sh mark.sh\"/>\n\
         <tool mcp_server=\"stdio:sh mark.sh\"/>\n<tool mcp_server=\"stdio:./mark.sh x\"/>\n\
         <user>Hi.</user>\n",
    )?;
    scene.file("mark.sh", "echo started >> marks\n")?;
    Ok(())
}

fn started(scene: &Scene) -> bool {
    !scene.text("marks").is_empty()
}

/// Shows that the programs do start once the prompt is trusted.
fn starts_if_trusted(scene: &Scene) -> Outcome {
    scene.logue(["mcp", "list", "--trust", "p.md"]).run()?;
    control(started(scene), "a trusted server is not started either")
}

fn mcp_list(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    prepare(&scene)?;
    scene.logue(["mcp", "list", "p.md"]).run()?;
    scene.logue(["mcp", "list", "--json", "p.md"]).run()?;
    promise(!started(&scene), "mcp list starts the server")?;
    starts_if_trusted(&scene)
}

fn verbs(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    prepare(&scene)?;
    let verbs: [&[&str]; 10] = [
        &["check", "p.md"],
        &["check", "."],
        &["view", "p.md"],
        &["convert", "p.md", "--to", "json"],
        &["fmt", "--check", "p.md"],
        &["fix", "--check", "p.md"],
        &["tokens", "count", "p.md"],
        &["tokens", "render", "p.md"],
        &["debug", "tree", "p.md"],
        &["scan", "p.md"],
    ];
    for words in verbs {
        let mut run = scene.logue([]);
        for word in words {
            run = run.with_arg(word);
        }
        let ran = run.run()?;
        control(ran.status.is_some(), format!("{words:?} does not end"))?;
        promise(!started(&scene), words.join(" "))?;
    }
    starts_if_trusted(&scene)
}

fn trust(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    prepare(&scene)?;
    scene.logue(["trust", "explain", "p.md"]).run()?;
    scene.logue(["doctor"]).run()?;
    let ran = scene.logue(["trust", "add", "p.md"]).run()?;
    control(
        ran.status == Some(0),
        format!("it is not trusted: {}", ran.text()),
    )?;
    scene.logue(["trust", "list"]).run()?;
    promise(!started(&scene), "a program was started")?;
    starts_if_trusted(&scene)
}

fn path(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    let names = ["python3", "bwrap", "git", "sh", "echo", "node", "xdg-open"];
    for name in names {
        for folder in ["", "bin/"] {
            let path = scene.file(&format!("{folder}{name}"), "#!/bin/sh\necho x >> marks\n")?;
            rustix::fs::chmod(&path, rustix::fs::Mode::from_raw_mode(0o755))?;
        }
    }
    scene.file("p.md", "<config model=\"echo:\"/>\n<user>Hi.</user>\n")?;
    for words in [
        ["doctor"].as_slice(),
        &["run", "--no-save", "p.md"],
        &["check", "p.md"],
    ] {
        let mut run = scene.logue([]);
        for word in words {
            run = run.with_arg(word);
        }
        let ran = run.run()?;
        control(ran.status.is_some(), "it does not end")?;
        promise(!started(&scene), words.join(" "))?;
    }
    Ok(())
}
