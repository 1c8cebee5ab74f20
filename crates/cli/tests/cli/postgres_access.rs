//! Access to a database: passwords and certificates.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use testkit::postgres::{Database, PostgresServer, PostgresSettings};

use crate::program::{Ran, folder, logue};

/// Lists the sessions of a store with variables.
fn list(folder: &Path, store: &str, variables: &[(&str, &str)]) -> Ran {
    let mut command = logue(folder);
    command.envs(variables.iter().copied());
    command.args(["sessions", "list", "--store", store]);
    command.output().unwrap().into()
}

fn database(settings: PostgresSettings) -> Option<(PostgresServer, Database)> {
    let server = PostgresServer::start_with(settings).unwrap()?;
    let database = server.database().unwrap();
    Some((server, database))
}

#[test]
fn the_password_may_be_in_the_environment_or_a_file() {
    let settings = PostgresSettings::default().with_password();
    let Some((_server, database)) = database(settings) else {
        return;
    };
    let whole = database.url();
    let (before, place) = whole.split_once('@').unwrap();
    let (_, credentials) = before.split_once("://").unwrap();
    let (user, password) = credentials.split_once(':').unwrap();
    let url = format!("postgresql://{user}@{place}");
    let folder = folder(&[]);
    let listed = |variables: &[(&str, &str)]| list(folder.path(), &url, variables);
    let refused = |variables: &[(&str, &str)], text: &str| {
        let ran = listed(variables);
        assert_eq!(ran.status, 3, "{}", ran.stderr);
        assert!(
            ran.stderr.contains("error[store_unavailable]"),
            "{}",
            ran.stderr
        );
        assert!(ran.stderr.contains(text), "{}", ran.stderr);
    };
    refused(&[], "PGPASSWORD");
    refused(
        &[("PGPASSWORD", "mistaken")],
        "password authentication failed",
    );
    let accepted = |variables: &[(&str, &str)]| {
        let ran = listed(variables);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
    };
    accepted(&[("PGPASSWORD", password)]);
    let write = |name: &str, mode: u32| {
        let file = folder.path().join(name);
        let text = format!("*:*:{}:{user}:{password}\n", database.name());
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        file
    };
    let other = write("passwords", 0o600);
    accepted(&[("PGPASSFILE", other.to_str().unwrap())]);
    write(".pgpass", 0o644);
    refused(&[], "PGPASSWORD");
    write(".pgpass", 0o600);
    accepted(&[]);
    // The password of the address takes precedence.
    let ran = list(folder.path(), &whole, &[("PGPASSWORD", "mistaken")]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
}

#[test]
fn a_certificate_that_another_authority_signed_is_refused() {
    let Some((_server, database)) = database(PostgresSettings::default().with_tls()) else {
        return;
    };
    let folder = folder(&[("other.pem", include_str!("tls_other.pem"))]);
    let url = database.tcp_url().unwrap();
    let (url, _) = url.split_once('?').unwrap();
    let own = testkit::certificate();
    let listed = |url: &str, mode: &str, roots: &str| {
        let url = format!("{url}?sslmode={mode}&sslrootcert={roots}");
        list(folder.path(), &url, &[])
    };
    for mode in ["require", "verify-ca", "verify-full"] {
        let ran = listed(url, mode, own.to_str().unwrap());
        assert_eq!(ran.status, 0, "{mode}: {}", ran.stderr);
        let ran = listed(url, mode, "other.pem");
        assert_eq!(ran.status, 3, "{mode}: {}", ran.stderr);
        assert!(ran.stderr.contains("sslrootcert"), "{}", ran.stderr);
    }
    let named = url.replace("127.0.0.1", "localhost");
    let ran = listed(&named, "verify-full", own.to_str().unwrap());
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("sslmode=verify-ca"), "{}", ran.stderr);
}

#[test]
fn a_certificate_of_an_authority_is_explained() {
    let settings = PostgresSettings::default().with_tls();
    let Some((server, database)) = database(settings) else {
        return;
    };
    let administration = server.maintenance();
    let lines = include_str!("tls_own_authority.pem")
        .trim()
        .replace('\n', "'), ('");
    administration.query("select 1").unwrap();
    let data = administration.query("show data_directory").unwrap();
    let data = data.trim();
    for statement in [
        &format!("copy (values ('{lines}')) to '{data}/own.pem'"),
        "alter system set ssl_cert_file = 'own.pem'",
        "select pg_reload_conf()",
    ] {
        administration.query(statement).unwrap();
    }
    let folder = folder(&[("ca.pem", include_str!("tls_own_authority.pem"))]);
    let url = database.tcp_url().unwrap();
    let url = url.split('?').next().unwrap();
    let url = format!("{url}?sslmode=verify-full&sslrootcert=ca.pem");
    let ran = list(folder.path(), &url, &[]);
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    for text in ["CA:TRUE", "basicConstraints=critical,CA:FALSE"] {
        assert!(ran.stderr.contains(text), "{}", ran.stderr);
    }
    // One of no known authority.
    let unknown = url.replace("&sslrootcert=ca.pem", "");
    let ran = list(folder.path(), &unknown, &[]);
    assert_eq!(ran.status, 3, "{}", ran.stderr);
}

#[test]
fn a_database_that_does_not_answer_is_not_called_a_file() {
    let folder = folder(&[]);
    let nowhere = "postgres://ana@127.0.0.1:1/app?connect_timeout=1";
    let ran = list(folder.path(), nowhere, &[]);
    assert_eq!(ran.status, 4, "{}", ran.stderr);
    assert!(ran.stderr.contains("server"), "{}", ran.stderr);
    for word in ["path", "permissions", "free space"] {
        assert!(!ran.stderr.contains(word), "{}", ran.stderr);
    }
}
