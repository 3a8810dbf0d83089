//! The load tool's side of the wire: TLS with the administrator's certificate, HTTP/2 or HTTP/1.1, and bodies that
//! are counted rather than kept. It does as little as it can, because it shares the machine with the server.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST};
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use lanyard_testkit::Kubeconfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Which HTTP the load tool speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Http {
    /// One connection per worker.
    One,
    /// Workers share a few connections, as client-go's do.
    Two,
}

/// How to reach one server.
#[derive(Clone)]
pub(crate) struct Target {
    address: String,
    http: Http,
    tls: TlsConnector,
}

impl Target {
    /// The server and identity of a kubeconfig.
    pub(crate) fn new(config: &Kubeconfig, http: Http) -> Result<Target> {
        let mut roots = RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(config.authorities.as_bytes()) {
            roots
                .add(root.context("read the server's roots")?)
                .context("use the server's roots")?;
        }
        let chain = CertificateDer::pem_slice_iter(config.client.certificate.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .context("read the client certificate")?;
        let key = PrivateKeyDer::from_pem_slice(config.client.key.as_bytes())
            .map_err(|_| anyhow!("the client key is not PEM"))?;
        let mut tls = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .context("use the client certificate")?;
        tls.alpn_protocols = match http {
            Http::One => vec![b"http/1.1".to_vec()],
            Http::Two => vec![b"h2".to_vec()],
        };
        let address = config.server.trim_start_matches("https://").trim_end_matches('/').to_owned();
        Ok(Target { address, http, tls: TlsConnector::from(Arc::new(tls)) })
    }

    /// Opens a connection.
    pub(crate) async fn connect(&self) -> Result<Connection> {
        timeout(PATIENCE, self.handshake())
            .await
            .with_context(|| format!("no connection to {} within {PATIENCE:?}", self.address))?
    }

    async fn handshake(&self) -> Result<Connection> {
        let tcp = TcpStream::connect(&self.address).await.context("connect")?;
        tcp.set_nodelay(true).context("set TCP_NODELAY")?;
        let host = self.address.rsplit_once(':').map_or(self.address.as_str(), |(host, _)| host);
        let name = ServerName::try_from(host.to_owned()).context("read the server's name")?;
        let tls = TokioIo::new(self.tls.connect(name, tcp).await.context("TLS handshake")?);
        // The driver ends with the connection; what went wrong shows in the request that was under way.
        let sender = match self.http {
            Http::One => {
                let (sender, driver) = http1::handshake(tls).await.context("HTTP/1.1 handshake")?;
                tokio::spawn(driver);
                Sender::One(sender)
            }
            Http::Two => {
                let (sender, driver) = http2::Builder::new(TokioExecutor::new())
                    .initial_stream_window_size(STREAM_WINDOW)
                    .initial_connection_window_size(CONNECTION_WINDOW)
                    .handshake(tls)
                    .await
                    .context("HTTP/2 handshake")?;
                tokio::spawn(driver);
                Sender::Two(sender)
            }
        };
        Ok(Connection { host: self.address.clone(), sender })
    }
}

/// An open connection; with HTTP/2 a clone shares it.
pub(crate) struct Connection {
    host: String,
    sender: Sender,
}

enum Sender {
    One(http1::SendRequest<Full<Bytes>>),
    Two(http2::SendRequest<Full<Bytes>>),
}

impl Connection {
    /// Another handle on the same connection, where the protocol allows it.
    pub(crate) fn share(&self) -> Option<Connection> {
        match &self.sender {
            Sender::One(_) => None,
            Sender::Two(sender) => {
                Some(Connection { host: self.host.clone(), sender: Sender::Two(sender.clone()) })
            }
        }
    }

    /// Sends a request and reads the whole answer, of which only an object written or a refusal is kept.
    pub(crate) async fn call(&mut self, call: Call) -> Result<Answer> {
        timeout(PATIENCE, async {
            let reads = call.method == Method::GET;
            let (status, mut body) = self.send(call).await?;
            let mut answer = Answer { status, size: 0, head: Vec::new() };
            let keep = if reads && answer.is_success() { 0 } else { HEAD };
            while let Some(frame) = body.frame().await {
                if let Ok(data) = frame.context("read the answer")?.into_data() {
                    answer.size += data.len();
                    let room = keep.saturating_sub(answer.head.len());
                    answer.head.extend_from_slice(&data[..data.len().min(room)]);
                }
            }
            Ok(answer)
        })
        .await
        .with_context(|| format!("no answer within {PATIENCE:?}"))?
    }

    /// As [`Connection::call`], but an answer other than 2xx is an error.
    pub(crate) async fn expect(&mut self, call: Call) -> Result<Answer> {
        let line = format!("{} {}", call.method, call.path);
        let answer = self.call(call).await.with_context(|| line.clone())?;
        if !answer.is_success() {
            bail!("{line}: {} {}", answer.status, String::from_utf8_lossy(&answer.head));
        }
        Ok(answer)
    }

    /// Opens a stream that the caller reads, for a watch.
    pub(crate) async fn open(&mut self, call: Call) -> Result<Incoming> {
        let line = call.path.clone();
        let (status, body) = timeout(PATIENCE, self.send(call))
            .await
            .with_context(|| format!("no answer within {PATIENCE:?}"))??;
        if status != 200 {
            bail!("{line}: {status}");
        }
        Ok(body)
    }

    async fn send(&mut self, call: Call) -> Result<(u16, Incoming)> {
        let request = Request::builder().method(call.method).header(ACCEPT, call.accept);
        let request = match &self.sender {
            Sender::One(_) => request.uri(call.path).header(HOST, &self.host),
            Sender::Two(_) => request.uri(format!("https://{}{}", self.host, call.path)),
        };
        let request = match call.body.is_empty() {
            true => request,
            false => request.header(CONTENT_TYPE, call.content_type),
        };
        let request = request.body(Full::new(call.body)).context("build a request")?;
        let answer = match &mut self.sender {
            Sender::One(sender) => {
                sender.ready().await.context("wait for the connection")?;
                sender.send_request(request).await
            }
            Sender::Two(sender) => sender.send_request(request).await,
        };
        let (head, body) = answer.context("send a request")?.into_parts();
        Ok((head.status.as_u16(), body))
    }
}

/// A request.
pub(crate) struct Call {
    method: Method,
    path: String,
    accept: &'static str,
    content_type: &'static str,
    body: Bytes,
}

impl Call {
    /// `GET path`.
    pub(crate) fn get(path: impl Into<String>) -> Call {
        Call {
            method: Method::GET,
            path: path.into(),
            accept: JSON,
            content_type: JSON,
            body: Bytes::new(),
        }
    }

    /// `GET path` as the table that kubectl prints.
    pub(crate) fn table(path: impl Into<String>) -> Call {
        Call { accept: TABLE, ..Call::get(path) }
    }

    /// `POST path`.
    pub(crate) fn post(path: impl Into<String>, body: String) -> Call {
        Call { method: Method::POST, body: body.into(), ..Call::get(path) }
    }

    /// `PUT path`.
    pub(crate) fn put(path: impl Into<String>, body: String) -> Call {
        Call { method: Method::PUT, body: body.into(), ..Call::get(path) }
    }

    /// `PATCH path` by server-side apply.
    pub(crate) fn apply(path: impl Into<String>, body: String) -> Call {
        Call { method: Method::PATCH, content_type: APPLY, body: body.into(), ..Call::get(path) }
    }

    /// `DELETE path`.
    pub(crate) fn delete(path: impl Into<String>) -> Call {
        Call { method: Method::DELETE, ..Call::get(path) }
    }
}

/// What came back.
pub(crate) struct Answer {
    /// The status code.
    pub(crate) status: u16,
    /// The size of the body.
    pub(crate) size: usize,
    head: Vec<u8>,
}

impl Answer {
    /// Whether the server did what was asked.
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The resource version of the object in the answer.
    pub(crate) fn resource_version(&self) -> Result<u64> {
        const KEY: &[u8] = br#""resourceVersion":""#;
        let start = self.head.windows(KEY.len()).position(|window| window == KEY);
        let start = start.context("the answer has no resourceVersion")? + KEY.len();
        let digits: Vec<u8> =
            self.head[start..].iter().copied().take_while(u8::is_ascii_digit).collect();
        String::from_utf8_lossy(&digits).parse().context("the resourceVersion is no number")
    }
}

const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// No row's request takes a tenth of this on a healthy server.
const PATIENCE: Duration = Duration::from_secs(30);

/// What client-go's transport allows a server to send unasked on one stream.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 64 << 20;

/// A whole object of ours, wherever its metadata stands in it.
const HEAD: usize = 16 << 10;
