//! `PgBouncer` in front of a server.

use testkit::postgres::{PgBouncer, PostgresServer, PostgresSettings};

#[test]
fn transactions_share_a_connection() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let parameters = [("default_pool_size", "1")];
    let Some(mut bouncer) = PgBouncer::start(&server, &parameters).unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let url = database.url_on(bouncer.socket());
    let backend = || {
        let mut psql = database.psql(&url);
        let output = psql
            .args(["-c", "select pg_backend_pid()"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let first = backend();
    assert_eq!(backend(), first);
    bouncer.restart().unwrap();
    assert_ne!(backend(), first);
}

/// Version 1.18 does not track named statements: a name belongs to the connection of the server.
#[test]
fn a_named_prepared_statement_meets_that_of_another_client() {
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let parameters = [("default_pool_size", "1")];
    let Some(bouncer) = PgBouncer::start(&server, &parameters).unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let script = server.socket().join("script");
    std::fs::write(&script, "select 1;\n").unwrap();
    let run = |url: &str, protocol: &str| {
        let mut pgbench = database.pgbench();
        pgbench
            .args(["-n", "-t", "1", "-M", protocol, "-f"])
            .arg(&script);
        let output = pgbench.arg(url).output().unwrap();
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let pooled = database.url_on(bouncer.socket());
    assert_eq!(run(&pooled, "prepared"), "");
    let errors = run(&pooled, "prepared");
    assert!(errors.contains("already exists"), "{errors}");
    // Unnamed statements of the extended protocol work, and so do named ones without `PgBouncer`.
    assert_eq!(run(&pooled, "extended"), "");
    assert_eq!(run(&database.url(), "prepared"), "");
    assert_eq!(run(&database.url(), "prepared"), "");
}

#[test]
fn clients_need_the_password_of_the_server() {
    let settings = PostgresSettings::default().with_password();
    let Some(server) = PostgresServer::start_with(settings).unwrap() else {
        return;
    };
    let Some(bouncer) = PgBouncer::start(&server, &[]).unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let url = database.url_on(bouncer.socket());
    let user = |url: &str| {
        let mut psql = database.psql(url);
        psql.args(["-c", "select current_user"]).output().unwrap()
    };
    assert_eq!(user(&url).stdout, b"client\n");
    let (_, host) = url.split_once('@').unwrap();
    let output = user(&format!("postgresql://client:wrong@{host}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("authentication failed"), "{errors}");
}
