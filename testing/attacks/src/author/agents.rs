//! Prompts whose agents call agents.

use crate::attack::{Arena, Attack, Failure, Outcome, control, promise};
use crate::scene::{Scene, answers};

const LIMIT: &str = "a run and its agents make at most 100 requests";
const DEPTH: &str = "agents call agents to a depth of 4";

pub(crate) const ATTACKS: &[Attack] = &[
    Attack::author("agents-fan-out", LIMIT, fan_out),
    Attack::author("agents-fan-out-tools", LIMIT, fan_out_by_tools),
    Attack::author("agents-loop", DEPTH, agent_loop),
    Attack::author("agents-chain", DEPTH, chain),
];

/// Runs `p.md` and returns the number of requests.
fn requests(scene: &Scene) -> Result<usize, Failure> {
    let server = answers(Vec::new())?;
    let run = scene.logue(["run", "--no-save", "--no-cache", "p.md"]);
    let ran = run.with_server(&server).run()?;
    promise(ran.has_ended, "it does not end")?;
    Ok(server.received().len())
}

fn fan_out(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    let names = ["p.md", "a.md", "b.md", "c.md", "d.md"];
    let write = |width: usize| -> Outcome {
        for (at, name) in names.iter().enumerate() {
            let mut prompt = "<config model=\"m\"/>\n<user>go\n".to_owned();
            if let Some(next) = names.get(at + 1) {
                for call in 0..width {
                    prompt.push_str(&format!(
                        "<agent src=\"{next}\" local>task {call}</agent>\n"
                    ));
                }
            }
            scene.file(name, format!("{prompt}</user>\n"))?;
        }
        Ok(())
    };
    write(1)?;
    let count = requests(&scene)?;
    control(count >= 3, format!("{count} requests of a small prompt"))?;
    write(12)?;
    let count = requests(&scene)?;
    promise(count <= 100, format!("{count} requests"))
}

fn fan_out_by_tools(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    let prompt =
        "<config model=\"m\"/>\n<tool name=\"ask\" agent=\"a.md\" local/>\n<user>go</user>\n";
    scene.file("p.md", prompt)?;
    scene.file("a.md", prompt)?;
    // Every answer, of the prompt and of its agents, calls twelve agents.
    let call = |answer: testkit::Answer, at: usize| {
        answer.with_call(
            format!("c{at}"),
            "ask",
            format!("{{\"input\":\"task {at}\"}}"),
        )
    };
    let answer = (0..12).fold(testkit::Answer::text(""), call);
    let replies = vec![testkit::Reply::Answer(answer)];
    let server = testkit::ModelServer::start(replies, testkit::Delivery::Whole)?;
    let run = scene.logue(["run", "--no-save", "--no-cache", "p.md"]);
    let ran = run.with_server(&server).run()?;
    promise(ran.has_ended, "it does not end")?;
    let count = server.received().len();
    control(count >= 13, format!("{count} requests"))?;
    promise(count <= 100, format!("{count} requests"))
}

fn agent_loop(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    scene.file(
        "p.md",
        "<config model=\"m\"/>\n<user>go <agent src=\"p.md\" local>again</agent></user>\n",
    )?;
    let count = requests(&scene)?;
    promise(count <= 6, format!("{count} requests"))?;
    scene.file("p.md", "<config model=\"m\"/>\n<user>go</user>\n")?;
    control(requests(&scene)? == 1, "the prompt does not run")
}

fn chain(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    let write = |length: usize| -> Outcome {
        for at in 0..=length {
            let name = if at == 0 {
                "p.md".to_owned()
            } else {
                format!("a{at}.md")
            };
            let next = at + 1;
            let agent = format!("<agent src=\"a{next}.md\" local>go</agent>");
            let agent = if at < length { agent } else { String::new() };
            scene.file(
                &name,
                format!("<config model=\"m\"/>\n<user>q {agent}</user>\n"),
            )?;
        }
        Ok(())
    };
    write(3)?;
    let count = requests(&scene)?;
    control(count >= 3, format!("{count} requests of a short chain"))?;
    write(12)?;
    let count = requests(&scene)?;
    promise(count <= 5, format!("{count} requests"))
}
