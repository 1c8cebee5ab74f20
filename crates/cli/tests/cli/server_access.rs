//! The access of MCP servers that are programs, given together with the trust in a prompt.
#![cfg(target_os = "linux")]

use std::fs;
use std::net::TcpListener;
use std::process::Command;

use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::mcp::readable_peer;
use crate::program::{Ran, strict};
use crate::screen::Screen;

/// A server that connects to a port and reads what it kept at home, before it answers.
const SERVER: &str = r#"
(exec 3<>/dev/tcp/127.0.0.1/PORT) 2>/dev/null
cat "$HOME/kept" > before 2>/dev/null
echo again > "$HOME/kept"
exec PEER --exact mcp::peer --nocapture scenario=plain
"#;

const PROMPT: &str = "<config model=\"m\"/>\n<tool mcp_server=\"stdio:bash server.sh\"/>\n";

/// A prompt with such a server, and the port that it connects to.
struct Scene {
    folder: tempfile::TempDir,
    home: tempfile::TempDir,
    listener: TcpListener,
}

impl Scene {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let program = std::env::current_exe().unwrap();
        let script = SERVER
            .replace("PORT", &listener.local_addr().unwrap().port().to_string())
            .replace("PEER", &program.display().to_string());
        let folder = crate::program::folder(&[("p.md", PROMPT), ("server.sh", &script)]);
        readable_peer(folder.path(), "");
        Self {
            folder,
            home: tempfile::tempdir().unwrap(),
            listener,
        }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = strict(self.folder.path());
        command.env("HOME", self.home.path()).args(words);
        command
    }

    fn run(&self, words: &[&str]) -> Ran {
        self.command(words).output().unwrap().into()
    }

    /// Returns whether the server connected, and what it found at home.
    fn effects(&self) -> (bool, String) {
        let before = self.folder.path().join("before");
        let found = fs::read_to_string(&before).unwrap_or_default();
        drop(fs::remove_file(before));
        (self.listener.accept().is_ok(), found)
    }
}

#[test]
fn trust_gives_a_server_the_network_and_a_home_if_the_user_says_so() {
    let scene = Scene::new();
    let list = || {
        let ran = scene.run(&["mcp", "list", "p.md"]);
        assert!(ran.stdout.contains("echo(text)"), "{}", ran.stderr);
        scene.effects()
    };
    assert_eq!(scene.run(&["trust", "add", "p.md"]).status, 0);
    assert_eq!(
        (list(), list()),
        ((false, String::new()), (false, String::new()))
    );
    let open = ["trust", "add", "--server-network", "--server-cache", "p.md"];
    let ran = scene.run(&open);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(
        ran.stdout.contains("the network, and a HOME"),
        "{}",
        ran.stdout
    );
    assert_eq!(list(), (true, String::new()));
    assert_eq!(list(), (true, "again\n".to_owned()));
    // The access belongs to the trusted content.
    let script = scene.folder.path().join("server.sh");
    let text = fs::read_to_string(&script).unwrap();
    fs::write(&script, format!("{text}\n")).unwrap();
    assert_eq!(scene.run(&["mcp", "list", "p.md"]).status, 3);
    assert_eq!(scene.effects(), (false, String::new()));
    // Trust without the flags takes it back.
    assert_eq!(scene.run(&["trust", "add", "p.md"]).status, 0);
    assert_eq!(list(), (false, String::new()));
}

#[test]
fn the_question_of_trust_offers_the_network_and_a_home() {
    let scene = Scene::new();
    let server = || {
        let call = Answer::text("").with_call("c1", "echo", "{\"text\":\"hi\"}");
        let replies = vec![Reply::Answer(call), Reply::Answer(Answer::text("done"))];
        ModelServer::start(replies, Delivery::Whole).unwrap()
    };
    let run = |model: &ModelServer| {
        let url = model.base_url();
        let mut command = scene.command(&["run", "--base-url", &url, "p.md", "go"]);
        Screen::start(&mut command)
    };
    let model = server();
    let mut screen = run(&model);
    screen.expect("Trust it? [y/o/N/?] ");
    screen.press("y\n");
    screen.expect("Give it more? [n/c/b/Enter/?] ");
    screen.press("b\n");
    let (status, text) = screen.end();
    assert_eq!(status, 0, "{text}");
    assert_eq!(scene.effects(), (true, String::new()));
    let model = server();
    let (status, text) = run(&model).end();
    assert_eq!(status, 0, "{text}");
    assert_eq!(scene.effects(), (true, "again\n".to_owned()));
}
