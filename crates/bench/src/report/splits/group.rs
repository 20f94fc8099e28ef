//! Splits grouped by data and disks, and values derived from a row.

use super::super::shape::{short_digest, slug, tool_and_codec};
use crate::results::{BenchResults, SplitRow};
use crate::split::{DiskProfile, DiskSpec, SplitKey, SplitWork, seconds_shared, total_speed};

/// Splits of one data set over one kind of disks, by number of outputs.
pub(super) struct SplitGroup<'r> {
    pub(super) profile: DiskProfile,
    /// Sorted by program, codec and number of outputs.
    pub(super) rows: Vec<&'r SplitRow>,
}

impl<'r> SplitGroup<'r> {
    pub(super) fn key(&self) -> &'r SplitKey {
        &self.rows[0].key
    }

    pub(super) fn title(&self) -> String {
        let data = &self.key().data;
        match self.profile {
            DiskProfile::Equal(speed) => format!("Splitting {data} over simulated disks of {speed} MB/s"),
            _ => format!("Splitting {data} over directories"),
        }
    }

    /// Returns the title of its section.
    pub(super) fn question(&self) -> String {
        let data = &self.key().data;
        match self.profile {
            DiskProfile::Equal(speed) => format!("Do more disks help? {data}, simulated disks of {speed} MB/s"),
            _ => format!("Do more disks help? {data}, directories"),
        }
    }

    pub(super) fn id(&self) -> String {
        let key = self.key();
        slug(&format!("{}-{}-{}", key.data, short_digest(&key.digest), key.disks))
    }

    /// Returns the numbers of outputs, sorted.
    pub(super) fn outputs(&self) -> Vec<usize> {
        let mut outputs: Vec<usize> = self.rows.iter().map(|row| row.key.outputs).collect();
        outputs.sort_unstable();
        outputs.dedup();
        outputs
    }

    pub(super) fn row_with(&self, label: &str, outputs: usize) -> Option<&'r SplitRow> {
        self.rows.iter().copied().find(|row| row.key.outputs == outputs && row_label(row) == label)
    }

    /// Returns the row with one output and otherwise equal settings.
    pub(super) fn with_one_output(&self, row: &SplitRow) -> Option<&'r SplitRow> {
        self.row_with(&row_label(row), 1)
    }
}

/// Returns program and codec.
pub(super) fn row_label(row: &SplitRow) -> String {
    tool_and_codec(&row.key.tool, &row.key.codec)
}

/// Returns stored bytes per second relative to the speed of all disks, if that is known and none fails.
pub(super) fn use_of_disks(row: &SplitRow, profile: &DiskProfile) -> Option<f64> {
    let disks = intact_disks(row, profile)?;
    (row.time.median > 0.0).then(|| seconds_shared(&disks, row.made) / row.time.median)
}

/// Returns the simulated disks, unless one of them fails.
pub(super) fn intact_disks(row: &SplitRow, profile: &DiskProfile) -> Option<Vec<DiskSpec>> {
    let disks = profile.disks(row.key.outputs).filter(|_| !profile.fails())?;
    (total_speed(&disks) > 0.0).then_some(disks)
}

/// Returns the minutes for 10^12 bytes of the same kind.
pub(super) fn terabyte_minutes(row: &SplitRow) -> Option<f64> {
    // 10^12 bytes are 10^6 MB.
    row.speed().map(|speed| 1e6 / speed / 60.0)
}

fn splits(results: &BenchResults) -> impl Iterator<Item = (DiskProfile, &SplitRow)> {
    let rows = results.splits.iter().filter(|row| row.key.work == SplitWork::Split.name());
    // Results come from files, so profiles may be unknown or invalid.
    rows.filter_map(|row| Some((row.key.disks.parse().ok()?, row)))
}

pub(super) fn groups(results: &BenchResults) -> Vec<SplitGroup<'_>> {
    let mut groups: Vec<SplitGroup<'_>> = Vec::new();
    for (profile, row) in splits(results).filter(|(profile, _)| profile.outputs().is_none()) {
        let same = |group: &&mut SplitGroup<'_>| {
            let a = group.key();
            let b = &row.key;
            (&a.data, &a.digest, &a.disks) == (&b.data, &b.digest, &b.disks)
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.rows.push(row),
            None => groups.push(SplitGroup { profile, rows: vec![row] }),
        }
    }
    for group in &mut groups {
        group.rows.sort_by_key(|row| (codec_order(row), row.key.outputs));
    }
    groups
}

/// Returns a sort key: packfs first; codecs in the order of the mail, then by name.
fn codec_order(row: &SplitRow) -> (bool, &str, usize, &str) {
    let mail = ["raw", "lzo", "snappy"].iter().position(|codec| *codec == row.key.codec);
    (row.key.tool != "packfs", &row.key.tool, mail.unwrap_or(usize::MAX), &row.key.codec)
}

/// Returns rows of profiles that list their disks.
pub(super) fn uneven(results: &BenchResults) -> Vec<(DiskProfile, &SplitRow)> {
    let mut rows: Vec<_> = splits(results).filter(|(profile, _)| profile.outputs().is_some()).collect();
    rows.sort_by_key(|(_, row)| (&row.key.data, &row.key.digest, &row.key.disks, codec_order(row)));
    rows
}

/// Returns rows of joining and checking.
pub(super) fn restored(results: &BenchResults) -> Vec<&SplitRow> {
    let mut rows: Vec<_> = results.splits.iter().filter(|row| row.key.work != SplitWork::Split.name()).collect();
    // Reversed, because joining comes before checking.
    rows.sort_by_key(|row| {
        (&row.key.data, &row.key.digest, std::cmp::Reverse(&row.key.work), codec_order(row), row.key.outputs)
    });
    rows
}
