//! `logue init`: its files, its refusals, and the commands that it prints.

use std::path::Path;
use std::process::Command;

use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::examples::page_commands;
use crate::program::{Ran, contents, folder, strict};

/// The files of a directory without a template, in the order of their names.
const FILES: [&str; 4] = [
    ".gitattributes",
    ".github/workflows/prompts.yml",
    "logue.toml",
    "prompt.md",
];

/// A user who trusts nothing yet, in an empty directory.
struct User {
    home: tempfile::TempDir,
    place: tempfile::TempDir,
    variables: Vec<(&'static str, String)>,
}

impl User {
    fn new(variables: &[(&'static str, &str)]) -> Self {
        let variables = variables
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()));
        Self {
            home: tempfile::tempdir().unwrap(),
            place: tempfile::tempdir().unwrap(),
            variables: variables.collect(),
        }
    }

    fn place(&self) -> &Path {
        self.place.path()
    }

    /// Runs a script in a shell that finds the program.
    fn shell(&self, script: &str) -> Ran {
        let base = strict(self.home.path());
        let program = Path::new(base.get_program()).parent().unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("bash");
        command
            .args(["-ec", script])
            .current_dir(self.place())
            .stdin(std::process::Stdio::null());
        for (name, value) in base.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
            .env("PATH", format!("{}:{path}", program.display()))
            .envs(self.variables.iter().cloned())
            .output()
            .unwrap()
            .into()
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.place().join(name)).unwrap()
    }
}

/// Returns the commands that `logue init` printed.
fn next(ran: &Ran) -> String {
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let (_, commands) = ran.stdout.split_once("\nnext:\n").unwrap();
    let lines: Vec<&str> = commands.lines().map(str::trim).collect();
    lines.join("\n")
}

/// Returns the lines that the CI file runs on the prompts.
fn checks(workflow: &str) -> String {
    let lines = workflow.lines().map(str::trim);
    let lines = lines.filter_map(|line| line.strip_prefix("- run: "));
    let lines: Vec<&str> = lines.filter(|line| line.starts_with("logue ")).collect();
    assert_eq!(lines, ["logue check .", "logue fmt --check ."]);
    lines.join("\n")
}

#[test]
fn the_printed_command_runs_the_first_prompt() {
    let mut user = User::new(&[("LOGUE_MODEL", "echo:")]);
    let ran = user.shell("logue init");
    assert_eq!(
        ran.stdout,
        "wrote prompt.md\nwrote logue.toml\nwrote .gitattributes\nwrote .github/workflows/prompts.yml\n\
         model: echo:\nnext:\n  logue run prompt.md \"What is in this directory?\"\n"
    );
    let names: Vec<String> = contents(user.place())
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, FILES);
    // The project names the model itself.
    user.variables.clear();
    let first = user.shell(&next(&ran));
    assert_eq!(first.status, 0, "{}", first.stderr);
    assert_eq!(first.stdout, "What is in this directory?\n");
    let transcript = user.read("prompt.md");
    assert_eq!(
        transcript.matches("What is in this directory?").count(),
        3,
        "{transcript}"
    );
    let checked = user.shell(&checks(&user.read(FILES[1])));
    assert_eq!(checked.status, 0, "{}{}", checked.stdout, checked.stderr);
}

#[test]
fn an_existing_file_is_named_and_nothing_is_written() {
    let user = User::new(&[("LOGUE_MODEL", "echo:")]);
    for name in FILES {
        let path = user.place().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "mine").unwrap();
        let ran = user.shell("logue init");
        assert_eq!((ran.status, ran.stdout.as_str()), (3, ""), "{name}");
        let message = format!(
            "error[init_file_exists]: nothing was written, because these files exist: {name}\n"
        );
        assert!(ran.stderr.starts_with(&message), "{}", ran.stderr);
        assert!(ran.stderr.contains("--force"), "{}", ran.stderr);
        assert_eq!(
            contents(user.place()),
            [(name.to_owned(), b"mine".to_vec())]
        );
        std::fs::remove_file(path).unwrap();
    }
    // A link is a file too, and --force replaces it, not its target.
    let outside = user.home.path().join("outside");
    std::fs::write(&outside, "mine").unwrap();
    std::os::unix::fs::symlink(&outside, user.place().join("logue.toml")).unwrap();
    assert_eq!(user.shell("logue init").status, 3);
    assert_eq!(user.shell("logue init --force").status, 0);
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "mine");
    assert!(user.read("logue.toml").contains("name = \"echo:\""));
    // Without space, the file to replace stays, and no part of a new one.
    let before = contents(user.place());
    let full = user.shell("trap '' XFSZ; ulimit -f 0; logue init --force 2>&1 | cat");
    assert!(
        full.stdout.contains("error[init_write_failed]"),
        "{}",
        full.stdout
    );
    assert_eq!(contents(user.place()), before);
    // Several existing files are named at once.
    let ran = user.shell("logue init");
    assert!(
        ran.stderr
            .contains("prompt.md, logue.toml, .gitattributes, .github/workflows/prompts.yml"),
        "{}",
        ran.stderr
    );
}

#[test]
fn without_space_nothing_is_left() {
    let user = User::new(&[("LOGUE_MODEL", "echo:")]);
    let full = user.shell("trap '' XFSZ; ulimit -f 0; logue init 2>&1 | cat");
    assert!(
        full.stdout.contains("error[init_write_failed]"),
        "{}",
        full.stdout
    );
    assert_eq!(contents(user.place()), []);
}

#[test]
fn a_server_of_this_machine_becomes_the_model_after_trust() {
    let list = r#"{"data":[{"id":"embed-x"},{"id":"m","owned_by":"vllm"}]}"#;
    let reply = |body: &str| Reply::Status(200, Vec::new(), body.to_owned());
    let replies = vec![
        reply(list),
        reply(r#"{"version":"0.9.1"}"#),
        Reply::Answer(Answer::text("fine")),
    ];
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    let url = server.base_url().replace("127.0.0.1", "localhost");
    let host = url.trim_start_matches("http://").trim_end_matches("/v1");
    let user = User::new(&[("OLLAMA_HOST", host)]);
    let ran = user.shell("logue init 'my prompts'");
    let settings = user.read("my prompts/logue.toml");
    assert!(
        settings.contains(&format!("name = \"m\"\nbase_url = \"{url}\"\n")),
        "{settings}"
    );
    let commands = next(&ran);
    assert!(
        commands.starts_with("cd 'my prompts'\nlogue trust add .\n"),
        "{commands}"
    );
    // Without trust, the address of a project is refused.
    let refused = user.shell(&commands.replace("logue trust add .\n", ""));
    assert!(
        refused.stderr.contains("error[E-CONFIG-NOT-TRUSTED]"),
        "{}",
        refused.stderr
    );
    let first = user.shell(&commands);
    assert_eq!(first.status, 0, "{}", first.stderr);
    assert!(first.stdout.ends_with("fine\n"), "{}", first.stdout);
    assert_eq!(server.received().last().unwrap().body["model"], "m");
}

#[test]
fn without_a_server_the_printed_command_runs_too() {
    let user = User::new(&[("OLLAMA_HOST", "127.0.0.1:1")]);
    let ran = user.shell("logue init");
    if !ran.stdout.contains("model: none; ") {
        // The machine has a model server.
        assert!(
            ran.stdout.contains(" at http://localhost:"),
            "{}",
            ran.stdout
        );
        return;
    }
    let first = user.shell(&next(&ran));
    assert_eq!(
        (first.status, first.stdout.as_str()),
        (0, "What is in this directory?\n")
    );
}

#[test]
fn an_alias_of_the_user_is_not_written_into_a_project() {
    let user = User::new(&[]);
    let config = user.home.path().join(".config/logue");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(
        config.join("config.toml"),
        "[model]\nname = \"mine\"\n[models]\nmine = \"echo:\"\n",
    )
    .unwrap();
    let ran = user.shell("logue init");
    assert!(
        ran.stdout.contains("model: mine, of your own settings\n"),
        "{}",
        ran.stdout
    );
    assert!(!user.read("logue.toml").contains("\nname"));
    assert_eq!(user.shell(&next(&ran)).status, 0);
}

#[test]
fn the_ci_file_of_a_repository_is_at_its_top() {
    let user = User::new(&[("LOGUE_MODEL", "echo:")]);
    let ran = user.shell("git init -q . && mkdir -p a && cd a && logue init 'b/my prompts'");
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let workflow = user.read(".github/workflows/prompts.yml");
    assert!(
        workflow.contains("        working-directory: \"a/b/my prompts\"\n"),
        "{workflow}"
    );
    assert!(!user.place().join("a/b/my prompts/.github").exists());
    let checked = user.shell(&format!("cd 'a/b/my prompts'\n{}", checks(&workflow)));
    assert_eq!(checked.status, 0, "{}{}", checked.stdout, checked.stderr);
    // A second directory of the repository does not replace the file of the first.
    let ran = user.shell("logue init c");
    assert_eq!(ran.status, 3);
    assert!(!user.place().join("c").exists());
}

#[test]
fn git_keeps_conversations_byte_by_byte() {
    let user = User::new(&[("LOGUE_MODEL", "echo:")]);
    let texts = [
        ("talk.md", "<user>\r\na\n</user>\n"),
        ("session.ocml", "a\r\nb\n"),
    ];
    let ran = user.shell(
        "git init -q . && git config core.autocrlf true && git config user.name a \
         && git config user.email a@example.org && logue init",
    );
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let keep = |place: &str| {
        for (name, text) in texts {
            std::fs::write(user.place().join(name), text).unwrap();
        }
        let ran = user.shell(place);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        texts.map(|(name, text)| user.read(name) == text)
    };
    let cycle = "git add -A && git commit -qm one && rm talk.md session.ocml && git checkout -q .";
    assert_eq!(keep(cycle), [true, true]);
    // A NUL does not hide the difference.
    std::fs::write(user.place().join("session.ocml"), "a\r\nb\0c\n").unwrap();
    let shown = user.shell("git diff session.ocml");
    assert!(shown.stdout.contains("+b\0c"), "{}", shown.stdout);
    // Without the file, git converts line ends.
    let converted = keep(&format!(
        "rm .gitattributes && git rm -q --cached session.ocml talk.md && {cycle}"
    ));
    assert_ne!(converted, [true, true]);
}

#[test]
fn each_template_is_its_example_and_runs_offline() {
    let ran = User::new(&[]).shell("logue init --template nothing");
    assert_eq!(ran.status, 2);
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut count = 0;
    for entry in std::fs::read_dir(&examples).unwrap() {
        let example = entry.unwrap().path();
        if !example.join("output-dark.svg").exists() {
            continue;
        }
        count += 1;
        let name = example.file_name().unwrap().to_str().unwrap();
        assert!(ran.stderr.contains(name), "{}", ran.stderr);
        let user = User::new(&[("LOGUE_MODEL", "gpt-5-mini")]);
        let init = user.shell(&format!("logue init --template {name} new"));
        let commands = next(&init);
        let page: Vec<String> = page_commands(name)
            .iter()
            .map(|line| line.split("   #").next().unwrap().to_owned())
            .take_while(|line| !line.starts_with("logue signal"))
            .collect();
        assert_eq!(commands, format!("cd new\n{}", page.join("\n")), "{name}");
        let mut written = contents(&user.place().join("new"));
        written.retain(|(file, _)| file == "prompt.md" || !FILES.contains(&file.as_str()));
        assert_eq!(written, source_files(&example), "{name}");
        let checked = user.shell("cd new && logue check . && logue fmt --check .");
        assert_eq!(checked.status, 0, "{}{}", checked.stdout, checked.stderr);
        let first = user.shell(&commands);
        let expected = if name == "support-approval" { 6 } else { 0 };
        assert_eq!(first.status, expected, "{name}: {}", first.stderr);
    }
    assert_eq!(count, 8);
}

/// Returns the files of an example in the repository, without its page.
fn source_files(example: &Path) -> Vec<(String, Vec<u8>)> {
    let listed = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
            ".",
        ])
        .current_dir(example)
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let mut files: Vec<(String, Vec<u8>)> = listed
        .split('\0')
        .filter(|name| !name.is_empty() && *name != "README.md" && !name.contains("output-"))
        .map(|name| (name.to_owned(), std::fs::read(example.join(name)).unwrap()))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "the tests need a git checkout");
    files
}

#[test]
fn json_has_the_files_the_model_and_the_next_commands() {
    let user = User::new(&[("LOGUE_MODEL", "echo:")]);
    let ran = user.shell("logue init --json --template extract d");
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let value: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(value["model"], "echo:");
    assert_eq!(value["template"], "extract");
    assert_eq!(
        value["next"],
        serde_json::json!(["cd d", "logue run --no-save prompt.md"])
    );
    for file in value["files"].as_array().unwrap() {
        assert!(
            user.place().join(file.as_str().unwrap()).is_file(),
            "{file}"
        );
    }
}

#[test]
fn a_directory_that_cannot_be_written_is_an_error_with_a_page() {
    let user = User::new(&[("LOGUE_MODEL", "echo:")]);
    let blocked = folder(&[("file", "")]);
    let path = blocked.path().join("file/below");
    let ran = user.shell(&format!("logue init '{}'", path.display()));
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    assert!(
        ran.stderr.starts_with("error[init_write_failed]"),
        "{}",
        ran.stderr
    );
    assert_eq!(user.shell("logue explain init_write_failed").status, 0);
}
