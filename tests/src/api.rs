//! A small blocking API client: HTTP/1.1 over TLS, one connection that is kept open, and watches that a
//! thread reads. Just enough for tests that need many requests at once or the bytes of a watch.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use lanyard_testkit::Identity;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;
use tokio_tungstenite::tungstenite::{self, WebSocket};

use crate::SOON;

/// A client with one identity.
pub struct Api {
    address: String,
    tls: Arc<ClientConfig>,
    headers: String,
    connection: Option<Connection>,
}

type Connection = BufReader<StreamOwned<ClientConnection, TcpStream>>;

impl Api {
    /// Reaches `https://host:port`, with a client certificate or without.
    pub fn new(server: &str, authorities: &str, identity: Option<&Identity>) -> Result<Api> {
        let address = server.trim_start_matches("https://").to_owned();
        let tls = tls_config(authorities, identity)?;
        Ok(Api { address, tls, headers: String::new(), connection: None })
    }

    /// One more header for every request.
    pub fn header(mut self, name: &str, value: &str) -> Api {
        self.headers.push_str(&format!("{name}: {value}\r\n"));
        self
    }

    /// GET.
    pub fn get(&mut self, path: &str) -> Result<Answer> {
        self.send("GET", path, "", None)
    }

    /// POST of JSON.
    pub fn post(&mut self, path: &str, body: &Value) -> Result<Answer> {
        self.send("POST", path, "application/json", Some(body))
    }

    /// PUT of JSON.
    pub fn put(&mut self, path: &str, body: &Value) -> Result<Answer> {
        self.send("PUT", path, "application/json", Some(body))
    }

    /// PATCH with a merge patch.
    pub fn merge(&mut self, path: &str, body: &Value) -> Result<Answer> {
        self.send("PATCH", path, "application/merge-patch+json", Some(body))
    }

    /// DELETE, with options or without.
    pub fn delete(&mut self, path: &str, options: Option<&Value>) -> Result<Answer> {
        self.send("DELETE", path, "application/json", options)
    }

    /// Begins a watch; `path` has the query without `watch=1`.
    pub fn watch(&self, path: &str) -> Result<Watch> {
        let mut connection = self.connect(SOON)?;
        let separator = if path.contains('?') { '&' } else { '?' };
        self.write(&mut connection, "GET", &format!("{path}{separator}watch=1"), "", None)?;
        let head = read_head(&mut connection)?;
        if head.code != 200 {
            let text = read_body(&mut connection, &head)?;
            bail!("the watch {path} was refused: {} {text}", head.code);
        }
        let socket = connection.get_ref().sock.try_clone().context("share a socket")?;
        // A watch may be silent for long.
        socket.set_read_timeout(None).context("set a timeout")?;
        let (sender, events) = mpsc::channel();
        thread::spawn(move || {
            let mut lines = Lines { connection, rest: Vec::new() };
            // The end of the stream, the end of the test and a broken stream all end the thread.
            while let Ok(Some(line)) = lines.next() {
                let Ok(event) = serde_json::from_slice(&line) else { break };
                if sender.send(event).is_err() {
                    break;
                }
            }
        });
        Ok(Watch { events, socket })
    }

    /// Opens a WebSocket, as some clients do for watches.
    pub fn websocket(
        &self,
        path: &str,
    ) -> Result<WebSocket<StreamOwned<ClientConnection, TcpStream>>> {
        let stream = self.connect(SOON)?.into_inner();
        let url = format!("wss://{}{path}", self.address);
        let (socket, _) = tungstenite::client(url, stream).context("upgrade to WebSocket")?;
        Ok(socket)
    }

    fn send(
        &mut self,
        method: &str,
        path: &str,
        content_type: &str,
        body: Option<&Value>,
    ) -> Result<Answer> {
        let mut connection = match self.connection.take() {
            Some(open) => open,
            None => self.connect(REQUEST_LIMIT)?,
        };
        self.write(&mut connection, method, path, content_type, body)?;
        let head = read_head(&mut connection)?;
        let text = read_body(&mut connection, &head)?;
        if !head.closes {
            self.connection = Some(connection);
        }
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
        let (code, headers) = (head.code, head.headers);
        Ok(Answer { code, headers, line: format!("{method} {path}"), body, text })
    }

    fn connect(&self, patience: Duration) -> Result<Connection> {
        let socket = TcpStream::connect(&self.address).context("connect to the server")?;
        socket.set_nodelay(true).context("set up a socket")?;
        socket.set_read_timeout(Some(patience)).context("set a timeout")?;
        socket.set_write_timeout(Some(patience)).context("set a timeout")?;
        let host = self.address.rsplit_once(':').map_or(&*self.address, |(host, _)| host);
        let name = ServerName::try_from(host.to_owned()).context("read the server's address")?;
        let session = ClientConnection::new(self.tls.clone(), name).context("begin TLS")?;
        Ok(BufReader::new(StreamOwned::new(session, socket)))
    }

    fn write(
        &self,
        connection: &mut Connection,
        method: &str,
        path: &str,
        content_type: &str,
        body: Option<&Value>,
    ) -> Result<()> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.address);
        request.push_str(&self.headers);
        if !body.is_empty() {
            let length = body.len();
            request
                .push_str(&format!("Content-Type: {content_type}\r\nContent-Length: {length}\r\n"));
        }
        request.push_str("\r\n");
        request.push_str(&body);
        connection.get_mut().write_all(request.as_bytes()).context("send a request")
    }
}

impl fmt::Debug for Api {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The headers may hold a token.
        out.debug_struct("Api").field("address", &self.address).finish_non_exhaustive()
    }
}

/// An answer of the server.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status code.
    pub code: u16,
    /// The body as JSON, or null.
    pub body: Value,
    /// The body as it came, as far as it is text.
    pub text: String,
    headers: Vec<(String, String)>,
    line: String,
}

impl Answer {
    /// The body of an answer that must have this code.
    pub fn expect(self, code: u16) -> Result<Value> {
        ensure!(
            self.code == code,
            "`{}` got {} but must get {code}: {}",
            self.line,
            self.code,
            self.text
        );
        Ok(self.body)
    }

    /// The value of a header, named in small letters.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The resource version of the object or list.
    pub fn version(&self) -> &str {
        self.body.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default()
    }
}

/// A watch under way.
#[derive(Debug)]
pub struct Watch {
    events: Receiver<Value>,
    socket: TcpStream,
}

impl Watch {
    /// The next event; an error when none comes soon or the watch has ended.
    pub fn next(&self) -> Result<Value> {
        self.events.recv_timeout(SOON).context("wait for a watch event")
    }

    /// The type and the name of the next event's object.
    pub fn next_name(&self) -> Result<(String, String)> {
        let event = self.next()?;
        let text = |pointer| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        Ok((text("/type").to_owned(), text("/object/metadata/name").to_owned()))
    }

    /// All further events until the server ends the watch, which it must do soon.
    pub fn rest(&self) -> Result<Vec<Value>> {
        let mut events = Vec::new();
        loop {
            match self.events.recv_timeout(SOON) {
                Ok(event) => events.push(event),
                Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(events),
                Err(mpsc::RecvTimeoutError::Timeout) => bail!("the watch goes on"),
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

struct Head {
    code: u16,
    length: Option<usize>,
    chunked: bool,
    closes: bool,
    headers: Vec<(String, String)>,
}

fn read_head(connection: &mut Connection) -> Result<Head> {
    let mut line = String::new();
    connection.read_line(&mut line).context("read an answer")?;
    let code = line.split(' ').nth(1).and_then(|code| code.parse().ok());
    let code = code.with_context(|| format!("this is no HTTP answer: {line:?}"))?;
    let mut head = Head { code, length: None, chunked: false, closes: false, headers: Vec::new() };
    loop {
        line.clear();
        connection.read_line(&mut line).context("read the headers of an answer")?;
        let Some((name, value)) = line.trim_end().split_once(':') else { return Ok(head) };
        let (name, value) = (name.to_ascii_lowercase(), value.trim());
        match name.as_str() {
            "content-length" => head.length = value.parse().ok(),
            "transfer-encoding" => head.chunked = value == "chunked",
            "connection" => head.closes = value == "close",
            _ => {}
        }
        head.headers.push((name, value.to_owned()));
    }
}

fn read_body(connection: &mut Connection, head: &Head) -> Result<String> {
    let mut body = Vec::new();
    if head.chunked {
        while let Some(chunk) = read_chunk(connection)? {
            body.extend(chunk);
        }
    } else {
        body.resize(head.length.unwrap_or(0), 0);
        connection.read_exact(&mut body).context("read the body of an answer")?;
    }
    Ok(String::from_utf8_lossy(&body).into_owned())
}

/// One piece of a chunked body; nothing at its end.
fn read_chunk(connection: &mut Connection) -> Result<Option<Vec<u8>>> {
    let mut line = String::new();
    connection.read_line(&mut line).context("read the size of a chunk")?;
    let size = usize::from_str_radix(line.trim(), 16);
    let size = size.with_context(|| format!("this is no size of a chunk: {line:?}"))?;
    let mut chunk = vec![0; size + 2];
    connection.read_exact(&mut chunk).context("read a chunk")?;
    chunk.truncate(size);
    Ok((size > 0).then_some(chunk))
}

/// The lines of a chunked body.
struct Lines {
    connection: Connection,
    rest: Vec<u8>,
}

impl Lines {
    fn next(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                return Ok(Some(self.rest.drain(..=end).collect()));
            }
            match read_chunk(&mut self.connection)? {
                Some(chunk) => self.rest.extend(chunk),
                None => return Ok(None),
            }
        }
    }
}

fn tls_config(authorities: &str, identity: Option<&Identity>) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
        roots.add(root.context("read the server's roots")?).context("use the server's roots")?;
    }
    let config = ClientConfig::builder().with_root_certificates(roots);
    let Some(identity) = identity else { return Ok(Arc::new(config.with_no_client_auth())) };
    let chain = CertificateDer::pem_slice_iter(identity.certificate.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .context("read the client certificate")?;
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes())
        .map_err(|_| anyhow!("the client key is not PEM"))?;
    let config = config.with_client_auth_cert(chain, key).context("use the client certificate")?;
    Ok(Arc::new(config))
}

/// Longer than the server itself lets a request take.
const REQUEST_LIMIT: Duration = Duration::from_secs(70);
