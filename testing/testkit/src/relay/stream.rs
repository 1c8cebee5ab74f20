//! Streams and listeners of TCP and of Unix sockets.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};

#[derive(Debug)]
pub(super) enum RelayListener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

#[derive(Debug)]
pub(super) enum RelayStream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl RelayListener {
    pub(super) fn accept(&self) -> io::Result<RelayStream> {
        match self {
            Self::Tcp(listener) => RelayStream::tcp(listener.accept()?.0),
            Self::Unix(listener) => Ok(RelayStream::Unix(listener.accept()?.0)),
        }
    }
}

impl RelayStream {
    /// Connects to a socket, if the address is an absolute path, or to a port.
    pub(super) fn connect(address: &str) -> io::Result<Self> {
        if address.starts_with('/') {
            return Ok(Self::Unix(UnixStream::connect(address)?));
        }
        Self::tcp(TcpStream::connect(address)?)
    }

    pub(super) fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
        }
    }

    /// Closes the stream for all its clones.
    pub(super) fn close(&self) {
        // It may be closed already.
        drop(match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
        });
    }

    fn tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self::Tcp(stream))
    }
}

impl Read for RelayStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for RelayStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
