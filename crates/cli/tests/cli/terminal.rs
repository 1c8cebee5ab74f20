//! The answer on a real terminal: rendered while it arrives, and never changed afterwards.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::num::NonZeroU16;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::pty::{Winsize, openpty};
use rustix::termios::{Winsize as Size, tcsetwinsize};
use testkit::{Answer, Delivery, Gate, ModelServer, Random, Reply, end_of_stream, text_delta};
use unicode_width::UnicodeWidthStr as _;

use crate::program::{Ran, folder, logue};
use crate::waiting::wait_until;

/// Lines of the emulator's window; earlier lines are in its scrollback.
const ROWS: u16 = 24;
/// Columns of the emulator, which are more than the program is ever given.
const COLUMNS: u16 = 240;
const PROMPT: &str = "<config model=\"m\"/>\n<tool name=\"read_file\"/>\n<user>q</user>\n";

/// The program on a pseudo-terminal, with an emulator that reads what it prints.
pub(crate) struct Terminal {
    child: Child,
    master: File,
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Terminal {
    pub(crate) fn start(command: &mut Command, columns: u16) -> Self {
        let size = Winsize {
            ws_row: ROWS,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let pair = openpty(Some(&size), None).unwrap();
        let end = || Stdio::from(pair.slave.try_clone().unwrap());
        let child = command
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        // The command holds the terminal open too.
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        drop(pair.slave);
        let master = File::from(pair.master);
        let mut screen = master.try_clone().unwrap();
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&bytes);
        let reader = std::thread::spawn(move || {
            let mut block = [0; 4096];
            // The terminal ends with an error.
            while let Ok(count @ 1..) = screen.read(&mut block) {
                seen.lock().unwrap().extend_from_slice(&block[..count]);
            }
        });
        Self {
            child,
            master,
            bytes,
            reader,
        }
    }

    fn resize(&self, columns: u16) {
        let size = Size {
            ws_row: ROWS,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&self.master, size).unwrap();
    }

    fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().unwrap().clone()
    }

    /// Types keys at a question.
    pub(crate) fn press(&mut self, keys: &str) {
        // The program discards what was typed before it reads, which no event reports.
        std::thread::sleep(Duration::from_millis(100));
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn expect(&self, text: &str) {
        wait_until(
            || {
                format!(
                    "`{text}` was not shown:\n{}",
                    lines(&self.bytes()).join("\n")
                )
            },
            || {
                self.bytes()
                    .windows(text.len())
                    .any(|part| part == text.as_bytes())
            },
        );
    }

    /// Waits for the end; returns the status and everything that was printed.
    pub(crate) fn end(mut self) -> (i32, Vec<u8>) {
        let mut status = None;
        wait_until(
            || "the program does not end".to_owned(),
            || {
                status = self.child.try_wait().unwrap();
                status.is_some() && self.reader.is_finished()
            },
        );
        let bytes = self.bytes();
        (status.and_then(|status| status.code()).unwrap_or(-1), bytes)
    }
}

/// The lines of an emulator after these bytes, scrollback included.
fn lines(bytes: &[u8]) -> Vec<String> {
    let mut parser = vt100::Parser::new(
        NonZeroU16::new(ROWS).unwrap(),
        NonZeroU16::new(COLUMNS).unwrap(),
        100_000,
    );
    parser.process(bytes);
    parser.screen_mut().set_scrollback(usize::MAX);
    let most = parser.screen().scrollback();
    let mut lines = Vec::new();
    for offset in (1..=most).rev() {
        parser.screen_mut().set_scrollback(offset);
        lines.extend(parser.screen().rows(0, COLUMNS).next());
    }
    parser.screen_mut().set_scrollback(0);
    lines.extend(parser.screen().rows(0, COLUMNS));
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

pub(crate) fn command(
    folder: &std::path::Path,
    server: &ModelServer,
    arguments: &[&str],
) -> Command {
    let mut command = logue(folder);
    command
        .args(arguments)
        .env("OPENAI_BASE_URL", server.base_url());
    on_terminal(&mut command);
    command
}

/// Sets the environment of a terminal with colours and without extensions.
pub(crate) fn on_terminal(command: &mut Command) {
    command.env("TERM", "xterm-256color").env_remove("NO_COLOR");
    for name in [
        "KITTY_WINDOW_ID",
        "WT_SESSION",
        "KONSOLE_VERSION",
        "VTE_VERSION",
        "TERM_PROGRAM",
    ] {
        command.env_remove(name);
    }
}

/// An answer whose words are numbered, in blocks of all kinds.
struct Rich {
    random: Random,
    words: usize,
}

impl Rich {
    /// The next words, some of them long.
    fn text(&mut self, count: usize) -> String {
        let words: Vec<String> = (0..count)
            .map(|_| {
                self.words += 1;
                let tail = "x".repeat(self.random.below(9));
                let word = format!("w{}{tail}.", self.words);
                match self.random.below(12) {
                    0 => format!("**{word}**"),
                    1 => format!("*{word}*"),
                    2 => format!("`{word}`"),
                    3 => format!("[{word}](https://example.test/)"),
                    _ => word,
                }
            })
            .collect();
        words.join(" ")
    }

    /// A block in two pieces, the last of which completes it.
    fn block(&mut self) -> [String; 2] {
        let count = 5 + self.random.below(60);
        match self.random.below(7) {
            0 => [format!("## {}", self.text(4)), "\n\n".to_owned()],
            1 => [
                format!("- {}\n", self.text(count)),
                format!("  - {}\n\n", self.text(9)),
            ],
            2 => [
                format!("> {}\n", self.text(count)),
                format!("> {}\n\n", self.text(9)),
            ],
            3 => [
                format!("```rust\nlet a = \"{}\";\n", self.text(2)),
                format!("// {}\n```\n\n", self.text(2)),
            ],
            4 => [
                format!("| {} | {} |\n|---|---|\n", self.text(1), self.text(1)),
                format!("| {} | {} |\n\n", self.text(1), self.text(1)),
            ],
            _ => [
                format!("{} ", self.text(count)),
                format!("{}\n\n", self.text(count)),
            ],
        }
    }
}

/// The numbered words of lines, without the characters around them.
fn words(lines: &[String]) -> Vec<usize> {
    let words = lines
        .iter()
        .flat_map(|line| line.split(|one: char| !one.is_ascii_alphanumeric()));
    let numbers = words.filter_map(|word| word.strip_prefix('w'));
    numbers
        .filter_map(|word| word.trim_end_matches('x').parse().ok())
        .collect()
}

#[test]
fn resizes_while_an_answer_arrives_double_lose_and_split_nothing() {
    const BLOCKS: usize = 140;
    let seed = std::env::var("LOGUE_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or(20_261);
    let mut rich = Rich {
        random: Random::new(seed),
        words: 0,
    };
    let mut blocks = Vec::new();
    for _ in 0..BLOCKS {
        let block = rich.block();
        blocks.push((block, rich.words));
    }
    let mut pieces: Vec<Vec<u8>> = vec![text_delta("begin.\n\n")];
    for ([one, other], _) in &blocks {
        pieces.push(text_delta(one));
        pieces.push(text_delta(other));
    }
    pieces.push(end_of_stream());
    let gate = Gate::new();
    let reply = Reply::Gated(pieces, gate.clone());
    let server = ModelServer::start(vec![reply], Delivery::Whole).unwrap();
    let folder = folder(&[("p.md", PROMPT)]);
    let terminal = Terminal::start(&mut command(folder.path(), &server, &["run", "p.md"]), 80);
    terminal.expect("begin.");
    let mut random = Random::new(seed + 1);
    let mut width = |terminal: &Terminal| {
        let columns = 40 + random.below(161);
        terminal.resize(u16::try_from(columns).unwrap());
        columns
    };
    let mut from = lines(&terminal.bytes()).len();
    // Two resizes for each block: the second one while its lines are printed.
    for (at, (block, last)) in blocks.iter().enumerate() {
        let first = width(&terminal);
        gate.open();
        let is_text = block[1].starts_with('w');
        let second = if at % 2 == 0 { first } else { width(&terminal) };
        gate.open();
        terminal.expect(&format!("w{last}"));
        // The last word of a block is on its last line, unless the block is code.
        let until = |lines: &[String]| words(lines).last() == Some(last);
        wait_until(
            || format!("block {at}"),
            || until(&lines(&terminal.bytes())),
        );
        let now = lines(&terminal.bytes());
        let code = block[0].starts_with("```");
        for line in now.iter().skip(from).filter(|_| !code) {
            let most = first.max(second);
            assert!(
                line.width() <= most,
                "seed {seed}, block {at}: {most} columns: {line}"
            );
        }
        if is_text && first == second {
            // A line ends only where the next word does not fit.
            let own: Vec<&String> = now
                .iter()
                .skip(from)
                .filter(|line| !line.is_empty())
                .collect();
            for pair in own.windows(2) {
                let next = pair[1].split(' ').next().unwrap();
                let joined = pair[0].width() + 1 + next.width();
                assert!(
                    joined > first,
                    "seed {seed}, block {at}: {first} columns: {pair:?}"
                );
            }
        }
        from = now.len();
    }
    gate.open();
    let (status, bytes) = terminal.end();
    let shown = lines(&bytes);
    assert_eq!(status, 0, "{}", shown.join("\n"));
    let expected: Vec<usize> = (1..=rich.words).collect();
    assert_eq!(
        words(&shown),
        expected,
        "seed {seed}:\n{}",
        shown.join("\n")
    );
}

#[test]
fn words_are_printed_before_the_next_piece_is_sent() {
    let pieces = ["two words and", " more **of", " them** in\n- a", " list of"];
    let mut sent: Vec<Vec<u8>> = pieces.iter().map(|piece| text_delta(piece)).collect();
    sent.push(end_of_stream());
    let gate = Gate::new();
    let reply = Reply::Gated(sent, gate.clone());
    let server = ModelServer::start(vec![reply], Delivery::Whole).unwrap();
    let folder = folder(&[("p.md", PROMPT)]);
    let terminal = Terminal::start(&mut command(folder.path(), &server, &["run", "p.md"]), 80);
    // Each piece waits for a permit, which is given when the words before it are shown.
    for shown in [
        "two words",
        "two words and more",
        "two words and more of them in",
        "two words and more of them in\n• a list",
    ] {
        let until = || lines(&terminal.bytes()).join("\n");
        wait_until(
            || format!("`{shown}` was not shown: {}", until()),
            || until().ends_with(shown),
        );
        gate.open();
    }
    let (status, bytes) = terminal.end();
    let shown = lines(&bytes).join("\n");
    assert_eq!(status, 0, "{shown}");
    let text = "two words and more of them in\n• a list of\n";
    assert!(shown.contains(text), "{shown}");
}

#[test]
fn a_terminal_shows_steps_in_one_line_each_and_the_usage() {
    let replies = vec![
        Reply::Answer(
            Answer::text("Let me **look**.")
                .with_reasoning("Hm, hm.")
                .with_call("c", "read_file", "{\"file\":\"p.md\"}"),
        ),
        Reply::Answer(Answer::text("").with_call("d", "read_file", "{\"file\":\"none\"}")),
        Reply::Answer(Answer::text("# Done\n\nIt is `fine`.")),
    ];
    let server = ModelServer::start(replies, Delivery::Random(3)).unwrap();
    let folder = folder(&[("p.md", PROMPT)]);
    let arguments = ["run", "-m", "gpt-4o", "p.md"];
    let terminal = Terminal::start(&mut command(folder.path(), &server, &arguments), 80);
    let (status, bytes) = terminal.end();
    let shown = lines(&bytes).join("\n");
    assert_eq!(status, 0, "{shown}");
    // The times differ from run to run.
    let timeless: Vec<&str> = shown
        .lines()
        .map(|line| line.split("0.").next().unwrap())
        .collect();
    let [thought, look, read, failed, heading, blank, fine, usage] = timeless.as_slice() else {
        panic!("{shown}");
    };
    assert_eq!(
        (*thought, *look),
        ("thought for ", "Let me look."),
        "{shown}"
    );
    assert!(
        read.starts_with("✓ read_file {\"file\":\"p.md\"} · "),
        "{shown}"
    );
    assert!(
        failed.starts_with("✗ read_file {\"file\":\"none\"} · failed, "),
        "{shown}"
    );
    assert_eq!(
        (*heading, *blank, *fine),
        ("Done", "", "It is fine."),
        "{shown}"
    );
    // Three requests of 11 and 7 tokens, at the known price of the model.
    assert!(usage.starts_with("33 tokens in, 21 out · $"), "{shown}");
    assert!(shown.contains("$0.0003 · "), "{shown}");
    let raw = String::from_utf8_lossy(&bytes).into_owned();
    assert!(raw.contains("\u{1b}[1mlook\u{1b}[0m"), "{raw:?}");
}

#[test]
fn text_is_printed_as_received_where_it_is_not_rendered() {
    let text = "# Title\n\nA **bold** word \u{1b}[2J\u{1b}]0;owned\u{7} and more text than forty columns hold.";
    let shown = text.replace('\u{1b}', "\\u{1b}").replace('\u{7}', "\\u{7}");
    let run = |columns: u16, flags: &[&str], change: fn(&mut Command)| {
        let server =
            ModelServer::start(vec![Reply::Answer(Answer::text(text))], Delivery::Random(4))
                .unwrap();
        let folder = folder(&[("p.md", PROMPT)]);
        let arguments: Vec<&str> = ["run", "p.md"].iter().chain(flags).copied().collect();
        let mut command = command(folder.path(), &server, &arguments);
        change(&mut command);
        let (status, bytes) = Terminal::start(&mut command, columns).end();
        assert_eq!(status, 0);
        String::from_utf8(bytes).unwrap().replace('\r', "")
    };
    let same: fn(&mut Command) = |_| {};
    let dumb: fn(&mut Command) = |command| {
        command.env("TERM", "dumb");
    };
    for (columns, flags, change) in [
        (80, &["--plain"][..], same),
        (80, &[][..], dumb),
        (39, &[][..], same),
    ] {
        let printed = run(columns, flags, change);
        assert!(printed.contains(&shown), "{columns} {flags:?}: {printed:?}");
    }
    // Rendered text has the styles of this program only.
    let printed = run(80, &[], same);
    assert!(printed.contains("\u{1b}[1mTitle\u{1b}[0m\n"), "{printed:?}");
    assert!(
        !printed.contains("\u{1b}[2J") && !printed.contains("\u{1b}]0;"),
        "{printed:?}"
    );
    // Without colours the marks stay, and no style is used.
    let plain: fn(&mut Command) = |command| {
        command.env("NO_COLOR", "1");
    };
    let printed = run(80, &[], plain);
    assert!(
        printed.contains("# Title\n") && printed.contains("**bold**"),
        "{printed:?}"
    );
    assert!(!printed.contains("\u{1b}[1m"), "{printed:?}");
}

#[test]
fn a_pipe_receives_unchanged_text_and_the_usage_on_request() {
    let text = "# Title\n\nA **bold** word, [a link](https://example.test/).";
    let server =
        ModelServer::start(vec![Reply::Answer(Answer::text(text))], Delivery::Whole).unwrap();
    let folder = folder(&[("p.md", PROMPT)]);
    for (flags, reports) in [(&[][..], false), (&["--usage"][..], true)] {
        let arguments: Vec<&str> = ["run", "--no-save", "p.md"]
            .iter()
            .chain(flags)
            .copied()
            .collect();
        let ran = Ran::from(
            command(folder.path(), &server, &arguments)
                .output()
                .unwrap(),
        );
        assert_eq!(
            (ran.status, ran.stdout),
            (0, format!("{text}\n")),
            "{}",
            ran.stderr
        );
        // The price of the model `m` is unknown.
        let line = "11 tokens in, 7 out · ";
        assert_eq!(ran.stderr.contains(line), reports, "{}", ran.stderr);
        assert!(!ran.stderr.contains('$'), "{}", ran.stderr);
    }
}

#[test]
fn a_limit_of_cost_uses_the_known_price_and_settings_replace_it() {
    let server =
        ModelServer::start(vec![Reply::Answer(Answer::text("hi"))], Delivery::Whole).unwrap();
    let own = "[prices.\"gpt-4o\"]\ninput_per_mtok = 1000000\noutput_per_mtok = 0\n";
    for (settings, model, status, cost) in [
        ("", "gpt-4o", 0, "$0.0001"),
        ("", "unheard-of", 2, ""),
        (own, "gpt-4o", 0, "$11.0000"),
    ] {
        let folder = folder(&[("p.md", PROMPT), (".config/logue/config.toml", settings)]);
        let arguments = ["run", "--usage", "--max-cost", "1", "-m", model, "p.md"];
        let ran = Ran::from(
            command(folder.path(), &server, &arguments)
                .output()
                .unwrap(),
        );
        assert_eq!(ran.status, status, "{}", ran.stderr);
        assert!(ran.stderr.contains(cost), "{}", ran.stderr);
    }
}
