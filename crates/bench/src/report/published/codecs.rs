//! "Synthetic test of filesystem compression, part 2" (August 2011): sectors of 4 KB, one thread, four computers.

use super::super::model::{ReportSection, ReportTable, TableValue};
use super::super::shape::table;
use super::figures::claims;
use crate::corpus::INCOMPRESSIBLE;
use crate::results::{BenchResults, CodecRow};
use crate::units::three_digits;

const DOCUMENT: &str = "synthetic test 2011";
/// The larger of the document's block sizes.
const BLOCK: usize = 128 << 10;
/// The codec that the document calls LZO1X-1, its fastest.
const FASTEST: &str = "lzo:algorithm=lzo1x_1";
/// The codec that the document calls LZO1X-999, its slowest.
const SLOWEST: &str = "lzo:9";

/// Returns the values measured here for a claim of the document, with their unit.
fn measured(results: &BenchResults, claim: &str) -> (Vec<f64>, &'static str) {
    match claim {
        "fastest" => (speeds(results, FASTEST), "MB/s"),
        "slowest" => (speeds(results, SLOWEST), "MB/s"),
        "six faster" => {
            let factor = |six: &CodecRow, nine: &CodecRow| Some(six.encode_speed()? / nine.encode_speed()?);
            (percent_over_nine(results, factor), "%")
        }
        "six larger" => {
            let factor = |six: &CodecRow, nine: &CodecRow| Some(six.sizes.stored as f64 / nine.sizes.stored as f64);
            (percent_over_nine(results, factor), "%")
        }
        "incompressible" => {
            let rows = results.codecs.iter().filter(|row| row.key.data == INCOMPRESSIBLE && row.key.codec == "snappy");
            (rows.filter_map(CodecRow::encode_speed).collect(), "MB/s")
        }
        _ => (Vec::new(), ""),
    }
}

/// Returns the rows of a codec with the policy of the document, on one thread.
fn comparable<'r>(results: &'r BenchResults, codec: &str) -> Vec<&'r CodecRow> {
    let rows = results.codecs.iter().filter(|row| row.key.data != INCOMPRESSIBLE && row.key.codec == codec);
    rows.filter(|row| (row.key.threads, row.key.policy.as_str(), row.key.sector) == (1, "sector", 4096)).collect()
}

fn speeds(results: &BenchResults, codec: &str) -> Vec<f64> {
    let rows = comparable(results, codec).into_iter().filter(|row| row.key.block == BLOCK);
    rows.filter_map(CodecRow::encode_speed).collect()
}

/// Returns by how many percent zlib -6 exceeds zlib -9 in a quantity.
fn percent_over_nine(results: &BenchResults, factor: fn(&CodecRow, &CodecRow) -> Option<f64>) -> Vec<f64> {
    let sixes = comparable(results, "zlib:6").into_iter();
    let factors = sixes.filter_map(|six| factor(six, results.with_codec(six, "zlib:9")?));
    factors.map(|factor| 100.0 * (factor - 1.0)).collect()
}

/// Adds the document's speeds to a table of codecs, for data and for incompressible data.
pub(in super::super) fn beside_codecs(table: ReportTable, rows: &[&CodecRow]) -> ReportTable {
    table.with_published(&["2011 in MB/s", "2011 noise MB/s"], rows, |row| {
        let key = &row.key;
        let is_of_document = (key.threads, key.policy.as_str(), key.sector, key.block) == (1, "sector", 4096, BLOCK);
        let figure = |claim: &str| claims(DOCUMENT).find(|one| one.name == claim)?.number();
        match key.codec.as_str() {
            _ if !is_of_document => Vec::new(),
            FASTEST => vec![figure("fastest"), None],
            SLOWEST => vec![figure("slowest"), None],
            "snappy" => vec![None, figure("incompressible")],
            _ => Vec::new(),
        }
    })
}

/// Returns the section on codecs, without its title.
pub(super) fn section(results: &BenchResults) -> Option<ReportSection> {
    let mut rows = Vec::new();
    for claim in claims(DOCUMENT) {
        let (values, unit) = measured(results, claim.name);
        let Some(least) = values.iter().copied().reduce(f64::min) else { continue };
        let least = three_digits(least);
        let most = three_digits(values.into_iter().fold(f64::NEG_INFINITY, f64::max));
        let range = if least == most { least } else { format!("{least} to {most}") };
        let here = TableValue::Text(format!("{range} {unit}"));
        rows.push(vec![claim.what.into(), TableValue::Text(claim.with_unit()), claim.hardware.into(), here]);
    }
    let title = "Published in 2011 on other hardware, and measured here";
    (!rows.is_empty()).then(|| ReportSection {
        sentences: vec![
            "Published in \"Synthetic test of filesystem compression, part 2\" (2011), on other hardware, other data \
             and other versions: sectors of 4K, blocks of 8K and 128K, one thread. Its author called the figures \
             outdated four weeks later, and its LZ4 was decoded by the slower of two functions."
                .into(),
        ],
        tables: vec![table("published", title, ["what", "published", "on", "measured here"], rows)],
        ..ReportSection::default()
    })
}
