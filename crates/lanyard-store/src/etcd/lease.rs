//! Leases for keys that delete themselves.
//!
//! A lease of etcd costs it memory and a round trip, so keys with the same time to live share one:
//! a lease is granted for a little longer than asked, and used for as long as what is left of it is
//! enough. A key therefore lives its time and at most [`window`] longer, and a thousand events in a
//! second make one lease.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use tokio::sync::Mutex;
use tonic::Status;

use super::{
    members::{Members, Retry},
    rpc::LeaseGrantRequest,
};

/// Deleting the keys of a lease is one transaction of etcd, so their number is bounded.
const KEYS_PER_LEASE: u32 = 1000;

/// Times to live with a lease of their own at one time; more than a server ever uses.
const KINDS: usize = 64;

/// The leases in use.
#[derive(Default)]
pub(super) struct Leases(Mutex<HashMap<Duration, Lease>>);

struct Lease {
    id: i64,
    keys: u32,
    /// The time of the last grant is not known exactly, so this is when it was asked for.
    ends: Instant,
}

impl Leases {
    /// A lease that lasts for at least `ttl` from now.
    pub(super) async fn lasting(&self, ttl: Duration, members: &Members) -> Result<i64, Status> {
        // Held during the grant, so that those who come meanwhile share it.
        let mut leases = self.0.lock().await;
        if let Some(lease) = leases.get_mut(&ttl)
            && lease.keys < KEYS_PER_LEASE
            && Instant::now() + ttl <= lease.ends
        {
            lease.keys += 1;
            return Ok(lease.id);
        }
        let asked = Instant::now();
        let seconds = (ttl + window(ttl)).as_secs_f64().ceil();
        let request = LeaseGrantRequest { ttl: seconds as i64 };
        // A lease granted twice only expires unused.
        let granted = members.call(request, Retry::Always).await?;
        let lasts = Duration::from_secs(u64::try_from(granted.ttl).unwrap_or_default());
        if leases.len() >= KINDS {
            leases.retain(|ttl, lease| asked + *ttl <= lease.ends);
            if leases.len() >= KINDS {
                leases.clear();
            }
        }
        leases.insert(ttl, Lease { id: granted.id, keys: 1, ends: asked + lasts });
        Ok(granted.id)
    }

    /// Forgets a lease that etcd no longer knows.
    pub(super) async fn forget(&self, id: i64) {
        self.0.lock().await.retain(|_, lease| lease.id != id);
    }
}

/// How much longer than asked for a key may live: a twentieth, within reason.
fn window(ttl: Duration) -> Duration {
    (ttl / 20).clamp(Duration::from_secs(1), Duration::from_secs(60))
}
