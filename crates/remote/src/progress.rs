//! The least rate of a connection: one that delivers a few bytes now and then is given up like one that is silent.

use std::io::{self, Read};
use std::time::{Duration, Instant};

/// Bytes that a connection has to deliver in each window of time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProgressRule {
    pub(crate) window: Duration,
    pub(crate) least: u64,
}

/// A body that fails with [`io::ErrorKind::TimedOut`] if it comes too slowly.
pub(crate) struct WatchedBody<R> {
    body: R,
    rule: ProgressRule,
    window_began: Instant,
    /// Bytes since the window began.
    came: u64,
}

impl ProgressRule {
    pub(crate) fn watch<R: Read>(&self, body: R) -> WatchedBody<R> {
        WatchedBody { body, rule: *self, window_began: Instant::now(), came: 0 }
    }
}

impl<R: Read> Read for WatchedBody<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let got = self.body.read(buf)?;
        self.came += got as u64;
        if self.window_began.elapsed() >= self.rule.window {
            // The end of a body may be short.
            if got > 0 && self.came < self.rule.least {
                let why = format!(
                    "only {} bytes came in {:.0} s",
                    self.came,
                    self.window_began.elapsed().as_secs_f64().max(1.0)
                );
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            self.window_began = Instant::now();
            self.came = 0;
        }
        Ok(got)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Delivers pieces of one length, each after a pause.
    struct SlowPieces {
        len: usize,
        pause: Duration,
        left: usize,
    }

    impl Read for SlowPieces {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            if self.left == 0 {
                return Ok(0);
            }
            self.left -= 1;
            std::thread::sleep(self.pause);
            buf[..self.len].fill(7);
            Ok(self.len)
        }
    }

    #[test]
    fn a_body_that_drips_is_given_up_and_a_slow_one_is_not() {
        let rule = ProgressRule { window: Duration::from_millis(50), least: 100 };
        let read = |len, pause| -> io::Result<usize> {
            let body = SlowPieces { len, pause: Duration::from_millis(pause), left: 30 };
            let mut watched = rule.watch(body);
            let mut came = 0;
            loop {
                match watched.read(&mut [0; 1000])? {
                    0 => return Ok(came),
                    got => came += got,
                }
            }
        };
        assert_eq!(read(1, 10).unwrap_err().kind(), io::ErrorKind::TimedOut);
        // Each piece is enough for a window, whatever the machine does meanwhile.
        assert_eq!(read(200, 10).unwrap(), 6000);
        assert_eq!(read(1, 0).unwrap_or(30), 30);
    }
}
