//! A client that sends whatever it is told to: raw bytes over TLS, requests with any head and body,
//! and HTTP/2 frames made by hand. It judges nothing and repairs nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use lanyard_testkit::{Identity, Kubeconfig};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Nothing that is answered at all may take longer, on a busy machine with a debug build.
pub(crate) const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// Somebody who connects to a server.
#[derive(Clone)]
pub(crate) struct Peer {
    /// Where the server is.
    pub(crate) address: SocketAddr,
    authorities: String,
    identity: Option<Arc<Identity>>,
    token: Option<String>,
}

impl Peer {
    /// The administrator.
    pub(crate) fn admin(config: Kubeconfig) -> Result<Peer> {
        let address = format!("127.0.0.1:{}", config.port()?).parse()?;
        let identity = Some(Arc::new(config.client));
        Ok(Peer { address, authorities: config.authorities, identity, token: None })
    }

    /// Somebody without credentials.
    pub(crate) fn anonymous(&self) -> Peer {
        Peer { identity: None, token: None, ..self.clone() }
    }

    /// Somebody with another certificate.
    pub(crate) fn with_certificate(&self, identity: Identity) -> Peer {
        Peer { identity: Some(Arc::new(identity)), token: None, ..self.clone() }
    }

    /// Somebody with a token only.
    pub(crate) fn with_token(&self, token: &str) -> Peer {
        Peer { identity: None, token: Some(token.to_owned()), ..self.clone() }
    }

    /// A TLS connection with `h2` or `http/1.1` agreed on.
    pub(crate) async fn connect(&self, protocol: &str) -> Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(self.authorities.as_bytes()) {
            roots.add(certificate?)?;
        }
        let config = ClientConfig::builder().with_root_certificates(roots);
        let mut config = match &self.identity {
            None => config.with_no_client_auth(),
            Some(identity) => {
                let chain = CertificateDer::pem_slice_iter(identity.certificate.as_bytes());
                let chain = chain.collect::<Result<Vec<_>, _>>()?;
                let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes())?;
                config.with_client_auth_cert(chain, key)?
            }
        };
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let tcp = TcpStream::connect(self.address).await?;
        let name = ServerName::from(self.address.ip());
        Ok(TlsConnector::from(Arc::new(config)).connect(name, tcp).await?)
    }

    /// Sends bytes over HTTP/1.1 and reads the answer until the server closes.
    pub(crate) async fn send(&self, bytes: &[u8]) -> Result<Answer> {
        let mut stream = self.connect("http/1.1").await?;
        // A server that has heard enough answers and closes before all is sent.
        let _ = stream.write_all(bytes).await;
        let _ = stream.flush().await;
        Answer::read(&mut stream).await
    }

    /// Makes one request.
    pub(crate) async fn request(&self, request: Request<'_>) -> Result<Answer> {
        let asked = format!("{} {}", request.method, shortened(request.target));
        let answer = self.send(&request.bytes(self.token.as_deref())).await;
        answer.with_context(|| asked)
    }

    /// A GET.
    pub(crate) async fn get(&self, target: &str) -> Result<Answer> {
        self.request(Request::new("GET", target)).await
    }

    /// A POST of JSON.
    pub(crate) async fn post(&self, target: &str, body: &[u8]) -> Result<Answer> {
        self.request(Request::new("POST", target).json(body)).await
    }
}

/// The parts of an HTTP/1.1 request.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    /// The method.
    pub(crate) method: &'a str,
    /// Path and query, sent as they are.
    pub(crate) target: &'a str,
    /// Further header lines, each ending in CRLF.
    pub(crate) headers: &'a str,
    /// The body; its length is told.
    pub(crate) body: &'a [u8],
}

impl<'a> Request<'a> {
    /// A request without a body.
    pub(crate) fn new(method: &'a str, target: &'a str) -> Self {
        Request { method, target, headers: "", body: b"" }
    }

    /// With a JSON body.
    pub(crate) fn json(self, body: &'a [u8]) -> Self {
        Request { headers: "Content-Type: application/json\r\n", body, ..self }
    }

    /// With a body of some type.
    pub(crate) fn body(self, headers: &'a str, body: &'a [u8]) -> Self {
        Request { headers, body, ..self }
    }

    fn bytes(&self, token: Option<&str>) -> Vec<u8> {
        let Request { method, target, headers, body } = self;
        let mut bytes = format!("{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n");
        if let Some(token) = token {
            bytes.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        if !body.is_empty() {
            bytes.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        bytes.push_str(headers);
        bytes.push_str("\r\n");
        [bytes.as_bytes(), body].concat()
    }
}

/// Many proper requests over one HTTP/2 connection.
#[derive(Clone)]
pub(crate) struct Session {
    sender: http2::SendRequest<Full<Bytes>>,
    token: Option<String>,
}

impl Session {
    /// Connects.
    pub(crate) async fn open(peer: &Peer) -> Result<Session> {
        let stream = TokioIo::new(peer.connect("h2").await?);
        let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
        tokio::spawn(connection);
        Ok(Session { sender, token: peer.token.clone() })
    }

    /// Makes one request.
    pub(crate) async fn request(
        &self,
        method: &str,
        target: &str,
        media: &str,
        body: Vec<u8>,
    ) -> Result<Answer> {
        let mut request = http::Request::builder()
            .method(method)
            .uri(format!("https://x{target}"))
            .header("content-type", media);
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Full::new(Bytes::from(body)))?;
        let response = self.sender.clone().send_request(request);
        let response =
            tokio::time::timeout(ANSWER_LIMIT, response).await.context("no answer")??;
        let (head, body) = response.into_parts();
        let body =
            tokio::time::timeout(ANSWER_LIMIT, body.collect()).await.context("no body")??;
        let body = body.to_bytes().to_vec();
        Ok(Answer { code: head.status.as_u16(), body })
    }
}

/// What a server answered.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The status code.
    pub(crate) code: u16,
    /// The body, without its transfer coding.
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// Reads to the end of the connection.
    pub(crate) async fn read(stream: &mut TlsStream<TcpStream>) -> Result<Answer> {
        let mut bytes = Vec::new();
        let read = tokio::time::timeout(ANSWER_LIMIT, stream.read_to_end(&mut bytes)).await;
        let read = read.context("no answer in time")?;
        // A reset after the answer is fine: the server did not wait for the rest of the request.
        ensure!(read.is_ok() || !bytes.is_empty(), "closed without an answer: {read:?}");
        Answer::parse(&bytes).with_context(|| format!("{:?}", shortened_bytes(&bytes)))
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The reason of a Status.
    pub(crate) fn reason(&self) -> String {
        self.json()["reason"].as_str().unwrap_or_default().to_owned()
    }

    /// The beginning of the body, for messages.
    pub(crate) fn shown(&self) -> String {
        shortened_bytes(&self.body)
    }

    fn parse(bytes: &[u8]) -> Result<Answer> {
        let split = bytes.windows(4).position(|w| w == b"\r\n\r\n").context("no end of headers")?;
        let head = String::from_utf8_lossy(&bytes[..split]).into_owned();
        let code = head.split(' ').nth(1).context("no status code")?.parse()?;
        let body = &bytes[split + 4..];
        let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        let body = if chunked { joined(body) } else { body.to_vec() };
        Ok(Answer { code, body })
    }
}

/// The chunks of a body; what is incomplete is left out.
fn joined(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = rest.windows(2).position(|w| w == b"\r\n") {
        let size = std::str::from_utf8(&rest[..end]).unwrap_or_default();
        let Ok(size) = usize::from_str_radix(size, 16) else { break };
        let Some(chunk) = rest.get(end + 2..end + 2 + size) else { break };
        body.extend_from_slice(chunk);
        rest = rest.get(end + 4 + size..).unwrap_or_default();
    }
    body
}

/// The beginning of something long, for messages.
pub(crate) fn shortened(text: &str) -> String {
    text.chars().take(200).collect()
}

fn shortened_bytes(bytes: &[u8]) -> String {
    shortened(&String::from_utf8_lossy(&bytes[..bytes.len().min(400)]))
}

/// The bytes that open an HTTP/2 connection, with empty settings.
pub(crate) const PREFACE: &[u8] =
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00";

/// An HTTP/2 frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// The frame types that are used.
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const CONTINUATION: u8 = 9;

/// Headers of `GET target`, with literal fields only.
pub(crate) fn get_headers(target: &str) -> Vec<u8> {
    // :method GET and :scheme https are entries 2 and 7 of the static table; names 1 and 4 are
    // :authority and :path.
    let mut block = vec![0x82, 0x87];
    for (name, value) in [(1, "x"), (4, target)] {
        block.push(name);
        block.push(u8::try_from(value.len()).unwrap_or(0x7f));
        block.extend_from_slice(value.as_bytes());
    }
    block
}
