//! The settings of a server.

use super::directory::Place;

/// The settings of a [`PostgresServer`](super::PostgresServer).
///
/// The default is the default of PostgreSQL, with its full durability (`fsync` and `synchronous_commit`
/// are on), on a Unix socket only that needs no password. The files are in memory (`/dev/shm`) if it has
/// 1 GiB free: the server makes the same calls, and the data survives every end of its processes, but a
/// sync takes no time.
#[derive(Clone, Debug, Default)]
pub struct PostgresSettings {
    pub(crate) parameters: Vec<(String, String)>,
    pub(crate) access: Access,
    pub(crate) limited_disk: bool,
    pub(crate) on_disk: bool,
}

/// The access of clients; a later one includes the earlier ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Access {
    /// The Unix socket, without a password.
    #[default]
    Socket,
    /// A password.
    Password,
    /// A TCP port.
    Tcp,
    /// A TCP port with TLS only.
    Tls,
}

impl PostgresSettings {
    /// Sets a parameter of the server, such as `max_connections`.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.parameters.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Makes databases belong to the user `client`, who needs a random password (SCRAM).
    ///
    /// URLs contain the password. Statements of the server itself need none.
    #[must_use]
    pub fn with_password(self) -> Self {
        self.with_access(Access::Password)
    }

    /// Opens a free port of 127.0.0.1 as well, with a password.
    #[must_use]
    pub fn with_tcp(self) -> Self {
        self.with_access(Access::Tcp)
    }

    /// Opens a free port of 127.0.0.1 as well, with a password, for connections with TLS only.
    ///
    /// The certificate is [`certificate`](crate::certificate), for the address 127.0.0.1.
    #[must_use]
    pub fn with_tls(self) -> Self {
        self.with_access(Access::Tls)
    }

    /// Permits [`PostgresServer::fill_disk`](super::PostgresServer::fill_disk).
    #[must_use]
    pub fn with_limited_disk(mut self) -> Self {
        self.limited_disk = true;
        self
    }

    /// Keeps the files on the disk of temporary files, for measurements with real syncs.
    #[must_use]
    pub fn on_disk(mut self) -> Self {
        self.on_disk = true;
        self
    }

    pub(crate) fn place(&self) -> Place {
        match (self.on_disk, self.limited_disk) {
            (true, _) => Place::Disk,
            // The library that limits the disk is one of the files.
            (false, true) => Place::ExecutableMemory,
            (false, false) => Place::Memory,
        }
    }

    fn with_access(mut self, access: Access) -> Self {
        self.access = self.access.max(access);
        self
    }
}
