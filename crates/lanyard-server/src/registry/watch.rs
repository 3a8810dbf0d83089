//! Beginning a watch: where it starts and what it sends first. The stream itself is in `http::watch`.

use std::sync::Arc;

use lanyard_store::Revision;

use super::{Call, Registry};
use crate::{
    collection::Watcher,
    encoded::Encoded,
    request::{ListOptions, VersionMatch},
    status::{ApiError, ApiResult},
};

/// What a client wants to watch.
pub struct WatchRequest<'a> {
    /// Type, namespace and name.
    pub call: &'a Call<'a>,
    /// Selectors, start and bookmarks.
    pub options: &'a ListOptions,
}

/// A watch that has begun; the watcher collects events from now on.
pub struct WatchStart {
    /// Where events arrive.
    pub watcher: Arc<Watcher>,
    /// The state to send first, as additions.
    pub initial: Vec<Arc<Encoded>>,
    /// After the initial state, send a bookmark with this revision and the annotation that marks its end.
    pub initial_end: Option<Revision>,
    /// Events up to this revision are not sent.
    pub after: Revision,
}

impl Registry {
    /// Begins a watch.
    pub async fn watch(&self, request: &WatchRequest<'_>) -> ApiResult<WatchStart> {
        let WatchRequest { call, options } = request;
        let collection = &call.endpoint.collection;
        let named = options.fields.exact("metadata.name");
        let name = named.or((!call.name.is_empty()).then_some(call.name));
        let watcher = Watcher::new(call.scope(name), options.bookmarks);
        if let Some(after) = resume_point(options) {
            let begun = collection.watch_after(after, &watcher);
            begun.map_err(|old| {
                let oldest = old.oldest;
                ApiError::expired(format!("too old resource version: {after} ({oldest})"))
            })?;
            return Ok(WatchStart { watcher, initial: Vec::new(), initial_end: None, after });
        }
        let current = match options.version {
            VersionMatch::Any => self.recent(),
            VersionMatch::NotOlderThan(wanted) => self.reach(Revision(wanted)).await?,
            _ => self.caught_up().await?,
        };
        let (mut initial, changed) = collection.watch_from_now(&watcher);
        let revision = current.max(changed);
        if options.send_initial_events == Some(false) {
            initial.clear();
        }
        let streams = options.send_initial_events == Some(true) && options.bookmarks;
        Ok(WatchStart {
            watcher,
            initial,
            initial_end: streams.then_some(revision),
            after: changed,
        })
    }
}

/// The revision to resume after, unless the watch begins with the present state.
fn resume_point(options: &ListOptions) -> Option<Revision> {
    let from = options.watch_from.filter(|from| *from > 0)?;
    (options.send_initial_events != Some(true)).then_some(Revision(from))
}
