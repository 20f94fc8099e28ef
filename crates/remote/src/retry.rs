//! Attempts that are repeated while their failure may pass.

use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, FailureReason, Result};
use crate::http::AttemptFailure;
use crate::{RemoteOptions, WarningReceiver};

/// Longest wait between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);
/// Bytes after which attempts are counted anew, however many connections delivered them. So a line that breaks every
/// few KiB suffices, and a server that sends one byte for each connection is given up.
const PROGRESS: u64 = 16 << 10;

/// How often an attempt is made, and who hears of failures.
#[derive(Debug)]
pub(crate) struct RetryPolicy {
    /// Name of what is read or written, without secrets.
    name: String,
    tries: u32,
    pause: Duration,
    quiet: Duration,
    report: Option<WarningReceiver>,
}

impl RetryPolicy {
    pub(crate) fn new(name: String, options: &RemoteOptions) -> Self {
        RetryPolicy {
            name,
            tries: options.tries.max(1),
            pause: options.pause,
            quiet: options.quiet,
            report: options.report.clone(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Greatest number of attempts without progress.
    pub(crate) fn tries(&self) -> u32 {
        self.tries
    }

    /// Repeats `attempt` until it succeeds, fails for good, or has failed too often. The error names what was read.
    pub(crate) fn repeat<T>(&self, mut attempt: impl FnMut() -> std::result::Result<T, AttemptFailure>) -> Result<T> {
        self.repeat_unnamed(|_| attempt()).map_err(|why| Error::new(&self.name, why))
    }

    /// As [`RetryPolicy::repeat`], with the reason alone as the error. The attempt notes the bytes that need not come
    /// again.
    pub(crate) fn repeat_unnamed<T>(
        &self,
        mut attempt: impl FnMut(&mut AttemptCount) -> std::result::Result<T, AttemptFailure>,
    ) -> std::result::Result<T, FailureReason> {
        let mut count = AttemptCount::new();
        loop {
            // Before the attempt: one that makes progress is not among those that follow it.
            count.tries += 1;
            let failed = attempt(&mut count);
            let tries = count.tries;
            match failed {
                Ok(done) => return Ok(done),
                Err(AttemptFailure::Final(why)) => return Err(why),
                Err(AttemptFailure::Passing { why, .. }) if tries >= self.tries => return Err(why.after(tries)),
                Err(AttemptFailure::Passing { why, after }) => {
                    let pause = after.unwrap_or_else(|| self.pause(tries));
                    if let Some(report) = &self.report
                        && count.quiet_since.elapsed() + pause >= self.quiet
                    {
                        let next = tries + 1;
                        report.line(&format!(
                            "{}: {why}; attempt {next} of {} follows in {:.1} s",
                            self.name,
                            self.tries,
                            pause.as_secs_f64()
                        ));
                        count.quiet_since = Instant::now();
                    }
                    thread::sleep(pause);
                }
            }
        }
    }

    /// Returns the pause after `tries` attempts: twice as long each time, and up to a half longer by chance, so that
    /// many readers do not come back at once.
    fn pause(&self, tries: u32) -> Duration {
        // The limit keeps the shift within 32 bits; the longest pause is reached long before.
        let pause = self.pause.saturating_mul(1 << tries.saturating_sub(1).min(16)).min(LONGEST_PAUSE);
        let mut random = [0; 1];
        // Without random numbers the pause is the shortest one.
        let _ = ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut random);
        pause + pause.mul_f64(f64::from(random[0]) / 512.0)
    }
}

/// Attempts since the last progress.
pub(crate) struct AttemptCount {
    tries: u32,
    /// Bytes that came in these attempts.
    bytes: u64,
    /// Time of the last progress or report.
    quiet_since: Instant,
}

impl AttemptCount {
    fn new() -> Self {
        AttemptCount { tries: 0, bytes: 0, quiet_since: Instant::now() }
    }

    /// Notes bytes that no later attempt requests again; with enough of them, the count begins anew.
    pub(crate) fn note_bytes(&mut self, len: usize) {
        self.bytes += len as u64;
        if self.bytes >= PROGRESS {
            *self = AttemptCount::new();
        }
    }
}
