//! Replicas and their promotion.

use testkit::postgres::{PostgresServer, StopMode};

#[test]
fn a_replica_reads_and_is_promoted() {
    let Some(mut primary) = PostgresServer::start().unwrap() else {
        return;
    };
    let database = primary.database().unwrap();
    database.query("create table t (n int)").unwrap();
    let replica = primary.replica().unwrap();
    database.query("insert into t values (1)").unwrap();
    replica.catch_up_with(&primary).unwrap();
    let copy = replica.existing(database.name());
    assert_eq!(copy.query("select n from t").unwrap(), "1");
    let insert = "insert into t values (2)";
    let error = copy.query(insert).unwrap_err().to_string();
    assert!(error.contains("read-only transaction"), "{error}");

    primary.stop(StopMode::Immediate).unwrap();
    replica.promote().unwrap();
    copy.query(insert).unwrap();
    assert_eq!(copy.query("select sum(n) from t").unwrap(), "3");
    // The former primary continues on its own.
    primary.start_again().unwrap();
    assert_eq!(database.query("select sum(n) from t").unwrap(), "1");
}
