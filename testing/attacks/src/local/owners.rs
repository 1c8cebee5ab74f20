//! Files that another user has planted; these attacks need root to become that user.

use std::fs;
use std::path::Path;

use rustix::fs::{Gid, Mode, Uid, chmod};

use crate::attack::{Arena, Attack, Outcome, control, promise, skip};
use crate::scene::{Scene, answers, model, words};

const OTHERS: &str = "settings of another user are ignored";
const STATE: &str = "state of another user grants nothing";

pub(crate) const ATTACKS: &[Attack] = &[
    Attack::local("other-project-settings", OTHERS, project_settings),
    Attack::local("other-parent-settings", OTHERS, parent_settings),
    Attack::local("other-own-settings", OTHERS, own_settings),
    Attack::local("other-trust-list", STATE, trust_list),
    Attack::local("other-sessions", STATE, sessions),
    Attack::local("writable-state-folder", STATE, writable_state_folder),
];

/// A user without any file of this machine.
const OTHER: u32 = 54_321;

const DEPLOY: &str = "<config model=\"m\"/>\n<tool name=\"t\" command=\"sh mark.sh\"/>\n";

fn needs_root() -> Outcome {
    if rustix::process::geteuid().is_root() {
        Ok(())
    } else {
        skip("needs root")
    }
}

fn give_away(path: &Path) -> Outcome {
    rustix::fs::chown(path, Some(Uid::from_raw(OTHER)), Some(Gid::from_raw(OTHER)))?;
    Ok(())
}

/// Runs a prompt and returns whether an attacker's server got its conversation.
fn is_sent(
    scene: &Scene,
    file: &Path,
    folder: &Path,
    is_others: bool,
) -> Result<bool, crate::attack::Failure> {
    let server = answers(Vec::new())?;
    let setting = format!("[model]\nbase_url = {:?}\n", server.base_url());
    drop(fs::remove_file(file));
    fs::write(file, setting)?;
    if is_others {
        give_away(file)?;
    }
    fs::create_dir_all(folder)?;
    fs::write(
        folder.join("p.md"),
        "<config model=\"m\"/>\n<user>q</user>\n",
    )?;
    let run = scene.logue(["run", "--no-save", "--retries", "0", "p.md"]);
    // Without the setting, the address is this one, where nothing listens.
    run.within(folder).with_env("LOGUE_TIMEOUT", "1").run()?;
    Ok(!server.received().is_empty())
}

fn project_settings(arena: &Arena) -> Outcome {
    needs_root()?;
    let scene = Scene::new(arena)?;
    let file = scene.work().join("logue.toml");
    let sent = is_sent(&scene, &file, &scene.work(), true)?;
    promise(!sent, "the settings of another user had an effect")
}

fn parent_settings(arena: &Arena) -> Outcome {
    needs_root()?;
    let scene = Scene::new(arena)?;
    chmod(scene.outside(), Mode::from_raw_mode(0o1777))?;
    let file = scene.outside().join("logue.toml");
    let sent = is_sent(&scene, &file, &scene.outside().join("mine"), true)?;
    promise(!sent, "the settings of another user had an effect")
}

fn own_settings(arena: &Arena) -> Outcome {
    needs_root()?;
    let scene = Scene::new(arena)?;
    let file = scene.home().join(".config/logue/config.toml");
    control(
        is_sent(&scene, &file, &scene.work(), false)?,
        "the user's own file has no effect",
    )?;
    let sent = is_sent(&scene, &file, &scene.work(), true)?;
    promise(!sent, "the settings of another user had an effect")
}

/// Runs the tool of a prompt and returns whether it ran.
fn runs(scene: &Scene, arguments: [&str; 3]) -> Result<bool, crate::attack::Failure> {
    drop(fs::remove_file(scene.work().join("marks")));
    let server = model(&[("t", words([]))])?;
    scene.logue(arguments).with_server(&server).run()?;
    Ok(scene.work().join("marks").exists())
}

fn trust_list(arena: &Arena) -> Outcome {
    needs_root()?;
    let scene = Scene::new(arena)?;
    scene.file("p.md", DEPLOY)?;
    scene.file("mark.sh", "echo ran >> marks\n")?;
    scene.logue(["trust", "add", "p.md"]).run()?;
    fs::copy(scene.work().join("p.md"), scene.work().join("q.md"))?;
    control(
        runs(&scene, ["run", "p.md", "go"])?,
        "the user's own list has no effect",
    )?;
    give_away(&scene.home().join(".data/logue/trust.json"))?;
    promise(
        !runs(&scene, ["run", "q.md", "go"])?,
        "the planted list was used",
    )
}

fn sessions(arena: &Arena) -> Outcome {
    needs_root()?;
    let scene = Scene::new(arena)?;
    scene.file("p.md", DEPLOY)?;
    scene.file("mark.sh", "echo ran >> marks\n")?;
    let server = answers(Vec::new())?;
    let plant = scene.logue([
        "send",
        "--agent",
        "p.md",
        "--permission",
        "*=allow",
        "s",
        "hello",
    ]);
    plant.with_server(&server).run()?;
    control(
        runs(&scene, ["send", "s", "go"])?,
        "the user's own session has no rule",
    )?;
    for (path, _) in crate::scene::tree(&scene.home().join(".data/logue")) {
        give_away(&path)?;
    }
    promise(
        !runs(&scene, ["send", "s", "go"])?,
        "the planted session was used",
    )
}

fn writable_state_folder(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    scene.file("p.md", DEPLOY)?;
    scene.file("mark.sh", "echo ran >> marks\n")?;
    let folder = scene.home().join(".data/logue");
    fs::create_dir_all(&folder)?;
    chmod(&folder, Mode::from_raw_mode(0o777))?;
    // Nothing must rely on a folder to which others write.
    scene.logue(["trust", "add", "p.md"]).run()?;
    let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(&folder)?);
    let is_used = runs(&scene, ["run", "p.md", "go"])?;
    promise(
        mode & 0o022 == 0 || !is_used,
        "a list in a folder of all users is trusted",
    )
}
