//! Plans that are merged from parts of a scan without the tree in memory: which options of a build allow that.

use std::sync::Arc;

use packfs_blocks::Progress;
use packfs_image::Warnings;
use packfs_image::build::Merged;
use packfs_image::tree::Whiteouts;

use super::{Lists, refers, scan_options, warn_of_output};
use crate::args::BuildPlan;

/// Returns the source of a plan whose entries come from parts one by one; `None` if there are no parts, or if options need
/// all entries at once: several sources, and what adds, removes, moves or selects entries.
pub(in crate::commands) fn merged(
    plan: &BuildPlan,
    lists: &Lists,
    progress: &Arc<Progress>,
) -> packfs_image::Result<Option<Merged>> {
    let Lists { sort, hot, paths, rules, parts } = lists;
    let no_lists = sort.is_none() && hot.is_none() && paths.is_none() && rules.is_empty();
    let (Some(parts), true, [source]) = (parts, no_lists && is_plain(plan), &plan.sources[..]) else { return Ok(None) };
    let mut warnings = Warnings::new(plan.strict);
    warn_of_output(plan, &mut warnings)?;
    let scan = scan_options(plan, progress).set(|all| all.parts = Some(Arc::clone(parts)));
    Ok(Some(Merged::new(source, scan).set(|all| {
        (all.transform, all.clip_times, all.warnings) = (plan.transform.clone(), plan.clips_times(), warnings);
    })))
}

/// Returns true if the options change nothing but attributes.
fn is_plain(plan: &BuildPlan) -> bool {
    let no_entries = plan.files.is_none() && plan.add.is_empty() && plan.append.is_none() && plan.list.is_none();
    let same_place =
        plan.subdir.is_none() && !plan.layers && matches!(plan.whiteouts, Whiteouts::Keep) && plan.fs_config.is_none();
    no_entries && same_place && plan.hard_links && !refers(plan) && plan.target.merges()
}
