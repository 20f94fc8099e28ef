//! The format-independent part of checks: their phases, and the reading of data on threads, with
//! damage reported in the order of the image.

use packfs_blocks::Progress;
use packfs_blocks::pipeline::{self, Window};
use packfs_blocks::progress::Phase;
use packfs_blocks::stages::Stage;

use crate::{Error, Part, Result};
use packfs_tree::{CheckRemark, Finding, FindingCollector};

/// Jobs in flight for each thread.
const JOBS: usize = 4;

/// Checks an image, or a part of its data: first `metadata`, then `data` with the result of the first step. Each is a
/// phase of `progress`, and its time that of a stage.
pub(crate) fn run<M>(
    progress: &Progress,
    finding: &mut dyn FnMut(Finding),
    part: Part,
    metadata: impl FnOnce(&mut FindingCollector<'_>) -> Result<M>,
    data: impl FnOnce(M, &mut FindingCollector<'_>) -> Result<()>,
) -> Result<()> {
    let mut report = FindingCollector::new(finding);
    // All parts need the metadata, and one reports what is wrong with it.
    report.set_muted(!part.is_first());
    progress.enter(Phase::Metadata);
    let found = progress.stages.time(Stage::Metadata, || metadata(&mut report))?;
    progress.enter(Phase::Read);
    progress.stages.time(Stage::Data, || data(found, &mut report))?;
    report.finish();
    progress.enter(Phase::Done);
    Ok(())
}

/// Runs `work` on all `jobs` on `threads` threads, until the report is full. `work` returns its findings, which are
/// reported in any case.
pub(crate) fn in_order<'env, P: Sync + 'env>(
    threads: usize,
    jobs: impl Iterator<Item = &'env [P]>,
    report: &mut FindingCollector<'_>,
    work: impl Fn(&[P], &mut Vec<u8>) -> Vec<CheckRemark> + Copy + Send + 'env,
) -> Result<()> {
    let was_muted = report.set_muted(false);
    pipeline::scope(threads, Vec::new, |pool| {
        let mut window = Window::new(threads.max(1) * JOBS);
        for job in jobs {
            if window.is_full() {
                take(&mut window, report)?;
            }
            if report.is_full() {
                break;
            }
            window.push(pool.submit(move |buf: &mut Vec<u8>| work(job, buf)), 1);
        }
        while !window.is_empty() {
            take(&mut window, report)?;
        }
        Ok::<_, Error>(())
    })?;
    report.set_muted(was_muted);
    Ok(())
}

fn take(window: &mut Window<Vec<CheckRemark>>, report: &mut FindingCollector<'_>) -> Result<()> {
    window.pop().into_iter().flatten().try_for_each(|remark| report.remark(remark))
}
