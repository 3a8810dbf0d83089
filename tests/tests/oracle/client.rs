//! One request on one connection, sent as it is written: nothing is added, followed or repeated.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use lanyard_testkit::Kubeconfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::script::Request;

/// No case asks for more than a few seconds of watching.
const PATIENCE: Duration = Duration::from_secs(30);

/// How to reach one server, as its administrator or as nobody.
pub(crate) struct Client {
    address: String,
    administrator: TlsConnector,
    nobody: TlsConnector,
}

/// An answer as it came.
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Bytes,
}

impl Client {
    /// The server and identity of a kubeconfig.
    pub(crate) fn new(config: &Kubeconfig) -> Result<Client> {
        let mut roots = RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(config.authorities.as_bytes()) {
            roots.add(root.context("read the roots")?).context("use the roots")?;
        }
        let chain = CertificateDer::pem_slice_iter(config.client.certificate.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .context("read the client certificate")?;
        let key = PrivateKeyDer::from_pem_slice(config.client.key.as_bytes())
            .map_err(|_| anyhow!("the client key is not PEM"))?;
        let builder = || ClientConfig::builder().with_root_certificates(roots.clone());
        let administrator = builder().with_client_auth_cert(chain, key)?;
        let nobody = builder().with_no_client_auth();
        let address = config.server.trim_start_matches("https://").trim_end_matches('/').to_owned();
        Ok(Client {
            address,
            administrator: Arc::new(administrator).into(),
            nobody: Arc::new(nobody).into(),
        })
    }

    /// Sends a request and reads the whole answer; a watch ends by its own timeout.
    pub(crate) async fn send(&self, request: &Request) -> Result<Response> {
        tokio::time::timeout(PATIENCE, self.exchange(request))
            .await
            .with_context(|| format!("no answer from {} within {PATIENCE:?}", self.address))?
    }

    async fn exchange(&self, request: &Request) -> Result<Response> {
        let tcp = TcpStream::connect(&self.address).await.context("connect")?;
        let host = self.address.rsplit_once(':').map_or(self.address.as_str(), |(host, _)| host);
        let name = ServerName::try_from(host.to_owned()).context("read the server's name")?;
        let tls = if request.anonymous { &self.nobody } else { &self.administrator };
        let tls = TokioIo::new(tls.connect(name, tcp).await.context("TLS handshake")?);
        let (mut sender, driver) = http1::handshake(tls).await.context("HTTP/1.1 handshake")?;
        tokio::spawn(driver);
        let mut head = http::Request::builder()
            .method(request.method.as_str())
            .uri(request.path.as_str())
            .header(http::header::HOST, &self.address);
        for (name, value) in &request.headers {
            head = head.header(name, value);
        }
        let request = head.body(Full::new(Bytes::from(request.body.clone())))?;
        let response = sender.send_request(request).await.context("send the request")?;
        let (head, body) = response.into_parts();
        let body = body.collect().await.context("read the answer")?.to_bytes();
        Ok(Response { status: head.status.as_u16(), headers: head.headers, body })
    }
}
