//! TLS with a certificate of the operator.

use crate::{Error, secret_file};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// Maximum size of a key file, in bytes. An RSA key of 16,384 bits has 13 KiB, and parameters or a
/// chain may follow.
const KEY_MAX: u64 = 64 * 1024;

/// Paths of a certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Path of the certificate chain in PEM, which begins with the pages' own certificate.
    pub chain: PathBuf,
    /// Path of the private key in PEM.
    pub key: PathBuf,
}

impl Certificate {
    pub(crate) fn acceptor(&self) -> Result<TlsAcceptor, Error> {
        let chain = CertificateDer::pem_file_iter(&self.chain)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| unread(&self.chain, &error))?;
        if chain.is_empty() {
            return Err(unread(&self.chain, &pem::Error::NoItemsFound));
        }
        let key = secret_file::read(&self.key, KEY_MAX)
            .map_err(|why| Error::Certificate { path: self.key.clone(), why })?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
            .map_err(|error| unread(&self.key, &error))?;
        let wrong = |error: rustls::Error| Error::Certificate {
            path: self.chain.clone(),
            why: format!(
                "{error}: check that {} is the key of this certificate",
                self.key.display()
            ),
        };
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(wrong)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(wrong)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

fn unread(path: &Path, error: &pem::Error) -> Error {
    let why = match error {
        pem::Error::Io(error) => error.to_string(),
        pem::Error::NoItemsFound => {
            "it lacks a certificate or key of the expected kind in PEM format, which begins with \
             `-----BEGIN …-----`"
                .to_owned()
        }
        error => error.to_string(),
    };
    Error::Certificate { path: path.into(), why }
}
