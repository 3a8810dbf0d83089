//! The `lanyard` command: parses arguments, starts what they ask for, tells people what went wrong.
//!
//! The only crate that prints, reads the environment or handles signals.

mod commands;
mod report;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Keys, secrets and trust anchors for Kubernetes, by reference.
#[derive(Parser)]
#[command(name = "lanyard", version, propagate_version = true)]
#[command(after_help = "Example:
  lanyard up
  kubectl --kubeconfig ~/.local/share/lanyard/admin.kubeconfig get namespaces

Exit codes: 0 done, 1 failed, 2 wrong usage.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run everything in one process
    ///
    /// Today that is the Kubernetes-compatible API server with its controllers, on an embedded
    /// store unless told otherwise.
    Up(commands::serve::Args),
    /// Run the API server
    ///
    /// A Kubernetes-compatible API server on an embedded store, or one of several on an etcd. Prints
    /// one line when it is ready; SIGTERM drains and ends it.
    Serve(commands::serve::Args),
}

fn main() -> std::process::ExitCode {
    let result = match Cli::parse().command {
        Command::Up(args) | Command::Serve(args) => commands::serve::run(args),
    };
    report::exit_code(result)
}
