//! Ways to reach sockets of local services.

use std::io::{self, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};

use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

/// Sends `hello` to a socket.
pub(super) fn send(action: &str, name: &str) -> io::Result<()> {
    match action {
        "stream-socket" => UnixStream::connect(name)?.write_all(b"hello"),
        "abstract-socket" => {
            let address = SocketAddr::from_abstract_name(name)?;
            UnixStream::connect_addr(&address)?.write_all(b"hello")
        }
        "datagram-socket" => UnixDatagram::unbound()?.send_to(b"hello", name).map(drop),
        _ => pair(name),
    }
}

/// Sends from one end of a pair of datagram sockets, which needs no call of `socket`.
fn pair(name: &str) -> io::Result<()> {
    let (one, _other) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::DGRAM,
        SocketFlags::empty(),
        None,
    )?;
    let address = SocketAddrUnix::new(name)?;
    rustix::net::sendto(&one, b"hello", SendFlags::empty(), &address)?;
    Ok(())
}
