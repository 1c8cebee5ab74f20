//! Commands that replace a folder by a link between two calls.

use std::fs;

use crate::attack::{Arena, Attack, Failure, Outcome, control, promise};
use crate::model::escape::{owned, turn, turn_with};
use crate::scene::{INSIDE, SECRET, Scene, traffic};

const ROOTS: &str = "a root is the folder that it was when the run began";

pub(crate) const ATTACKS: &[Attack] = &[
    Attack::model("root-replaced-read", ROOTS, root_read).confined(),
    Attack::model("root-replaced-write", ROOTS, root_write).confined(),
    Attack::model("root-replaced-agent", ROOTS, root_of_agent).confined(),
    Attack::model("root-replaced-built-in", ROOTS, root_built_in),
    Attack::model(
        "writable-made-later",
        "a writable folder that is made later opens no other",
        writable_made_later,
    )
    .confined(),
];

/// Returns a scene without a sandbox, as a control, and one with the sandbox.
fn scenes(arena: &Arena) -> Result<[(bool, Scene); 2], Failure> {
    let open = Arena {
        confinement: None,
        ..arena.clone()
    };
    let free = Scene::new(&open)?;
    free.configure("sandbox = \"off\"\n", "")?;
    Ok([(false, free), (true, Scene::new(arena)?)])
}

fn root_read(arena: &Arena) -> Outcome {
    for (is_confined, scene) in scenes(arena)? {
        scene.file("sub/id_rsa", INSIDE)?;
        let outside = scene.outside().display().to_string();
        let sub = scene.work().join("sub").display().to_string();
        let calls = [
            owned(["swap", &sub, &outside]),
            owned(["read", "sub/id_rsa"]),
        ];
        let turn = turn_with(scene, &calls, &["--root", "sub"])?;
        let is_read = turn.traffic().contains(SECRET);
        control(is_confined || is_read, "it is not read without a sandbox")?;
        promise(!is_confined || !is_read, "the secret was read")?;
    }
    Ok(())
}

fn root_write(arena: &Arena) -> Outcome {
    for (is_confined, scene) in scenes(arena)? {
        fs::create_dir_all(scene.work().join("sub"))?;
        let outside = scene.outside().display().to_string();
        let sub = scene.work().join("sub").display().to_string();
        let calls = [owned(["swap", &sub, &outside]), owned(["write", "sub/new"])];
        let turn = turn_with(scene, &calls, &["--root", "sub"])?;
        let is_written = turn.scene.outside().join("new").exists();
        control(
            is_confined || is_written,
            "it is not written without a sandbox",
        )?;
        promise(!is_confined || !is_written, "a file was written")?;
    }
    Ok(())
}

fn root_of_agent(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    let probe = scene.probe();
    let prompt = format!(
        "<config model=\"m\"/>\n<tool name=\"t\" command=\"{probe}\"/>\n\
         <tool name=\"ask\" agent=\"sub/a.md\" local/>\n"
    );
    scene.file("p.md", prompt)?;
    let agent = format!("<config model=\"m\"/>\n<tool name=\"r\" command=\"{probe}\"/>\n");
    scene.file("sub/a.md", &agent)?;
    fs::write(scene.outside().join("a.md"), &agent)?;
    scene.file("sub/id_rsa", INSIDE)?;
    let outside = scene.outside().display().to_string();
    let sub = scene.work().join("sub").display().to_string();
    let read = serde_json::json!({"arguments": ["read", "id_rsa"]});
    let server = crate::scene::model(&[
        ("ask", serde_json::json!({"input": "first"})),
        ("r", read.clone()),
    ])?;
    let run = || scene.logue(["run", "--no-save", "--no-cache", "p.md", "go"]);
    run().with_server(&server).with_trust().run()?;
    control(
        traffic(&server).contains(INSIDE),
        "the agent reads no file of its own",
    )?;
    // Which conversation receives which answer depends on whether the agent still runs.
    let server = crate::scene::model(&[
        (
            "t",
            serde_json::json!({"arguments": ["swap", sub, outside]}),
        ),
        ("ask", serde_json::json!({"input": "second"})),
        ("r", read.clone()),
        ("r", read),
    ])?;
    run().with_server(&server).with_trust().run()?;
    control(
        scene.work().join("sub").is_symlink(),
        "the folder was not replaced",
    )?;
    promise(!traffic(&server).contains(SECRET), "the secret was read")
}

fn root_built_in(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    let prompt = format!(
        "<config model=\"m\"/>\n<tool name=\"t\" command=\"{}\"/>\n\
         <tool name=\"read_file\"/>\n<tool name=\"write_file\"/>\n<tool name=\"search\"/>\n",
        scene.probe()
    );
    scene.file("p.md", prompt)?;
    scene.file("sub/id_rsa", INSIDE)?;
    let outside = scene.outside().display().to_string();
    let sub = scene.work().join("sub").display().to_string();
    let server = crate::scene::model(&[
        ("read_file", serde_json::json!({"file": "sub/id_rsa"})),
        (
            "t",
            serde_json::json!({"arguments": ["swap", sub.as_str(), outside]}),
        ),
        ("read_file", serde_json::json!({"file": "sub/id_rsa"})),
        (
            "search",
            serde_json::json!({"pattern": "TOP.*", "path": "sub"}),
        ),
        (
            "write_file",
            serde_json::json!({"path": "sub/new", "content": "x"}),
        ),
        // The second root, which is searched after the folder of the prompt.
        ("read_file", serde_json::json!({"file": "id_rsa"})),
        (
            "read_file",
            serde_json::json!({"file": format!("{sub}/id_rsa")}),
        ),
    ])?;
    let run = scene.logue(["run", "--no-save", "--root", "sub", "p.md", "go"]);
    run.with_server(&server).with_trust().run()?;
    control(traffic(&server).contains(INSIDE), "nothing is read before")?;
    control(
        scene.work().join("sub").is_symlink(),
        "the folder was not replaced",
    )?;
    promise(!traffic(&server).contains(SECRET), "the secret was read")?;
    promise(!scene.outside().join("new").exists(), "a file was written")
}

fn writable_made_later(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    let cache = scene.work().join("cache");
    scene.configure(&format!("writable = [\"{}\"]\n", cache.display()), "")?;
    let outside = scene.outside().display().to_string();
    let cache = cache.display().to_string();
    let calls = [
        owned(["swap", &cache, &outside]),
        owned(["read", "cache/id_rsa"]),
        owned(["write", "cache/new"]),
    ];
    let turn = turn(scene, &calls)?;
    control(
        turn.scene.work().join("cache").is_symlink(),
        "no link was made",
    )?;
    promise(!turn.traffic().contains(SECRET), "the secret was read")?;
    promise(
        !turn.scene.outside().join("new").exists(),
        "a file was written",
    )
}
