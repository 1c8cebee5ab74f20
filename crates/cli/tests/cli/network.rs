//! Prompts that name pages and agents at addresses, which nobody may reach by default.

use insta::assert_snapshot;
use testkit::{Delivery, ModelServer, Reply};

use crate::program::{Ran, folder, logue, run};

const PAGE: &str = "<html><head><title>T</title><style>p{}</style></head>\
                    <body><h1>News</h1><p>One <b>big</b> thing.</p></body></html>";

/// A server that answers each request with the next of these bodies.
fn pages(bodies: &[(&str, &str)]) -> (ModelServer, String) {
    let replies = bodies.iter().map(|(kind, body)| {
        let headers = vec![("content-type".to_owned(), (*kind).to_owned())];
        Reply::Status(200, headers, (*body).to_owned())
    });
    let server = ModelServer::start(replies.collect(), Delivery::Whole).unwrap();
    let base = server.base_url();
    let host = base.trim_start_matches("http://");
    let host = host.split('/').next().unwrap().to_owned();
    (server, host)
}

#[test]
fn a_page_of_an_allowed_host_is_part_of_the_prompt() {
    for (attribute, expected) in [
        ("", PAGE),
        (" strip", "News\n\nOne big thing."),
        (" markdown", "# News\n\nOne **big** thing."),
    ] {
        let (server, host) = pages(&[("text/html", PAGE)]);
        let prompt = format!(
            "<config model=\"echo:\"/>\n<user>RAW|[|RAW<doc src=\"http://{host}/a?b=1\"{attribute}/>RAW|]|RAW</user>\n"
        );
        let folder = folder(&[("prompt.md", &prompt)]);
        let arguments = ["run", "--no-save", "--allow-host", &host, "prompt.md"];
        let ran = run(folder.path(), arguments);
        assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{attribute}");
        assert_eq!(ran.stdout, format!("[{expected}]\n"), "{attribute}");
        let lines: Vec<String> = server.received().into_iter().map(|r| r.line).collect();
        assert_eq!(lines, ["GET /a?b=1 HTTP/1.1"]);
    }
}

#[test]
fn hosts_of_the_users_own_settings_are_allowed_and_private_ones_of_a_project_refused() {
    let (server, host) = pages(&[("text/plain", "from afar")]);
    let prompt = format!("<config model=\"echo:\"/>\n<user><doc src=\"http://{host}/\"/></user>\n");
    let settings = format!("[network]\nallowed_hosts = [\"{host}\"]\n");
    let folder = folder(&[
        ("prompt.md", prompt.as_str()),
        ("own/logue/config.toml", &settings),
    ]);
    let command = logue(folder.path())
        .args(["run", "--no-save", "prompt.md"])
        .env("XDG_CONFIG_HOME", folder.path().join("own"))
        .output();
    let ran = Ran::from(command.unwrap());
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "from afar\n"),
        "{}",
        ran.stderr
    );

    std::fs::write(folder.path().join("logue.toml"), settings).unwrap();
    let ran = run(folder.path(), ["run", "--no-save", "prompt.md"]);
    assert_eq!(ran.status, 3);
    let path = folder.path().canonicalize().unwrap().join("logue.toml");
    let path = path.display().to_string();
    assert_snapshot!(ran.stderr.replace(&host, "HOST").replace(&path, "logue.toml"), @r#"
    error[E-CONFIG-INVALID]: only --allow-host and your own logue/config.toml may open the private host `HOST`
     --> logue.toml:2:18
      |
    2 | allowed_hosts = ["HOST"]
      |                  ^^^^^^^^^^^^^^^^^
      |
      = help: correct the key or its value in this file
    "#);
    assert_eq!(server.received().len(), 1);
}

#[test]
fn what_is_not_allowed_is_never_asked_for() {
    let (server, host) = pages(&[]);
    let folder = folder(&[(
        "prompt.md",
        &format!("<config model=\"echo:\"/>\n<user><doc src=\"http://{host}/\"/></user>\n"),
    )]);
    let mut reports = String::new();
    for arguments in [
        &["run", "prompt.md"][..],
        &["run", "--allow-host", "example.com", "prompt.md"],
        &["run", "--allow-host", "exa mple", "prompt.md"],
    ] {
        let ran = run(folder.path(), arguments);
        let status = if arguments.contains(&"exa mple") {
            2
        } else {
            3
        };
        assert_eq!((ran.status, ran.stdout.as_str()), (status, ""));
        reports.push_str(&ran.stderr.replace(&host, "HOST"));
    }
    assert_snapshot!(reports, @r#"
    error[E-NETWORK-DENIED]: cannot read the document "http://HOST/": http://HOST/: the network is off for prompts
     --> prompt.md:2:7
      |
    2 | <user><doc src="http://HOST/"/></user>
      |       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |
      = help: --allow-host HOST and `[network] allowed_hosts` in logue.toml allow a host; for a file add `local`
    error[E-NETWORK-DENIED]: cannot read the document "http://HOST/": http://HOST/ was not fetched: the network is off for `HOST`
     --> prompt.md:2:7
      |
    2 | <user><doc src="http://HOST/"/></user>
      |       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |
      = help: if it may be fetched, give `--allow-host HOST`, or add "HOST" to `allowed_hosts` under [network] in logue.toml
    error: invalid value 'exa mple' for '--allow-host <HOST>': `exa mple` is not a host: expected a host name and, optionally, a port; write `example.com`, `*.example.com`, `example.com:8080` or `private:wiki.local`

    For more information, try '--help'.
    "#);
    assert_eq!(server.received().len(), 0);
}

#[test]
fn a_page_may_fail_redirect_elsewhere_or_be_no_text() {
    let found = |to: &str| {
        let headers = vec![("location".to_owned(), to.to_owned())];
        Reply::Status(302, headers, String::new())
    };
    let replies = vec![
        Reply::Status(404, vec![], "gone".to_owned()),
        found("http://169.254.169.254/latest/meta-data"),
        Reply::Status(
            200,
            vec![("content-type".to_owned(), "image/png".to_owned())],
            "\u{1}".to_owned(),
        ),
    ];
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    let base = server.base_url();
    let host = base.trim_start_matches("http://");
    let host = host.split('/').next().unwrap();
    let folder = folder(&[(
        "prompt.md",
        &format!("<config model=\"echo:\"/>\n<user><doc src=\"http://{host}/\"/></user>\n"),
    )]);
    let mut reports = String::new();
    for _ in 0..3 {
        let ran = run(folder.path(), ["run", "--allow-host", host, "prompt.md"]);
        assert_eq!((ran.status, ran.stdout.as_str()), (3, ""));
        reports.push_str(&ran.stderr.replace(host, "HOST"));
    }
    assert_snapshot!(reports, @r#"
    error[E-MD-DOCUMENT-UNREADABLE]: cannot read the document "http://HOST/": http://HOST/ answered 404 Not Found
     --> prompt.md:2:7
      |
    2 | <user><doc src="http://HOST/"/></user>
      |       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |
      = help: check the address
    error[E-NETWORK-DENIED]: cannot read the document "http://HOST/": http://HOST/ redirects: http://169.254.169.254/latest/meta-data was not fetched: the network is off for `169.254.169.254`
     --> prompt.md:2:7
      |
    2 | <user><doc src="http://HOST/"/></user>
      |       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |
      = help: if it may be fetched, give `--allow-host 169.254.169.254`, or add "169.254.169.254" to `allowed_hosts` under [network] in logue.toml
    error[E-SOURCE-NOT-UTF8]: cannot read the document "http://HOST/": http://HOST/: is not text, but of the type image/png
     --> prompt.md:2:7
      |
    2 | <user><doc src="http://HOST/"/></user>
      |       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    "#);
}

#[test]
fn an_agent_from_afar_has_nothing_of_this_machine() {
    let (_server, host) = pages(&[
        (
            "text/plain",
            "<config model=\"echo:\"/>\n<system>Help.</system>",
        ),
        (
            "text/plain",
            "<config model=\"echo:\"/>\n<user><doc src=\"secret.txt\" local/></user>",
        ),
        (
            "text/plain",
            "<config model=\"echo:\"/>\n<tool name=\"work\" command=\"cat\"/>",
        ),
    ]);
    let prompt = format!(
        "<config model=\"echo:\"/>\n<user><agent src=\"http://{host}/a.chatmd\">hi</agent></user>\n"
    );
    let folder = folder(&[("prompt.md", prompt.as_str()), ("secret.txt", "secret")]);
    let ask = || {
        let arguments = [
            "run",
            "--no-save",
            "--no-cache",
            "--allow-host",
            &host,
            "prompt.md",
        ];
        run(folder.path(), arguments)
    };
    let ran = ask();
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "hi\n"),
        "{}",
        ran.stderr
    );
    let mut reports = String::new();
    for _ in 0..2 {
        let ran = ask();
        assert_eq!((ran.status, ran.stdout.as_str()), (3, ""));
        reports.push_str(&ran.stderr.replace(&host, "HOST"));
    }
    assert_snapshot!(reports, @r#"
    error[E-MD-AGENT-FAILED]: no answer of the agent "http://HOST/a.chatmd": http://HOST/a.chatmd:2:7: cannot read the document "secret.txt": secret.txt: is outside the directories that may be read (E-OUTSIDE-ROOTS)
     --> prompt.md:2:7
      |
    2 | <user><agent src="http://HOST/a.chatmd">hi</agent></user>
      |       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |
      = help: save it to a file; `logue check` shows what is wrong with it
    error[E-MD-AGENT-FAILED]: no answer of the agent "http://HOST/a.chatmd": a prompt from the network may declare no tools
     --> prompt.md:2:7
      |
    2 | <user><agent src="http://HOST/a.chatmd">hi</agent></user>
      |       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |
      = help: save it to a file, read it, and use that
    "#);
}
