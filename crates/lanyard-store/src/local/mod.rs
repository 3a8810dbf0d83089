//! The store within this process: revisions, watches, time to live and compaction over an engine.
//!
//! Reads go to the engine directly, each in a short transaction of its own. Everything that changes
//! something goes through one thread, the [`committer`].

use std::{
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{Sender, channel},
    },
    thread,
};

use tokio::sync::{Semaphore, oneshot};

use crate::{
    Entry, Error, Range, RangeQuery, Result, Revision, Sink, Stats, Watch, Write, Written,
    engine::{Engine, Outcome, Tables},
};

mod committer;
#[cfg(test)]
mod disk_tests;
mod history;
pub(crate) mod layout;
#[cfg(test)]
mod power_loss;
mod recovery;
mod watchers;

use committer::{Command, Committer, Pending, Published};
use history::Marks;

/// The writes that wait for the committer hold at most this many bytes together; further writers
/// wait until there is room.
const QUEUE_BYTES: usize = 64 << 20;

/// A watch that is at most this many revisions behind is brought up to date by the committer, so
/// that none is missed; what is before is read without holding up the writers.
const NEAR: Revision = Revision(256);

/// A store in this process.
#[derive(Clone)]
pub(crate) struct Local {
    engine: Arc<dyn Engine>,
    commands: Arc<Sender<Command>>,
    queue: Arc<Semaphore>,
    published: Arc<Published>,
}

impl Local {
    /// Starts the committer on an engine.
    pub(crate) fn start(engine: Arc<dyn Engine>) -> Result<Self> {
        let marks = load(&*engine)?;
        let next_deadline = committer::next_deadline(&*engine)?;
        let published = Arc::new(Published::default());
        published.show(&marks);
        let (sender, receiver) = channel();
        let commands = Arc::new(sender);
        let committer = Committer {
            engine: engine.clone(),
            commands: receiver,
            unwatch: Arc::downgrade(&commands),
            published: published.clone(),
            marks,
            next_deadline,
            watchers: watchers::Watchers::default(),
            last_writes: 0,
            resting_until: None,
            distrusted: false,
        };
        thread::Builder::new()
            .name("store-committer".to_owned())
            .spawn(move || committer.run())
            .map_err(|e| Error::Unavailable(format!("cannot start a thread: {e}")))?;
        let queue = Arc::new(Semaphore::new(QUEUE_BYTES));
        Ok(Self { engine, commands, queue, published })
    }

    /// The newest state of one key.
    pub(crate) async fn get(&self, key: &str) -> Result<Option<Entry>> {
        let key = key.to_owned();
        self.read(move |tables| history::get(tables, &key)).await
    }

    /// The entries under a prefix.
    pub(crate) async fn range(&self, query: RangeQuery) -> Result<Range> {
        self.read(move |tables| history::range(tables, &query)).await
    }

    /// One conditional change.
    pub(crate) async fn write(&self, write: Write) -> Result<Written> {
        let weight = u32::try_from(committer::weight(&write)).unwrap_or(u32::MAX);
        let room =
            self.queue.clone().acquire_many_owned(weight).await.map_err(|_| Error::closed())?;
        self.ask(|answer| Command::Write(Pending { write, answer, _room: room })).await
    }

    /// Tells a sink every change after a revision, beginning with those of the past.
    pub(crate) async fn watch(
        &self,
        prefix: &str,
        after: Revision,
        sink: Arc<dyn Sink>,
    ) -> Result<Watch> {
        let (engine, prefix) = (self.engine.clone(), prefix.to_owned());
        let (prefix, sink, after) = blocking(move || {
            let after = committer::replay(&*engine, &prefix, after, &*sink, NEAR)?;
            Ok((prefix, sink, after))
        })
        .await?;
        self.ask(|answer| Command::Watch { prefix, after, sink, answer }).await
    }

    /// The newest revision; every watch knows everything up to it.
    pub(crate) fn head(&self) -> Result<Revision> {
        if self.published.closed.load(Ordering::Acquire) {
            return Err(Error::closed());
        }
        Ok(Revision(self.published.head.load(Ordering::Acquire)))
    }

    /// Lets go of the history before a revision.
    pub(crate) async fn compact(&self, to: Revision) -> Result<()> {
        self.ask(|answer| Command::Compact { to, answer }).await
    }

    /// Ends the watches, stops the committer, and releases the files.
    pub(crate) async fn close(&self) {
        let (answer, closed) = oneshot::channel();
        if self.commands.send(Command::Close(answer)).is_ok() {
            let _ = closed.await;
        }
    }

    /// Figures for metrics.
    pub(crate) fn stats(&self) -> Stats {
        Stats {
            revision: Revision(self.published.head.load(Ordering::Relaxed)),
            oldest: Revision(self.published.compacted.load(Ordering::Relaxed)),
            data_bytes: self.published.bytes.load(Ordering::Relaxed),
            disk_bytes: self.engine.size(),
            trouble: self.published.trouble.lock().clone(),
        }
    }

    async fn read<T: Send + 'static>(
        &self,
        body: impl Fn(&dyn Tables) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let engine = self.engine.clone();
        let result = blocking(move || {
            let mut found = None;
            engine.read(&mut |tables| {
                found = Some(body(tables)?);
                Ok(())
            })?;
            // The engine either fails or calls the body.
            found.ok_or_else(Error::closed)
        })
        .await;
        if let Err(Error::Io { .. } | Error::NoSpace { .. }) = result {
            let _ = self.commands.send(Command::Recover);
        }
        result
    }

    async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<T>>) -> Command,
    ) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        self.commands.send(command(answer)).map_err(|_| Error::closed())?;
        answered.await.map_err(|_| Error::closed())?
    }
}

/// Reads the marks, after checking that we know the layout of the data.
fn load(engine: &dyn Engine) -> Result<Marks> {
    let mut marks = Marks::default();
    engine.write(&mut |tables| {
        marks = Marks::load(&*tables)?;
        match layout::number(&*tables, layout::FORMAT)? {
            layout::FORMAT_VERSION => Ok(Outcome::Unchanged),
            0 if marks == Marks::default() => {
                layout::put_number(tables, layout::FORMAT, layout::FORMAT_VERSION)?;
                Ok(Outcome::Commit)
            }
            other => Err(tables.corrupt(&format_args!(
                "it has layout {other}, but this version knows only {}",
                layout::FORMAT_VERSION
            ))),
        }
    })?;
    Ok(marks)
}

async fn blocking<T: Send + 'static>(
    body: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(body).await.unwrap_or_else(|_| Err(Error::closed()))
}
