//! Relays that cut, silence and delay connections.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use testkit::postgres::{PostgresServer, PostgresSettings};
use testkit::{Relay, RelayFaults};

use crate::waiting::wait_until;

/// Starts a server that sends back what it receives.
fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut copy = stream.try_clone().unwrap();
                drop(std::io::copy(&mut stream, &mut copy));
            });
        }
    });
    address
}

/// Sends bytes, and returns whether they came back.
fn is_echoed(stream: &mut TcpStream, bytes: &[u8]) -> bool {
    let mut answer = vec![0; bytes.len()];
    let sent = stream.write_all(bytes).is_ok();
    sent && stream.read_exact(&mut answer).is_ok() && answer == bytes
}

#[test]
fn a_cut_closes_connections_and_refuses_others_until_it_is_restored() {
    let relay = Relay::start(&echo(), None).unwrap();
    let connect = || TcpStream::connect(relay.address()).unwrap();
    let mut stream = connect();
    assert!(is_echoed(&mut stream, b"one"));
    assert_eq!(relay.traffic(), [("one".to_owned(), "one".to_owned())]);
    relay.cut();
    assert!(!is_echoed(&mut stream, b"two"));
    assert!(!is_echoed(&mut connect(), b"three"));
    relay.restore();
    assert!(is_echoed(&mut connect(), b"four"));
}

#[test]
fn a_silent_connection_stays_open() {
    let relay = Relay::start(&echo(), None).unwrap();
    let mut stream = TcpStream::connect(relay.address()).unwrap();
    assert!(is_echoed(&mut stream, b"one"));
    relay.silence();
    stream
        .set_read_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    stream.write_all(b"two").unwrap();
    let error = stream.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    relay.restore();
    assert!(is_echoed(
        &mut TcpStream::connect(relay.address()).unwrap(),
        b"three"
    ));
    // The end of the relay is the end of the connection.
    drop(relay);
    stream.set_read_timeout(None).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
}

#[test]
fn random_cuts_end_connections_and_change_nothing_before() {
    let faults = RelayFaults::from_environment()
        .with_cuts(10)
        .with_delays(4, Duration::from_millis(1));
    let relay = Relay::start(&echo(), Some(faults)).unwrap();
    for count in 1..=10 {
        let mut stream = TcpStream::connect(relay.address()).unwrap();
        let mut exchanges = 0_u32;
        while is_echoed(&mut stream, &exchanges.to_le_bytes()) {
            exchanges += 1;
        }
        wait_until("the connection was not cut", || relay.faults() == count);
    }
    // What arrived is the beginning of what was sent.
    for (sent, received) in relay.traffic() {
        assert!(sent.starts_with(&received), "{sent:?} {received:?}");
    }
}

#[test]
fn random_silence_leaves_connections_open() {
    let faults = RelayFaults::from_environment().with_silence(1);
    let relay = Relay::start(&echo(), Some(faults)).unwrap();
    let mut stream = TcpStream::connect(relay.address()).unwrap();
    stream.write_all(b"one").unwrap();
    wait_until("the connection is not silent", || relay.faults() == 1);
    assert_eq!(relay.traffic(), [(String::new(), String::new())]);
    stream.set_nonblocking(true).unwrap();
    let error = stream.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn a_server_is_reached_through_relays() {
    let settings = PostgresSettings::default().with_tls();
    let Some(server) = PostgresServer::start_with(settings).unwrap() else {
        return;
    };
    let database = server.database().unwrap();
    let socket = server.relay(None).unwrap();
    let port = Relay::start(&server.tcp_address().unwrap(), None).unwrap();
    let query = |relay: &Relay| {
        let mut psql = database.psql(&database.url_through(relay));
        psql.args(["-c", "select 1"]).output().unwrap()
    };
    for relay in [&socket, &port] {
        let output = query(relay);
        assert_eq!(output.stdout, b"1\n", "{output:?}");
        relay.cut();
        assert!(!query(relay).status.success());
    }
}
