//! Prompts that name files outside the folders that may be read.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use testkit::ModelServer;

use crate::attack::{Arena, Attack, Failure, Outcome, control, promise};
use crate::scene::{INSIDE, SECRET, Scene, answers, files_with, model, traffic, tree};

const NO_FILE: &str = "no file outside the roots reaches the model";

pub(crate) const ATTACKS: &[Attack] = &[
    Attack::author("payload-link-document", NO_FILE, payload_link_document),
    Attack::author(
        "payload-link-convert",
        "no file outside the roots is printed",
        payload_link_convert,
    ),
    Attack::author(
        "payload-link-write",
        "payloads stay in the folder of the transcript",
        payload_link_write,
    ),
    Attack::author(
        "payload-file-link",
        "a payload is not written through a link",
        payload_file_link,
    ),
    Attack::author("document-parent", NO_FILE, document_parent),
    Attack::author("document-proc", NO_FILE, document_proc),
    Attack::author("document-descriptor", NO_FILE, document_descriptor),
    Attack::author("document-link", NO_FILE, document_link),
    Attack::author("document-case", NO_FILE, document_case),
    Attack::author(
        "document-pipe",
        "a special file does not stop a run",
        document_pipe,
    ),
    Attack::author("import-outside", NO_FILE, import_outside),
    Attack::author("image-outside", NO_FILE, image_outside),
    Attack::author("agent-outside", NO_FILE, agent_outside),
    Attack::author("agent-tool-outside", NO_FILE, agent_tool_outside),
    Attack::author(
        "replay-outside",
        "a prompt replays no file outside the roots",
        replay_outside,
    ),
];

/// Runs a prompt with this element in a message, and returns what reached the model and the terminal.
fn run_with(scene: &Scene, element: &str) -> Result<(ModelServer, String), Failure> {
    let server = answers(Vec::new())?;
    scene.file(
        "p.md",
        format!("<config model=\"m\"/>\n<user>look: {element}</user>\n"),
    )?;
    let run = scene.logue(["run", "--no-save", "p.md"]);
    let ran = run.with_server(&server).run()?;
    promise(ran.has_ended, format!("the run does not end: {element}"))?;
    let text = format!("{}{}", traffic(&server), ran.text());
    Ok((server, text))
}

/// Runs prompts with these elements, none of which may show the secret.
fn all_refused(scene: &Scene, elements: &[String]) -> Outcome {
    scene.file("inside.txt", INSIDE)?;
    let (_, text) = run_with(scene, "<doc src=\"inside.txt\" local/>")?;
    control(text.contains(INSIDE), "a document inside is not sent")?;
    for element in elements {
        let (_, text) = run_with(scene, element)?;
        promise(!text.contains(SECRET), element.clone())?;
    }
    Ok(())
}

fn document(src: &str) -> String {
    format!("<doc src=\"{src}\" local/>")
}

fn payload_link_document(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    symlink(scene.outside(), scene.work().join(".chatmd"))?;
    let names = ["./.chatmd/id_rsa", ".chatmd/id_rsa", ".chatmd/./id_rsa"];
    all_refused(&scene, &names.map(document))
}

fn payload_link_convert(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    scene.file(
        "p.md",
        "<config model=\"m\"/>\n<user>q</user>\n<tool_call tool_call_id=\"c\" function_name=\"t\">\
         <doc src=\"./.chatmd/id_rsa\" local/></tool_call>\n<tool_response tool_call_id=\"c\">\
         <doc src=\"./.chatmd/id_rsa\" local/></tool_response>\n",
    )?;
    let convert = || scene.logue(["convert", "p.md", "--to", "json"]).run();
    scene.file(".chatmd/id_rsa", INSIDE)?;
    control(
        convert()?.text().contains(INSIDE),
        "payloads are not printed",
    )?;
    fs::remove_dir_all(scene.work().join(".chatmd"))?;
    symlink(scene.outside(), scene.work().join(".chatmd"))?;
    for verb in ["convert", "view"] {
        let ran = match verb {
            "convert" => convert()?,
            _ => scene.logue(["view", "--show-hidden", "p.md"]).run()?,
        };
        promise(!ran.text().contains(SECRET), format!("{verb} prints it"))?;
    }
    Ok(())
}

/// Runs a turn with one call whose payloads are written beside the prompt.
fn turn_with_payloads(scene: &Scene) -> Outcome {
    scene.file("inside.txt", INSIDE)?;
    scene.file(
        "p.md",
        "<config model=\"m\"/>\n<tool name=\"read_file\"/>\n",
    )?;
    let server = model(&[("read_file", serde_json::json!({"file": "inside.txt"}))])?;
    let run = scene.logue(["run", "p.md", "go"]);
    run.with_server(&server).run()?;
    Ok(())
}

fn payload_link_write(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    turn_with_payloads(&scene)?;
    let payloads = scene.work().join(".chatmd");
    control(tree(&payloads).len() >= 2, "no payloads are written")?;
    fs::remove_dir_all(&payloads)?;
    symlink(scene.outside(), &payloads)?;
    turn_with_payloads(&scene)?;
    let files = tree(&scene.outside());
    promise(files.len() == 1, format!("written outside: {files:?}"))
}

fn payload_file_link(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    turn_with_payloads(&scene)?;
    let payloads = scene.work().join(".chatmd");
    let names: Vec<_> = tree(&payloads).into_iter().map(|(path, _)| path).collect();
    control(names.len() >= 2, "no payloads are written")?;
    for path in &names {
        fs::remove_file(path)?;
        symlink(scene.outside().join("id_rsa"), path)?;
    }
    turn_with_payloads(&scene)?;
    let text = fs::read_to_string(scene.outside().join("id_rsa"))?;
    promise(text == SECRET, "the target of the link was overwritten")
}

fn document_parent(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    let absolute = scene.outside().join("id_rsa").display().to_string();
    let mut elements: Vec<String> = [
        "../id_rsa",
        "../../outside/id_rsa",
        "./x/../../id_rsa",
        "..//id_rsa",
        "%2e%2e/id_rsa",
        "file:../id_rsa",
        "~/id_rsa",
        "$HOME/id_rsa",
        "..\\id_rsa",
        ".chatmd/../../id_rsa",
    ]
    .map(document)
    .to_vec();
    elements.push(document(&absolute));
    elements.push(document(&format!("file://{absolute}")));
    elements.push(document(&format!("//{absolute}")));
    elements.push(format!("<doc src=\"{absolute}\"/>"));
    elements.push(format!("<doc src=\"{absolute}\" local strip/>"));
    fs::create_dir_all(scene.work().join("x"))?;
    fs::create_dir_all(scene.work().join(".chatmd"))?;
    all_refused(&scene, &elements)
}

fn document_proc(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    let absolute = scene.outside().join("id_rsa").display().to_string();
    let names = [
        "/proc/self/root",
        "/proc/thread-self/root",
        "/proc/1/root",
        "/proc/self/task/self/root",
    ];
    let mut elements: Vec<String> = names
        .iter()
        .map(|name| document(&format!("{name}{absolute}")))
        .collect();
    elements.push(document("/proc/self/cwd/../id_rsa"));
    all_refused(&scene, &elements)?;
    let server = answers(Vec::new())?;
    scene.file(
        "p.md",
        "<config model=\"m\"/>\n<user><doc src=\"/proc/self/environ\" local/></user>\n",
    )?;
    let run = scene.logue(["run", "--no-save", "p.md"]);
    let ran = run.with_server(&server).with_env("TOKEN", SECRET).run()?;
    let text = format!("{:?}{}", server.received(), ran.text());
    promise(!text.contains(SECRET), "the environment was read")
}

fn document_descriptor(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    scene.file("inside.txt", INSIDE)?;
    symlink("/proc/self/fd", scene.work().join("fds"))?;
    symlink("/dev/fd/9", scene.work().join("nine"))?;
    for name in [
        "inside.txt",
        "/dev/fd/9",
        "/proc/self/fd/9",
        "fds/9",
        "nine",
        "/dev/stdin",
    ] {
        let server = answers(Vec::new())?;
        let prompt = format!("<config model=\"m\"/>\n<user>{}</user>\n", document(name));
        scene.file("p.md", prompt)?;
        let run = scene.shell(
            "exec \"$LOGUE\" run --no-save p.md 9<../../outside/id_rsa <../../outside/id_rsa",
        );
        let ran = run.with_server(&server).run()?;
        let text = format!("{}{}", traffic(&server), ran.text());
        control(
            name != "inside.txt" || text.contains(INSIDE),
            "a document inside is not sent",
        )?;
        promise(!text.contains(SECRET), name)?;
    }
    Ok(())
}

fn document_link(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    let work = scene.work();
    symlink("../id_rsa", work.join("near"))?;
    symlink(scene.outside().join("id_rsa"), work.join("far"))?;
    symlink(scene.outside(), work.join("folder"))?;
    symlink("folder", work.join("again"))?;
    symlink("..", work.join("up"))?;
    fs::create_dir_all(work.join("a/b"))?;
    symlink("../../../id_rsa", work.join("a/b/deep"))?;
    let names = [
        "near",
        "far",
        "folder/id_rsa",
        "again/id_rsa",
        "up/id_rsa",
        "a/b/deep",
        "a/../up/id_rsa",
    ];
    all_refused(&scene, &names.map(document))
}

fn document_case(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    let mut elements = Vec::new();
    // The Kelvin sign, the long s and a decomposed letter fold to others on some file systems.
    for name in [
        ".CHATMD",
        ".ChatMD",
        ".chatmd\u{301}",
        ".\u{212a}eys",
        ".\u{17f}sh",
        ".chatmd.",
    ] {
        symlink(scene.outside(), scene.work().join(name))?;
        elements.push(document(&format!("{name}/id_rsa")));
        elements.push(document(&format!("./{name}/id_rsa")));
    }
    all_refused(&scene, &elements)
}

fn document_pipe(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    rustix::fs::mknodat(
        rustix::fs::CWD,
        scene.work().join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )?;
    symlink("/dev/zero", scene.work().join("zero"))?;
    symlink("/dev/tty", scene.work().join("tty"))?;
    for element in ["pipe", "zero", "tty"].map(document) {
        scene.file(
            "p.md",
            format!("<config model=\"m\"/>\n<user>{element}</user>\n"),
        )?;
        let server = answers(Vec::new())?;
        let run = scene.logue(["run", "--no-save", "p.md"]);
        let ran = run
            .with_server(&server)
            .run_within(Duration::from_secs(10))?;
        promise(ran.has_ended, format!("waits for {element}"))?;
    }
    all_refused(&scene, &[])
}

fn import_outside(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    fs::write(
        scene.outside().join("more.chatmd"),
        format!("<system>{SECRET}</system>\n"),
    )?;
    symlink(
        scene.outside().join("more.chatmd"),
        scene.work().join("link.chatmd"),
    )?;
    scene.file("inside.chatmd", format!("<system>{INSIDE}</system>\n"))?;
    let absolute = scene.outside().join("more.chatmd").display().to_string();
    for src in [
        "inside.chatmd",
        "../../outside/more.chatmd",
        "link.chatmd",
        &absolute,
    ] {
        let server = answers(Vec::new())?;
        let prompt = format!("<config model=\"m\"/>\n<import src=\"{src}\"/>\n<user>q</user>\n");
        scene.file("p.md", prompt)?;
        let run = scene.logue(["run", "--no-save", "p.md"]);
        let ran = run.with_server(&server).run()?;
        let text = format!("{}{}", traffic(&server), ran.text());
        control(
            src != "inside.chatmd" || text.contains(INSIDE),
            "an import inside is not sent",
        )?;
        promise(!text.contains(SECRET), src)?;
    }
    Ok(())
}

fn image_outside(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    // A signature, so that the content counts as an image.
    let image = |mark: &str| [b"\x89PNG\r\n\x1a\n".as_slice(), mark.as_bytes()].concat();
    fs::write(scene.outside().join("i.png"), image(SECRET))?;
    scene.file("i.png", image(INSIDE))?;
    symlink(scene.outside().join("i.png"), scene.work().join("link.png"))?;
    symlink(scene.outside(), scene.work().join("folder"))?;
    let absolute = scene.outside().join("i.png").display().to_string();
    for src in [
        "i.png",
        "../../outside/i.png",
        "link.png",
        "folder/i.png",
        &absolute,
    ] {
        let (server, _) = run_with(&scene, &format!("<img src=\"{src}\" local/>"))?;
        let is_sent = traffic(&server).contains("data:image");
        control(src != "i.png" || is_sent, "an image inside is not sent")?;
        promise(src == "i.png" || !is_sent, src)?;
    }
    Ok(())
}

fn agent_outside(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    let agent = |mark: &str| format!("<config model=\"m\"/>\n<system>{mark}</system>\n");
    fs::write(scene.outside().join("a.md"), agent(SECRET))?;
    scene.file("a.md", agent(INSIDE))?;
    scene.file("sub/a.md", format!(
        "<config model=\"m\"/>\n<system>{INSIDE}</system>\n<user><doc src=\"../../../outside/id_rsa\" local/></user>\n"
    ))?;
    symlink(scene.outside().join("a.md"), scene.work().join("link.md"))?;
    let absolute = scene.outside().join("a.md").display().to_string();
    for src in [
        "a.md",
        "../../outside/a.md",
        "link.md",
        "sub/a.md",
        &absolute,
    ] {
        let (_, text) = run_with(&scene, &format!("<agent src=\"{src}\" local>hi</agent>"))?;
        control(
            src != "a.md" || text.contains(INSIDE),
            "an agent does not run",
        )?;
        promise(!text.contains(SECRET), src)?;
    }
    Ok(())
}

fn agent_tool_outside(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    let agent = |mark: &str| format!("<config model=\"m\"/>\n<system>{mark}</system>\n");
    fs::write(scene.outside().join("a.md"), agent(SECRET))?;
    scene.file("a.md", agent(INSIDE))?;
    symlink(scene.outside(), scene.work().join("folder"))?;
    for src in ["a.md", "../../outside/a.md", "folder/a.md"] {
        let server = model(&[("ask", serde_json::json!({"input": "hi"}))])?;
        let prompt = format!("<config model=\"m\"/>\n<tool name=\"ask\" agent=\"{src}\" local/>\n");
        scene.file("p.md", prompt)?;
        let run = scene.logue(["run", "--no-save", "p.md", "go"]);
        let ran = run.with_server(&server).with_trust().run()?;
        let text = format!("{}{}", traffic(&server), ran.text());
        control(
            src != "a.md" || text.contains(INSIDE),
            "an agent does not run",
        )?;
        promise(!text.contains(SECRET), src)?;
    }
    Ok(())
}

fn replay_outside(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    let server = answers(vec![testkit::Answer::text(SECRET)])?;
    scene.file("p.md", "<config model=\"m\"/>\n<user>q</user>\n")?;
    let record = scene.logue([
        "run",
        "--no-save",
        "--record",
        "../../outside/r.ocml",
        "p.md",
    ]);
    record.with_server(&server).run()?;
    let recording = scene.outside().join("r.ocml");
    control(recording.exists(), "nothing was recorded")?;
    fs::copy(&recording, scene.work().join("r.ocml"))?;
    symlink(&recording, scene.work().join("link.ocml"))?;
    let absolute = recording.display().to_string();
    for src in ["r.ocml", "../../outside/r.ocml", "link.ocml", &absolute] {
        let prompt = format!("<config model=\"replay:{src}\"/>\n<user>q</user>\n");
        scene.file("p.md", prompt)?;
        let ran = scene.logue(["run", "-o", "t.md", "p.md"]).run()?;
        let shown = ran.text().contains(SECRET) || scene.text("t.md").contains(SECRET);
        control(
            src != "r.ocml" || shown,
            "a recording inside is not replayed",
        )?;
        promise(src == "r.ocml" || !shown, src)?;
        drop(fs::remove_file(scene.work().join("t.md")));
    }
    control(
        files_with(&scene.outside(), SECRET).len() == 2,
        "files changed",
    )
}
