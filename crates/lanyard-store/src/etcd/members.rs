//! The members of an etcd cluster: connections to them, and which one to ask.
//!
//! Whatever cannot be had from one member is asked of the next, with pauses that grow, until a
//! deadline: reads always, writes only when it is certain that the first attempt had no effect.
//! Certificates are read again for every new connection after a failure, so that renewed ones are
//! taken up without a restart.

use std::{
    error::Error as _,
    fs,
    path::Path,
    pin::Pin,
    sync::atomic::{AtomicUsize, Ordering},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use parking_lot::RwLock;
use tokio::sync::mpsc;
use tonic::{
    Code, ConnectError, Status,
    client::Grpc,
    metadata::MetadataValue,
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity},
};
use tonic_prost::ProstCodec;

use super::rpc::{Method, WatchCreateRequest, WatchRequest, WatchResponse, WatchUnion};
use crate::{Error, EtcdUrl, Result};

/// How long one attempt at connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long one member may take over a read before the next one is asked.
const READ_ATTEMPT: Duration = Duration::from_secs(4);

/// How long a call may take in all. A new leader takes over within a second or two.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Connections that answer no ping within this time are given up. etcd closes connections that
/// ping more often than every five seconds, or while nothing is asked of them.
const PING_EVERY: Duration = Duration::from_secs(8);
const PING_TIMEOUT: Duration = Duration::from_secs(4);

/// The first and the longest pause between attempts.
const PAUSE_FIRST: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// The largest answer taken from etcd: pages and fragments stay far below, unless values are huge.
const ANSWER_MAX: usize = 512 << 20;

/// How much etcd may send ahead on one stream and on one connection.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 8 << 20;

/// Connections to all members.
pub(super) struct Members {
    url: EtcdUrl,
    channels: Vec<RwLock<Channel>>,
    preferred: AtomicUsize,
}

/// What may be done when an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retry {
    /// Asking again changes nothing.
    Always,
    /// Asking again could do it twice, so only if it was certainly not done.
    IfNotDone,
}

impl Members {
    /// Prepares the connections; they are made when they are needed.
    pub(super) fn new(url: EtcdUrl) -> Result<Self> {
        let channels = url.endpoints.iter().map(|e| connect(&url, e).map(RwLock::new));
        let channels = channels.collect::<Result<_>>()?;
        Ok(Self { url, channels, preferred: AtomicUsize::new(0) })
    }

    /// What to call the cluster in errors.
    pub(super) fn name(&self) -> String {
        format!("etcd://{}", self.url.endpoints.join(","))
    }

    /// Calls a method on one member after the other until one answers.
    pub(super) async fn call<M: Method>(
        &self,
        request: M,
        retry: Retry,
    ) -> Result<M::Response, Status> {
        let deadline = Instant::now() + CALL_TIMEOUT;
        let mut pause = PAUSE_FIRST;
        loop {
            let member = self.preferred();
            let left = deadline.saturating_duration_since(Instant::now());
            let limit = if retry == Retry::Always { left.min(READ_ATTEMPT) } else { left };
            let attempt = self.attempt(member, request.clone());
            let status = match tokio::time::timeout(limit, attempt).await {
                Ok(Ok(response)) => return Ok(response),
                Ok(Err(status)) => status,
                Err(_) => Status::deadline_exceeded(format!("no answer within {limit:?}")),
            };
            let again = match retry {
                Retry::Always => is_passing(&status),
                Retry::IfNotDone => was_not_done(&status),
            };
            if is_passing(&status) {
                self.avoid(member);
            }
            if !again || Instant::now() + pause >= deadline {
                return Err(status);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Opens a stream of watches on a member.
    pub(super) async fn watch(
        &self,
        member: usize,
        requests: Requests,
    ) -> Result<tonic::Streaming<WatchResponse>, Status> {
        let mut grpc = self.grpc(member).await?;
        let call = grpc.streaming(
            with_leader(tonic::Request::new(requests)),
            WatchRequest::path(),
            ProstCodec::default(),
        );
        match tokio::time::timeout(READ_ATTEMPT, call).await {
            Ok(response) => Ok(response?.into_inner()),
            Err(_) => Err(Status::deadline_exceeded("no answer to a watch")),
        }
    }

    /// The revision that history begins with, if it was ever compacted.
    ///
    /// Only a watch that begins before it is told, so this opens one.
    pub(super) async fn oldest_revision(&self, key: Vec<u8>) -> Option<i64> {
        let create = WatchCreateRequest { key, start_revision: 1, ..WatchCreateRequest::default() };
        let create = WatchRequest { union: Some(WatchUnion::Create(create)) };
        let look = async {
            let mut stream = self.watch(self.preferred(), Requests::once(create)).await.ok()?;
            while let Some(response) = stream.message().await.ok()? {
                if response.canceled {
                    return Some(response.compact_revision);
                }
            }
            None
        };
        tokio::time::timeout(READ_ATTEMPT, look).await.ok().flatten()
    }

    /// The member to ask.
    pub(super) fn preferred(&self) -> usize {
        self.preferred.load(Ordering::Relaxed) % self.channels.len()
    }

    /// Prefers the next member over this one, and connects to this one anew the next time.
    pub(super) fn avoid(&self, member: usize) {
        let next = (member + 1) % self.channels.len();
        let changed =
            self.preferred.compare_exchange(member, next, Ordering::Relaxed, Ordering::Relaxed);
        // The first of many callers to notice renews the connection.
        if changed.is_ok() || self.channels.len() == 1 {
            match connect(&self.url, &self.url.endpoints[member]) {
                Ok(channel) => *self.channels[member].write() = channel,
                Err(error) => tracing::warn!(%error, "keeping the old etcd credentials"),
            }
        }
    }

    /// What a failure of etcd means to our callers.
    pub(super) fn error(&self, status: &Status) -> Error {
        let message = status.message();
        match status.code() {
            Code::ResourceExhausted if message.contains("space exceeded") => {
                Error::NoSpace { path: self.name() }
            }
            Code::DataLoss => Error::Corrupt { path: self.name(), detail: message.to_owned() },
            code => {
                let cause = status.source().map(innermost).unwrap_or_default();
                Error::Unavailable(format!("{}: {code:?}: {message}{cause}", self.name()))
            }
        }
    }

    async fn attempt<M: Method>(&self, member: usize, request: M) -> Result<M::Response, Status> {
        let mut grpc = self.grpc(member).await?;
        let request = with_leader(tonic::Request::new(request));
        Ok(grpc.unary(request, M::path(), ProstCodec::default()).await?.into_inner())
    }

    async fn grpc(&self, member: usize) -> Result<Grpc<Channel>, Status> {
        let channel = self.channels[member].read().clone();
        let mut grpc = Grpc::new(channel)
            .max_decoding_message_size(ANSWER_MAX)
            .max_encoding_message_size(usize::MAX);
        // Until a channel is ready nothing was sent.
        grpc.ready()
            .await
            .map_err(|error| Status::from_error(Box::new(ConnectError(error.into()))))?;
        Ok(grpc)
    }
}

/// The requests of one stream of watches, as they come.
pub(super) struct Requests(mpsc::UnboundedReceiver<WatchRequest>);

impl Requests {
    /// Requests, and where to put them.
    pub(super) fn channel() -> (mpsc::UnboundedSender<WatchRequest>, Self) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (sender, Self(receiver))
    }

    /// A single request.
    fn once(request: WatchRequest) -> Self {
        let (sender, requests) = Self::channel();
        let _ = sender.send(request);
        requests
    }
}

impl futures_core::Stream for Requests {
    type Item = WatchRequest;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<WatchRequest>> {
        self.0.poll_recv(cx)
    }
}

/// Makes a member that has no leader refuse at once, before it does anything.
fn with_leader<T>(mut request: tonic::Request<T>) -> tonic::Request<T> {
    request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
    request
}

/// Whether another member, or the same one a little later, may do better.
pub(super) fn is_passing(status: &Status) -> bool {
    match status.code() {
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unknown => true,
        Code::ResourceExhausted => status.message().contains("too many requests"),
        // A learner, a member that is starting, or one that was removed.
        Code::FailedPrecondition => true,
        // The connection broke.
        Code::Internal => true,
        _ => false,
    }
}

/// Whether it is certain that the request had no effect.
fn was_not_done(status: &Status) -> bool {
    let refused = match status.code() {
        Code::Unavailable => status.message() == "etcdserver: no leader",
        Code::ResourceExhausted => status.message().contains("too many requests"),
        Code::FailedPrecondition => true,
        _ => false,
    };
    refused || causes(status.source()).any(|cause| cause.is::<ConnectError>())
}

fn causes<'e>(
    first: Option<&'e (dyn std::error::Error + 'static)>,
) -> impl Iterator<Item = &'e (dyn std::error::Error + 'static)> {
    std::iter::successors(first, |&error| error.source())
}

/// The text of the first cause, which is what a person can do something about.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    causes(Some(error)).last().map(|cause| format!(" ({cause})")).unwrap_or_default()
}

fn connect(url: &EtcdUrl, endpoint: &str) -> Result<Channel> {
    let scheme = if url.tls { "https" } else { "http" };
    let bad = |problem: String| Error::Url { url: format!("etcd://{endpoint}"), problem };
    let mut built = Endpoint::from_shared(format!("{scheme}://{endpoint}"))
        .map_err(|e| bad(e.to_string()))?
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(false)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    if url.tls {
        let tls = tls(url)?;
        built = built.tls_config(tls).map_err(|e| bad(innermost(&e)))?;
    }
    Ok(built.connect_lazy())
}

fn tls(url: &EtcdUrl) -> Result<ClientTlsConfig> {
    let read = |path: &Path| {
        fs::read(path)
            .map_err(|e| Error::Io { path: path.display().to_string(), detail: e.to_string() })
    };
    let mut tls = ClientTlsConfig::new().timeout(CONNECT_TIMEOUT);
    if let Some(ca) = &url.ca {
        tls = tls.ca_certificate(Certificate::from_pem(read(ca)?));
    }
    if let (Some(cert), Some(key)) = (&url.cert, &url.key) {
        tls = tls.identity(Identity::from_pem(read(cert)?, read(key)?));
    }
    Ok(tls)
}
