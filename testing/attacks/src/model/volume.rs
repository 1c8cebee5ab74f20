//! Answers with very many calls or files.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::attack::{Arena, Attack, Failure, Outcome, control, promise};
use crate::scene::{Scene, model};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack::model(
        "many-calls",
        "twice the calls take about twice the time",
        many_calls,
    ),
    Attack::model(
        "many-files",
        "a patch of very many files changes none",
        many_files,
    ),
];

/// Runs a prompt whose model makes calls of a tool that it does not have.
fn seconds(arena: &Arena, calls: usize) -> Result<f64, Failure> {
    let scene = Scene::new(arena)?;
    scene.file(
        "p.md",
        "<config model=\"m\"/>\n<tool name=\"read_file\"/>\n",
    )?;
    let event = |at: usize, call: Value| {
        let mut call = call;
        call["index"] = json!(at);
        let delta = json!({"choices": [{"delta": {"tool_calls": [call]}}]});
        format!("data: {delta}\n\n")
    };
    // All calls begin before the first one continues.
    let begins = (0..calls).map(|at| {
        let function = json!({"name": "absent", "arguments": "{"});
        event(at, json!({"id": format!("c{at}"), "function": function}))
    });
    let ends = (0..calls).map(|at| event(at, json!({"function": {"arguments": "}"}})));
    let stream: String = begins.chain(ends).collect();
    let stream = format!("{stream}data: [DONE]\n\n").into_bytes();
    let replies = vec![
        Reply::Body("text/event-stream", stream),
        Reply::Answer(Answer::text("done")),
    ];
    let server = ModelServer::start(replies, Delivery::Whole)?;
    let started = Instant::now();
    let run = scene.logue(["run", "--no-save", "p.md", "go"]);
    let ran = run
        .with_server(&server)
        .run_within(Duration::from_secs(60))?;
    promise(ran.has_ended, format!("{calls} calls take over a minute"))?;
    control(server.received().len() == 2, "the calls were not answered")?;
    Ok(started.elapsed().as_secs_f64())
}

fn many_calls(arena: &Arena) -> Outcome {
    let few = seconds(arena, 2_000)?;
    let many = seconds(arena, 20_000)?;
    // Quadratic time would be a hundred times longer.
    promise(many < 40.0 * few.max(0.1), format!("{few} s and {many} s"))
}

fn many_files(arena: &Arena) -> Outcome {
    for (count, applies) in [(10, true), (20_000, false)] {
        let scene = Scene::new(arena)?;
        scene.file(
            "p.md",
            "<config model=\"m\"/>\n<tool name=\"apply_patch\"/>\n",
        )?;
        fs::create_dir_all(scene.work().join("d"))?;
        let files = (0..count).map(|at| format!("*** Add File: d/f{at}\n+x\n"));
        let files = files.collect::<Vec<_>>().concat();
        let patch = format!("*** Begin Patch\n{files}*** End Patch\n");
        let server = model(&[("apply_patch", json!({"input": patch}))])?;
        let run = scene.logue(["run", "--no-save", "p.md", "go"]);
        let ran = run.with_server(&server).with_trust().run()?;
        promise(ran.has_ended, format!("a patch of {count} files runs on"))?;
        let made = fs::read_dir(scene.work().join("d"))?.count();
        control(
            !applies || made == count,
            format!("{made} files: {}", ran.text()),
        )?;
        promise(applies || made == 0, format!("{made} files were made"))?;
    }
    Ok(())
}
