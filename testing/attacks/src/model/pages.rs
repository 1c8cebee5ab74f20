//! Pages and redirects that lead where no rule allows.

use std::io::Write as _;
use std::net::TcpListener;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use testkit::{Delivery, ModelServer, Reply};

use crate::attack::{Arena, Attack, Failure, Outcome, control, promise, skip};
use crate::scene::{INSIDE, Ran, SECRET, Scene, answers, model, traffic};

const HOSTS: &str = "only allowed hosts are asked";
const SIZES: &str = "a page has a limit";

pub(crate) const ATTACKS: &[Attack] = &[
    Attack::author("page-not-allowed", HOSTS, not_allowed),
    Attack::model("page-not-allowed-tool", HOSTS, not_allowed_to_tools),
    Attack::model("page-redirect", HOSTS, redirect),
    Attack::model(
        "page-redirect-key",
        "a key goes to its own host only",
        redirect_with_key,
    ),
    Attack::author(
        "page-private-name",
        "a name that leads to a private address is not asked",
        private_name,
    ),
    Attack::model("page-packed", SIZES, packed),
    Attack::model("page-endless", SIZES, endless),
];

fn page(reply: Reply) -> Result<ModelServer, Failure> {
    Ok(ModelServer::start(vec![reply], Delivery::Whole)?)
}

fn text_page(text: &str) -> Result<ModelServer, Failure> {
    let kind = ("content-type".to_owned(), "text/plain".to_owned());
    page(Reply::Status(200, vec![kind], text.to_owned()))
}

fn host_of(server: &ModelServer) -> String {
    let url = server.base_url();
    url.trim_start_matches("http://").replace("/v1", "")
}

/// Runs a prompt with a page as its document; returns what reached the model.
fn read(scene: &Scene, host: &str, allowed: &[&str]) -> Result<(Ran, String), Failure> {
    let prompt = format!("<config model=\"m\"/>\n<user><doc src=\"http://{host}/page\"/></user>\n");
    scene.file("p.md", prompt)?;
    let server = answers(Vec::new())?;
    let mut run = scene.logue(["run", "--no-save"]);
    for host in allowed {
        run = run.with_arg("--allow-host").with_arg(host);
    }
    let run = run.with_arg("p.md").with_server(&server);
    let ran = run.run_within(Duration::from_secs(25))?;
    Ok((ran, traffic(&server)))
}

fn not_allowed(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    for is_allowed in [true, false] {
        let target = text_page(INSIDE)?;
        let host = host_of(&target);
        let other = "127.0.0.1:9".to_owned();
        let (ran, sent) = read(&scene, &host, &[if is_allowed { &host } else { &other }])?;
        let is_read = sent.contains(INSIDE);
        control(!is_allowed || is_read, format!("not read: {}", ran.text()))?;
        let was_asked = !target.received().is_empty();
        promise(is_allowed || !was_asked, "the page was asked for")?;
    }
    Ok(())
}

fn not_allowed_to_tools(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    scene.file(
        "p.md",
        "<config model=\"m\"/>\n<tool name=\"webpage_to_markdown\"/>\n",
    )?;
    for is_allowed in [true, false] {
        let target = text_page(INSIDE)?;
        let host = host_of(&target);
        let url = format!("http://{host}/page");
        let server = model(&[("webpage_to_markdown", json!({"url": url}))])?;
        let run = scene.logue(["run", "--no-save"]);
        let run = if is_allowed {
            run.with_arg("--allow-host").with_arg(&host)
        } else {
            run
        };
        let run = run.with_arg("p.md").with_arg("go");
        run.with_server(&server).with_trust().run()?;
        let was_asked = !target.received().is_empty();
        control(!is_allowed || was_asked, traffic(&server))?;
        promise(is_allowed || !was_asked, "the page was asked for")?;
    }
    Ok(())
}

fn redirect(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    for is_allowed in [true, false] {
        let target = text_page(INSIDE)?;
        let location = (
            "location".to_owned(),
            format!("http://{}/", host_of(&target)),
        );
        let first = page(Reply::Status(302, vec![location], String::new()))?;
        let hosts = [host_of(&first), host_of(&target)];
        let allowed = if is_allowed { &hosts[..] } else { &hosts[..1] };
        let allowed: Vec<&str> = allowed.iter().map(String::as_str).collect();
        let (ran, sent) = read(&scene, &hosts[0], &allowed)?;
        control(!first.received().is_empty(), "the page was not asked for")?;
        let is_read = sent.contains(INSIDE);
        control(!is_allowed || is_read, format!("not read: {}", ran.text()))?;
        let was_asked = !target.received().is_empty();
        promise(is_allowed || !was_asked, "the redirect was followed")?;
    }
    Ok(())
}

fn redirect_with_key(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    scene.file(
        "p.md",
        "<config model=\"m\"/>\n<tool name=\"browser.search\"/>\n",
    )?;
    let target = text_page("[]")?;
    let location = (
        "location".to_owned(),
        format!("http://{}/", host_of(&target)),
    );
    let engine = page(Reply::Status(302, vec![location], String::new()))?;
    let hosts = [host_of(&engine), host_of(&target)];
    let table = format!(
        "[browser]\nsearch = \"http://{}/?q={{query}}\"\nkey_env = \"CLOUD_KEY\"\n",
        hosts[0]
    );
    scene.configure("", &table)?;
    let server = model(&[("browser_search", json!({"query": "x"}))])?;
    let mut run = scene.logue(["run", "--no-save"]);
    for host in &hosts {
        run = run.with_arg("--allow-host").with_arg(host);
    }
    let run = run.with_arg("p.md").with_arg("go").with_server(&server);
    run.with_trust().with_env("CLOUD_KEY", SECRET).run()?;
    control(traffic(&engine).contains(SECRET), "the key is not sent")?;
    control(!target.received().is_empty(), "no redirect was followed")?;
    promise(!traffic(&target).contains(SECRET), "the key was sent on")
}

fn private_name(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    scene.configure("", "[network]\ntimeout_seconds = 2\n")?;
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname")?;
    let listener = TcpListener::bind("0.0.0.0:0")?;
    listener.set_nonblocking(true)?;
    let host = format!("{}:{}", name.trim(), listener.local_addr()?.port());
    read(&scene, &host, &[&format!("private:{host}")])?;
    if listener.accept().is_err() {
        return skip("the name of this machine leads to no address of it");
    }
    read(&scene, &host, &[&host])?;
    promise(listener.accept().is_err(), "the private address was asked")
}

/// Returns a page of some mebibytes, packed to a few kilobytes.
fn packed_page(mebibytes: usize) -> Result<ModelServer, Failure> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    for _ in 0..mebibytes {
        packer.write_all(&vec![b'a'; 1024 * 1024])?;
    }
    // The name of the type is written as it is, so another header can follow it.
    let kind = "text/plain\r\ncontent-encoding: gzip";
    page(Reply::Body(kind, packer.finish()?))
}

fn packed(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    for (mebibytes, fits) in [(1, true), (9, false)] {
        let target = packed_page(mebibytes)?;
        let host = host_of(&target);
        let (ran, sent) = read(&scene, &host, &[&host])?;
        control(!target.received().is_empty(), "the page was not asked for")?;
        let is_read = sent.len() >= mebibytes << 20;
        control(!fits || is_read, format!("not read: {}", ran.text()))?;
        promise(fits || !is_read, format!("{} bytes were read", sent.len()))?;
    }
    Ok(())
}

fn endless(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    scene.configure("", "[network]\ntimeout_seconds = 600\n")?;
    let block = vec![b'a'; 1024 * 1024];
    let target = page(Reply::Endless(b"begin".to_vec(), block))?;
    let host = host_of(&target);
    let (ran, _) = read(&scene, &host, &[&host])?;
    control(!target.received().is_empty(), "the page was not asked for")?;
    promise(ran.has_ended, "it reads on")
}
