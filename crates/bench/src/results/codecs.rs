//! Codecs on blocks: a row for each cell, and values derived from several rows.

use std::collections::BTreeMap;

use super::Results;
use crate::codecs::BASELINE;
use crate::corpus::INCOMPRESSIBLE;
use crate::keys::codec::Key;
use crate::metrics::Sizes;
use crate::sample::CodecSample;
use crate::stats::Summary;

/// One cell, as the last session that measured it has it.
#[derive(Debug, Clone)]
pub struct Row {
    /// The cell.
    pub key: Key,
    /// The session.
    pub session: String,
    /// Sizes; the same in every run.
    pub sizes: Sizes,
    /// Seconds of a pass of encoding.
    pub encode: Summary,
    /// Seconds of a pass of decoding, where anything was decoded.
    pub decode: Option<Summary>,
    /// Median seconds on processors of encoding.
    pub encode_cpu: f64,
    /// Median seconds on processors of decoding.
    pub decode_cpu: Option<f64>,
}

impl Row {
    pub(super) fn of(key: Key, session: &str, samples: &[&CodecSample]) -> Option<Self> {
        let last = samples.last()?;
        let encode: Vec<f64> = samples.iter().map(|one| one.encode.seconds()).collect();
        let cpu: Vec<f64> = samples.iter().map(|one| one.encode.cpu_seconds()).collect();
        let decodes = || samples.iter().filter_map(|one| one.decode);
        let decode: Vec<f64> = decodes().map(|timing| timing.seconds()).collect();
        let decode_cpu: Vec<f64> = decodes().map(|timing| timing.cpu_seconds()).collect();
        Some(Row {
            key,
            session: session.to_owned(),
            sizes: last.sizes,
            encode: Summary::of(&encode)?,
            decode: Summary::of(&decode),
            encode_cpu: Summary::of(&cpu)?.median,
            decode_cpu: Summary::of(&decode_cpu).map(|summary| summary.median),
        })
    }

    /// MB a second, encoding.
    pub fn encode_speed(&self) -> Option<f64> {
        self.sizes.encode_speed(self.encode.median)
    }

    /// MB a second, decoding.
    pub fn decode_speed(&self) -> Option<f64> {
        self.sizes.decode_speed(self.decode?.median)
    }

    /// MB saved a second of encoding, which is the speed of the device where compressing breaks even in writing.
    pub fn encode_savings(&self) -> Option<f64> {
        self.sizes.encode_savings(self.encode.median)
    }

    /// MB saved a second of decoding, which is the speed of the device where compressing breaks even in reading.
    pub fn decode_savings(&self) -> Option<f64> {
        self.sizes.decode_savings(self.decode?.median)
    }

    /// True if its samples lie too far apart to conclude from.
    pub fn is_wide(&self) -> bool {
        self.encode.is_wide() || self.decode.is_some_and(|decode| decode.is_wide())
    }
}

impl Results {
    /// Rows of what compresses, grouped: one group for each data, block, sector, rule and number of threads, each in
    /// the order of its ratios. Groups of more blocks come later.
    pub fn groups(&self) -> Vec<Vec<&Row>> {
        let mut groups: BTreeMap<_, Vec<&Row>> = BTreeMap::new();
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

    /// The row that differs from this one in the codec only, and has this codec.
    pub fn with_codec(&self, row: &Row, codec: &str) -> Option<&Row> {
        let key = Key { codec: codec.into(), ..row.key.clone() };
        self.codecs.iter().find(|other| other.key == key)
    }

    /// The row of what the others are compared with.
    pub fn baseline(&self, row: &Row) -> Option<&Row> {
        self.with_codec(row, &BASELINE.to_string())
    }

    /// The row of the same codec, block, rule and threads on data that does not compress.
    pub fn incompressible(&self, row: &Row) -> Option<&Row> {
        self.codecs.iter().filter(|other| other.session == row.session).find(|other| {
            let (a, b) = (&other.key, &row.key);
            a.data == INCOMPRESSIBLE
                && (&a.codec, a.block, a.sector, &a.policy, a.threads)
                    == (&b.codec, b.block, b.sector, &b.policy, b.threads)
        })
    }

    /// The row that differs from this one in the number of threads only, and has one.
    pub fn one_thread(&self, row: &Row) -> Option<&Row> {
        let key = Key { threads: 1, ..row.key.clone() };
        self.codecs.iter().find(|other| other.key == key)
    }

    /// The library of a row's codec.
    pub fn library(&self, row: &Row) -> Option<&str> {
        let session = self.sessions.iter().find(|session| session.session == row.session)?;
        session.libraries.get(&row.key.codec).map(String::as_str)
    }
}
