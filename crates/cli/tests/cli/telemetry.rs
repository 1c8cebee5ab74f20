//! Where spans go: nowhere, if nobody says; never where a project says; and a collector that takes
//! none changes nothing of how a command ends.

use std::process::Command;

use crate::program::{Ran, folder, logue, run};

const ECHO: &str = "<config model=\"echo:\"/>\n<user>Say XYZZY-PRIVATE.</user>\n";
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

fn ran(command: &mut Command) -> Ran {
    command.output().unwrap().into()
}

#[test]
fn a_project_may_not_say_where_spans_go() {
    let settings = "[telemetry]\nendpoint = \"http://localhost:4318\"\n";
    let folder = folder(&[("prompt.md", ECHO), ("logue.toml", settings)]);
    let outcome = run(folder.path(), ["run", "--no-save", "prompt.md"]);
    assert_eq!((outcome.status, outcome.stdout.as_str()), (3, ""));
    let says = "only OTEL_EXPORTER_OTLP_ENDPOINT and your own logue/config.toml";
    assert!(outcome.stderr.contains(says), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("logue.toml:2:"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn an_export_that_cannot_be_is_told_once_and_changes_nothing() {
    let folder = folder(&[("prompt.md", ECHO)]);
    let mut command = logue(folder.path());
    // Nothing listens there.
    command.env(ENDPOINT, "http://127.0.0.1:1");
    let outcome = ran(command.args(["run", "--no-save", "prompt.md"]));
    assert_eq!(
        (outcome.status, outcome.stdout.as_str()),
        (0, "Say XYZZY-PRIVATE.\n")
    );
    let warnings = outcome
        .stderr
        .matches("warning: spans are not exported")
        .count();
    assert_eq!(warnings, 1, "{}", outcome.stderr);

    let mut command = logue(folder.path());
    command.env(ENDPOINT, "http://127.0.0.1:1");
    command.env("OTEL_SDK_DISABLED", "true");
    let outcome = ran(command.args(["run", "--no-save", "prompt.md"]));
    assert_eq!((outcome.status, outcome.stderr.as_str()), (0, ""));
}

#[cfg(not(feature = "otlp"))]
#[test]
fn a_build_without_export_says_so() {
    let folder = folder(&[("prompt.md", ECHO)]);
    let mut command = logue(folder.path());
    command.env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://h/traces");
    let outcome = ran(command.args(["run", "--no-save", "prompt.md"]));
    insta::assert_snapshot!(
        outcome.stderr,
        @"warning: spans are not exported: this build has no export; one with the feature `otlp` has"
    );
}

#[cfg(feature = "otlp")]
mod export {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::thread::JoinHandle;

    use super::{ECHO, ENDPOINT, folder, logue, ran};

    /// A request line with its body.
    type Post = (String, Vec<u8>);

    fn read(stream: &mut TcpStream) -> Post {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let mut length = 0;
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).unwrap();
            let header = header.trim_end().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        stream.write_all(answer.as_bytes()).unwrap();
        (line.trim_end().to_owned(), body)
    }

    /// A collector that takes one request.
    fn collector() -> (String, JoinHandle<Post>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let taken = std::thread::spawn(move || read(&mut listener.accept().unwrap().0));
        (address, taken)
    }

    fn holds(body: &[u8], text: &str) -> bool {
        body.windows(text.len()).any(|at| at == text.as_bytes())
    }

    #[test]
    fn the_spans_of_a_turn_reach_a_collector_without_what_was_said() {
        let folder = folder(&[("echo.md", ECHO)]);
        let (address, taken) = collector();
        let mut command = logue(folder.path());
        command.env(ENDPOINT, address);
        let outcome = ran(command.args(["send", "--agent", "echo.md", "s-17", "Hello XYZZY"]));
        assert_eq!(
            (
                outcome.status,
                outcome.stdout.as_str(),
                outcome.stderr.as_str()
            ),
            (0, "Hello XYZZY\n", "")
        );
        let (line, body) = taken.join().unwrap();
        assert_eq!(line, "POST /v1/traces HTTP/1.1");
        for text in [
            "openarmature.turn",
            "openarmature.invocation",
            "openarmature.session_id",
            "s-17",
            "model",
            "gen_ai.operation.name",
            "gen_ai.provider.name",
            "echo",
            "service.name",
            "logue",
        ] {
            assert!(holds(&body, text), "{text}");
        }
        // As the wire has them: a number, and a list of one text.
        for text in [
            "openarmature.node.step\x12\x02\x18\x00",
            "gen_ai.response.finish_reasons\x12\x0a\x2a\x08\x0a\x06\x0a\x04stop",
        ] {
            assert!(holds(&body, text), "{text:?}");
        }
        for text in ["XYZZY", "otel.name", "code.file", "thread.name"] {
            assert!(!holds(&body, text), "{text}");
        }
    }
}
