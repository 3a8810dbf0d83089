//! What the committer does when the disk fails: it refuses writes, opens the engine again so that
//! reads go on, and tries to write again every so often, until it works.

use std::time::{Duration, Instant};

use super::{
    committer::{Committer, REPLAY_PIECE, next_deadline},
    history::{self, Marks},
};
use crate::{Error, Result};

/// How long writes are refused after the disk failed, before it is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

impl Committer {
    /// Whether it makes sense to write now; tries to mend what is broken, if it is time to.
    pub(super) fn ready(&mut self) -> Result<()> {
        if let Some(until) = self.resting_until {
            let trouble = self.published.trouble.lock().clone();
            match trouble {
                Some(trouble) if Instant::now() < until => return Err(trouble),
                _ => self.mend()?,
            }
        }
        let room = self.engine.check_room();
        if let Err(error) = &room {
            self.rest(error.clone());
        }
        room
    }

    /// Handles an error of the engine: says so, and opens it again so that reads can go on.
    pub(super) fn fail(&mut self, error: &Error) {
        tracing::error!(%error, "the store cannot write");
        self.distrusted = true;
        let trouble = match self.reopen() {
            Ok(()) => error.clone(),
            Err(error) => {
                tracing::error!(%error, "the store cannot be opened again");
                error
            }
        };
        self.rest(trouble);
    }

    /// Handles an error that a reader met.
    pub(super) fn recover(&mut self) {
        if self.resting_until.is_none() {
            self.fail(&Error::Unavailable("the disk failed a read".to_owned()));
        }
    }

    /// Refuses writes for a while.
    fn rest(&mut self, trouble: Error) {
        *self.published.trouble.lock() = Some(trouble);
        self.resting_until = Some(Instant::now() + RETRY_AFTER);
    }

    /// Ends the time of rest if the engine works.
    fn mend(&mut self) -> Result<()> {
        if self.distrusted
            && let Err(error) = self.reopen()
        {
            self.rest(error.clone());
            return Err(error);
        }
        self.resting_until = None;
        *self.published.trouble.lock() = None;
        Ok(())
    }

    /// Opens the engine again, which may bring to light a commit that was thought to have failed.
    fn reopen(&mut self) -> Result<()> {
        self.engine.recover()?;
        let mut marks = Marks::default();
        self.engine.read(&mut |tables| {
            marks = Marks::load(tables)?;
            Ok(())
        })?;
        if marks.head < self.marks.head {
            // Never acknowledge on top of a history that lost acknowledged changes.
            return Err(Error::Unavailable(format!(
                "the disk lost revisions {} to {}: restart to continue with what is left",
                marks.head.0 + 1,
                self.marks.head
            )));
        }
        let mut changes = Vec::new();
        let mut after = self.marks.head;
        while after < marks.head {
            self.engine.read(&mut |tables| {
                let piece = history::replay(tables, "", after, REPLAY_PIECE)?;
                after = piece.through;
                changes.extend(piece.changes);
                Ok(())
            })?;
        }
        self.next_deadline = next_deadline(&*self.engine)?;
        self.marks = marks;
        self.distrusted = false;
        self.tell_and_publish(&changes);
        Ok(())
    }
}
