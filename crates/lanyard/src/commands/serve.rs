//! `lanyard serve` and `lanyard up`: the API server, from flags to a ready line to a clean end.

use std::{
    env,
    io::{self, IsTerminal as _, Write as _},
    net::SocketAddr,
    path::PathBuf,
    pin::pin,
};

use anyhow::{Context as _, bail};
use lanyard_server::server::{Config, Server};
use lanyard_store::StoreUrl;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::report::Usage;

/// The Kubernetes-compatible API server on an embedded store or on etcd.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  lanyard up
  lanyard serve --data-dir /var/lib/lanyard --listen 0.0.0.0:6443 --san api.example.com
  lanyard serve --store 'etcd://10.0.0.1:2379,10.0.0.2:2379?ca=ca.crt&cert=client.crt&key=client.key'
  kubectl --kubeconfig ~/.local/share/lanyard/admin.kubeconfig get namespaces

Several servers on one etcd share their keys: start one, then copy its DIR/pki to the others.")]
pub(crate) struct Args {
    /// Where keys, admin.kubeconfig and the embedded store are kept [default: $XDG_DATA_HOME/lanyard,
    /// or ~/.local/share/lanyard]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// Where to listen, as address and port; port 0 picks a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:6443")]
    listen: SocketAddr,

    /// Where objects are kept: embedded, memory (gone with the process), or
    /// etcd://HOST:PORT,...[?ca=FILE&cert=FILE&key=FILE&prefix=/P]
    #[arg(long, value_name = "URL", default_value = "embedded")]
    store: String,

    /// A further name or address for the serving certificate; may be repeated
    #[arg(long, value_name = "NAME")]
    san: Vec<String>,

    /// Append one JSON line per request to this file: who did what, never a body
    #[arg(long, value_name = "FILE")]
    audit_log: Option<PathBuf>,

    /// How much to log: error, warn, info, debug, or a filter such as lanyard_server=debug
    #[arg(long, value_name = "FILTER", default_value = "info", env = "LANYARD_LOG")]
    log: String,

    /// How log lines look [default: text on a terminal, else json]
    #[arg(long, value_name = "FORMAT", value_enum)]
    log_format: Option<LogFormat>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    start_logging(&args)?;
    raise_file_limit();
    let config = args.config()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(serve(config))
}

async fn serve(config: Config) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot handle signals")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot handle signals")?;
    let mut stop = pin!(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping");
    });
    let server = tokio::select! {
        server = Server::start(&config) => server?,
        () = &mut stop => return Ok(()),
    };
    let kubeconfig = config.data_dir.join("admin.kubeconfig");
    let mut stdout = io::stdout();
    writeln!(stdout, "lanyard is ready at {}; KUBECONFIG={}", server.url(), kubeconfig.display())
        .and_then(|()| stdout.flush())
        .context("cannot print the ready line")?;
    server.run(stop).await;
    Ok(())
}

impl Args {
    fn config(&self) -> anyhow::Result<Config> {
        let data_dir = match &self.data_dir {
            Some(dir) => dir.clone(),
            None => default_data_dir()?,
        };
        let data_dir = std::path::absolute(&data_dir)
            .with_context(|| format!("cannot make {} absolute", data_dir.display()))?;
        Ok(Config {
            store: StoreUrl::parse(&self.store, &data_dir).map_err(Usage::from_error)?,
            data_dir,
            listen: self.listen,
            sans: self.san.clone(),
            audit_log: self.audit_log.clone(),
        })
    }
}

/// Each connection takes a file descriptor, and the usual limit of 1024 is meant for other programs.
/// Where it cannot be raised, the server takes fewer connections.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "cannot raise the limit on open files");
    }
}

fn default_data_dir() -> anyhow::Result<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("XDG_DATA_HOME").or_else(|| set("HOME").map(|home| home.join(".local/share")));
    match base {
        Some(base) => Ok(base.join("lanyard")),
        None => bail!(Usage("neither XDG_DATA_HOME nor HOME is set: give --data-dir DIR".into())),
    }
}

fn start_logging(args: &Args) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&args.log)
        .map_err(|error| Usage(format!("--log {:?} is not a filter: {error}", args.log)))?;
    let terminal = io::stderr().is_terminal();
    let fallback = if terminal { LogFormat::Text } else { LogFormat::Json };
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    match args.log_format.unwrap_or(fallback) {
        LogFormat::Text => lines.with_ansi(terminal).init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
    Ok(())
}
