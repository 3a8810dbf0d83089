//! Waiting for something to become true, with a deadline and a message that says what did not happen.

use std::net::{Ipv4Addr, TcpListener};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Asks `probe` until it answers `Some`, gives an error, or `within` has passed.
///
/// An error ends the wait at once: a probe that finds its server dead says so instead of using up the time.
pub fn wait_until<T>(
    what: &str,
    within: Duration,
    mut probe: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let start = Instant::now();
    loop {
        if let Some(found) = probe().with_context(|| format!("while waiting for {what}"))? {
            return Ok(found);
        }
        if start.elapsed() >= within {
            bail!("gave up after {within:?} waiting for {what}");
        }
        thread::sleep(PAUSE);
    }
}

/// A TCP port of 127.0.0.1 that nobody listened on a moment ago, for programs that cannot pick one themselves.
pub fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("bind a free port")?;
    Ok(listener.local_addr().context("read the bound port")?.port())
}

/// Short beside the start of any program, long beside the cost of asking.
const PAUSE: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_happen_is_named() {
        let failure =
            wait_until::<()>("the moon", Duration::from_millis(1), || Ok(None)).unwrap_err();
        assert!(failure.to_string().ends_with("waiting for the moon"), "{failure}");
    }

    #[test]
    fn an_error_ends_the_wait() {
        let start = Instant::now();
        let failure = wait_until::<()>("a server", Duration::from_secs(60), || bail!("it is dead"))
            .unwrap_err();
        assert!(start.elapsed() < Duration::from_secs(10));
        assert_eq!(format!("{failure:#}"), "while waiting for a server: it is dead");
    }
}
