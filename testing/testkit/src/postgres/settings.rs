//! The settings of a server.

/// The settings of a [`PostgresServer`](super::PostgresServer).
///
/// The default is the default of PostgreSQL, with its full durability, on a Unix socket only.
#[derive(Clone, Debug, Default)]
pub struct PostgresSettings {
    pub(crate) parameters: Vec<(String, String)>,
}

impl PostgresSettings {
    /// Sets a parameter of the server, such as `max_connections`.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.parameters.push((name.to_owned(), value.to_owned()));
        self
    }
}
