//! TLS of a [`ModelServer`](crate::ModelServer), with a certificate that no authority has signed.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// The path of the server's certificate in PEM, to be trusted with `SSL_CERT_FILE`.
pub fn certificate() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tls/certificate.pem")
}

pub(crate) fn config() -> io::Result<Arc<ServerConfig>> {
    let certificate = CertificateDer::from_pem_slice(include_bytes!("tls/certificate.pem"));
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("tls/key.pem"));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    let config = builder
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.map_err(io::Error::other)?],
            key.map_err(io::Error::other)?,
        )
        .map_err(io::Error::other)?;
    Ok(Arc::new(config))
}

/// A connection with or without TLS.
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ServerConnection, TcpStream>>),
}

impl Stream {
    pub(crate) fn new(stream: TcpStream, tls: Option<&Arc<ServerConfig>>) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let Some(config) = tls else {
            return Ok(Self::Plain(stream));
        };
        let connection = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
        let stream = StreamOwned::new(connection, stream);
        Ok(Self::Tls(Box::new(stream)))
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}
