//! Failures of the database under load: no server is started again by hand, and nothing is lost.

use std::time::{Duration, Instant};

use cluster::{Cluster, ClusterSettings};
use testkit::Random;
use testkit::postgres::{PostgresServer, PostgresSettings, StopMode};

use crate::trial::{calm, conclude, load, seconds, seed, wait_for_outcomes};

#[test]
fn the_database_restarts_while_servers_recover_crashed_turns() {
    let seed = seed();
    let Some(mut cluster) = Cluster::start(&calm(seed)).unwrap() else {
        return;
    };
    let mut random = Random::new(seed);
    let load = load(&cluster, seed);
    for round in 0..testkit::soak::rounds(4, 20) as usize {
        wait_for_outcomes(&load, 3);
        let number = round % cluster.nodes.len();
        cluster.nodes[number].kill().unwrap();
        // The other servers find the left turns within two seconds.
        let time = random.below(2_500) as u64;
        std::thread::sleep(Duration::from_millis(time));
        let mode = [StopMode::Fast, StopMode::Immediate][round % 2];
        cluster.server.restart(mode).unwrap();
        cluster.nodes[number].start_again().unwrap();
    }
    wait_for_outcomes(&load, 3);
    let (record, _) = conclude(&mut cluster, load, seed);
    assert_eq!(record.resets, 0);
}

#[test]
fn all_connections_are_ended_each_second() {
    let seed = seed();
    let Some(mut cluster) = Cluster::start(&calm(seed)).unwrap() else {
        return;
    };
    let load = load(&cluster, seed);
    let begun = Instant::now();
    let mut ended = 0;
    while begun.elapsed() < seconds(6, 60) {
        ended += cluster.server.terminate_backends().unwrap();
        std::thread::sleep(Duration::from_secs(1));
    }
    println!("cluster: {ended} connections ended");
    wait_for_outcomes(&load, 3);
    let (record, _) = conclude(&mut cluster, load, seed);
    assert_eq!(record.resets, 0);
}

#[test]
fn a_replica_is_promoted() {
    let seed = seed();
    let Some(server) = PostgresServer::start().unwrap() else {
        return;
    };
    let replica = server.replica().unwrap();
    // A commit that was acknowledged is on the replica too.
    let administration = server.maintenance();
    let statement = "alter system set synchronous_standby_names = '*'";
    administration.query(statement).unwrap();
    administration.query("select pg_reload_conf()").unwrap();
    let hosts = [server.socket(), replica.socket()];
    let hosts = hosts.map(|host| host.to_string_lossy().replace('/', "%2F"));
    let settings = ClusterSettings {
        url: Some(format!("postgresql://postgres@{}/test0", hosts.join(","))),
        ..calm(seed)
    };
    let mut cluster = Cluster::start_on(server, &settings).unwrap().unwrap();
    let load = load(&cluster, seed);
    wait_for_outcomes(&load, 10);
    cluster.server.stop(StopMode::Immediate).unwrap();
    replica.promote().unwrap();
    cluster.database = replica.existing(cluster.database.name());
    // The replica remains, and the other one ends.
    cluster.server = replica;
    wait_for_outcomes(&load, 10);
    conclude(&mut cluster, load, seed);
}

#[test]
fn other_programs_use_up_all_connections() {
    let seed = seed();
    let settings = ClusterSettings {
        database: PostgresSettings::default().with("max_connections", "24"),
        ..calm(seed)
    };
    let Some(mut cluster) = Cluster::start(&settings).unwrap() else {
        return;
    };
    let load = load(&cluster, seed);
    wait_for_outcomes(&load, 5);
    let url = cluster.server.maintenance().url();
    let time = seconds(6, 20).as_secs();
    let sleeper = || {
        let mut psql = cluster.database.psql(&url);
        psql.args(["-c", &format!("select pg_sleep({time})")]);
        psql.stderr(std::process::Stdio::null()).spawn().unwrap()
    };
    // Each ended connection of a server is taken before the server connects again.
    cluster.server.terminate_backends().unwrap();
    let sleepers: Vec<_> = (0..40).map(|_| sleeper()).collect();
    let mut refused = 0;
    for mut sleeper in sleepers {
        refused += usize::from(!sleeper.wait().unwrap().success());
    }
    println!("cluster: {refused} of 40 connections of others were refused");
    assert!(refused > 0, "connections were left");
    wait_for_outcomes(&load, 5);
    let (record, _) = conclude(&mut cluster, load, seed);
    assert_eq!(record.resets, 0);
}

#[test]
fn the_disk_of_the_database_is_full_and_freed() {
    let seed = seed();
    let settings = ClusterSettings {
        database: PostgresSettings::default().with_limited_disk(),
        ..calm(seed)
    };
    let Some(mut cluster) = Cluster::start(&settings).unwrap() else {
        return;
    };
    let load = load(&cluster, seed);
    wait_for_outcomes(&load, 5);
    cluster.server.fill_disk().unwrap();
    std::thread::sleep(seconds(6, 30));
    cluster.server.free_disk().unwrap();
    // A log without a new segment ends the server, which its operator starts again.
    if cluster.server.maintenance().query("select 1").is_err() {
        println!("cluster: the full disk ended the database");
        cluster.server.restart(StopMode::Immediate).unwrap();
    }
    wait_for_outcomes(&load, 5);
    let (record, _) = conclude(&mut cluster, load, seed);
    assert_eq!(record.resets, 0);
}

#[test]
fn the_database_is_silent_and_then_read_only() {
    let seed = seed();
    let Some(mut cluster) = Cluster::start(&calm(seed)).unwrap() else {
        return;
    };
    let load = load(&cluster, seed);
    wait_for_outcomes(&load, 5);
    cluster.server.pause().unwrap();
    std::thread::sleep(Duration::from_secs(10));
    cluster.server.resume().unwrap();
    wait_for_outcomes(&load, 5);
    let administration = cluster.server.maintenance();
    let name = cluster.database.name();
    let statement = format!("alter database {name} set default_transaction_read_only = on");
    administration.query(&statement).unwrap();
    cluster.server.terminate_backends().unwrap();
    std::thread::sleep(seconds(5, 30));
    let statement = format!("alter database {name} reset default_transaction_read_only");
    administration.query(&statement).unwrap();
    wait_for_outcomes(&load, 5);
    let (record, _) = conclude(&mut cluster, load, seed);
    assert_eq!(record.resets, 0);
}
