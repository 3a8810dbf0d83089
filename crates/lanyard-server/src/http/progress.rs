//! Whether a peer takes what it asked for. One that leaves a response unread holds the objects in it, so
//! it is cut off after a while: on HTTP/2 that one response, on HTTP/1.1 the connection.
//!
//! hyper asks a body for more only when there is room to send it. A body that was not asked again
//! since its last piece is therefore one whose peer does not read. The future that sends it is the
//! only place from which it can be ended; the two meet through a task-local value.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use hyper::rt::Executor;
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep, sleep_until};

/// How long a peer may leave a piece of a response unread: long enough for a stalled network to
/// recover, short enough that what it holds does not pile up. Upstream gives a whole response as long.
pub(super) const STALL_TIMEOUT: Duration = Duration::from_secs(60);

tokio::task_local! {
    static CURRENT: Arc<Progress>;
}

/// Since when a response waits for its peer.
#[derive(Debug, Default)]
pub(super) struct Progress(Mutex<Option<Instant>>);

/// The peer did not take what it asked for.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the peer does not read")]
pub(super) struct Stalled;

impl Progress {
    /// That of the future which sends the response being made.
    pub(super) fn current() -> Option<Arc<Self>> {
        CURRENT.try_with(Arc::clone).ok()
    }

    /// The body was asked for more: there is room to send.
    pub(super) fn asked(&self) {
        *self.0.lock() = None;
    }

    /// The body gave a piece, which now waits to be sent.
    pub(super) fn gave(&self) {
        *self.0.lock() = Some(Instant::now());
    }

    /// Runs a future that sends responses, until it ends or its peer no longer reads.
    pub(super) async fn guard<F: Future>(
        self: &Arc<Self>,
        mut sends: Pin<&mut F>,
    ) -> Result<F::Output, Stalled> {
        let mut timer = None;
        poll_fn(|context| {
            let polled = CURRENT.sync_scope(self.clone(), || sends.as_mut().poll(context));
            match polled {
                Poll::Ready(output) => Poll::Ready(Ok(output)),
                Poll::Pending => self.poll_stalled(&mut timer, context),
            }
        })
        .await
    }

    /// The timer is there only while something waits, so that an idle watch does not pay for it.
    fn poll_stalled<T>(
        &self,
        timer: &mut Option<Pin<Box<Sleep>>>,
        context: &mut Context<'_>,
    ) -> Poll<Result<T, Stalled>> {
        let Some(since) = *self.0.lock() else {
            *timer = None;
            return Poll::Pending;
        };
        let end = since + STALL_TIMEOUT;
        let timer = timer.get_or_insert_with(|| Box::pin(sleep_until(end)));
        if timer.deadline() != end {
            timer.as_mut().reset(end);
        }
        timer.as_mut().poll(context).map(|()| Err(Stalled))
    }
}

/// Runs each response of an HTTP/2 connection in a task of its own, under guard.
#[derive(Clone, Copy)]
pub(super) struct GuardedTasks;

impl<F> Executor<F> for GuardedTasks
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, future: F) {
        tokio::spawn(async move {
            let future = pin!(future);
            if Arc::new(Progress::default()).guard(future).await.is_err() {
                tracing::debug!("a response was not read and is given up");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A future that gives a piece at once and is asked for more after `pause`, twice.
    async fn send_with_pauses(pause: Duration) {
        let progress = Progress::current().unwrap();
        for _ in 0..2 {
            progress.gave();
            tokio::time::sleep(pause).await;
            progress.asked();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_peer_that_stops_reading_is_cut_off() {
        for (pause, expected) in [
            (STALL_TIMEOUT / 2, Ok(())),
            (STALL_TIMEOUT * 2, Err(Stalled)),
            (Duration::ZERO, Ok(())),
        ] {
            let progress = Arc::new(Progress::default());
            let sent = progress.guard(pin!(send_with_pauses(pause))).await;
            assert_eq!(sent, expected, "{pause:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_quiet_watch_is_left_alone() {
        let progress = Arc::new(Progress::default());
        let quiet = pin!(tokio::time::sleep(STALL_TIMEOUT * 100));
        assert_eq!(progress.guard(quiet).await, Ok(()));
    }
}
