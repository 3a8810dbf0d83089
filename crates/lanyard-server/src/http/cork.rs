//! A socket that gathers what one turn of a connection writes, and sends it in as few calls as it can.
//!
//! HTTP/2 flushes after every frame, which would cost a system call and a packet for each 16 KiB of a list and for
//! each of many small events. The connection's driver knows when a turn is over: it then lets go of what
//! was held with [`Release`].

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use parking_lot::Mutex;
use rustix::net::Shutdown;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::OwnedSemaphorePermit,
};

/// What is held at the most; more goes out at once. Some TLS records, or what the kernel takes in one packet.
const HELD: usize = 64 << 10;

/// The socket under a TLS session.
pub(super) struct Corked(Arc<Shared>);

/// Sends what a [`Corked`] socket holds.
#[derive(Clone)]
pub(super) struct Release(Arc<Shared>);

struct Shared {
    socket: TcpStream,
    held: Mutex<Held>,
    /// Given back with the socket, whoever has it last: a WebSocket outlives the HTTP connection.
    _permit: Option<OwnedSemaphorePermit>,
}

#[derive(Default)]
struct Held {
    /// Whether writes are held back: not before somebody releases them.
    corked: bool,
    bytes: Vec<u8>,
    /// How many of `bytes` are sent already.
    sent: usize,
}

impl Corked {
    /// A socket that writes through until [`Release::cork`], and the permit to have it.
    pub(super) fn new(socket: TcpStream, permit: Option<OwnedSemaphorePermit>) -> (Self, Release) {
        let shared = Arc::new(Shared { socket, held: Mutex::default(), _permit: permit });
        (Self(shared.clone()), Release(shared))
    }
}

impl Release {
    /// From now on writes are held until they are released.
    pub(super) fn cork(&self) {
        self.0.held.lock().corked = true;
    }

    /// From now on writes go out by themselves again.
    pub(super) fn uncork(&self) {
        self.0.held.lock().corked = false;
    }

    /// Sends what is held; what the kernel does not take goes with the next turn, for which
    /// `context` is woken.
    pub(super) fn poll(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_drain(&mut self.0.held.lock(), context)
    }
}

impl Shared {
    fn poll_drain(&self, held: &mut Held, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while held.sent < held.bytes.len() {
            held.sent +=
                ready!(self.poll_send(&[IoSlice::new(&held.bytes[held.sent..])], context))?;
        }
        // Given back rather than kept: most connections are quiet most of the time.
        held.bytes = Vec::new();
        held.sent = 0;
        Poll::Ready(Ok(()))
    }

    fn poll_send(
        &self,
        slices: &[IoSlice<'_>],
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.socket.poll_write_ready(context))?;
            match self.socket.try_write_vectored(slices) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                sent => return Poll::Ready(sent),
            }
        }
    }
}

impl AsyncRead for Corked {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let socket = &self.0.socket;
        loop {
            ready!(socket.poll_read_ready(context))?;
            match socket.try_read_buf(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read.map(drop)),
            }
        }
    }
}

impl AsyncWrite for Corked {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut held = self.0.held.lock();
        if held.bytes.len() >= HELD || !held.corked {
            ready!(self.0.poll_drain(&mut held, context))?;
        }
        if !held.corked {
            return self.0.poll_send(slices, context);
        }
        slices.iter().for_each(|slice| held.bytes.extend_from_slice(slice));
        Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// What is held is not forgotten: the driver releases it at the end of the turn.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.0.poll_drain(&mut self.0.held.lock(), context))?;
        match rustix::net::shutdown(&self.0.socket, Shutdown::Write) {
            // The peer was faster.
            Err(rustix::io::Errno::NOTCONN) => Poll::Ready(Ok(())),
            result => Poll::Ready(result.map_err(Into::into)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    async fn pair() -> (Corked, Release, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (corked, release) = Corked::new(listener.accept().await.unwrap().0, None);
        (corked, release, peer)
    }

    #[tokio::test]
    async fn what_is_written_arrives_once_it_is_released() {
        let (mut corked, release, mut peer) = pair().await;
        release.cork();
        corked.write_all(b"one ").await.unwrap();
        corked.flush().await.unwrap();
        corked.write_all(b"two").await.unwrap();
        let mut buffer = [0; 16];
        assert!(peer.try_read(&mut buffer).is_err(), "nothing is sent before the release");
        poll_fn(|context| release.poll(context)).await.unwrap();
        let read = peer.read(&mut buffer).await.unwrap();
        assert_eq!(&buffer[..read], b"one two");
    }

    #[tokio::test]
    async fn more_than_is_held_goes_out_by_itself_and_whole() {
        let (mut corked, release, mut peer) = pair().await;
        release.cork();
        let sent: Vec<u8> = (0..5_000_000u32).map(|i| (i % 251) as u8).collect();
        let expected = sent.clone();
        let reader = tokio::spawn(async move {
            let mut all = Vec::new();
            peer.read_to_end(&mut all).await.unwrap();
            all
        });
        corked.write_all(&sent).await.unwrap();
        corked.shutdown().await.unwrap();
        assert!(reader.await.unwrap() == expected);
    }

    #[tokio::test]
    async fn nothing_is_held_before_the_cork() {
        let (mut corked, _release, mut peer) = pair().await;
        corked.write_all(b"handshake").await.unwrap();
        let mut buffer = [0; 9];
        peer.read_exact(&mut buffer).await.unwrap();
        assert_eq!(&buffer, b"handshake");
    }
}
