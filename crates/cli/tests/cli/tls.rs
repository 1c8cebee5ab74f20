//! Certificates of model servers: loaded for TLS only, and verified.

use std::path::Path;

use testkit::{Delivery, ModelServer};

use crate::program::{Ran, folder, logue};
use crate::screen::text_reply;

const PROMPT: &str = "<config model=\"m\"/>\n<user>Hi</user>\n";

/// Runs a question whose certificates are those of a file and no other.
fn asked(server: &ModelServer, certificates: &Path) -> Ran {
    let folder = folder(&[("p.md", PROMPT), ("none/.keep", "")]);
    let mut command = logue(folder.path());
    command
        .args(["run", "--no-save", "--retries", "0", "p.md"])
        .env("OPENAI_BASE_URL", server.base_url())
        .env("SSL_CERT_FILE", certificates)
        .env("SSL_CERT_DIR", folder.path().join("none"));
    command.output().unwrap().into()
}

#[test]
fn a_server_without_tls_needs_no_certificates() {
    let server = ModelServer::start(vec![text_reply("yes")], Delivery::Whole).unwrap();
    let ran = asked(&server, Path::new("/dev/null"));
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "yes\n"),
        "{}",
        ran.stderr
    );
}

#[test]
fn only_a_known_certificate_is_accepted() {
    let server = ModelServer::start_tls(vec![text_reply("yes")], Delivery::Whole).unwrap();
    let folder = folder(&[("other.pem", include_str!("tls_other.pem"))]);
    for (certificates, reason) in [
        ("other.pem", "UnknownIssuer"),
        ("/dev/null", "No CA certificates were loaded"),
    ] {
        let ran = asked(&server, &folder.path().join(certificates));
        assert_eq!((ran.status, ran.stdout.as_str()), (4, ""), "{}", ran.stderr);
        assert!(ran.stderr.contains(reason), "{}", ran.stderr);
        let help = "check this machine's CA certificates";
        assert!(ran.stderr.contains(help), "{}", ran.stderr);
        assert!(server.received().is_empty());
    }
    let ran = asked(&server, &testkit::certificate());
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "yes\n"),
        "{}",
        ran.stderr
    );
    assert_eq!(server.received().len(), 1);
}
