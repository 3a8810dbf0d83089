//! The task that keeps one stream of watches open to some member of the cluster.
//!
//! All watches share the stream. When it breaks, or says nothing while somebody waits for it, the
//! task opens another one to the next member and lets every watch continue where it was; it never
//! gives up. Streams are opened only while there is something to watch.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tonic::{Status, Streaming};

use super::{
    members::{Members, Requests},
    newest::Answer,
    rpc::{WatchRequest, WatchResponse},
    watches::Watches,
};
use crate::{Error, Result, Revision, Sink};

/// etcd says nothing to a request for progress while some watch is behind, so it is repeated.
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// A stream that says nothing for so long, though it was asked, is given up.
const SILENCE_MAX: Duration = Duration::from_secs(3);

/// The first and the longest pause before another stream is opened.
const PAUSE_FIRST: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// What the task is asked to do.
pub(super) enum Order {
    Open {
        id: i64,
        prefix: String,
        after: Revision,
        sink: Arc<dyn Sink>,
        answer: oneshot::Sender<Result<()>>,
    },
    Close(i64),
    /// Answers when all watches know the revision.
    Await(Revision, Vec<Answer>),
    /// End the watches that know more than this, for it is all there is.
    EndBeyond(Revision),
    Stop(oneshot::Sender<()>),
}

/// Carries out orders until there can be no more.
pub(super) async fn run(
    members: Arc<Members>,
    mut watches: Watches,
    mut orders: mpsc::UnboundedReceiver<Order>,
) {
    let stopped = work(&members, &mut watches, &mut orders).await;
    // From here on everybody finds the store closed.
    orders.close();
    watches.end(&Error::closed());
    if let Some(answer) = stopped {
        let _ = answer.send(());
    }
}

/// Works until it is to stop; answers whom to tell.
async fn work(
    members: &Members,
    watches: &mut Watches,
    orders: &mut mpsc::UnboundedReceiver<Order>,
) -> Option<oneshot::Sender<()>> {
    let mut pause = PAUSE_FIRST;
    loop {
        while watches.is_empty() {
            match orders.recv().await? {
                Order::Stop(answer) => return Some(answer),
                order => drop(obey(order, watches)),
            }
        }
        let member = members.preferred();
        let began = Instant::now();
        match serve(members, member, watches, orders).await {
            End::Idle => continue,
            End::Stopped(answer) => return answer,
            End::Broken(status) => {
                let code = status.code();
                tracing::debug!(?code, message = status.message(), member, "a watch stream ended");
                members.avoid(member);
            }
        }
        if began.elapsed() > PAUSE_MAX {
            pause = PAUSE_FIRST;
        }
        if let Some(End::Stopped(answer)) = rest(pause, watches, orders).await {
            return answer;
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Why a stream ended.
enum End {
    /// Nothing is watched any more.
    Idle,
    /// We are to stop, and perhaps tell somebody.
    Stopped(Option<oneshot::Sender<()>>),
    Broken(Status),
}

/// Serves the watches from one stream until it ends.
async fn serve(
    members: &Members,
    member: usize,
    watches: &mut Watches,
    orders: &mut mpsc::UnboundedReceiver<Order>,
) -> End {
    let (requests, queue) = Requests::channel();
    // The first requests must be there before the stream is: etcd answers only then.
    for request in watches.resume() {
        let _ = requests.send(request);
    }
    let mut stream = match members.watch(member, queue).await {
        Ok(stream) => stream,
        Err(status) => return End::Broken(status),
    };
    let mut asked: Option<Asked> = None;
    loop {
        asked = match (asked, watches.progress_request()) {
            (_, None) => None,
            (Some(asked), Some(_)) if Instant::now() < asked.again => Some(asked),
            (earlier, Some(request)) => {
                let _ = requests.send(request);
                let now = Instant::now();
                let heard = earlier.map_or(now, |asked| asked.heard);
                Some(Asked { again: now + ASK_AGAIN, heard })
            }
        };
        let ask_again = asked.as_ref().map(|asked| asked.again);
        tokio::select! {
            order = orders.recv() => match order {
                Some(Order::Stop(answer)) => return End::Stopped(Some(answer)),
                None => return End::Stopped(None),
                Some(order) => {
                    // A new wish for progress is passed on at once.
                    if matches!(order, Order::Await(..)) {
                        asked = asked.map(|asked| Asked { again: Instant::now(), ..asked });
                    }
                    if let Some(request) = obey(order, watches) {
                        let _ = requests.send(request);
                    }
                    if watches.is_empty() {
                        return End::Idle;
                    }
                }
            },
            response = next(&mut stream) => match response {
                Ok(response) => {
                    watches.take(response);
                    asked = asked.map(|asked| Asked { heard: Instant::now(), ..asked });
                    if watches.is_empty() {
                        return End::Idle;
                    }
                }
                Err(status) => return End::Broken(status),
            },
            () = sleep_until(ask_again) => {
                if asked.as_ref().is_some_and(|asked| asked.heard.elapsed() > SILENCE_MAX) {
                    return End::Broken(Status::deadline_exceeded("no answer about progress"));
                }
            }
        }
    }
}

/// A request for progress that is not answered yet.
struct Asked {
    /// When it is sent again.
    again: Instant,
    /// When the stream last said anything, or was first asked.
    heard: Instant,
}

/// Carries out an order; answers what to tell etcd. Stopping is up to the caller.
fn obey(order: Order, watches: &mut Watches) -> Option<WatchRequest> {
    match order {
        Order::Open { id, prefix, after, sink, answer } => {
            Some(watches.open(id, prefix, after, sink, answer))
        }
        Order::Close(id) => watches.close(id),
        Order::Await(target, answers) => {
            watches.wait(target, answers);
            None
        }
        Order::EndBeyond(newest) => {
            watches.end_beyond(newest);
            None
        }
        Order::Stop(_) => None,
    }
}

/// Obeys for a while without a stream.
async fn rest(
    pause: Duration,
    watches: &mut Watches,
    orders: &mut mpsc::UnboundedReceiver<Order>,
) -> Option<End> {
    let until = Instant::now() + pause;
    loop {
        match tokio::time::timeout_at(until, orders.recv()).await {
            Ok(Some(Order::Stop(answer))) => return Some(End::Stopped(Some(answer))),
            // What a new watch asks of etcd is asked again when there is a stream.
            Ok(Some(order)) => drop(obey(order, watches)),
            Ok(None) => return Some(End::Stopped(None)),
            Err(_) => return None,
        }
    }
}

async fn next(stream: &mut Streaming<WatchResponse>) -> Result<WatchResponse, Status> {
    stream.message().await?.ok_or_else(|| Status::unavailable("the member ended the stream"))
}

async fn sleep_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
