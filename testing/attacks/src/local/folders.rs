//! Files of the program that others read or prepare.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use crate::attack::{Arena, Attack, Failure, Outcome, control, promise};
use crate::scene::{SECRET, Scene, files_with, model, traffic, tree, wait_until, words};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack::local(
        "folder-modes",
        "files and folders of the program are private",
        modes,
    ),
    Attack::local(
        "transcript-modes",
        "transcripts and payloads are private",
        transcript_modes,
    ),
    Attack::local(
        "planted-links",
        "nothing is written through a link to a file",
        planted_links,
    ),
    Attack::local(
        "planted-pipes",
        "a planted pipe does not stop a run",
        planted_pipes,
    ),
    Attack::local(
        "process-list",
        "no key is in the process list",
        process_list,
    ),
    Attack::local(
        "held-lock",
        "a held lock does not stop a run for ever",
        held_lock,
    ),
];

const PROMPT: &str = "<config model=\"m\"/>\n<tool name=\"t\" command=\"sh t.sh\"/>\n\
    <tool name=\"ask\" agent=\"a.md\" local/>\n";

/// Runs a turn, a session, an agent and a trust decision, which write all files of the program.
fn use_everything(scene: &Scene) -> Result<(), Failure> {
    scene.file("p.md", PROMPT)?;
    scene.file("a.md", "<config model=\"m\"/>\n<system>Help.</system>\n")?;
    scene.file("t.sh", "echo hello\n")?;
    let calls = [("t", words([])), ("ask", json!({"input": "x"}))];
    for words in [
        ["trust", "add", "p.md"].as_slice(),
        &["run", "p.md", "go"],
        &["send", "--agent", "p.md", "s", "go"],
        &["run", "--permission", "t=ask", "-o", "u.md", "p.md", "go"],
    ] {
        let server = model(&calls)?;
        let mut run = scene
            .shell("umask 000; exec \"$LOGUE\" \"$@\"")
            .with_arg("sh");
        for word in words {
            run = run.with_arg(word);
        }
        run.with_server(&server).run()?;
    }
    Ok(())
}

/// Returns what others may access below a folder.
fn accessible(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![folder.to_owned()];
    while let Some(path) = pending.pop() {
        let Ok(entry) = fs::symlink_metadata(&path) else {
            continue;
        };
        if entry.mode() & 0o077 != 0 && !entry.is_symlink() {
            found.push(path.clone());
        }
        let entries = fs::read_dir(&path).into_iter().flatten().flatten();
        pending.extend(entries.map(|entry| entry.path()));
    }
    found
}

fn modes(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    use_everything(&scene)?;
    let mut count = 0;
    for folder in [".data/logue", ".cache/logue", ".state/logue"] {
        let folder = scene.home().join(folder);
        count += tree(&folder).len();
        let found = accessible(&folder);
        promise(found.is_empty(), format!("others may access {found:?}"))?;
    }
    control(count >= 2, "no files were written")
}

fn transcript_modes(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    use_everything(&scene)?;
    let payloads = scene.work().join(".chatmd");
    control(
        tree(&payloads).len() >= 2 && scene.work().join("u.md").exists(),
        "nothing written",
    )?;
    for path in [payloads, scene.work().join("u.md")] {
        let found = accessible(&path);
        promise(found.is_empty(), format!("others may access {found:?}"))?;
    }
    Ok(())
}

fn planted_links(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    use_everything(&scene)?;
    let folders =
        [".data/logue", ".cache/logue", ".state/logue"].map(|name| scene.home().join(name));
    let files: Vec<PathBuf> = folders
        .iter()
        .flat_map(|folder| tree(folder))
        .map(|(path, _)| path)
        .collect();
    control(files.len() >= 2, "no files were written")?;
    // Each file of the program is a link to a file of the user, and then to one that does not exist.
    for is_there in [true, false] {
        let mut targets = Vec::new();
        for (number, file) in files.iter().enumerate() {
            let target = scene.outside().join(format!("target-{is_there}-{number}"));
            if is_there {
                fs::write(&target, SECRET)?;
            }
            drop(fs::remove_file(file));
            symlink(&target, file)?;
            targets.push(target);
        }
        use_everything(&scene)?;
        for (target, file) in targets.iter().zip(&files) {
            let text = fs::read_to_string(target).ok();
            let expected = is_there.then(|| SECRET.to_owned());
            promise(
                text == expected,
                format!("written through {}", file.display()),
            )?;
        }
    }
    Ok(())
}

fn planted_pipes(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    use_everything(&scene)?;
    let folders = [".data/logue", ".cache/logue"].map(|name| scene.home().join(name));
    let mut files: Vec<PathBuf> = folders
        .iter()
        .flat_map(|folder| tree(folder))
        .map(|(path, _)| path)
        .collect();
    files.push(scene.work().join("logue.toml"));
    files.push(scene.home().join(".config/logue/config.toml"));
    for file in files {
        let before = fs::read(&file).ok();
        drop(fs::remove_file(&file));
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &file, kind, mode, 0)?;
        let server = model(&[("t", words([]))])?;
        let run = scene.logue(["run", "-o", "new.md", "p.md", "go"]);
        let ran = run
            .with_server(&server)
            .run_within(Duration::from_secs(10))?;
        promise(ran.has_ended, format!("it waits for {}", file.display()))?;
        fs::remove_file(&file)?;
        if let Some(bytes) = before {
            fs::write(&file, bytes)?;
        }
        drop(fs::remove_file(scene.work().join("new.md")));
    }
    Ok(())
}

fn process_list(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    scene.file("p.md", "<config model=\"m\"/>\n<tool name=\"t\" command=\"sh t.sh\"/>\n<tool mcp_server=\"stdio:sh m.sh\"/>\n")?;
    scene.file("m.sh", format!("exec {} mcp plain\n", scene.probe()))?;
    scene.file(
        "t.sh",
        "touch began\nwhile [ ! -e end ]; do sleep 0.02; done\n",
    )?;
    let server = model(&[("echo", json!({"text": "x"})), ("t", words([]))])?;
    let run = scene.logue(["run", "--no-save", "p.md", "go"]);
    let run = run.with_env("OPENAI_API_KEY", SECRET).with_server(&server);
    let running = run.with_trust().start()?;
    let has_begun = wait_until(|| scene.work().join("began").exists());
    let (mut seen, mut shown) = (0, Vec::new());
    for entry in fs::read_dir("/proc")?.flatten() {
        let has = |name: &str| {
            let bytes = fs::read(entry.path().join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let (line, variables) = (has("cmdline"), has("environ"));
        let home = scene.home().display().to_string();
        if !format!("{line}{variables}").contains(&home) {
            continue;
        }
        seen += 1;
        // The program itself was started with the key.
        let is_program = entry.file_name().to_str() == Some(&running.child.id().to_string());
        if line.contains(SECRET) || (variables.contains(SECRET) && !is_program) {
            shown.push(line.replace('\0', " "));
        }
    }
    scene.file("end", "")?;
    running.wait(Duration::from_secs(20))?;
    control(
        has_begun && seen >= 2,
        format!("{seen} processes; {has_begun}"),
    )?;
    control(traffic(&server).contains(SECRET), "the key was not used")?;
    promise(shown.is_empty(), format!("it is shown by {shown:?}"))?;
    promise(
        files_with(&scene.home().join(".data"), SECRET).is_empty(),
        "it was stored",
    )
}

fn held_lock(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    scene.configure("", "[run]\nlock_timeout_seconds = 1\n")?;
    let path = scene.file("p.md", "<config model=\"echo:\"/>\n<user>q</user>\n")?;
    let holder = fs::File::options().read(true).write(true).open(&path)?;
    holder.lock()?;
    let before = fs::read(&path)?;
    let ran = scene
        .logue(["run", "p.md"])
        .run_within(Duration::from_secs(12))?;
    promise(ran.has_ended, "it waits for ever")?;
    promise(fs::read(&path)? == before, "it wrote without the lock")?;
    drop(holder);
    scene.logue(["run", "p.md"]).run()?;
    control(
        fs::read(&path)? != before,
        "it does not write with the lock",
    )
}
