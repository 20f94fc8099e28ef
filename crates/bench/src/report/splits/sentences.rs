//! Sentences about splits. All numbers come from the results.

use super::super::leaders::{RankingLeaders, leaders, trailers};
use super::super::shape::distinct;
use super::group::{SplitGroup, intact_disks, row_label, terabyte_minutes, use_of_disks};
use crate::metrics::speedup;
use crate::results::SplitRow;
use crate::split::{DiskProfile, SplitWork, seconds_in_ranges};
use crate::stats::{SampleSummary, WIDE_SPREAD};
use crate::units::three_digits;

/// How splits are measured, and the columns of the tables.
pub(super) const METHOD: &str = "\
    Seconds run from the program's start until the last disk has all of its data. A simulated disk is a pipe whose \
    reader takes a fixed number of bytes per second and keeps up to 1 MiB. Speed-up is the time over one output \
    divided by the time over n outputs; efficiency is the speed-up divided by n. Of the disks: bytes stored per \
    second, relative to the speed of all disks together; near 100 %, the disks are the limit. 1 TB is 10^12 bytes of \
    the same kind at the same speed.";

/// Returns the findings of a group.
pub(super) fn of_group(group: &SplitGroup<'_>) -> Vec<String> {
    let most = group.outputs().last().copied().unwrap_or(1);
    let at_most: Vec<&SplitRow> = group.rows.iter().copied().filter(|row| row.key.outputs == most).collect();
    let mut sentences: Vec<String> = fastest(group, &at_most, most).into_iter().collect();
    sentences.extend(scaling(group, &at_most, most));
    sentences.extend(peers(group, &at_most));
    sentences.extend(slower_with_more_outputs(group));
    sentences
}

/// Returns the finding.
pub(super) fn finding(group: &SplitGroup<'_>) -> Option<String> {
    let first = of_group(group).into_iter().next()?;
    // The sentence continues after the title and a colon.
    Some(format!("{}: {}", group.title(), first.replacen("Over ", "over ", 1)))
}

fn fastest(group: &SplitGroup<'_>, rows: &[&SplitRow], outputs: usize) -> Option<String> {
    let best = leaders(rows.iter().map(|row| (*row, row.time)));
    let (row, _) = best.first()?;
    let used = use_of_disks(row, &group.profile)
        .map_or(String::new(), |share| format!(", {} % of the disks' speed", three_digits(100.0 * share)));
    let names = best.named(|row| row_label(row));
    let value = format!("{} s, {} MB/s{used}", three_digits(row.time.median), three_digits(row.speed()?));
    Some(format!(
        "Over {outputs} {} the fastest {}; 1 TB would take {} min.",
        if outputs == 1 { "output" } else { "outputs" },
        names.is(&value),
        three_digits(terabyte_minutes(row)?)
    ))
}

fn scaling(group: &SplitGroup<'_>, rows: &[&SplitRow], outputs: usize) -> Option<String> {
    let factor = |row: &&SplitRow| {
        let factor = speedup(group.with_one_output(row)?.time.median, row.time.median)?;
        Some(format!("{} ({})", three_digits(factor), row_label(row)))
    };
    let factors: Vec<String> = rows.iter().filter_map(factor).collect();
    let some = outputs > 1 && !factors.is_empty();
    some.then(|| format!("Speed-up of {outputs} outputs over one: {}.", factors.join(", ")))
}

/// Compares peers with packfs at the same codec.
fn peers(group: &SplitGroup<'_>, rows: &[&SplitRow]) -> Option<String> {
    let factor = |row: &&SplitRow| {
        let own = group.row_with(&row.key.codec, row.key.outputs).filter(|_| row.key.tool != "packfs")?;
        Some(format!("{} {}", row_label(row), three_digits(row.time.median / own.time.median)))
    };
    let factors: Vec<String> = rows.iter().filter_map(factor).collect();
    (!factors.is_empty()).then(|| format!("Time relative to packfs with the same codec: {}.", factors.join(", ")))
}

/// Names the rows in which an additional output increased the time.
fn slower_with_more_outputs(group: &SplitGroup<'_>) -> Option<String> {
    let slower = |pair: &[&SplitRow]| {
        let [before, row] = pair else { return None };
        let later = row_label(before) == row_label(row) && row.time.median > (1.0 + WIDE_SPREAD) * before.time.median;
        later.then(|| {
            let a = three_digits(before.time.median);
            let b = three_digits(row.time.median);
            format!("{} over {} ({b} s; over {} {a} s)", row_label(row), row.key.outputs, before.key.outputs)
        })
    };
    // Rows are sorted by program, codec and outputs, so neighbours of one label differ in outputs only.
    let slower: Vec<String> = group.rows.windows(2).filter_map(slower).collect();
    (!slower.is_empty()).then(|| format!("More outputs took longer: {}.", slower.join(", ")))
}

/// The columns of uneven disks.
pub(super) const UNEVEN_COLUMNS: &str = "\
    Equal ranges (computed): each disk gets a range of the data of equal length, as with nsplit and makedumpfile, and \
    the slowest disk ends last. All disks (computed): every disk is busy until the end.";

/// Describes the cost of uneven and failing disks.
pub(super) fn uneven(rows: &[(DiskProfile, &SplitRow)]) -> Vec<String> {
    let mut sentences = Vec::new();
    let kinds = distinct(rows.iter().map(|(_, row)| (&row.key.data, &row.key.disks)));
    for (data, disks) in kinds {
        let of_kind = rows.iter().filter(|(_, row)| (&row.key.data, &row.key.disks) == (data, disks));
        let best = of_kind.filter(|(_, row)| row.key.tool == "packfs").filter_map(|(profile, row)| {
            let gain = seconds_in_ranges(&intact_disks(row, profile)?, row.made) / row.time.median;
            Some((gain, 100.0 * use_of_disks(row, profile)?, row))
        });
        sentences.extend(best.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(gain, used, row)| {
            format!(
                "{data} over disks of {disks} MB/s with {}: {} s, {} times as fast as equal ranges would be, at {} % of \
                 the disks' speed.",
                row.key.codec,
                three_digits(row.time.median),
                three_digits(gain),
                three_digits(used)
            )
        }));
    }
    let failing: Vec<String> = rows
        .iter()
        .filter(|(profile, _)| profile.fails())
        .map(|(_, row)| {
            format!(
                "{} of {} over {} ({} s)",
                row_label(row),
                row.key.data,
                row.key.disks,
                three_digits(row.time.median)
            )
        })
        .collect();
    if !failing.is_empty() {
        sentences.push(format!("Complete although a disk failed: {}.", failing.join(", ")));
    }
    sentences
}

/// How restoring is measured.
pub(super) const RESTORE_METHOD: &str = "\
    Parts are files that packfs has dropped from the page cache after writing them. Every joined dump is compared \
    with its source.";

/// Describes the speed of restoring.
pub(super) fn restored(rows: &[&SplitRow]) -> Vec<String> {
    let mut sentences = Vec::new();
    for work in [SplitWork::Join, SplitWork::Check] {
        let of_work = || rows.iter().filter(|row| row.key.work == work.name() && row.bytes > 0);
        let costs = || of_work().map(|row| (row, row.time.scaled(1e6 / row.bytes as f64)));
        let best = leaders(costs());
        let worst = trailers(costs());
        let (Some((_, least)), Some((_, most))) = (best.first(), worst.first()) else { continue };
        // All are within the noise of each other: nothing is fastest or slowest.
        if best.len() == of_work().count() {
            continue;
        }
        let named = |rows: &RankingLeaders<&&SplitRow>| {
            rows.named(|row| format!("that of {} with {}", row.key.data, row.key.codec))
        };
        let speed = |cost: &SampleSummary| format!("{} MB/s", three_digits(1.0 / cost.median));
        sentences.push(format!(
            "The fastest {} {}; the slowest {}.",
            work.name(),
            named(&best).is(&speed(least)),
            named(&worst).is(&speed(most))
        ));
    }
    sentences
}
