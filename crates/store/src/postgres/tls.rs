//! Encryption by rustls, with the checks of certificates that `sslmode` names.

use std::sync::Arc;

use logue_harness::store::StoreError;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore};
use rustls::{SignatureScheme, crypto};
use rustls_platform_verifier::Verifier;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::address::{Address, Roots, Trust};

/// Creates the encryption of the connections to an address.
pub(super) fn connector(address: &Address) -> Result<MakeRustlsConnect, StoreError> {
    // The embedding program may have installed another crypto provider, which is then used.
    let installed = CryptoProvider::get_default().cloned();
    let provider = installed.unwrap_or_else(|| Arc::new(ring::default_provider()));
    let checked = |roots: &Roots| verifier(roots, &provider, &address.shown);
    let own: Arc<dyn ServerCertVerifier> = match &address.trust {
        Trust::Any => Arc::new(Lenient {
            inner: None,
            algorithms: provider.signature_verification_algorithms,
        }),
        Trust::Authority(roots) => Arc::new(Lenient {
            inner: Some(checked(roots)?),
            algorithms: provider.signature_verification_algorithms,
        }),
        Trust::Name(roots) => checked(roots)?,
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(StoreError::unavailable)?
        .dangerous()
        .with_custom_certificate_verifier(own)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

fn verifier(
    roots: &Roots,
    provider: &Arc<CryptoProvider>,
    shown: &str,
) -> Result<Arc<dyn ServerCertVerifier>, StoreError> {
    let refused = |what: String| StoreError::NotAStore(format!("{shown}: {what}"));
    match roots {
        Roots::System => {
            let verifier = Verifier::new(Arc::clone(provider));
            let verifier = verifier
                .map_err(|error| refused(format!("the certificates of the system: {error}")))?;
            Ok(Arc::new(verifier))
        }
        Roots::File(path) => {
            let named =
                |error: &dyn std::fmt::Display| refused(format!("{}: {error}", path.display()));
            let mut store = RootCertStore::empty();
            let certificates =
                CertificateDer::pem_file_iter(path).map_err(|error| named(&error))?;
            for certificate in certificates {
                let certificate = certificate.map_err(|error| named(&error))?;
                store.add(certificate).map_err(|error| named(&error))?;
            }
            let verifier =
                WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(provider));
            let verifier = verifier.build().map_err(|error| named(&error))?;
            Ok(verifier)
        }
    }
}

/// Accepts a certificate for any name, and without authorities from any issuer.
#[derive(Debug)]
struct Lenient {
    inner: Option<Arc<dyn ServerCertVerifier>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(inner) = &self.inner else {
            return Ok(ServerCertVerified::assertion());
        };
        let verified =
            inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            // The chain is checked before the name.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        crypto::verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        crypto::verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
