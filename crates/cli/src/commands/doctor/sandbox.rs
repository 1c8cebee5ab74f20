//! Check of the sandbox for the commands and Python code of prompts.

use logue_tools::sandbox::probe;

use crate::commands::doctor::finding::Finding;
use crate::setup::settings::Settings;

const CHECK: &str = "sandbox";

pub(super) fn check(settings: &Settings) -> Finding {
    // The policy of every tool without a table of its own.
    let sandbox = &settings.tools.shell.of("").sandbox;
    let status = sandbox.status();
    let words = |guards: &[_]| {
        let words = guards.iter().map(ToString::to_string);
        words.collect::<Vec<String>>()
    };
    let message = status.to_string();
    let finding = match sandbox.check() {
        Err(error) => Finding::bad(CHECK, error.to_string())
            .with_help("remove `sandbox_required` from logue.toml, or install bubblewrap"),
        Ok(()) if status.missing.is_empty() => Finding::good(CHECK, message),
        Ok(()) if status.confines() => Finding::doubtful(CHECK, message).with_help(
            "use a newer kernel, or one that lets you create namespaces; see docs/sandbox.md",
        ),
        Ok(()) => Finding::doubtful(CHECK, message)
            .with_help("install bubblewrap, or use a kernel with Landlock (Linux 5.13 or newer)")
            .with_help(
                "set `sandbox_required = true` under [tools] to refuse tools without a sandbox",
            ),
    };
    let machine = probe();
    finding
        .with_fact("enforced", words(&status.enforced))
        .with_fact("missing", words(&status.missing))
        .with_fact("landlock", machine.landlock)
        .with_fact(
            "bubblewrap",
            machine
                .bubblewrap
                .as_ref()
                .map(|path| path.display().to_string()),
        )
}
