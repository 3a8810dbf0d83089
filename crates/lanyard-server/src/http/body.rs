//! Request bodies are read whole and bounded; response bodies are ready bytes, a list or a watch.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;

use super::{ListBody, WatchBody};
use crate::status::{ApiError, ApiResult};

/// The largest request body: upstream's limit, twice etcd's 1.5 MiB.
pub const MAX_BODY: usize = 3 << 20;

/// Reads a whole body.
pub async fn read_body(body: Incoming) -> ApiResult<Bytes> {
    if body.size_hint().lower() > MAX_BODY as u64 {
        return Err(ApiError::too_large(MAX_BODY));
    }
    match Limited::new(body, MAX_BODY).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(ApiError::too_large(MAX_BODY)),
        Err(error) => {
            Err(ApiError::bad_request("the request body could not be read").because(error))
        }
    }
}

/// The body of a response.
pub enum ResponseBody {
    /// Ready bytes.
    Full(Option<Bytes>),
    /// A list, made piece by piece.
    List(Box<ListBody>),
    /// A watch, for as long as it lasts.
    Watch(Box<WatchBody>),
}

impl ResponseBody {
    /// A body of ready bytes.
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self::Full((!bytes.is_empty()).then_some(bytes))
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match self.get_mut() {
            Self::Full(bytes) => Poll::Ready(bytes.take()),
            Self::List(list) => Poll::Ready(list.next_chunk()),
            Self::Watch(watch) => watch.poll_chunk(context),
        };
        next.map(|chunk| chunk.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Full(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            _ => SizeHint::default(),
        }
    }
}
