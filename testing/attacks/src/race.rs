//! Accesses to files while a thread replaces a folder by a link about a thousand times a second.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};
use testkit::{Answer, ModelServer};

use crate::attack::{Arena, Attack, Failure, Outcome, control, promise};
use crate::scene::{INSIDE, SECRET, Scene, answers, model, traffic, tree};

const READ: &str = "no link that changes during a run leads outside";
const WRITE: &str = "no link that changes during a run lets a write outside";

pub(crate) const ATTACKS: &[Attack] = &[
    Attack::author("race-document", READ, document),
    Attack::author("race-image", READ, image),
    Attack::author("race-import", READ, import),
    Attack::author("race-agent", READ, agent),
    Attack::model("race-read-file", READ, read_file),
    Attack::model("race-read-dir", READ, read_dir),
    Attack::model("race-search", READ, search),
    Attack::model("race-write-file", WRITE, write_file),
    Attack::model("race-edit", WRITE, edit),
    Attack::model("race-patch", WRITE, patch),
    Attack::model("race-payload", WRITE, payload),
    Attack::author("race-transcript", WRITE, transcript),
    Attack::model("race-command", READ, command).confined(),
    Attack::model("race-file-link", READ, file_link),
    Attack::model("race-file-link-edit", WRITE, file_link_edit),
];

/// The number of accesses of one process.
const BATCH: usize = 24;

/// A thread that exchanges a folder with a link to the folder outside, until it is dropped.
struct Swapper {
    ends: Arc<AtomicBool>,
    swaps: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Swapper {
    fn start(scene: &Scene, folder: &str) -> Result<Self, Failure> {
        let outside = scene.outside();
        Self::start_with(scene, folder, &outside, Duration::from_micros(900))
    }

    /// Exchanges a file or folder with a link to `outside`, with this pause.
    fn start_with(
        scene: &Scene,
        name: &str,
        outside: &Path,
        pause: Duration,
    ) -> Result<Self, Failure> {
        let folder = scene.work().join(name);
        let link = scene.root().join("link");
        drop(fs::remove_file(&link));
        symlink(outside, &link)?;
        let (ends, swaps) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicUsize::new(0)),
        );
        let (flag, count) = (Arc::clone(&ends), Arc::clone(&swaps));
        let thread = std::thread::spawn(move || {
            // It ends with the folder in its place.
            while !flag.load(Ordering::SeqCst) || count.load(Ordering::SeqCst) % 2 == 1 {
                if renameat_with(CWD, &folder, CWD, &link, RenameFlags::EXCHANGE).is_ok() {
                    count.fetch_add(1, Ordering::SeqCst);
                } else {
                    break;
                }
                std::thread::sleep(pause);
            }
        });
        Ok(Self {
            ends,
            swaps,
            thread: Some(thread),
        })
    }

    fn stop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A run of the program in a race: its number, and the model for it.
type Run<'a> = &'a dyn Fn(&Scene, usize) -> Result<ModelServer, Failure>;

/// Runs until the accesses are done; returns everything that reached the models.
fn race(scene: &Scene, folder: &str, batch: usize, run: Run<'_>) -> Result<String, Failure> {
    let mut swapper = Swapper::start(scene, folder)?;
    let (mut text, mut number) = (String::new(), 0);
    while number * batch < scene.rounds() {
        let server = run(scene, number)?;
        let part = traffic(&server);
        promise(
            !part.contains(SECRET),
            format!("the secret was read in run {number}"),
        )?;
        if text.len() < 1 << 20 {
            text.push_str(&part);
        }
        number += 1;
    }
    swapper.stop();
    let swaps = swapper.swaps.load(Ordering::SeqCst);
    control(swaps > 10, format!("{swaps} swaps"))?;
    Ok(text)
}

fn start(arena: &Arena) -> Result<Scene, Failure> {
    let scene = Scene::new(arena)?;
    scene.file("d/id_rsa", INSIDE)?;
    scene.file(
        "d/i.png",
        [b"\x89PNG\r\n\x1a\n".as_slice(), INSIDE.as_bytes()].concat(),
    )?;
    let outside = [b"\x89PNG\r\n\x1a\n".as_slice(), SECRET.as_bytes()].concat();
    fs::write(scene.outside().join("i.png"), outside)?;
    Ok(scene)
}

fn run_prompt(scene: &Scene, server: ModelServer) -> Result<ModelServer, Failure> {
    let run = scene.logue(["run", "--no-save", "--no-cache", "p.md", "go"]);
    let ran = run.with_server(&server).with_trust().run()?;
    promise(ran.has_ended, "the run does not end")?;
    promise(!ran.text().contains(SECRET), "the secret was printed")?;
    Ok(server)
}

/// Runs prompts with one element each, of which some must have been read inside.
fn elements(arena: &Arena, element: &str, outside: &[(&str, &str)], expected: &str) -> Outcome {
    let scene = start(arena)?;
    for (name, text) in outside {
        scene.file(&format!("d/{name}"), text.replace(SECRET, INSIDE))?;
        fs::write(scene.outside().join(name), text)?;
    }
    let is_message = !element.starts_with("<import");
    let prompt = if is_message {
        format!("<user>{element}</user>\n")
    } else {
        element.to_owned()
    };
    scene.file("p.md", format!("<config model=\"m\"/>\n{prompt}\n"))?;
    let text = race(&scene, "d", 1, &|scene, _| {
        run_prompt(scene, answers(Vec::new())?)
    })?;
    control(text.contains(expected), "nothing was read inside")
}

fn document(arena: &Arena) -> Outcome {
    elements(arena, "<doc src=\"d/id_rsa\" local/>", &[], INSIDE)
}

fn image(arena: &Arena) -> Outcome {
    let scene = start(arena)?;
    scene.file(
        "p.md",
        "<config model=\"m\"/>\n<user><img src=\"d/i.png\" local/></user>\n",
    )?;
    // The base64 form of the last bytes of the secret image.
    let (mut read, mut swapper) = (0, Swapper::start(&scene, "d")?);
    for _ in 0..scene.rounds() {
        let server = run_prompt(&scene, answers(Vec::new())?)?;
        let text = traffic(&server);
        let images: Vec<&str> = text.split("base64,").skip(1).collect();
        for image in images {
            read += 1;
            // Both images begin alike; `p` of `plain` and `T` of `TOPSECRET` differ in base64.
            promise(
                image.starts_with("iVBORw0KGgpwbGFpbi"),
                "another image was read",
            )?;
        }
    }
    swapper.stop();
    control(read > 0, "no image was read")
}

fn import(arena: &Arena) -> Outcome {
    let text = format!("<system>{SECRET}</system>\n");
    elements(
        arena,
        "<import src=\"d/more.chatmd\"/>",
        &[("more.chatmd", &text)],
        INSIDE,
    )
}

fn agent(arena: &Arena) -> Outcome {
    let text = format!("<config model=\"m\"/>\n<system>{SECRET}</system>\n");
    elements(
        arena,
        "<agent src=\"d/a.md\" local>hi</agent>",
        &[("a.md", &text)],
        INSIDE,
    )
}

/// Lets a model make a batch of calls of built-in tools.
fn calls(
    arena: &Arena,
    tool: &str,
    arguments: impl Fn(usize) -> Value,
) -> Result<(Scene, String), Failure> {
    let scene = start(arena)?;
    scene.file(
        "p.md",
        format!("<config model=\"m\"/>\n<tool name=\"{tool}\"/>\n"),
    )?;
    let name = if tool == "read_dir" {
        "read_directory"
    } else {
        tool
    };
    let text = race(&scene, "d", BATCH, &|scene, number| {
        let mut answer = Answer::text("");
        for at in 0..BATCH {
            let arguments = arguments(number * BATCH + at).to_string();
            answer = answer.with_call(format!("c{at}"), name, arguments);
        }
        let server = run_prompt(scene, answers(vec![answer])?)?;
        control(server.received().len() == 2, "the calls were not answered")?;
        Ok(server)
    })?;
    Ok((scene, text))
}

fn read_file(arena: &Arena) -> Outcome {
    let (_, text) = calls(arena, "read_file", |_| json!({"file": "d/id_rsa"}))?;
    control(text.contains(INSIDE), "nothing was read inside")
}

fn read_dir(arena: &Arena) -> Outcome {
    let scene = start(arena)?;
    fs::write(scene.outside().join(SECRET), "")?;
    scene.file("d/plain-name", "")?;
    scene.file("p.md", "<config model=\"m\"/>\n<tool name=\"read_dir\"/>\n")?;
    let text = race(&scene, "d", BATCH, &|scene, _| {
        let calls = (0..BATCH).fold(Answer::text(""), |answer, at| {
            answer.with_call(format!("c{at}"), "read_directory", "{\"path\":\"d\"}")
        });
        run_prompt(scene, answers(vec![calls])?)
    })?;
    control(text.contains("plain-name"), "nothing was listed inside")
}

fn search(arena: &Arena) -> Outcome {
    let (_, text) = calls(arena, "search", |at| {
        let path = ["d", ".", "d/id_rsa"][at % 3];
        json!({"pattern": "TOP.*|plain.*", "path": path})
    })?;
    control(text.contains(INSIDE), "nothing was found inside")
}

/// Expects that the folder outside is as it was, and that something was written inside.
fn unharmed(scene: &Scene, written: usize) -> Outcome {
    let files: Vec<(PathBuf, Vec<u8>)> = tree(&scene.outside());
    let is_same = files
        .iter()
        .all(|(_, bytes)| String::from_utf8_lossy(bytes).contains(SECRET));
    promise(
        is_same && files.len() <= 3,
        format!("{} files outside", files.len()),
    )?;
    control(written > 0, "nothing was written inside")
}

fn write_file(arena: &Arena) -> Outcome {
    let (scene, _) = calls(
        arena,
        "write_file",
        |at| json!({"path": format!("d/new-{at}"), "content": "new"}),
    )?;
    let written = tree(&scene.work().join("d")).len();
    unharmed(&scene, written.saturating_sub(2))
}

fn edit(arena: &Arena) -> Outcome {
    let (scene, _) = calls(
        arena,
        "append_to_file",
        |_| json!({"path": "d/id_rsa", "content": "appended"}),
    )?;
    let files = tree(&scene.outside());
    let is_harmed = files
        .iter()
        .any(|(_, bytes)| String::from_utf8_lossy(bytes).contains("appended"));
    promise(!is_harmed, "a file outside was changed")?;
    unharmed(&scene, scene.text("d/id_rsa").matches("appended").count())
}

fn patch(arena: &Arena) -> Outcome {
    let (scene, _) = calls(
        arena,
        "apply_patch",
        |at| json!({"input": format!("*** Begin Patch\n*** Add File: d/new-{at}\n+new\n*** End Patch\n")}),
    )?;
    let written = tree(&scene.work().join("d")).len();
    unharmed(&scene, written.saturating_sub(2))
}

fn payload(arena: &Arena) -> Outcome {
    let scene = start(arena)?;
    scene.file("inside.txt", INSIDE)?;
    fs::create_dir_all(scene.work().join(".chatmd"))?;
    let run = |scene: &Scene, number: usize| {
        let name = format!("p{number}.md");
        scene.file(&name, "<config model=\"m\"/>\n<tool name=\"read_file\"/>\n")?;
        let server = model(&[("read_file", json!({"file": "inside.txt"}))])?;
        scene
            .logue(["run", &name, "go"])
            .with_server(&server)
            .run()?;
        Ok(server)
    };
    race(&scene, ".chatmd", 1, &run)?;
    let written = tree(&scene.work().join(".chatmd")).len();
    unharmed(&scene, written)
}

fn transcript(arena: &Arena) -> Outcome {
    let scene = start(arena)?;
    scene.file("p.md", "<config model=\"m\"/>\n<user>q</user>\n")?;
    let run = |scene: &Scene, number: usize| {
        let server = answers(Vec::new())?;
        let target = format!("d/t{number}.md");
        scene
            .logue(["run", "-o", &target, "p.md"])
            .with_server(&server)
            .run()?;
        Ok(server)
    };
    // The user named the file, so it may be created in either folder, but no file is replaced.
    race(&scene, "d", 1, &run)?;
    let secret = fs::read_to_string(scene.outside().join("id_rsa"))?;
    promise(secret == SECRET, "a file outside was replaced")?;
    let is_written = |folder: PathBuf| {
        tree(&folder)
            .iter()
            .any(|(path, _)| path.extension().is_some_and(|end| end == "md"))
    };
    control(
        is_written(scene.work().join("d")) || is_written(scene.outside()),
        "no transcript was written",
    )
}

fn command(arena: &Arena) -> Outcome {
    let scene = start(arena)?;
    let agent = format!(
        "<config model=\"m\"/>\n<tool name=\"r\" command=\"{}\"/>\n",
        scene.probe()
    );
    scene.file("d/a.md", &agent)?;
    fs::write(
        scene.outside().join("a.md"),
        format!("{agent}<!-- {SECRET} -->\n"),
    )?;
    scene.file(
        "p.md",
        "<config model=\"m\"/>\n<tool name=\"ask\" agent=\"d/a.md\" local/>\n",
    )?;
    let run = |scene: &Scene, _: usize| {
        let read = json!({"arguments": ["read", "id_rsa"]});
        let ask = json!({"input": "go"});
        let server = model(&[
            ("ask", ask),
            ("r", read.clone()),
            ("r", read.clone()),
            ("r", read),
        ])?;
        run_prompt(scene, server)
    };
    let text = race(&scene, "d", 3, &run)?;
    control(
        text.contains("input") || text.contains("tool"),
        "no call was answered",
    )
}

/// Exchanges a file with a link to a file outside very often, while tools reach for it.
fn files(arena: &Arena, tools: &str, call: (&str, &Value)) -> Result<(Scene, String), Failure> {
    let scene = start(arena)?;
    scene.file("f.txt", INSIDE)?;
    scene.file("p.md", format!("<config model=\"m\"/>\n{tools}"))?;
    let secret = scene.outside().join("id_rsa");
    // One access in fifty meets the link between two looks at the file.
    let accesses = scene.rounds().max(480);
    let mut swapper = Swapper::start_with(&scene, "f.txt", &secret, Duration::from_micros(10))?;
    let mut text = String::new();
    for _ in 0..accesses.div_ceil(BATCH) {
        let calls = (0..BATCH).fold(Answer::text(""), |answer, at| {
            answer.with_call(format!("c{at}"), call.0, call.1.to_string())
        });
        let server = run_prompt(&scene, answers(vec![calls])?)?;
        text.push_str(&traffic(&server));
    }
    swapper.stop();
    control(swapper.swaps.load(Ordering::SeqCst) > 10, "no swaps")?;
    Ok((scene, text))
}

fn file_link(arena: &Arena) -> Outcome {
    let tools = "<tool name=\"read_file\"/>\n";
    let (_, text) = files(arena, tools, ("read_file", &json!({"file": "f.txt"})))?;
    control(text.contains(INSIDE), "nothing was read inside")?;
    promise(!text.contains(SECRET), "the secret was read")
}

fn file_link_edit(arena: &Arena) -> Outcome {
    let tools = "<tool name=\"find_and_replace\"/>\n";
    let edit = json!({"path": "f.txt", "search": "-content", "replace": "-content"});
    let (scene, text) = files(arena, tools, ("find_and_replace", &edit))?;
    control(!text.is_empty(), "no call was made")?;
    promise(!text.contains(SECRET), "the secret was read")?;
    let secret = fs::read_to_string(scene.outside().join("id_rsa"))?;
    promise(secret == SECRET, "the file outside was changed")
}
