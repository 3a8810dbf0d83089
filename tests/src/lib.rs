//! What the end-to-end tests in `tests/` share: a server with its administrator, people who type kubectl
//! commands, and a small API client for what kubectl cannot do (many writes at once, raw watches).

mod api;
mod cluster;
mod user;

pub use api::{Answer, Api, Watch};
pub use cluster::{Cluster, copy_pki};
pub use user::User;

use std::time::Duration;

/// Until when something that needs no waiting must have happened, on a busy machine.
pub const SOON: Duration = Duration::from_secs(30);
