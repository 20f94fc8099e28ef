//! Results of codecs: a row for each cell, and values derived from several rows.

use std::collections::BTreeMap;

use super::BenchResults;
use crate::codecs::BASELINE;
use crate::corpus::INCOMPRESSIBLE;
use crate::keys::codec::CodecKey;
use crate::metrics::PassSizes;
use crate::sample::CodecSample;
use crate::stats::SampleSummary;

/// A cell as the last session measured it.
#[derive(Debug, Clone)]
pub struct CodecRow {
    /// Key of the cell.
    pub key: CodecKey,
    /// Name of the session.
    pub session: String,
    /// Sizes; the same in every run.
    pub sizes: PassSizes,
    /// Seconds of an encoding pass.
    pub encode: SampleSummary,
    /// Seconds of a decoding pass, if anything was decoded.
    pub decode: Option<SampleSummary>,
    /// Median processor time of an encoding pass in seconds.
    pub encode_cpu: f64,
    /// Median processor time of a decoding pass in seconds.
    pub decode_cpu: Option<f64>,
}

impl CodecRow {
    pub(super) fn of(key: CodecKey, session: &str, samples: &[&CodecSample]) -> Option<Self> {
        let last = samples.last()?;
        let encode: Vec<f64> = samples.iter().map(|one| one.encode.seconds()).collect();
        let cpu: Vec<f64> = samples.iter().map(|one| one.encode.cpu_seconds()).collect();
        let decodes = || samples.iter().filter_map(|one| one.decode);
        let decode: Vec<f64> = decodes().map(|timing| timing.seconds()).collect();
        let decode_cpu: Vec<f64> = decodes().map(|timing| timing.cpu_seconds()).collect();
        Some(CodecRow {
            key,
            session: session.to_owned(),
            sizes: last.sizes,
            encode: SampleSummary::of(&encode)?,
            decode: SampleSummary::of(&decode),
            encode_cpu: SampleSummary::of(&cpu)?.median,
            decode_cpu: SampleSummary::of(&decode_cpu).map(|summary| summary.median),
        })
    }

    /// Returns the speed of encoding in MB/s.
    pub fn encode_speed(&self) -> Option<f64> {
        self.sizes.encode_speed(self.encode.median)
    }

    /// Returns the speed of decoding in MB/s.
    pub fn decode_speed(&self) -> Option<f64> {
        self.sizes.decode_speed(self.decode?.median)
    }

    /// Returns the MB saved per second of encoding: the device speed at which compression breaks even when writing.
    pub fn encode_savings(&self) -> Option<f64> {
        self.sizes.encode_savings(self.encode.median)
    }

    /// Returns the MB saved per second of decoding: the device speed at which compression breaks even when reading.
    pub fn decode_savings(&self) -> Option<f64> {
        self.sizes.decode_savings(self.decode?.median)
    }

    /// Returns true if the samples vary too much for a conclusion.
    pub fn is_wide(&self) -> bool {
        self.encode.is_wide() || self.decode.is_some_and(|decode| decode.is_wide())
    }
}

impl BenchResults {
    /// Groups rows of compressible data by data set, block size, sector, policy and number of threads. Each group is
    /// sorted by ratio, the groups by block size.
    pub fn groups(&self) -> Vec<Vec<&CodecRow>> {
        let mut groups: BTreeMap<_, Vec<&CodecRow>> = BTreeMap::new();
        for row in self.codecs.iter().filter(|row| row.key.data != INCOMPRESSIBLE) {
            let key = &row.key;
            let group = (&key.data, &key.digest, &key.policy, key.sector, key.block, key.threads);
            groups.entry(group).or_default().push(row);
        }
        let mut groups: Vec<_> = groups.into_values().collect();
        for group in &mut groups {
            group.sort_by(|a, b| b.sizes.ratio().total_cmp(&a.sizes.ratio()).then(a.key.cmp(&b.key)));
        }
        groups
    }

    /// Returns the row with this codec and otherwise equal settings.
    pub fn with_codec(&self, row: &CodecRow, codec: &str) -> Option<&CodecRow> {
        let key = CodecKey { codec: codec.into(), ..row.key.clone() };
        self.codecs.iter().find(|other| other.key == key)
    }

    /// Returns the row of the baseline codec with otherwise equal settings.
    pub fn baseline(&self, row: &CodecRow) -> Option<&CodecRow> {
        self.with_codec(row, &BASELINE.to_string())
    }

    /// Returns the row for incompressible data with otherwise equal settings.
    pub fn incompressible(&self, row: &CodecRow) -> Option<&CodecRow> {
        // Of the same session, and therefore of the same machine.
        self.codecs.iter().filter(|other| other.session == row.session).find(|other| {
            let a = &other.key;
            let b = &row.key;
            a.data == INCOMPRESSIBLE
                && (&a.codec, a.block, a.sector, &a.policy, a.threads)
                    == (&b.codec, b.block, b.sector, &b.policy, b.threads)
        })
    }

    /// Returns the row with one thread and otherwise equal settings.
    pub fn one_thread(&self, row: &CodecRow) -> Option<&CodecRow> {
        let key = CodecKey { threads: 1, ..row.key.clone() };
        self.codecs.iter().find(|other| other.key == key)
    }

    /// Returns the library of a row's codec.
    pub fn library(&self, row: &CodecRow) -> Option<&str> {
        let session = self.sessions.iter().find(|session| session.session == row.session)?;
        session.libraries.get(&row.key.codec).map(String::as_str)
    }
}
