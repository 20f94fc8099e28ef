//! Directories that workers list ahead of the conductor, which receives them in the order in which it asked for them.
//!
//! A large directory is several jobs, whose listings come one after the other, before those of the next directory. So
//! the order of all entries is that of the tree, level by level, and does not depend on the size of directories.

use std::collections::VecDeque;

use packfs_blocks::pipeline::{JobTicket, Pool};

use super::listing::{DirListing, ListingBuffers, NameBatch};

/// Number of jobs in flight per worker: enough to keep workers busy, few enough to bound the listings in memory.
const JOBS_PER_WORKER: usize = 8;

/// Directories to be listed. `D` stands for one of them.
#[derive(Debug)]
pub(super) struct ListAhead<D> {
    pub(super) waiting: VecDeque<D>,
    running: VecDeque<(D, JobTicket<DirListing>)>,
    /// The directory of which a part was returned last, and the jobs for the rest of it.
    large: Option<(D, NameBatch, VecDeque<JobTicket<DirListing>>)>,
}

impl<D: Clone> ListAhead<D> {
    pub(super) fn new(waiting: impl IntoIterator<Item = D>) -> Self {
        ListAhead { waiting: waiting.into_iter().collect(), running: VecDeque::new(), large: None }
    }

    /// Returns the next listing with its directory; `submit` starts a job for a directory, or for some names of it.
    pub(super) fn next(
        &mut self,
        pool: &Pool<'_, ListingBuffers>,
        mut submit: impl FnMut(&D, Option<NameBatch>) -> JobTicket<DirListing>,
    ) -> Option<(D, DirListing)> {
        // One more, as without workers there must be a job, too.
        let room = pool.threads() * JOBS_PER_WORKER + 1;
        // The rest of a large directory comes before the next one, whatever was submitted first.
        if let Some((dir, rest, jobs)) = &mut self.large {
            while jobs.len() < room
                && let Some(names) = rest.split_first()
            {
                jobs.push_back(submit(dir, Some(names)));
            }
            if let Some(job) = jobs.pop_front() {
                return Some((dir.clone(), job.wait()));
            }
            self.large = None;
        }
        while self.running.len() < room
            && let Some(dir) = self.waiting.pop_front()
        {
            // Directories are listed ahead, in the order in which they are wanted.
            let job = submit(&dir, None);
            self.running.push_back((dir, job));
        }
        let (dir, job) = self.running.pop_front()?;
        // The oldest job: its listing is the next, even if later ones are finished.
        let mut listing = job.wait();
        if let Some(rest) = listing.rest.take() {
            self.large = Some((dir.clone(), rest, VecDeque::new()));
        }
        Some((dir, listing))
    }
}
