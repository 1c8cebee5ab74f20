//! Access tokens under attack: guesses, revocation, the file of tokens and concurrent commands.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::json;

use crate::client::{Answered, Served};
use crate::program::{folder, logue, run};
use crate::waiting::wait_until;

const AGENT: &str = "<config model=\"echo:\"/>\n";
const LIST: &str = "/v1/sessions";
/// The wrong tokens that an address may send in a minute.
const FAILURES: usize = 30;

fn create(folder: &Path, name: &str) -> String {
    let create = ["serve", "token", "create", name, "--scope", "read,send"];
    let ran = run(folder, create);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    ran.stdout.trim().to_owned()
}

fn revoke(folder: &Path, name: &str) {
    let ran = run(folder, ["serve", "token", "revoke", name]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
}

fn with(served: &Served, method: &str, path: &str, header: (&str, &str)) -> Answered {
    let origin = format!("http://{}", served.address);
    served.request(method, path, &[header, ("origin", &origin)], "")
}

fn code(answer: &Answered) -> (u16, String) {
    let body = answer.json();
    let code = body.get("code").unwrap_or(&body["error"]["code"]);
    (answer.status, code.as_str().unwrap().to_owned())
}

fn file_of(folder: &Path) -> PathBuf {
    folder.join(".local/state/logue/serve-tokens.json")
}

#[test]
fn guesses_of_an_address_are_limited_and_a_right_token_works() {
    let folder = folder(&[("agent.md", AGENT)]);
    let secret = create(folder.path(), "phone");
    let served = Served::start(folder.path(), &["agent.md"]);
    let right = format!("Bearer {secret}");
    // Each way to present a token counts.
    let guess = |number: usize| match number % 3 {
        0 => with(
            &served,
            "POST",
            "/v1/login",
            ("authorization", "Bearer logue_a"),
        ),
        1 => with(&served, "GET", LIST, ("authorization", "Bearer logue_b")),
        _ => with(&served, "GET", LIST, ("cookie", "logue=0123456789")),
    };
    for number in 0..FAILURES {
        assert_eq!(code(&guess(number)), (401, "unauthorized".to_owned()));
        assert_eq!(
            with(&served, "GET", LIST, ("authorization", &right)).status,
            200
        );
    }
    // A guess is permitted again every two seconds.
    let limited = (0..3 * FAILURES)
        .map(guess)
        .find(|answer| answer.status != 401);
    let limited = limited.unwrap();
    assert_eq!(code(&limited), (429, "rate_limited".to_owned()));
    assert!(limited.head.contains("retry-after: "), "{limited:?}");
    let models = with(&served, "GET", "/v1/models", ("authorization", "Bearer x"));
    assert_eq!(code(&models), (429, "rate_limited".to_owned()));
    assert_eq!(
        with(&served, "GET", LIST, ("authorization", &right)).status,
        200
    );
    let login = with(&served, "POST", "/v1/login", ("authorization", &right));
    assert_eq!(login.status, 200);
    // A request without a token is not a guess.
    assert_eq!(served.get(LIST).status, 401);
}

#[test]
fn a_server_that_has_seen_a_token_is_never_open_again() {
    let folder = folder(&[("agent.md", AGENT)]);
    for is_first in [true, false] {
        let mut secret = None;
        if is_first {
            secret = Some(create(folder.path(), "phone"));
        }
        let served = Served::start(folder.path(), &["agent.md"]);
        if !is_first {
            assert_eq!(served.get(LIST).status, 200);
        }
        let secret = secret.unwrap_or_else(|| create(folder.path(), "phone"));
        let right = format!("Bearer {secret}");
        let status = || with(&served, "GET", LIST, ("authorization", &right)).status;
        wait_until(
            || "the server is open".to_owned(),
            || served.get(LIST).status == 401 && status() == 200,
        );
        revoke(folder.path(), "phone");
        wait_until(|| "the token works".to_owned(), || status() == 401);
        assert_eq!(served.get(LIST).status, 401);
        assert_eq!(
            served
                .post("/v1/sessions/s1/send", &json!({"message": "go"}))
                .status,
            401
        );
        // The file is removed, too.
        fs::remove_file(file_of(folder.path())).unwrap();
        let other = create(folder.path(), "other");
        let right = format!("Bearer {other}");
        wait_until(
            || "a new token does not work".to_owned(),
            || with(&served, "GET", LIST, ("authorization", &right)).status == 200,
        );
        fs::remove_file(file_of(folder.path())).unwrap();
        wait_until(
            || "the token works".to_owned(),
            || with(&served, "GET", LIST, ("authorization", &right)).status == 401,
        );
        assert_eq!(served.get(LIST).status, 401);
        drop(served);
    }
    let served = Served::start(folder.path(), &["agent.md"]);
    assert_eq!(served.get(LIST).status, 200);
}

#[test]
fn a_token_that_came_and_went_between_two_looks_closes_the_server() {
    for is_restarted in [false, true] {
        let folder = folder(&[("agent.md", AGENT)]);
        let mut served = Served::start(folder.path(), &["agent.md"]);
        assert_eq!(served.get(LIST).status, 200);
        // As a token that is created and revoked at once leaves the file.
        fs::create_dir_all(file_of(folder.path()).parent().unwrap()).unwrap();
        let file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(file_of(folder.path()));
        file.unwrap().write_all(b"[]").unwrap();
        if is_restarted {
            served.kill();
            served = Served::start(folder.path(), &["agent.md"]);
        }
        wait_until(
            || "the server is open".to_owned(),
            || served.get(LIST).status == 401,
        );
    }
    // By the commands; the last revocation names the file.
    let folder = folder(&[("agent.md", AGENT)]);
    create(folder.path(), "phone");
    let ran = run(folder.path(), ["serve", "token", "revoke", "phone"]);
    assert!(ran.stderr.contains("serve-tokens.json"), "{}", ran.stderr);
    let served = Served::start(folder.path(), &["agent.md"]);
    assert_eq!(served.get(LIST).status, 401);
}

#[test]
fn a_file_of_tokens_that_others_could_have_written_is_refused() {
    let folder = folder(&[("agent.md", AGENT)]);
    let secret = create(folder.path(), "phone");
    let right = format!("Bearer {secret}");
    let file = file_of(folder.path());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&file), 0o600);
    assert_eq!(mode(file.parent().unwrap()), 0o700);
    let refused = |arguments: &[&str]| {
        let ran = run(folder.path(), arguments);
        assert_eq!(ran.status, 3, "{arguments:?} {}", ran.stderr);
        assert!(ran.stderr.contains("serve-tokens.json"), "{}", ran.stderr);
    };
    let served = Served::start(folder.path(), &["agent.md"]);
    assert_eq!(
        with(&served, "GET", LIST, ("authorization", &right)).status,
        200
    );
    fs::set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
    refused(&["serve", "agent.md", "--listen", "127.0.0.1:0"]);
    refused(&["serve", "token", "list"]);
    refused(&["serve", "token", "create", "other", "--scope", "read"]);
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();

    // A server without tokens is closed by a file that it cannot read.
    let content = fs::read(&file).unwrap();
    drop(served);
    fs::remove_file(&file).unwrap();
    let served = Served::start(folder.path(), &["agent.md"]);
    assert_eq!(served.get(LIST).status, 200);
    fs::write(&file, "[{").unwrap();
    wait_until(
        || "the server is open".to_owned(),
        || served.get(LIST).status == 401,
    );
    fs::write(&file, &content).unwrap();
    wait_until(
        || "the token does not work".to_owned(),
        || with(&served, "GET", LIST, ("authorization", &right)).status == 200,
    );

    // A pipe does not stop the commands, and a link out of the directory is not overwritten.
    let own = folder.path().join("own.json");
    fs::rename(&file, &own).unwrap();
    symlink(&own, &file).unwrap();
    create(folder.path(), "other");
    let kept = fs::read(&own).unwrap();
    assert_eq!(kept, content);
}

#[test]
fn concurrent_commands_lose_no_token_and_repeat_no_name() {
    let folder = folder(&[("agent.md", AGENT)]);
    let start = |name: &str| {
        logue(folder.path())
            .args(["serve", "token", "create", name, "--scope", "read"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let names: Vec<String> = (0..8).map(|number| format!("t{number}")).collect();
    let own: Vec<_> = names.iter().map(|name| start(name)).collect();
    let same: Vec<_> = (0..4).map(|_| start("same")).collect();
    for child in own {
        let ran = child.wait_with_output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
    }
    let same = same
        .into_iter()
        .map(|child| child.wait_with_output().unwrap());
    let (created, refused): (Vec<_>, Vec<_>) = same.partition(|ran| ran.status.success());
    assert_eq!(created.len(), 1);
    for ran in refused {
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(said.contains("token_exists"), "{said}");
        assert!(ran.stdout.is_empty(), "{ran:?}");
    }
    let listed = run(folder.path(), ["serve", "token", "list"]).stdout;
    let mut found: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    found.sort_unstable();
    let mut expected: Vec<&str> = names.iter().map(String::as_str).collect();
    expected.insert(0, "same");
    assert_eq!(found, expected);
}
