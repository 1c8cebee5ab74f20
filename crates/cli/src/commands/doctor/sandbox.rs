//! What confines the commands and the Python code that prompts declare.

use logue_tools::sandbox::probe;

use crate::commands::doctor::Finding;
use crate::setup::config::Config;

const CHECK: &str = "sandbox";

pub(super) fn check(config: &Config) -> Finding {
    let policy = config.shell_policy();
    // What counts for every tool that has no table of its own.
    let sandbox = &policy.of("").sandbox;
    let status = sandbox.status();
    let words = |guards: &[_]| {
        let words = guards.iter().map(ToString::to_string);
        words.collect::<Vec<String>>()
    };
    let said = status.to_string();
    let finding = match sandbox.check() {
        Err(error) => Finding::bad(CHECK, error.to_string())
            .with_help("take `sandbox_required` out of logue.toml, or install bubblewrap"),
        Ok(()) if status.missing.is_empty() => Finding::good(CHECK, said),
        Ok(()) if status.confines() => Finding::doubtful(CHECK, said)
            .with_help("a newer kernel closes the rest; docs/sandbox.md says which"),
        Ok(()) => Finding::doubtful(CHECK, said)
            .with_help("install bubblewrap, or run a kernel with Landlock (Linux 5.13 or newer)")
            .with_help("`sandbox_required = true` under [tools] refuses to run tools without one"),
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
