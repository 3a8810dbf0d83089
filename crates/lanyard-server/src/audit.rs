//! The optional audit log: one JSON line per request, who did what to which object with what result.
//!
//! Only metadata is written, never a body, so secret values cannot appear. A line is queued before the
//! response goes out; when the disk cannot keep up, requests wait rather than go unrecorded. A server
//! that stops writes what still waits.

use std::{fs::OpenOptions, io::Write as _, os::unix::fs::OpenOptionsExt as _, path::Path};

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

/// Lines that may wait for the disk.
const QUEUE: usize = 4_096;

/// The audit log of a server.
#[derive(Clone)]
pub struct AuditLog(mpsc::Sender<Order>);

/// What the writer is to do.
enum Order {
    Write(String),
    /// Say when everything before this is written.
    Report(oneshot::Sender<()>),
}

impl AuditLog {
    /// Appends to the file, which only its owner can read.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        let (sender, mut orders) = mpsc::channel(QUEUE);
        std::thread::Builder::new().name("audit".into()).spawn(move || {
            while let Some(order) = orders.blocking_recv() {
                match order {
                    // One write call per line, so that lines are whole even after a crash.
                    Order::Write(line) => {
                        if let Err(error) = file.write_all(line.as_bytes()) {
                            tracing::error!(%error, "cannot write the audit log");
                        }
                    }
                    // Whoever asked may have gone.
                    Order::Report(done) => drop(done.send(())),
                }
            }
        })?;
        Ok(Self(sender))
    }

    /// Records one event.
    pub async fn record(&self, event: &Value) {
        // The writer ends only with the process.
        let _ = self.0.send(Order::Write(format!("{event}\n"))).await;
    }

    /// Waits until everything recorded so far is written.
    pub async fn flush(&self) {
        let (done, written) = oneshot::channel();
        let _ = self.0.send(Order::Report(done)).await;
        let _ = written.await;
    }
}
