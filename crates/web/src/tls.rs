//! Whom we trust: the well-known certificate authorities, and those in a file that the user names.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

/// Set up when the first secure connection is made, so that starting costs nothing.
#[derive(Clone)]
pub struct Trust {
    file: Option<PathBuf>,
    ready: Arc<OnceLock<TlsConnector>>,
}

impl Trust {
    /// Trusts what is well known and what is in the file.
    pub fn new(file: Option<PathBuf>) -> Self {
        Self { file, ready: Arc::default() }
    }

    /// The way to secure a connection, or what is wrong with the file.
    pub fn connector(&self) -> io::Result<TlsConnector> {
        if let Some(ready) = self.ready.get() {
            return Ok(ready.clone());
        }
        let built = build(self.file.as_deref())?;
        Ok(self.ready.get_or_init(|| built).clone())
    }
}

fn build(file: Option<&Path>) -> io::Result<TlsConnector> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(file) = file {
        let wrong =
            |why: &dyn std::fmt::Display| io::Error::other(format!("the certificates in {}: {why}", file.display()));
        let pem = std::fs::read(file).map_err(|error| wrong(&error))?;
        let mut count = 0;
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            let certificate = certificate.map_err(|error| wrong(&error))?;
            // A store of a whole system has some that nobody can use any more.
            count += usize::from(roots.add(certificate).is_ok());
        }
        if count == 0 {
            return Err(wrong(&"there are none in PEM form"));
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
