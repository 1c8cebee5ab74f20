//! A server below a prefix of paths.

use serde_json::json;

use crate::client::Served;
use crate::program::{folder, logue, run};

const ECHO: &str = "<config model=\"echo:\"/>\n";

#[test]
fn all_paths_are_below_the_prefix() {
    let folder = folder(&[("agent.md", ECHO)]);
    let create = ["serve", "token", "create", "page", "--scope", "read,send"];
    let token = run(folder.path(), create).stdout.trim().to_owned();
    let served = Served::start(folder.path(), &["agent.md", "--path-prefix", "/logue/"]);
    for path in ["/", "/v1/agents", "/docs", "/loguex/docs", "/logue%2fdocs"] {
        let outside = served.get(path);
        assert_eq!(outside.status, 404, "{outside:?}");
        assert_eq!(outside.json()["code"], "path_not_found");
    }
    for path in [
        "/healthz",
        "/readyz",
        "/logue/healthz",
        "/logue/readyz",
        "/logue/",
    ] {
        assert_eq!(served.get(path).status, 200, "{path}");
    }
    let edge = served.get("/logue?a=b");
    assert_eq!(edge.status, 308, "{edge:?}");
    assert!(edge.head.contains("location: /logue/?a=b\r\n"), "{edge:?}");

    // The page and the description name no address from the root.
    let page = served.get("/logue/").text;
    let script = served.get("/logue/page/app.js");
    assert_eq!(script.status, 200);
    for text in [&page, &script.text, &served.get("/logue/docs").text] {
        for absolute in ["href=\"/", "src=\"/", "\"/v1/", "from \"/"] {
            assert!(!text.contains(absolute), "{absolute}");
        }
    }
    let document = served.get("/logue/openapi.json").json();
    assert_eq!(document["servers"][0]["url"], ".");

    let bearer = format!("Bearer {token}");
    let bearer = ("authorization", &*bearer);
    assert_eq!(served.get("/logue/v1/agents").status, 401);
    let login = served.request("POST", "/logue/v1/login", &[bearer], "{}");
    assert_eq!(login.status, 200, "{login:?}");
    let head = login.head.to_ascii_lowercase();
    let cookie = head
        .lines()
        .find_map(|line| line.strip_prefix("set-cookie: "))
        .unwrap();
    // A browser binds it to `/logue/v1`.
    assert!(!cookie.contains("path="), "{cookie}");
    let cookie = cookie.split(';').next().unwrap();
    let headers = [("cookie", cookie), ("sec-fetch-site", "same-origin")];
    let me = served.request("GET", "/logue/v1/me", &headers, "");
    assert_eq!(me.json()["token"], "page", "{me:?}");
    let body = json!({"message": "go"}).to_string();
    let path = "/logue/v1/sessions/s1/send";
    let mut stream = served.try_events("POST", path, &[bearer], &body).unwrap();
    stream.until("turn.completed");
    let path = "/logue/v1/sessions/s1/messages?limit=1";
    let shown = served.request("GET", path, &[bearer], "").json();
    assert_eq!(shown["from"], 1, "{shown}");
}

#[test]
fn an_invalid_prefix_is_refused() {
    let folder = folder(&[("agent.md", ECHO)]);
    for prefix in ["logue", "/", "//x", "/a b", "/a/../b", "/a?b", "http://x/a"] {
        let arguments = ["serve", "agent.md", "--path-prefix", prefix];
        let ran = logue(folder.path()).args(arguments).output().unwrap();
        let stderr = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(2), "{prefix}: {stderr}");
        assert!(stderr.contains("write a path like /logue"), "{stderr}");
    }
}
