//! Secrets in the files of a run.

use crate::attack::{Arena, Attack, Outcome, control, promise};
use crate::scene::{SECRET, Scene, answers, files_with, words};

pub(crate) const ATTACKS: &[Attack] = &[Attack::model(
    "redacted-files",
    "a text that a pattern finds is in no file",
    redacted,
)];

fn redacted(arena: &Arena) -> Outcome {
    for is_redacted in [false, true] {
        let scene = Scene::new(arena)?;
        if is_redacted {
            scene.configure("", "[redact]\npatterns = [\"TOPSECRET-[0-9a-f]+\"]\n")?;
        }
        scene.file(
            "p.md",
            "<config model=\"m\"/>\n<tool name=\"t\" command=\"echo\"/>\n",
        )?;
        let said = format!("It is {SECRET}.");
        let call = testkit::Answer::text(said.as_str())
            .with_reasoning(said.as_str())
            .with_call("c0", "t", words([SECRET]).to_string());
        let calls = || vec![call.clone(), testkit::Answer::text(said.as_str())];
        for words in [["run", "p.md"].as_slice(), &["run", "-o", "u.md", "p.md"]] {
            let server = answers(calls())?;
            let mut run = scene.logue([]);
            for word in words {
                run = run.with_arg(word);
            }
            let run = run.with_arg(&said).with_server(&server);
            run.with_trust().run()?;
            control(
                server.received().len() == 2,
                format!("{words:?} does not run"),
            )?;
        }
        let mut found = files_with(&scene.work(), SECRET);
        for folder in [".data", ".cache", ".state"] {
            found.extend(files_with(&scene.home().join(folder), SECRET));
        }
        let shown = format!("{found:?}");
        control(is_redacted || found.len() >= 2, shown.as_str())?;
        promise(!is_redacted || found.is_empty(), shown)?;
    }
    Ok(())
}
