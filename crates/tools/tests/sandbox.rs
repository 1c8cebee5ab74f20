//! Programs in a sandbox: what they are kept from, by whatever this machine has.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use logue_message::Arguments;
use logue_tools::sandbox::{Mode, Sandbox, probe};
use logue_tools::{Call, Outcome, Roots, ShellOptions, ShellTool, Tool};
use serde_json::json;

fn options(mode: Mode) -> ShellOptions {
    ShellOptions {
        environment: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
        sandbox: Sandbox::with_launcher(env!("CARGO_BIN_EXE_logue-sandbox")).by(mode),
        ..ShellOptions::default()
    }
}

/// The ways of confinement that this machine has. Everything is tested with each.
fn modes() -> Vec<Mode> {
    let mut modes = vec![Mode::Auto];
    if probe().bubblewrap.is_some() {
        modes.push(Mode::Bubblewrap);
    }
    modes
}

async fn call(tool: &dyn Tool, arguments: serde_json::Value) -> Outcome {
    let arguments = Arguments::from_text(arguments.to_string());
    let call = Call {
        id: "c",
        arguments: &arguments,
    };
    tool.call(call).await
}

async fn sh(folder: &Path, script: &str, options: ShellOptions) -> Outcome {
    let roots = Roots::new([folder.to_owned()]).unwrap();
    let tool = ShellTool::new("t", "sh -c", None, &roots, options).unwrap();
    call(&tool, json!({"arguments": [script]})).await
}

#[tokio::test]
async fn common_tools_work_inside() {
    for mode in modes() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.txt"), "hello\n").unwrap();
        for (script, says) in [
            ("echo hi", "hi\n"),
            ("cat a.txt", "hello\n"),
            ("ls", "a.txt\n"),
            ("grep -c hello a.txt", "1\n"),
            ("echo new > b && cat b && rm b", "new\n"),
            ("echo x > $TMPDIR/t && cat $TMPDIR/t", "x\n"),
            ("echo lost > /dev/null; cat /dev/null", ""),
            ("cd $HOME && ls", ""),
            ("awk 'BEGIN {print 6*7}'", "42\n"),
            (
                "git init -q . && git -c user.name=a -c user.email=b commit -q --allow-empty -m first && git log --format=%s",
                "first\n",
            ),
        ] {
            let outcome = sh(folder.path(), script, options(mode)).await;
            assert_eq!(
                outcome,
                Outcome::done(format!("{says}[exit status 0]")),
                "{mode:?}: {script}"
            );
        }
    }
}
