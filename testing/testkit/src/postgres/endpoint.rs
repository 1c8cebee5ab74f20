//! The addresses and the user of a server.

use std::fs::File;
use std::io::{self, Read as _};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

/// The user that needs a password.
pub(crate) const CLIENT: &str = "client";

/// The port of a socket unless the server has a TCP port.
pub(crate) const SOCKET_PORT: u16 = 5432;

/// The addresses of a server, and the user that its clients are.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    /// The directory of the Unix socket.
    pub(crate) socket: PathBuf,
    /// The password of the user `client`; without one, clients are `postgres`.
    pub(crate) password: Option<String>,
    /// The port of 127.0.0.1.
    pub(crate) port: Option<u16>,
    /// Whether connections of the port have TLS.
    pub(crate) tls: bool,
}

impl Endpoint {
    /// Returns the name of the user.
    pub(crate) fn user(&self) -> &'static str {
        self.password.as_ref().map_or("postgres", |_| CLIENT)
    }

    /// Returns the same endpoint for the user `postgres` on the Unix socket.
    pub(crate) fn administration(&self) -> Self {
        Self {
            password: None,
            ..self.clone()
        }
    }

    /// Returns the port in the name of the Unix socket.
    pub(crate) fn socket_port(&self) -> u16 {
        self.port.unwrap_or(SOCKET_PORT)
    }

    /// Returns the path of the Unix socket.
    pub(crate) fn socket_file(&self) -> PathBuf {
        socket_file(&self.socket, self.socket_port())
    }

    /// Returns the URL of a database on the server's socket.
    pub(crate) fn url(&self, database: &str) -> String {
        match self.socket_port() {
            SOCKET_PORT => self.url_on(&self.socket, database),
            port => self.socket_url(&self.socket, &format!(":{port}"), database),
        }
    }

    /// Returns the URL of a database on the socket in another directory.
    pub(crate) fn url_on(&self, directory: &Path, database: &str) -> String {
        self.socket_url(directory, "", database)
    }

    fn socket_url(&self, directory: &Path, port: &str, database: &str) -> String {
        let directory = directory.to_string_lossy();
        let host = directory.replace('%', "%25").replace('/', "%2F");
        let credentials = self.credentials();
        format!("postgresql://{credentials}@{host}{port}/{database}")
    }

    /// Returns the URL of a database on the port.
    pub(crate) fn tcp_url(&self, database: &str) -> Option<String> {
        let port = self.port?;
        Some(self.url_at(&format!("127.0.0.1:{port}"), database))
    }

    /// Returns the URL of a database at an address that leads to the port.
    pub(crate) fn url_at(&self, address: &str, database: &str) -> String {
        let mode = if self.tls { "require" } else { "disable" };
        let credentials = self.credentials();
        format!("postgresql://{credentials}@{address}/{database}?sslmode={mode}")
    }

    fn credentials(&self) -> String {
        let user = self.user();
        match &self.password {
            Some(password) => format!("{user}:{password}"),
            None => user.to_owned(),
        }
    }
}

/// Returns the path of the Unix socket that clients find in a directory.
pub(crate) fn socket_file(directory: &Path, port: u16) -> PathBuf {
    directory.join(format!(".s.PGSQL.{port}"))
}

/// Returns a random password.
pub(crate) fn password() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_le_bytes(bytes)))
}

/// Returns a port of 127.0.0.1 that is free now.
pub(crate) fn free_port() -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}
