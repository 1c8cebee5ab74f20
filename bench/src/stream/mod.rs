//! The table of streamed answers: one question to a server that streams, as a whole process.
//!
//! Programs take turns, so that a busy machine slows all of them. Each answer is read from a pipe and
//! from a terminal.

mod reading;
mod server;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::Failed;

use reading::{Output, Ran, median, run};

/// Runs of each program into each output.
const RUNS: usize = 15;

const SHOT: &str = "<config model=\"m\"/>\n<user>Hello</user>\n";

/// A program of the table.
struct Program {
    name: String,
    command: Box<dyn Fn() -> Command>,
}

/// Prints the table for the program `logue` and the peers that are named.
pub(crate) fn table(
    logue: &Path,
    aichat: Option<PathBuf>,
    llm: Option<PathBuf>,
) -> Result<(), Failed> {
    let base = format!("http://{}/v1", server::start()?);
    let folder = tempfile::tempdir_in("target")?;
    let home = folder.path().canonicalize()?;
    let (mut programs, mut missing) = (own(logue, &base, &home)?, Vec::new());
    match aichat {
        Some(path) => programs.push(aichat_program(path, &base, &home)?),
        None => missing.push("aichat (cargo install aichat@0.30.0)"),
    }
    match llm {
        Some(path) => programs.push(llm_program(path, &base, &home)?),
        None => missing.push("llm (pip install llm)"),
    }
    println!(
        "| program | output | first word | whole time without the server's {} ms | memory |",
        server::DURATION.as_millis()
    );
    println!("|---|---|---|---|---|");
    for (output, name) in [(Output::Pipe, "pipe"), (Output::Terminal, "terminal")] {
        let mut all: Vec<Vec<Ran>> = programs.iter().map(|_| Vec::new()).collect();
        for _ in 0..RUNS {
            for (program, ran) in programs.iter().zip(&mut all) {
                let one = run(&mut (program.command)(), output);
                ran.push(one.map_err(|error| format!("{}: {error}", program.name))?);
            }
        }
        for (program, ran) in programs.iter().zip(&mut all) {
            let ran = median(ran);
            println!(
                "| {} | {name} | {:.1} ms | {:.1} ms | {:.1} MB |",
                program.name,
                ran.first_word.as_secs_f64() * 1e3,
                ran.whole.saturating_sub(server::DURATION).as_secs_f64() * 1e3,
                ran.megabytes(),
            );
        }
        for name in &missing {
            println!("| {name} | not installed | | | |");
        }
    }
    Ok(())
}

/// `ask`, which keeps a session, and `run`, which keeps nothing.
fn own(path: &Path, base: &str, home: &Path) -> Result<Vec<Program>, Failed> {
    let prompt = home.join("shot.md");
    std::fs::write(&prompt, SHOT)?;
    let prompt = prompt.display().to_string();
    let program = |name: &str, arguments: &[&str]| {
        let words = arguments.iter().copied().chain(["--base-url", base]);
        let words: Vec<String> = words.map(str::to_owned).collect();
        let (path, home) = (path.to_owned(), home.to_owned());
        Program {
            name: name.to_owned(),
            command: Box::new(move || {
                let mut command = Command::new(&path);
                command.args(&words).env("HOME", &home).current_dir(&home);
                command
            }),
        }
    };
    Ok(vec![
        program("`logue ask`", &["ask", "-m", "openai:m", "Hello"]),
        program("`logue run --no-save`", &["run", "--no-save", &prompt]),
    ])
}

fn aichat_program(path: PathBuf, base: &str, home: &Path) -> Result<Program, Failed> {
    let settings = home.join("aichat");
    std::fs::create_dir_all(&settings)?;
    let config = format!(
        "model: local:m\nsave: false\nclients:\n- type: openai-compatible\n  name: local\n  \
         api_base: {base}\n  api_key: none\n  models:\n  - name: m\n"
    );
    std::fs::write(settings.join("config.yaml"), config)?;
    let home = home.to_owned();
    Ok(Program {
        name: version(&path)?,
        command: Box::new(move || {
            let mut command = Command::new(&path);
            command
                .arg("Hello")
                .env("HOME", &home)
                .env("AICHAT_CONFIG_DIR", &settings)
                .current_dir(&home);
            command
        }),
    })
}

fn llm_program(path: PathBuf, base: &str, home: &Path) -> Result<Program, Failed> {
    let settings = home.join("llm");
    std::fs::create_dir_all(&settings)?;
    let model = format!("- model_id: local\n  model_name: m\n  api_base: \"{base}\"\n");
    std::fs::write(settings.join("extra-openai-models.yaml"), model)?;
    let home = home.to_owned();
    Ok(Program {
        name: version(&path)?,
        command: Box::new(move || {
            let mut command = Command::new(&path);
            command
                .args(["-m", "local", "Hello"])
                .env("HOME", &home)
                .env("LLM_USER_PATH", &settings)
                .env("OPENAI_API_KEY", "none")
                .current_dir(&home);
            command
        }),
    })
}

/// The name and version that a program prints.
fn version(path: &Path) -> Result<String, Failed> {
    let output = Command::new(path).arg("--version").output()?;
    let text = String::from_utf8(output.stdout)?;
    Ok(text
        .lines()
        .next()
        .unwrap_or_default()
        .replace(", version", ""))
}
