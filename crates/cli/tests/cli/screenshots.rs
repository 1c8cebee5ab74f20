//! The screenshots of `docs/terminal.md`: what real runs show on a real terminal, as SVG.
//!
//! `cargo xtask screenshots` writes them; without it, the tests compare them.

use std::fmt::Write as _;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};

use testkit::{Answer, Delivery, ModelServer, Reply};
use vt100::{Cell, Color, Parser, Screen};

use crate::program::folder;
use crate::terminal::{Terminal, command};

/// Rows of the emulator, which are more than any run prints.
pub(crate) const ROWS: u16 = 200;
/// The size of a cell in an image.
const CELL: (f64, f64) = (8.4, 19.0);
/// The space around the cells.
const MARGIN: f64 = 14.0;

/// The colours of a terminal.
pub(crate) struct Theme {
    pub(crate) name: &'static str,
    background: &'static str,
    border: &'static str,
    text: &'static str,
    dim: &'static str,
    /// Black, red, green, yellow, blue, magenta, cyan and white.
    colours: [&'static str; 8],
}

pub(crate) const THEMES: [Theme; 2] = [
    Theme {
        name: "dark",
        background: "#0d1117",
        border: "#30363d",
        text: "#e6edf3",
        dim: "#8b949e",
        colours: [
            "#484f58", "#ff7b72", "#7ee787", "#d29922", "#79c0ff", "#d2a8ff", "#56d4dd", "#b1bac4",
        ],
    },
    Theme {
        name: "light",
        background: "#ffffff",
        border: "#d0d7de",
        text: "#1f2328",
        dim: "#656d76",
        colours: [
            "#24292f", "#cf222e", "#116329", "#7d4e00", "#0550ae", "#8250df", "#1b7c83", "#6e7781",
        ],
    },
];

/// A run that is shown.
struct Scene {
    name: &'static str,
    /// The command as it is typed.
    typed: &'static str,
    arguments: &'static [&'static str],
    files: &'static [(&'static str, &'static str)],
    /// The question that `y` answers.
    question: Option<&'static str>,
    replies: fn() -> Vec<Reply>,
}

const CONFIG: (&str, &str) = (
    ".config/logue/config.toml",
    "[model]\nname = \"gpt-4o\"\nretries = 0\n",
);

const ASK: Scene = Scene {
    name: "ask",
    typed: "logue ask \"Read a file by lines?\"",
    arguments: &["ask", "Read a file by lines?"],
    files: &[CONFIG],
    question: None,
    replies: || {
        vec![Reply::Answer(
            Answer::text(
                "## Lines of a file\n\n\
                 Use a **`BufReader`**, which reads in *blocks*, and iterate over its \
                 [lines](https://doc.rust-lang.org/std/io/trait.BufRead.html):\n\n\
                 ```rust\n\
                 let file = BufReader::new(File::open(\"notes.txt\")?);\n\
                 for line in file.lines() {\n    println!(\"{}\", line?); // no line break\n}\n\
                 ```\n\n\
                 | Method | Allocates | Speed |\n|:---|:---:|---:|\n\
                 | `lines` | for each line | 1.0 |\n| `read_line` | once | 1.6 |\n\n\
                 1. An error of the disk is an `Err` item.\n\
                 2. Text that is not UTF-8 is an error, too; use `split(b'\\n')` for bytes.\n",
            )
            .with_reasoning("BufRead::lines."),
        )]
    },
};

const RUN: Scene = Scene {
    name: "run",
    typed: "logue run review.md \"Is it safe?\"",
    arguments: &["run", "review.md", "Is it safe?"],
    files: &[
        CONFIG,
        ("deploy.toml", "timeout = 0\nretries = 3\n"),
        (
            "review.md",
            "<tool name=\"read_directory\"/>\n<tool name=\"read_file\"/>\n\
             <system>You review configurations.</system>\n",
        ),
    ],
    question: None,
    replies: || {
        vec![
            Reply::Answer(
                Answer::text("I will look at the configuration first.")
                    .with_reasoning("The files.")
                    .with_call("c1", "read_directory", "{\"path\":\".\"}"),
            ),
            Reply::Answer(Answer::text("").with_call(
                "c2",
                "read_file",
                "{\"file\":\"deploy.toml\"}",
            )),
            Reply::Answer(Answer::text("").with_call(
                "c3",
                "read_file",
                "{\"file\":\"production.toml\"}",
            )),
            Reply::Answer(Answer::text(
                "**Not yet.** Two findings in `deploy.toml`:\n\n\
                 - [x] `retries = 3` is reasonable.\n\
                 - [ ] `timeout = 0` disables the limit: a request that hangs keeps its worker for \
                 as long as the process runs.\n\n\
                 > There is no `production.toml`, so these values are used in production as well.\n",
            )),
        ]
    },
};

const APPROVAL: Scene = Scene {
    name: "approval",
    typed: "logue run fix.md \"Set a timeout.\"",
    arguments: &[
        "run",
        "--permission",
        "find_and_replace=ask",
        "fix.md",
        "Set a timeout.",
    ],
    files: &[
        CONFIG,
        ("deploy.toml", "timeout = 0\nretries = 3\n"),
        ("fix.md", "<tool name=\"find_and_replace\"/>\n"),
    ],
    question: Some("Run find_and_replace? [y/N/a/d/e/s/?] "),
    replies: || {
        let arguments =
            "{\"path\":\"deploy.toml\",\"find\":\"timeout = 0\",\"replace\":\"timeout = 30\"}";
        vec![
            Reply::Answer(Answer::text("").with_call("c1", "find_and_replace", arguments)),
            Reply::Answer(Answer::text(
                "The timeout is **30 seconds** now; requests that hang end after that.",
            )),
        ]
    },
};

const ERROR: Scene = Scene {
    name: "error",
    typed: "logue run review.md",
    arguments: &["run", "review.md"],
    files: &[
        CONFIG,
        (
            "review.md",
            "<tool name=\"read_file\"/>\n<user>Review <doc src=\"deploi.toml\" local/> and name file and line of every finding.</user>\n",
        ),
    ],
    question: None,
    replies: Vec::new,
};

/// Runs a scene; returns what an emulator shows.
fn screen(scene: &Scene, columns: u16) -> Parser {
    let server = ModelServer::start((scene.replies)(), Delivery::Random(7)).unwrap();
    let folder = folder(scene.files);
    let mut command = command(folder.path(), &server, scene.arguments);
    command.env("TERM_PROGRAM", "WezTerm");
    let mut terminal = Terminal::start(&mut command, columns);
    if let Some(question) = scene.question {
        terminal.expect(question);
        terminal.press("y\n");
    }
    let (_, bytes) = terminal.end();
    let size = |size| NonZeroU16::new(size).unwrap();
    let mut parser = Parser::new(size(ROWS), size(columns), 0);
    parser.process(format!("\u{1b}[2m$\u{1b}[0m {}\r\n", scene.typed).as_bytes());
    parser.process(timeless(&String::from_utf8(bytes).unwrap()).as_bytes());
    parser
}

/// Replaces durations, which differ from run to run.
pub(crate) fn timeless(text: &str) -> String {
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        let Some(end) = line.find(" s\u{1b}").or_else(|| line.find(" s\r")) else {
            out.push_str(line);
            continue;
        };
        let (before, after) = line.split_at(end);
        let start = before.trim_end_matches(|one: char| one.is_ascii_digit() || one == '.');
        let time = match start {
            _ if start.ends_with("thought for ") => "2.4",
            _ if start.contains(" in, ") => "6.1",
            _ => "0.1",
        };
        out.push_str(start);
        out.push_str(time);
        out.push_str(after);
    }
    out
}

/// Returns the image of a screen.
pub(crate) fn image(screen: &Screen, theme: &Theme, title: &str) -> String {
    let (_, columns) = screen.size();
    let columns = columns.get();
    let used = |row: &u16| (0..columns).any(|at| is_used(screen.cell(*row, at)));
    let rows = (0..ROWS).rev().find(used).map_or(0, |last| last + 1);
    let width = f64::from(columns).mul_add(CELL.0, 2.0 * MARGIN);
    let height = f64::from(rows).mul_add(CELL.1, 2.0 * MARGIN);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\">\n<title>{}</title>\n\
         <style>text{{white-space:pre}}</style>\n\
         <rect x=\".5\" y=\".5\" width=\"{:.0}\" height=\"{:.0}\" rx=\"6\" fill=\"{}\" stroke=\"{}\"/>\n\
         <g font-family=\"ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace\" font-size=\"14\" \
         fill=\"{}\">\n",
        escaped(title),
        width - 1.0,
        height - 1.0,
        theme.background,
        theme.border,
        theme.text,
    );
    for row in 0..rows {
        let mut at = 0;
        while at < columns {
            let style = style(screen.cell(row, at), theme);
            let (begin, mut text) = (at, String::new());
            while at < columns && self::style(screen.cell(row, at), theme) == style {
                let cell = screen.cell(row, at);
                if !cell.is_some_and(Cell::is_wide_continuation) {
                    let content = cell.map_or("", Cell::contents);
                    text.push_str(if content.is_empty() { " " } else { content });
                }
                at += 1;
            }
            let shown = text.trim_end();
            if shown.is_empty() {
                continue;
            }
            let blank = text.len() - text.trim_start().len();
            let count = f64::from(u16::try_from(text.chars().count()).unwrap());
            let cells = f64::from(at - begin) / count;
            let first = f64::from(u16::try_from(blank).unwrap());
            let shown = shown.trim_start();
            let length = f64::from(u16::try_from(shown.chars().count()).unwrap()) * cells;
            let x = (f64::from(begin) + first).mul_add(CELL.0, MARGIN);
            let y = (f64::from(row) + 0.75).mul_add(CELL.1, MARGIN);
            let length = length * CELL.0;
            writeln!(
                out,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" textLength=\"{length:.1}\"{style}>{}</text>",
                escaped(shown)
            )
            .unwrap();
        }
    }
    out.push_str("</g>\n</svg>\n");
    out
}

fn is_used(cell: Option<&Cell>) -> bool {
    cell.is_some_and(|cell| !cell.contents().trim().is_empty())
}

/// Returns the attributes of the text in a cell.
fn style(cell: Option<&Cell>, theme: &Theme) -> String {
    let mut out = String::new();
    let Some(cell) = cell else {
        return out;
    };
    let colour = match cell.fgcolor() {
        Color::Idx(index) => theme.colours.get(usize::from(index % 8)).copied(),
        _ => None,
    };
    let colour = match (colour, cell.dim()) {
        (None, true) => Some(theme.dim),
        (colour, _) => colour,
    };
    if let Some(colour) = colour {
        write!(out, " fill=\"{colour}\"").unwrap();
    }
    if cell.bold() {
        out.push_str(" font-weight=\"bold\"");
    }
    if cell.italic() {
        out.push_str(" font-style=\"italic\"");
    }
    if cell.underline() {
        out.push_str(" text-decoration=\"underline\"");
    }
    out
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

/// Compares the images of a scene, or writes them.
fn compare(scene: &Scene) {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/screenshots");
    let writes = std::env::var_os("LOGUE_SCREENSHOTS").is_some_and(|word| word == "write");
    for columns in [80, 40] {
        let parser = screen(scene, columns);
        let title = format!("{} on a terminal of {columns} columns", scene.typed);
        for theme in &THEMES {
            let name = format!("{}-{columns}-{}.svg", scene.name, theme.name);
            let file: PathBuf = place.join(&name);
            let now = image(parser.screen(), theme, &title);
            if writes {
                std::fs::create_dir_all(&place).unwrap();
                std::fs::write(&file, &now).unwrap();
                continue;
            }
            let kept = std::fs::read_to_string(&file).unwrap_or_default();
            assert!(
                kept == now,
                "docs/screenshots/{name} differs: look at what `cargo xtask screenshots` writes\n{}",
                parser.screen().contents()
            );
        }
    }
}

#[test]
fn the_screenshot_of_a_question_is_current() {
    compare(&ASK);
}

#[test]
fn the_screenshot_of_a_run_with_tools_is_current() {
    compare(&RUN);
}

#[test]
fn the_screenshot_of_an_approval_is_current() {
    compare(&APPROVAL);
}

#[test]
fn the_screenshot_of_an_error_is_current() {
    compare(&ERROR);
}
