//! Runs of a hostile command, without confinement as a control and with it.

use serde_json::{Value, json};
use testkit::ModelServer;

use crate::attack::{Arena, Failure, Outcome, control, promise};
use crate::scene::{Ran, Scene, model, traffic};

/// A turn in which the model made calls of the tool `t`.
pub(crate) struct Turn {
    pub(crate) scene: Scene,
    pub(crate) server: ModelServer,
    pub(crate) ran: Ran,
}

impl Turn {
    /// Returns everything that reached the model.
    pub(crate) fn traffic(&self) -> String {
        traffic(&self.server)
    }
}

/// Lets a model call the tool `t`, a hostile program, with these words, one call per answer.
pub(crate) fn turn(scene: Scene, calls: &[Vec<String>]) -> Result<Turn, Failure> {
    turn_with(scene, calls, &[])
}

/// Lets a model call `t`, in a run with further flags.
pub(crate) fn turn_with(
    scene: Scene,
    calls: &[Vec<String>],
    flags: &[&str],
) -> Result<Turn, Failure> {
    let prompt = format!(
        "<config model=\"m\"/>\n<tool name=\"t\" command=\"{}\"/>\n",
        scene.probe()
    );
    scene.file("p.md", prompt)?;
    let calls: Vec<(&str, Value)> = calls
        .iter()
        .map(|words| ("t", json!({"arguments": words})))
        .collect();
    let server = model(&calls)?;
    let mut run = scene.logue(["run", "--no-save"]);
    for flag in flags {
        run = run.with_arg(flag);
    }
    let run = run.with_arg("p.md").with_arg("go");
    let ran = run.with_server(&server).with_trust().run()?;
    let requests = server.received().len();
    control(
        requests == calls.len() + 1,
        format!("{requests} requests: {}", ran.text()),
    )?;
    Ok(Turn { scene, server, ran })
}

/// Runs one call without a sandbox, where it must have its effect, and with one, where it must not.
pub(crate) fn escape(
    arena: &Arena,
    words: impl Fn(&Scene) -> Result<Vec<String>, Failure>,
    has_effect: impl Fn(&Turn) -> bool,
) -> Outcome {
    let open = Arena {
        confinement: None,
        ..arena.clone()
    };
    let scene = Scene::new(&open)?;
    scene.configure("sandbox = \"off\"\n", "")?;
    let call = words(&scene)?;
    let free = turn(scene, &[call])?;
    control(
        has_effect(&free),
        format!("it has no effect without a sandbox: {}", free.traffic()),
    )?;
    let scene = Scene::new(arena)?;
    let call = words(&scene)?;
    let confined = turn(scene, &[call])?;
    promise(
        !has_effect(&confined),
        format!("it worked: {}", confined.ran.text()),
    )
}

/// Returns words as owned ones.
pub(crate) fn owned<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}
