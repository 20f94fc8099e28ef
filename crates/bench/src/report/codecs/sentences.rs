//! The sentences about codecs. Every number in them comes from the data at hand.

use crate::results::{Results, Row};
use crate::units::{size, three};

/// What the columns mean.
pub(super) fn method() -> String {
    "Data in memory, cut into blocks that are compressed apart from one another; every block that was decoded was \
     compared with its source. In is compressing all blocks, those included that do not shrink; out is decompressing \
     those that are kept compressed. Saved MB/s are bytes saved in that time: on a device slower than this, \
     compressing pays even if nothing else goes on meanwhile. Columns with x are relative to zlib -9. Noise is data \
     that does not compress, and abort gain how much faster it is dealt with. Front: no codec is both smaller and \
     faster, compressing (c) or decompressing (d)."
        .into()
}

/// What a group is.
pub(super) fn heading(group: &[&Row]) -> String {
    let key = &group[0].key;
    let threads = if key.threads == 1 { "1 thread".into() } else { format!("{} threads", key.threads) };
    let rule = match key.policy.as_str() {
        "sector" => format!("sectors of {}", size(key.sector)),
        rule @ ("zfs" | "erofs") => format!("rule of {rule} on sectors of {}", size(key.sector)),
        rule => format!("rule of {rule}"),
    };
    format!("{} in blocks of {}, {rule}, {threads}", key.data, size(key.block))
}

/// The row with the largest value of a metric.
fn best<'r>(group: &[&'r Row], metric: fn(&Row) -> Option<f64>) -> Option<(&'r Row, f64)> {
    let rows = group.iter().filter(|row| row.key.codec != "memcpy");
    let valued = rows.filter_map(|row| metric(row).map(|value| (*row, value)));
    valued.max_by(|a, b| a.1.total_cmp(&b.1))
}

/// What stands out in a group.
pub(super) fn findings(results: &Results, group: &[&Row]) -> Vec<String> {
    let mut sentences = Vec::new();
    let smallest = best(group, |row| Some(-row.sizes.ratio()));
    let (fast_in, fast_out) = (best(group, Row::encode_speed), best(group, Row::decode_speed));
    if let (Some((small, ratio)), Some((fast, speed))) = (smallest, fast_in) {
        let out = fast_out.map_or(String::new(), |(row, speed)| {
            format!("; the fastest to decompress is {} ({} MB/s)", row.key.codec, three(speed))
        });
        sentences.push(format!(
            "The smallest result is that of {} ({} % of the data); the fastest to compress is {} ({} MB/s, {} %){out}.",
            small.key.codec,
            three(-100.0 * ratio),
            fast.key.codec,
            three(speed),
            three(100.0 * fast.sizes.ratio())
        ));
    }
    let (saving_in, saving_out) = (best(group, Row::encode_savings), best(group, Row::decode_savings));
    if let Some((row, savings)) = saving_in.filter(|(_, savings)| *savings > 0.0) {
        let out = saving_out.map_or(String::new(), |(row, savings)| {
            format!("; in a second of decompressing that is {}, {} MB", row.key.codec, three(savings))
        });
        sentences.push(format!(
            "{} saves most in a second of compressing, {} MB: it pays on any device that writes slower than that, even \
             one after the other{out}.",
            row.key.codec,
            three(savings)
        ));
    }
    if let Some(row) = group.first()
        && let (Some(six), Some(nine)) = (results.with_codec(row, "zlib:6"), results.with_codec(row, "zlib:9"))
        && let (Some(a), Some(b)) = (six.encode_speed(), nine.encode_speed())
    {
        let larger = 100.0 * (six.sizes.stored as f64 / nine.sizes.stored as f64 - 1.0);
        let (larger, faster) = (three(larger), three(a / b));
        sentences.push(format!("zlib -6 is {larger} % larger than zlib -9 and {faster} times as fast."));
    }
    sentences
}
