//! The server as a whole: configuration, start, the background loops, and the end.

mod bootstrap;
mod dispatch;
mod identity;
mod openapi;
mod other;
mod pipeline;
mod respond;
mod review;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use jiff::Timestamp;
use lanyard_store::{Store, StoreUrl};
use tokio::task::JoinSet;

pub(crate) use bootstrap::{SYSTEM_MANAGER, system_user};
pub use identity::PeerIdentity;

use crate::{
    audit::AuditLog,
    controllers::{self, Controllers},
    custom::CustomTypes,
    discovery::Discovery,
    http::Listener,
    metrics::ServerMetrics,
    openapi::OpenApi,
    pki::{Pki, PkiOptions, server_config},
    registry::Registry,
    types,
};
use identity::Identities;

/// How often certificates are looked at for renewal.
const RENEWAL_CHECK: Duration = Duration::from_secs(3600);

/// How often watches get a bookmark.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(55);

/// How to run a server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where keys, the kubeconfig and the embedded store are.
    pub data_dir: PathBuf,
    /// Where to listen; port 0 picks a free one.
    pub listen: SocketAddr,
    /// Where objects are kept.
    pub store: StoreUrl,
    /// Further names and addresses for the serving certificate.
    pub sans: Vec<String>,
    /// Where to write the audit log.
    pub audit_log: Option<PathBuf>,
}

/// Why a server could not start or had to stop.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store could not be opened.
    #[error(transparent)]
    Store(#[from] lanyard_store::Error),
    /// Keys or certificates are missing or broken.
    #[error(transparent)]
    Pki(#[from] crate::pki::PkiError),
    /// The CA certificates cannot be used to verify clients.
    #[error("the CA certificates cannot be used to verify clients")]
    Tls(#[source] rustls::Error),
    /// A file or socket failed.
    #[error("{what}")]
    Io {
        /// What was attempted, on what.
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The first objects could not be written.
    #[error("cannot write the first objects: {0}")]
    Bootstrap(#[source] crate::status::ApiError),
}

/// A server that is ready to serve.
pub struct Server {
    state: Arc<State>,
    listener: Listener,
    address: SocketAddr,
    loops: JoinSet<()>,
    controllers: Controllers,
}

/// What all requests share.
pub(crate) struct State {
    pub(crate) registry: Arc<Registry>,
    pub(crate) metrics: Arc<ServerMetrics>,
    discovery: ArcSwap<Discovery>,
    openapi: Arc<OpenApi>,
    identities: Identities,
    audit: Option<AuditLog>,
    address: SocketAddr,
    draining: AtomicBool,
    reads: AtomicUsize,
    writes: AtomicUsize,
}

impl Server {
    /// Opens the store, makes or reads the keys, binds the socket, writes the first objects and the
    /// administrator's kubeconfig.
    pub async fn start(config: &Config) -> Result<Self, Error> {
        let pki = Arc::new(open_pki(config)?);
        let store = Store::open(&config.store).await?;
        let registry = Registry::open(store, types::all()).await?;
        let listener = Listener::bind(config.listen, server_config(&pki)?).await;
        let what = || format!("cannot listen on {}", config.listen);
        let listener = listener.map_err(|source| Error::Io { what: what(), source })?;
        let address = listener.address().map_err(|source| Error::Io { what: what(), source })?;
        let audit = config.audit_log.as_deref().map(open_audit).transpose()?;
        let custom = CustomTypes::open(&registry).await?;
        bootstrap::run(&registry, address).await.map_err(Error::Bootstrap)?;
        let state = Arc::new(State {
            metrics: Arc::default(),
            discovery: ArcSwap::from_pointee(Discovery::new(registry.served())),
            openapi: Arc::default(),
            identities: Identities::new(&pki)?,
            registry,
            audit,
            address,
            draining: AtomicBool::new(false),
            reads: AtomicUsize::new(0),
            writes: AtomicUsize::new(0),
        });
        let kubeconfig = config.data_dir.join("admin.kubeconfig");
        pki.write_admin_kubeconfig(&kubeconfig, &server_url(address))?;
        let mut loops = JoinSet::new();
        loops.spawn(custom.run());
        let controllers = state.spawn_loops(&pki, &mut loops);
        loops.spawn(renew(pki, kubeconfig, server_url(address)));
        Ok(Self { state, listener, address, loops, controllers })
    }

    /// The address that clients reach it at.
    pub fn url(&self) -> String {
        server_url(self.address)
    }

    /// Serves until `stop` resolves, then drains and closes the store.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        self.listener.serve(self.state.clone(), stop).await;
        self.loops.shutdown().await;
        self.controllers.resign().await;
        self.state.registry.close().await;
        if let Some(audit) = &self.state.audit {
            audit.flush().await;
        }
    }
}

impl State {
    fn spawn_loops(self: &Arc<Self>, pki: &Arc<Pki>, loops: &mut JoinSet<()>) -> Controllers {
        let served = self.registry.served();
        // The custom types see to their own.
        let builtin = served.collections.iter().filter(|c| !c.resource.is_custom());
        for collection in builtin.cloned() {
            let registry = self.registry.clone();
            loops.spawn(async move { registry.keep_fed(collection).await });
        }
        loops.spawn(bookmarks(self.registry.clone()));
        controllers::spawn(&self.registry, pki, loops)
    }

    /// What is served now; made anew when the types have changed.
    fn discovery(&self) -> Arc<Discovery> {
        let served = self.registry.served();
        let known = self.discovery.load_full();
        if known.is_of(&served) {
            return known;
        }
        let changed = Arc::new(Discovery::new(served));
        self.discovery.store(changed.clone());
        changed
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}

/// Sends bookmarks to the watches that want them.
async fn bookmarks(registry: Arc<Registry>) {
    loop {
        tokio::time::sleep(BOOKMARK_INTERVAL).await;
        let Ok(revision) = registry.caught_up().await else { continue };
        for collection in &registry.served().collections {
            collection.bookmark(revision);
        }
    }
}

/// Renews certificates before they expire, without a restart.
async fn renew(pki: Arc<Pki>, kubeconfig: PathBuf, url: String) {
    loop {
        tokio::time::sleep(RENEWAL_CHECK).await;
        let renewed = pki.renew_if_due(Timestamp::now());
        let written = renewed.and_then(|renewed| match renewed.admin {
            true => pki.write_admin_kubeconfig(&kubeconfig, &url),
            false => Ok(()),
        });
        if let Err(error) = written {
            tracing::error!(%error, "cannot renew certificates, trying again in an hour");
        }
    }
}

fn open_pki(config: &Config) -> Result<Pki, Error> {
    let sans = config.sans.clone();
    Ok(Pki::open_or_create(&config.data_dir, &PkiOptions { sans })?)
}

fn open_audit(path: &Path) -> Result<AuditLog, Error> {
    let what = || format!("cannot open the audit log {}", path.display());
    AuditLog::open(path).map_err(|source| Error::Io { what: what(), source })
}

/// An unspecified address is reachable through the loopback one.
fn server_url(address: SocketAddr) -> String {
    let ip = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        std::net::IpAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
        std::net::IpAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
    };
    format!("https://{}", SocketAddr::new(ip, address.port()))
}
