//! "Synthetic test of filesystem compression, part 2" (August 2011): sectors of 4 KB, one thread, four computers.

use super::super::model::{ReportTable, TableValue};
use super::super::shape::table;
use super::figures::claims;
use super::part::ReportPart;
use crate::corpus::INCOMPRESSIBLE;
use crate::results::{BenchResults, CodecRow};
use crate::units::three;

const BLOCK: usize = 128 << 10;
const TITLE: &str = "Published in 2011 on other hardware, and measured here";

const DOCUMENT: &str = "synthetic test 2011";
/// The codecs that the document calls LZO1X-1 and LZO1X-999.
const FASTEST: &str = "lzo:algorithm=lzo1x_1";
const SLOWEST: &str = "lzo:9";

/// Returns the values measured here for a claim of the document, with their unit.
fn measured(results: &BenchResults, of: &str) -> (Vec<f64>, &'static str) {
    match of {
        "fastest" => (speeds(results, FASTEST), "MB/s"),
        "slowest" => (speeds(results, SLOWEST), "MB/s"),
        "six faster" => (six_and_nine(results, |six, nine| Some(six.encode_speed()? / nine.encode_speed()?)), "%"),
        "six larger" => {
            (six_and_nine(results, |six, nine| Some(six.sizes.stored as f64 / nine.sizes.stored as f64)), "%")
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
fn six_and_nine(results: &BenchResults, factor: fn(&CodecRow, &CodecRow) -> Option<f64>) -> Vec<f64> {
    let pairs = comparable(results, "zlib:6").into_iter();
    let factors = pairs.filter_map(|six| factor(six, results.with_codec(six, "zlib:9")?));
    factors.map(|factor| 100.0 * (factor - 1.0)).collect()
}

/// Adds the document's speeds to a table of codecs, for data and for incompressible data.
pub(in super::super) fn beside_codecs(table: ReportTable, rows: &[&CodecRow]) -> ReportTable {
    table.beside(&["2011 in MB/s", "2011 noise MB/s"], rows, |row| {
        let key = &row.key;
        let is_of_document = (key.threads, key.policy.as_str(), key.sector, key.block) == (1, "sector", 4096, BLOCK);
        let figure = |claim: &str| claims(DOCUMENT).find(|one| one.of == claim)?.number();
        match key.codec.as_str() {
            _ if !is_of_document => Vec::new(),
            FASTEST => vec![figure("fastest"), None],
            SLOWEST => vec![figure("slowest"), None],
            "snappy" => vec![None, figure("incompressible")],
            _ => Vec::new(),
        }
    })
}

/// Returns the document's part of the section on codecs.
pub(super) fn part(results: &BenchResults) -> Option<ReportPart> {
    let mut rows = Vec::new();
    for claim in claims(DOCUMENT) {
        let (values, unit) = measured(results, claim.of);
        let values = || values.iter().copied();
        let (Some(least), Some(most)) = (values().reduce(f64::min), values().reduce(f64::max)) else { continue };
        let least = three(least);
        let most = three(most);
        let range = if least == most { least } else { format!("{least} to {most}") };
        let here = TableValue::Text(format!("{range} {unit}"));
        rows.push(vec![claim.what.into(), TableValue::Text(claim.says()), claim.on.into(), here]);
    }
    (!rows.is_empty()).then(|| ReportPart {
        sentences: vec![
            "Published in \"Synthetic test of filesystem compression, part 2\" (2011), on other hardware, other data \
             and other versions: sectors of 4K, blocks of 8K and 128K, one thread. Its author called the figures \
             outdated four weeks later, and its LZ4 was decoded by the slower of two functions."
                .into(),
        ],
        charts: Vec::new(),
        tables: vec![table("published", TITLE, ["what", "published", "on", "measured here"], rows)],
    })
}
