//! A watch over a WebSocket: one message per event, for clients that cannot read a stream of lines.

use std::{future::poll_fn, time::Duration};

use futures_util::{SinkExt as _, StreamExt as _};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header, request::Parts};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        handshake::derive_accept_key,
        protocol::{Role, WebSocketConfig},
    },
};

use super::{ResponseBody, WatchBody, cork::Release, progress::STALL_TIMEOUT};
use crate::status::{ApiError, ApiResult};

/// Clients have nothing to say on a watch but pings and the farewell.
const MAX_INCOMING: usize = 4 << 10;

/// A peer that is told goodbye has this long to hear it.
const FAREWELL: Duration = Duration::from_secs(5);

/// A request to speak WebSocket instead of HTTP.
pub struct Upgrade {
    on_upgrade: OnUpgrade,
    release: Release,
    accept: String,
}

impl Upgrade {
    /// Reads the request's headers; nothing when it asks for no upgrade to WebSocket.
    pub fn asked(parts: &Parts) -> ApiResult<Option<Self>> {
        if !has_token(&parts.headers, header::UPGRADE, "websocket") {
            return Ok(None);
        }
        let upgrade = (parts.extensions.get::<OnUpgrade>(), parts.extensions.get::<Release>());
        let key = parts.headers.get(header::SEC_WEBSOCKET_KEY);
        let version = parts.headers.get(header::SEC_WEBSOCKET_VERSION);
        match (upgrade, key) {
            ((Some(on_upgrade), Some(release)), Some(key))
                if version.is_some_and(|version| version == "13")
                    && has_token(&parts.headers, header::CONNECTION, "upgrade") =>
            {
                let accept = derive_accept_key(key.as_bytes());
                Ok(Some(Self { on_upgrade: on_upgrade.clone(), release: release.clone(), accept }))
            }
            _ => Err(ApiError::bad_request("the WebSocket handshake is incomplete")),
        }
    }

    /// Answers the handshake, and sends the events of a watch for as long as it lasts.
    pub fn watch(self, watch: WatchBody) -> Response<ResponseBody> {
        let mut response = Response::new(ResponseBody::full(""));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        if let Ok(accept) = HeaderValue::from_str(&self.accept) {
            headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        }
        tokio::spawn(self.send(watch));
        response
    }

    async fn send(self, mut watch: WatchBody) {
        let Ok(upgraded) = self.on_upgrade.await else { return };
        // Nobody drives the connection any more: what is written goes out by itself.
        self.release.uncork();
        let limits = WebSocketConfig::default()
            .max_message_size(Some(MAX_INCOMING))
            .max_frame_size(Some(MAX_INCOMING));
        let io = TokioIo::new(upgraded);
        let mut socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(limits)).await;
        loop {
            tokio::select! {
                event = poll_fn(|context| watch.poll_event(context)) => {
                    let Some(event) = event else { break };
                    let text = String::from_utf8_lossy(event.trim_ascii_end()).into_owned();
                    let sent = tokio::time::timeout(STALL_TIMEOUT, socket.send(Message::text(text)));
                    if !matches!(sent.await, Ok(Ok(()))) {
                        return;
                    }
                }
                said = socket.next() => match said {
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                    Some(Ok(_)) => {}
                },
            }
        }
        // The peer may be gone already, which is as well.
        let _ = tokio::time::timeout(FAREWELL, socket.close(None)).await;
    }
}

/// Whether a header lists a token, in any case.
fn has_token(headers: &HeaderMap, name: header::HeaderName, token: &str) -> bool {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(token))
}
