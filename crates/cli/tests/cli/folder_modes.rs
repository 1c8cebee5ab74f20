//! The folders and files of a user are closed to others, whatever the umask is.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{folder, logue};

/// Everything below a folder, itself included.
fn below(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    let entries = std::fs::read_dir(folder).unwrap();
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(below(&path));
        } else {
            found.push(path);
        }
    }
    found
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_loose_umask_opens_no_folder_of_the_program() {
    let prompt = "<config model=\"m\"/>\n<tool name=\"work\" command=\"echo did\"/>\n\
                  <user><agent src=\"a.md\" local>hi</agent></user>\n";
    let folder = folder(&[
        ("p.md", prompt),
        ("a.md", "<config model=\"m\"/>\n<system>Help.</system>\n"),
        (
            "t.md",
            "<config model=\"m\"/>\n<tool name=\"work\" command=\"echo did\"/>\n",
        ),
    ]);
    let call = Answer::text("").with_call("c1", "work", r#"{"arguments":[]}"#);
    let answers = [Answer::text("of the agent"), call];
    let answers = answers
        .into_iter()
        .chain((0..4).map(|_| Answer::text("ok")));
    let server = ModelServer::start(answers.map(Reply::Answer).collect(), Delivery::Whole).unwrap();
    let cache = folder.path().join(".cache/logue");
    // A folder that an earlier version left open is closed.
    std::fs::create_dir_all(cache.join("agents")).unwrap();
    std::fs::set_permissions(&cache, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(cache.join("agents"), std::fs::Permissions::from_mode(0o777)).unwrap();
    let program = env!("CARGO_BIN_EXE_logue");
    for arguments in ["run p.md", "trust add t.md", "send --agent t.md s hello"] {
        let mut command: Command = logue(folder.path());
        let environment: Vec<_> = command
            .get_envs()
            .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
            .collect();
        command = Command::new("sh");
        let ran = command
            .current_dir(folder.path())
            .envs(environment)
            .env("XDG_STATE_HOME", folder.path().join(".state"))
            .env("OPENAI_BASE_URL", server.base_url())
            .args(["-c", &format!("umask 000; exec {program} {arguments}")])
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{arguments}: {stderr}");
    }
    let mut checked = Vec::new();
    for top in [".cache/logue", ".data/logue", ".state/logue"] {
        let top = folder.path().join(top);
        if !top.exists() {
            continue;
        }
        for path in below(&top) {
            // The parent of the open folder is not the program's to close.
            if path == cache {
                continue;
            }
            let expected = if path.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(mode(&path), expected, "{}", path.display());
            checked.push(path);
        }
    }
    let has = |part: &str| {
        checked
            .iter()
            .any(|path| path.is_file() && path.display().to_string().contains(part))
    };
    assert!(has("/agents/"), "{checked:?}");
    assert!(has("trust.json"), "{checked:?}");
    assert!(has("sqlite") || has(".db"), "{checked:?}");
}
