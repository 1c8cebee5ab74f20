//! A server that presents a certificate without its key.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::crypto::ring::{default_provider, sign::any_ecdsa_type};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, ServerConnection, SupportedProtocolVersion};

/// The time after which a client that sends nothing is given up.
const SILENCE: Duration = Duration::from_secs(10);

/// A server with the certificate of this crate and another key.
///
/// A client that does not check the signature of the handshake sends it its user and password. Its
/// thread ends with the program.
#[derive(Debug)]
pub struct Impostor {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    handshakes: AtomicUsize,
    received: Mutex<Vec<u8>>,
}

impl Impostor {
    /// Starts a server with one version of TLS.
    ///
    /// # Errors
    /// Returns an error if no port is available, or the key is invalid.
    pub fn start(version: &'static SupportedProtocolVersion) -> io::Result<Self> {
        let config = config(version)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A client may refuse the certificate.
                drop(serve(stream, &config, &shared));
            }
        });
        Ok(Self { address, state })
    }

    /// Returns the address, as host and port.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Returns the number of handshakes that began.
    pub fn handshakes(&self) -> usize {
        self.state.handshakes.load(Ordering::SeqCst)
    }

    /// Returns what clients have sent after their handshakes.
    pub fn received(&self) -> Vec<u8> {
        lock(&self.state.received).clone()
    }
}

fn config(version: &'static SupportedProtocolVersion) -> io::Result<Arc<ServerConfig>> {
    let certificate = CertificateDer::from_pem_slice(include_bytes!("tls/certificate.pem"));
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("tls/other_key.pem"));
    let key = any_ecdsa_type(&key.map_err(io::Error::other)?).map_err(io::Error::other)?;
    let certificate = vec![certificate.map_err(io::Error::other)?];
    let provider = Arc::new(default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .map_err(io::Error::other)?;
    // The library refuses such a pair elsewhere.
    let pair = Arc::new(CertifiedKey::new(certificate, key));
    let config = builder
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(Pair(pair)));
    Ok(Arc::new(config))
}

/// A certificate with the key of another one.
#[derive(Debug)]
struct Pair(Arc<CertifiedKey>);

impl ResolvesServerCert for Pair {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

fn serve(mut stream: TcpStream, config: &Arc<ServerConfig>, state: &State) -> io::Result<()> {
    stream.set_read_timeout(Some(SILENCE))?;
    // The request for TLS has a length and a code, and `S` accepts it.
    let mut request = [0; 8];
    stream.read_exact(&mut request)?;
    stream.write_all(b"S")?;
    state.handshakes.fetch_add(1, Ordering::SeqCst);
    let connection = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
    let mut stream = rustls::StreamOwned::new(connection, stream);
    let mut buffer = [0; 1_024];
    let length = stream.read(&mut buffer)?;
    let received = buffer.get(..length).unwrap_or_default();
    lock(&state.received).extend_from_slice(received);
    Ok(())
}

fn lock(received: &Mutex<Vec<u8>>) -> MutexGuard<'_, Vec<u8>> {
    received.lock().unwrap_or_else(PoisonError::into_inner)
}
