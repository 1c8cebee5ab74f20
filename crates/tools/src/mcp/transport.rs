//! The transports of servers as one type.
//!
//! The client of `rmcp` is generic over its transport; with one type it is compiled once.

use std::error::Error;
use std::fmt;

use reqwest::Client;
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::{StreamableHttpClientTransport, Transport};

use super::lines::Lines;
use crate::BoxFuture;

/// A connection to a server.
pub(crate) enum ServerTransport {
    /// To a program, over its standard streams.
    Lines(Lines),
    /// Over streamable HTTP.
    Http(Box<StreamableHttpClientTransport<Client>>),
}

/// An error of either transport.
#[derive(Debug)]
pub(crate) struct TransportError(Box<dyn Error + Send + Sync>);

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for TransportError {
    /// The wrapped error itself, so that callers find its type in the chain.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.0.as_ref())
    }
}

fn boxed(error: impl Error + Send + Sync + 'static) -> TransportError {
    TransportError(Box::new(error))
}

impl ServerTransport {
    pub(super) fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> BoxFuture<'static, Result<(), TransportError>> {
        match self {
            Self::Lines(lines) => {
                let sent = lines.send(message);
                Box::pin(async { sent.await.map_err(boxed) })
            }
            Self::Http(http) => {
                let sent = http.send(message);
                Box::pin(async { sent.await.map_err(boxed) })
            }
        }
    }

    pub(super) fn receive(&mut self) -> BoxFuture<'_, Option<ServerJsonRpcMessage>> {
        match self {
            Self::Lines(lines) => Box::pin(lines.receive()),
            Self::Http(http) => Box::pin(Transport::<RoleClient>::receive(http.as_mut())),
        }
    }

    pub(super) fn close(&mut self) -> BoxFuture<'_, Result<(), TransportError>> {
        match self {
            Self::Lines(lines) => Box::pin(async {
                lines.close().await;
                Ok(())
            }),
            Self::Http(http) => Box::pin(async {
                Transport::<RoleClient>::close(http.as_mut())
                    .await
                    .map_err(boxed)
            }),
        }
    }
}
