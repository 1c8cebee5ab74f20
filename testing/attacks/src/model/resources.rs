//! Commands that use up resources, or change those of other processes.

use std::ffi::CString;
use std::fs;
use std::time::Duration;

use nix::mqueue::{MQ_OFlag, MqAttr, mq_open, mq_receive, mq_unlink};
use nix::sys::stat::Mode;
use serde_json::json;

use crate::attack::{Arena, Attack, Failure, Outcome, control, promise, skip};
use crate::model::escape::{escape, owned, turn};
use crate::model::processes::{Victim, acts, mark};
use crate::scene::{Ran, SECRET, Scene, memory, model, traffic, wait_until, words};

const OTHERS: &str = "a command changes no limit of a process outside";
const LIMITS: &str = "a command stays within its limits";

pub(crate) const ATTACKS: &[Attack] = &[
    Attack::model("sandbox-limit-of-other", OTHERS, limit_of_other).confined(),
    Attack::model("sandbox-priority-of-other", OTHERS, priority_of_other).confined(),
    Attack::model("sandbox-processor-of-other", OTHERS, processor_of_other).confined(),
    Attack::model(
        "sandbox-message-queue",
        "a command reaches no message queue",
        message_queue,
    )
    .confined(),
    Attack::model(
        "sandbox-variables",
        "a command gets no variable with a key",
        variables,
    )
    .confined(),
    Attack::model("limit-time", LIMITS, time).confined(),
    Attack::model("limit-output", LIMITS, output).confined(),
    Attack::model("limit-endless-output", LIMITS, endless_output).confined(),
    Attack::model("limit-memory", LIMITS, memory_limit).confined(),
    Attack::model("limit-file", LIMITS, file_limit).confined(),
];

/// Returns a line of a file of a process, from its name to its end.
fn line_of(victim: &Victim, file: &str, name: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{}/{file}", victim.pid())).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_default().trim().to_owned()
}

fn limit_of_other(arena: &Arena) -> Outcome {
    acts(arena, "limit", |victim| {
        line_of(victim, "limits", "Max open files").starts_with("7 ")
    })
}

fn priority_of_other(arena: &Arena) -> Outcome {
    acts(arena, "priority", |victim| {
        let stat = line_of(victim, "stat", "");
        let fields = stat.rsplit(')').next().unwrap_or_default();
        fields.split_whitespace().nth(16) == Some("11")
    })
}

fn processor_of_other(arena: &Arena) -> Outcome {
    if std::thread::available_parallelism()?.get() < 2 {
        return skip("needs two processors");
    }
    acts(arena, "affinity", |victim| {
        line_of(victim, "status", "Cpus_allowed_list:") == "0"
    })
}

fn message_queue(arena: &Arena) -> Outcome {
    let name = format!("/attack-{}-{:?}", std::process::id(), arena.confinement);
    let path = CString::new(name.as_str()).map_err(std::io::Error::other)?;
    let flags = MQ_OFlag::O_CREAT | MQ_OFlag::O_RDONLY | MQ_OFlag::O_NONBLOCK;
    let mode = Mode::S_IRUSR | Mode::S_IWUSR;
    let queue = match mq_open(
        path.as_c_str(),
        flags,
        mode,
        Some(&MqAttr::new(0, 4, 64, 0)),
    ) {
        Ok(queue) => queue,
        Err(error) => return skip(format!("no message queue can be created: {error}")),
    };
    let outcome = escape(
        arena,
        |_| Ok(owned(["queue", &name])),
        |_| mq_receive(&queue, &mut [0; 64], &mut 0).is_ok(),
    );
    let _ = mq_unlink(path.as_c_str());
    outcome
}

fn variables(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    scene.file(
        "server.sh",
        format!("env > variables\nexec {} mcp plain\n", scene.probe()),
    )?;
    scene.file(
        "p.md",
        "<config model=\"m\"/>\n<tool name=\"t\" command=\"/usr/bin/env\"/>\n\
         <tool mcp_server=\"stdio:sh server.sh\"/>\n",
    )?;
    let server = model(&[("t", words([])), ("echo", json!({"text": "x"}))])?;
    let mut run = scene.logue(["run", "--no-save", "p.md", "go"]);
    for name in ["CLOUD_KEY", "ANTHROPIC_API_KEY", "LOGUE_KEY", "LD_AUDIT"] {
        run = run.with_env(name, SECRET);
    }
    run.with_server(&server).with_trust().run()?;
    let (sent, of_server) = (traffic(&server), scene.text("variables"));
    control(
        sent.contains("PATH=") && of_server.contains("PATH="),
        format!("no variable is printed: {sent}"),
    )?;
    promise(!sent.contains(SECRET), "a command got it")?;
    promise(!of_server.contains(SECRET), "a server got it")
}

/// Lets a model call the hostile program once, with these settings of its tools.
fn limited(arena: &Arena, tools: &str, call: &[&str]) -> Result<(Scene, Ran, String), Failure> {
    let scene = Scene::new(arena)?;
    scene.configure(tools, "")?;
    let prompt = format!(
        "<config model=\"m\"/>\n<tool name=\"t\" command=\"{}\"/>\n",
        scene.probe()
    );
    scene.file("p.md", prompt)?;
    let server = model(&[("t", json!({"arguments": call}))])?;
    let run = scene.logue(["run", "--no-save", "p.md", "go"]);
    let run = run.with_server(&server).with_trust();
    let ran = run.run_within(Duration::from_secs(20))?;
    Ok((scene, ran, traffic(&server)))
}

fn time(arena: &Arena) -> Outcome {
    let mark = mark();
    let (_, ran, sent) = limited(arena, "timeout_seconds = 1\n", &["sleep", &mark])?;
    promise(ran.has_ended, "it runs on")?;
    control(sent.contains("sleep"), "the command was not called")
}

fn output(arena: &Arena) -> Outcome {
    // A cut leaves out a last word of up to 4,096 bytes.
    for (most, is_cut) in [(8_000, true), (500_000, false)] {
        let tools = format!("max_output_bytes = {most}\n");
        let (_, _, sent) = limited(arena, &tools, &["print", "400000"])?;
        let count = sent.matches("xxxxxxxxxx").count() * 10;
        control(count > 100, "nothing was printed")?;
        control(
            is_cut || count >= 400_000,
            format!("{count} bytes are left"),
        )?;
        promise(
            !is_cut || count < 10_000,
            format!("{count} bytes were sent"),
        )?;
    }
    Ok(())
}

fn endless_output(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    scene.configure("timeout_seconds = 600\n", "")?;
    let prompt = format!(
        "<config model=\"m\"/>\n<tool name=\"t\" command=\"{}\"/>\n",
        scene.probe()
    );
    scene.file("p.md", prompt)?;
    let server = model(&[("t", words(["endless"]))])?;
    let run = scene.logue(["run", "--no-save", "p.md", "go"]);
    let running = run.with_server(&server).with_trust().start()?;
    let (pid, mut most) = (running.child.id(), 0);
    wait_until(|| {
        most = memory(pid).max(most);
        server.received().len() == 2
    });
    let ran = running.wait(Duration::from_secs(20))?;
    control(!server.received().is_empty(), "the prompt does not run")?;
    promise(ran.has_ended, "it prints on")?;
    promise(most < 256 * 1024, format!("{most} KiB are kept"))
}

fn memory_limit(arena: &Arena) -> Outcome {
    for (most, fits) in [(2_048, true), (64, false)] {
        let tools = format!("max_memory_mib = {most}\n");
        let (scene, _, sent) = limited(arena, &tools, &["allocate", "256"])?;
        let is_used = scene.work().join("allocated").exists();
        control(
            !fits || is_used,
            format!("it fails within the limit: {sent}"),
        )?;
        promise(fits || !is_used, "256 MiB were used, and the limit is 64")?;
    }
    Ok(())
}

fn file_limit(arena: &Arena) -> Outcome {
    for (most, fits) in [(128, true), (8, false)] {
        let scene = Scene::new(arena)?;
        scene.configure(&format!("max_file_mib = {most}\n"), "")?;
        let path = scene.work().join("large").display().to_string();
        let turn = turn(scene, &[owned(["file", &path, "48"])])?;
        let mebibytes = fs::metadata(&path)?.len() >> 20;
        control(!fits || mebibytes == 48, turn.traffic())?;
        promise(fits || mebibytes <= 8, format!("{mebibytes} MiB"))?;
    }
    Ok(())
}
