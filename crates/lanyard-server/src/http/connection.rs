//! One connection from handshake to end, and the limits that slow, silent and dead peers run into.

use std::{
    convert::Infallible,
    future::poll_fn,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::{
    body::Incoming,
    rt::{Read, Write},
    server::conn::{http1, http2},
    service::{HttpService, service_fn},
};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use rustix::net::sockopt;
use tokio::{
    net::TcpStream,
    sync::{OwnedSemaphorePermit, watch},
    time::Instant,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::{
    Handler, ResponseBody,
    cork::{Corked, Release},
    progress::{GuardedTasks, Progress},
};
use crate::server::PeerIdentity;

/// A peer must finish its TLS handshake within this.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// A peer must send all headers of its first request within this; on HTTP/1.1 also of each further one.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// A connection without any request is closed after this, as upstream's.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// A peer that was told that its connection ends has this long to take what is left.
const FAREWELL: Duration = Duration::from_secs(15);

/// HTTP/2 peers are pinged this often; one that does not answer is gone.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// Requests at once on one HTTP/2 connection: upstream's default for API servers of this kind.
const MAX_STREAMS: u32 = 250;

/// All headers of a request together: room for a large token and many impersonation headers.
const MAX_HEADER_BYTES: u32 = 64 << 10;

/// How many headers an HTTP/1.1 request may have: each costs a slot before its bytes are looked at.
const MAX_HEADERS: usize = 200;

/// How much of one HTTP/2 request body, and of all on a connection, may arrive before it is read.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;

/// How much of one HTTP/2 response may be buffered for sending.
const SEND_BUFFER: usize = 256 << 10;

/// What is known of a peer.
pub struct Connection {
    /// Its address.
    pub remote: SocketAddr,
    /// Who the certificate that it showed stands for; nothing when it showed none.
    pub certificate: Option<PeerIdentity>,
}

/// What all connections share.
#[derive(Clone)]
pub(super) struct Protocols {
    acceptor: TlsAcceptor,
    http1: http1::Builder,
    http2: http2::Builder<GuardedTasks>,
}

impl Protocols {
    pub(super) fn new(acceptor: TlsAcceptor) -> Self {
        let mut http1 = http1::Builder::new();
        http1
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .max_headers(MAX_HEADERS)
            .max_buf_size(MAX_HEADER_BYTES as usize);
        let mut http2 = http2::Builder::new(GuardedTasks);
        http2
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .max_concurrent_streams(MAX_STREAMS)
            .max_header_list_size(MAX_HEADER_BYTES)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(SEND_BUFFER);
        Self { acceptor, http1, http2 }
    }

    /// Serves a peer until it or the server has had enough; `draining` changes when the server ends.
    pub(super) async fn serve<H: Handler>(
        self,
        (stream, permit): (TcpStream, Option<OwnedSemaphorePermit>),
        remote: SocketAddr,
        handler: Arc<H>,
        mut draining: watch::Receiver<()>,
    ) {
        // A socket that takes no options is no reason to turn a peer away.
        let _ = stream.set_nodelay(true).and_then(|()| notice_death(&stream));
        let (stream, release) = Corked::new(stream, permit);
        let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, self.acceptor.accept(stream));
        // Boxed, so that the room that a handshake takes is given back after it.
        let handshake = tokio::select! {
            handshake = Box::pin(handshake) => handshake,
            // Nothing has been asked yet, so nobody is owed an answer.
            _ = draining.changed() => return,
        };
        let Ok(Ok(stream)) = handshake else {
            return tracing::debug!(%remote, "TLS handshake failed");
        };
        release.cork();
        if let Err(error) = self.serve_requests(stream, release, remote, handler, draining).await {
            tracing::debug!(%remote, error, "connection ended");
        }
    }

    /// Boxed piece by piece rather than one `async fn`: each connection keeps what this takes.
    fn serve_requests<H: Handler>(
        self,
        stream: TlsStream<Corked>,
        release: Release,
        remote: SocketAddr,
        handler: Arc<H>,
        draining: watch::Receiver<()>,
    ) -> Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>> {
        let session = stream.get_ref().1;
        let certificate = session.peer_certificates().map(|chain| handler.identify(chain));
        // The protocol was agreed on in the handshake. To sniff it instead would mean to wait for
        // bytes from the peer, with no limit.
        let is_http2 = session.alpn_protocol() == Some(b"h2");
        let connection = Arc::new(Connection { remote, certificate });
        let activity = Arc::new(Activity::default());
        let opened = activity.clone();
        let released = release.clone();
        let service = service_fn(move |mut request: hyper::Request<Incoming>| {
            if request.headers().contains_key(http::header::UPGRADE) {
                request.extensions_mut().insert(released.clone());
            }
            let (handler, connection, open) = (handler.clone(), connection.clone(), opened.open());
            // Boxed, so that a watch does not keep the room that answering its request took.
            Box::pin(async move {
                let response = handler.handle(connection, request).await;
                let progress = Progress::current();
                Ok::<_, Infallible>(response.map(|body| SentBody { body, progress, _open: open }))
            })
        });
        let io = TokioIo::new(stream);
        if is_http2 {
            let connection = Box::pin(self.http2.serve_connection(io, service));
            Box::pin(drive(connection, release, activity, draining))
        } else {
            let connection = self.http1.serve_connection(io, service).with_upgrades();
            let connection = Box::pin(connection);
            Box::pin(drive(connection, release, activity, draining))
        }
    }
}

/// Lets the kernel ask whether the peer is still there. HTTP/1.1 has no pings of its own, and a quiet
/// watch sends nothing that could fail.
fn notice_death(stream: &TcpStream) -> std::io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, PING_INTERVAL)?;
    sockopt::set_tcp_keepintvl(stream, PING_TIMEOUT)?;
    Ok(())
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Runs a connection; ends it when it is idle, unread, or the server drains.
async fn drive<C>(
    mut connection: Pin<Box<C>>,
    release: Release,
    activity: Arc<Activity>,
    mut draining: watch::Receiver<()>,
) -> Result<(), BoxError>
where
    C: Drain,
{
    let progress = Arc::new(Progress::default());
    let mut check = pin!(tokio::time::sleep(HEADER_TIMEOUT));
    let mut ending = false;
    loop {
        tokio::select! {
            ended = turns(progress.guard(connection.as_mut()), &release) => {
                return ended??.map_err(Into::into);
            }
            _ = draining.changed(), if !ending => {
                connection.as_mut().drain();
                ending = true;
                // Open requests may go on; the listener says for how long.
                check.as_mut().reset(Instant::now() + IDLE_TIMEOUT);
            }
            () = check.as_mut() => match activity.idle_until() {
                Some(until) if until > Instant::now() => check.as_mut().reset(until),
                None => check.as_mut().reset(Instant::now() + IDLE_TIMEOUT),
                Some(_) if ending => return Ok(()),
                Some(_) => {
                    connection.as_mut().drain();
                    ending = true;
                    check.as_mut().reset(Instant::now() + FAREWELL);
                }
            },
        }
    }
}

/// Runs a connection turn by turn, and sends after each what it has written.
async fn turns<F: Future>(connection: F, release: &Release) -> std::io::Result<F::Output> {
    let mut connection = pin!(connection);
    poll_fn(|context| {
        let turn = connection.as_mut().poll(context);
        match (turn, release.poll(context)) {
            (_, Poll::Ready(Err(error))) => Poll::Ready(Err(error)),
            (Poll::Ready(output), _) => Poll::Ready(Ok(output)),
            (Poll::Pending, _) => Poll::Pending,
        }
    })
    .await
}

/// A connection that can be told to end after what it is doing.
trait Drain: Future<Output = hyper::Result<()>> {
    fn drain(self: Pin<&mut Self>);
}

impl<I, S> Drain for http1::UpgradeableConnection<I, S>
where
    S: HttpService<Incoming, ResBody = SentBody>,
    S::Error: Into<BoxError>,
    I: Read + Write + Unpin + Send + 'static,
{
    fn drain(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

impl<I, S> Drain for http2::Connection<I, S, GuardedTasks>
where
    S: HttpService<Incoming, ResBody = SentBody>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    I: Read + Write + Unpin,
{
    fn drain(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

/// What a connection is being used for.
#[derive(Default)]
struct Activity(Mutex<Use>);

#[derive(Default)]
struct Use {
    /// Requests whose responses are not yet sent.
    open: usize,
    /// When the last of them ended.
    ended: Option<Instant>,
}

impl Activity {
    fn open(self: &Arc<Self>) -> Open {
        self.0.lock().open += 1;
        Open(self.clone())
    }

    /// When the connection will have been idle for too long; nothing while it is in use.
    fn idle_until(&self) -> Option<Instant> {
        let used = self.0.lock();
        match (used.open, used.ended) {
            (0, Some(ended)) => Some(ended + IDLE_TIMEOUT),
            // Never used, and the time for the first request is over.
            (0, None) => Some(Instant::now()),
            _ => None,
        }
    }
}

/// A request that is being answered.
struct Open(Arc<Activity>);

impl Drop for Open {
    fn drop(&mut self) {
        let mut used = self.0.0.lock();
        used.open -= 1;
        used.ended = Some(Instant::now());
    }
}

/// A response body that tells how it fares.
struct SentBody {
    body: ResponseBody,
    progress: Option<Arc<Progress>>,
    _open: Open,
}

impl Body for SentBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = Pin::new(&mut self.body).poll_frame(context);
        if let Some(progress) = &self.progress {
            match next {
                Poll::Ready(Some(_)) => progress.gave(),
                _ => progress.asked(),
            }
        }
        next
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for SentBody {
    fn drop(&mut self) {
        // On HTTP/1.1 the next response has the same progress; what is left of this one is with hyper.
        if let Some(progress) = &self.progress {
            progress.asked();
        }
    }
}
