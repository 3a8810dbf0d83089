//! The accept loop: TLS connections up to a limit, and the drain at the end.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use hyper::{Request, Response, body::Incoming};
use rustix::process::{Resource, getrlimit};
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch},
};
use tokio_rustls::{TlsAcceptor, rustls};

use super::{Connection, ResponseBody, connection::Protocols};
use crate::server::PeerIdentity;

/// Open connections at the most: each costs some KiB.
const MAX_CONNECTIONS: usize = 16_384;

/// File descriptors that are not for connections: the store, logs, keys, outgoing connections.
const OTHER_FILES: u64 = 128;

/// How long to wait when a connection cannot be accepted: whatever is short does not come back sooner.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long open requests may go on once the server drains.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(20);

/// A bound socket and its TLS settings.
pub struct Listener {
    socket: TcpListener,
    tls: Arc<rustls::ServerConfig>,
}

impl Listener {
    /// Binds the address.
    pub async fn bind(
        address: SocketAddr,
        tls: Arc<rustls::ServerConfig>,
    ) -> std::io::Result<Self> {
        Ok(Self { socket: TcpListener::bind(address).await?, tls })
    }

    /// The address, with the port that was picked.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Serves until `stop` resolves, then lets open requests finish.
    pub async fn serve<H>(self, handler: Arc<H>, stop: impl Future<Output = ()>)
    where
        H: Handler,
    {
        let protocols = Protocols::new(TlsAcceptor::from(self.tls));
        let permits = Arc::new(Semaphore::new(max_connections()));
        let (drain, draining) = watch::channel(());
        tokio::pin!(stop);
        loop {
            // The permit is taken first: at the limit, new peers wait in the kernel's queue.
            let permit = tokio::select! {
                permit = permits.clone().acquire_owned() => permit,
                () = &mut stop => break,
            };
            let accepted = tokio::select! {
                accepted = self.socket.accept() => accepted,
                () = &mut stop => break,
            };
            let (stream, remote) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let (protocols, handler) = (protocols.clone(), handler.clone());
            let draining = draining.clone();
            // The semaphore is never closed, so that there always is a permit.
            let socket = (stream, permit.ok());
            tokio::spawn(async move {
                protocols.serve(socket, remote, handler, draining).await;
            });
        }
        drop((self.socket, draining));
        handler.draining();
        // Nobody listens when there is no connection, which is as well.
        let _ = drain.send(());
        if tokio::time::timeout(DRAIN_TIMEOUT, drain.closed()).await.is_err() {
            tracing::warn!("some requests did not finish in time");
        }
    }
}

/// What the listener hands requests to.
pub trait Handler: Send + Sync + 'static {
    /// Who a certificate chain belongs to; called once per connection.
    fn identify(&self, chain: &[rustls::pki_types::CertificateDer<'_>]) -> PeerIdentity;

    /// Answers one request; never fails.
    fn handle(
        self: &Arc<Self>,
        connection: Arc<Connection>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<ResponseBody>> + Send;

    /// No new requests come; long-running ones should end.
    fn draining(&self);
}

/// As many as there can be files: a connection that the process has no descriptor for would take
/// those that the rest of the server needs with it.
fn max_connections() -> usize {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let left = files.saturating_sub(OTHER_FILES).max(1);
    usize::try_from(left).unwrap_or(usize::MAX).min(MAX_CONNECTIONS)
}
