//! The outer shell: connections, bodies, and how answers become bytes.

mod body;
mod connection;
mod cork;
mod layout;
mod list;
mod listener;
mod present;
mod progress;
mod protobuf;
mod watch;
mod websocket;

pub use body::{MAX_BODY, ResponseBody, read_body};
pub use connection::Connection;
pub use list::ListBody;
pub use listener::{Handler, Listener};
pub(crate) use present::finish;
pub use present::{IncludeObject, Presentation};
pub use watch::{WatchBody, WatchParts};
pub use websocket::Upgrade;
