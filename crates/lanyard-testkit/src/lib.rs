//! Fixtures that start the real programs our tests and benchmarks talk to, each in a temporary directory
//! and on ports of its own. Whatever a fixture starts dies with it: when it is dropped, when the test
//! panics, and when the test process itself is killed. Nothing here stands in for a real program.

mod etcd;
mod kube_apiserver;
mod kubeconfig;
mod kubectl;
mod lanyard;
mod pki;
mod process;
mod programs;
mod wait;

pub use etcd::Etcd;
pub use kube_apiserver::KubeApiserver;
pub use kubeconfig::Kubeconfig;
pub use kubectl::{Kubectl, Output};
pub use lanyard::{Lanyard, Setup};
pub use pki::{Authority, Identity, certificate_request};
pub use process::Process;
pub use programs::{Program, workspace_root};
pub use wait::{free_port, wait_until};
