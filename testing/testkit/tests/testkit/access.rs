//! Passwords, ports and TLS.

use testkit::postgres::{Database, PostgresServer, PostgresSettings};

fn query(database: &Database, url: &str, sql: &str) -> Result<String, String> {
    let output = database.psql(url).args(["-c", sql]).output().unwrap();
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn clients_need_the_password_on_the_socket() {
    let settings = PostgresSettings::default().with_password();
    let Some(server) = PostgresServer::start_with(settings).unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    database.query("create table t (n int)").unwrap();
    let (user, host) = database
        .url()
        .split_once('@')
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    assert!(user.starts_with("postgresql://client:"), "{user}");
    let wrong = format!("postgresql://client:wrong@{host}");
    let error = query(&database, &wrong, "select 1").unwrap_err();
    assert!(error.contains("password authentication failed"), "{error}");
    assert_eq!(database.tcp_url(), None);
}

#[test]
fn a_port_accepts_the_password() {
    let settings = PostgresSettings::default().with_tcp();
    let Some(server) = PostgresServer::start_with(settings).unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let url = database.tcp_url().unwrap();
    let sql = "select current_user, inet_server_addr()";
    assert_eq!(query(&database, &url, sql).unwrap(), "client|127.0.0.1");
    let wrong = format!("{url}&password=wrong");
    let error = query(&database, &wrong, sql).unwrap_err();
    assert!(error.contains("password authentication failed"), "{error}");
    // The socket of such a server has another name.
    assert_eq!(database.query("select current_user").unwrap(), "client");
}

#[test]
fn a_port_with_tls_refuses_plain_connections() {
    let settings = PostgresSettings::default().with_tls();
    let Some(server) = PostgresServer::start_with(settings).unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let url = database.tcp_url().unwrap();
    let sql = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
    assert_eq!(query(&database, &url, sql).unwrap(), "t");
    let plain = url.replace("sslmode=require", "sslmode=disable");
    let error = query(&database, &plain, sql).unwrap_err();
    assert!(error.contains("no encryption"), "{error}");
    // The account that runs the client may have no access to the certificate of the checkout.
    let certificate = server.socket().join("data/server.crt");
    let mode = format!("sslmode=verify-full&sslrootcert={}", certificate.display());
    let verified = url.replace("sslmode=require", &mode);
    assert_eq!(query(&database, &verified, sql).unwrap(), "t");
}
