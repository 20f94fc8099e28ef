//! Sentences about codecs. All numbers come from the results.

use super::super::leaders::{LeaderNames, RankingLeaders, leaders, trailers};
use super::super::shape::distinct;
use super::USUAL;
use super::charts::{by_data, is_copy};
use super::tables::{RelativeFactors, relative_factors};
use crate::corpus::INCOMPRESSIBLE;
use crate::results::{BenchResults, CodecRow};
use crate::stats::{SampleSummary, geometric_mean};
use crate::units::{short_codec, short_size, three_digits};

/// How codecs are measured, and the columns of the table.
pub(super) const METHOD: &str = "\
    The data is in memory and cut into blocks that are compressed independently. Every decoded block is compared with \
    its source. In: compressing all blocks, including those that do not shrink. Out: decompressing those that are \
    kept compressed. Saved: bytes saved per second of that time; on a slower device compression pays, even if nothing \
    overlaps. Columns with x are relative to zlib -9. Noise: the speed on incompressible data; abort gain: that \
    divided by the speed on the data. Front: no other codec is both smaller and faster at compressing (c) or \
    decompressing (d).";

/// Returns the title of a group.
pub(super) fn heading(group: &[&CodecRow]) -> String {
    let key = &group[0].key;
    let threads = if key.threads == 1 { "1 thread".into() } else { format!("{} threads", key.threads) };
    let rule = match key.policy.as_str() {
        "sector" => format!("sectors of {}", short_size(key.sector)),
        policy @ ("zfs" | "erofs") => format!("{policy} policy on sectors of {}", short_size(key.sector)),
        policy => format!("{policy} policy"),
    };
    format!("{} in blocks of {}, {rule}, {threads}", key.data, short_size(key.block))
}

/// Returns the rows with the least cost, including those within the noise of the first. Copying does not compete.
fn best<'r>(group: &[&'r CodecRow], cost: fn(&CodecRow) -> Option<SampleSummary>) -> RankingLeaders<&'r CodecRow> {
    let rows = group.iter().copied().filter(|row| !is_copy(row));
    leaders(rows.filter_map(|row| Some((row, cost(row)?))))
}

fn codec_names(rows: &RankingLeaders<&CodecRow>) -> LeaderNames {
    rows.named(|row| short_codec(&row.key.codec).to_owned())
}

/// Returns the seconds to compress a MB.
fn encode_cost(row: &CodecRow) -> Option<SampleSummary> {
    (row.sizes.raw > 0).then(|| row.encode.scaled(1e6 / row.sizes.raw as f64))
}

/// Returns the seconds to decompress a MB.
fn decode_cost(row: &CodecRow) -> Option<SampleSummary> {
    row.decode.filter(|_| row.sizes.decoded > 0).map(|decode| decode.scaled(1e6 / row.sizes.decoded as f64))
}

/// Returns the seconds of compression per MB saved.
fn encode_cost_per_saving(row: &CodecRow) -> Option<SampleSummary> {
    (row.sizes.saved() > 0.0).then(|| row.encode.scaled(1e6 / row.sizes.saved()))
}

/// Returns the seconds of decompression per MB saved.
fn decode_cost_per_saving(row: &CodecRow) -> Option<SampleSummary> {
    row.decode.filter(|_| row.sizes.saved() > 0.0).map(|decode| decode.scaled(1e6 / row.sizes.saved()))
}

/// Returns the findings of a group.
pub(super) fn findings(results: &BenchResults, group: &[&CodecRow]) -> Vec<String> {
    let mut sentences = Vec::new();
    let rows = group.iter().filter(|row| !is_copy(row));
    let smallest = rows.min_by(|a, b| a.sizes.ratio().total_cmp(&b.sizes.ratio()));
    let fast_in = best(group, encode_cost);
    let fast_out = best(group, decode_cost);
    let speed = |cost: &SampleSummary| format!("{} MB/s", three_digits(1.0 / cost.median));
    if let (Some(small), Some((fast, cost))) = (smallest, fast_in.first()) {
        let ins = codec_names(&fast_in);
        let outs = codec_names(&fast_out);
        let value = format!("{}, {} %", speed(cost), three_digits(100.0 * fast.sizes.ratio()));
        let fastest = match fast_out.first() {
            Some((_, out)) if ins == outs => {
                format!("compress and decompress {}", ins.is(&format!("{value}; {}", speed(out))))
            }
            Some((_, out)) => {
                format!("compress {}; the fastest to decompress {}", ins.is(&value), outs.is(&speed(out)))
            }
            None => format!("compress {}", ins.is(&value)),
        };
        sentences.push(format!(
            "The smallest is {} ({} % of the data); the fastest to {fastest}.",
            short_codec(&small.key.codec),
            three_digits(100.0 * small.sizes.ratio()),
        ));
    }
    let saving_in = best(group, encode_cost_per_saving);
    let saving_out = best(group, decode_cost_per_saving);
    if let Some((_, cost)) = saving_in.first() {
        let saved = |cost: &SampleSummary| three_digits(1.0 / cost.median);
        let out = saving_out.first().map_or(String::new(), |(_, cost)| {
            let best = codec_names(&saving_out).with(&format!("{} MB", saved(cost)));
            format!(" Decompression saves most with {best}.")
        });
        sentences.push(format!(
            "Compression saves most per second with {}: on a device that writes less than {} MB/s, that pays even if \
             compressing and writing do not overlap.{out}",
            codec_names(&saving_in).with(&format!("{} MB", saved(cost))),
            saved(cost)
        ));
    }
    if let Some(row) = group.first()
        && let (Some(six), Some(nine)) = (results.with_codec(row, "zlib:6"), results.with_codec(row, "zlib:9"))
        && let (Some(a), Some(b)) = (six.encode_speed(), nine.encode_speed())
    {
        let larger = 100.0 * (six.sizes.stored as f64 / nine.sizes.stored as f64 - 1.0);
        let size = match three_digits(larger).as_str() {
            "0" => "at the same size".to_owned(),
            larger => format!("and {larger} % larger"),
        };
        sentences.push(match six.encode.is_apart_from(&nine.encode) {
            true => format!("zlib -6 is {} times as fast as zlib -9 {size}.", three_digits(a / b)),
            false => format!("zlib -6 is as fast as zlib -9 {size}."),
        });
    }
    sentences
}

/// Returns the finding.
pub(super) fn finding(results: &BenchResults, group: &[&CodecRow]) -> Option<String> {
    let first = findings(results, group).into_iter().next()?;
    let first = first.replacen("The ", "the ", 1);
    Some(format!("{} in blocks of {}: {first}", group[0].key.data, short_size(group[0].key.block)))
}

/// Names the smallest result by block size.
pub(super) fn blocks(results: &BenchResults) -> Option<String> {
    let phrase = |set: Vec<&CodecRow>| {
        let least = |block: usize| {
            let of_block = set.iter().filter(|row| row.key.block == block);
            of_block.map(|row| row.sizes.ratio()).reduce(f64::min)
        };
        let mut blocks = distinct(set.iter().map(|row| row.key.block));
        blocks.sort_unstable();
        let small = *blocks.first()?;
        let large = *blocks.last()?;
        let shown = distinct([small, USUAL, large].into_iter());
        let values = shown.iter().filter_map(|block| {
            Some(format!("{} % in blocks of {}", three_digits(100.0 * least(*block)?), short_size(*block)))
        });
        (small < large).then(|| format!("{} {}", set[0].key.data, values.collect::<Vec<_>>().join(", ")))
    };
    let sets: Vec<String> = by_data(results).into_iter().filter_map(phrase).collect();
    (!sets.is_empty()).then(|| format!("Smallest results of any codec, relative to the data: {}.", sets.join("; ")))
}

/// Describes the least and the greatest effect of threads.
pub(super) fn threads(results: &BenchResults) -> Option<String> {
    let groups = results.groups();
    let scaled = || groups.iter().flatten().filter(|row| row.key.threads > 1 && results.one_thread(row).is_some());
    let most = scaled().map(|row| row.key.threads).max()?;
    let mut factors: Vec<(f64, &str)> = Vec::new();
    for row in scaled().filter(|row| row.key.threads == most) {
        let one = results.one_thread(row)?;
        factors.push((one.encode.median / row.encode.median, short_codec(&row.key.codec)));
    }
    factors.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (least, slow) = factors.first()?;
    let (best, fast) = factors.last()?;
    Some(format!(
        "{most} threads compress {} ({slow}) to {} times ({fast}) as fast as one.",
        three_digits(*least),
        three_digits(*best)
    ))
}

/// Names the codecs that give up earliest.
pub(super) fn noise(results: &BenchResults) -> Option<String> {
    let rows: Vec<&CodecRow> = results.codecs.iter().filter(|row| row.key.data == INCOMPRESSIBLE).collect();
    let block = rows.iter().map(|row| row.key.block).min_by_key(|block| block.max(&USUAL) / block.clamp(&1, &USUAL))?;
    let rows: Vec<&CodecRow> = rows.into_iter().filter(|row| row.key.block == block).collect();
    let best = best(&rows, encode_cost);
    let slow = trailers(rows.iter().filter_map(|row| Some((*row, encode_cost(row)?))));
    let (_, least) = best.first()?;
    let (_, most) = slow.first()?;
    let speed = |cost: &SampleSummary| format!("{} MB/s", three_digits(1.0 / cost.median));
    Some(format!(
        "On incompressible data in blocks of {}, the fastest {}; the slowest {}.",
        short_size(block),
        codec_names(&best).is(&speed(least)),
        codec_names(&slow).is(&speed(most))
    ))
}

/// Names the codecs that are furthest ahead of zlib -9.
pub(super) fn relative(results: &BenchResults) -> Option<String> {
    let all = relative_factors(results);
    let best = |metric: fn(&RelativeFactors) -> &[f64]| {
        let codecs = distinct(all.iter().map(|one| one.codec.as_str()).filter(|codec| *codec != "memcpy"));
        let mean = |codec: &str| {
            let of_codec = all.iter().filter(|one| one.codec == codec);
            geometric_mean(&of_codec.flat_map(|one| metric(one).iter().copied()).collect::<Vec<_>>())
        };
        let means = codecs.into_iter().filter_map(|codec| Some((codec, mean(codec)?)));
        means.max_by(|a, b| a.1.total_cmp(&b.1))
    };
    let (fast_in, factor_in) = best(|one| &one.encode_speed)?;
    let (fast_out, factor_out) = best(|one| &one.decode_speed)?;
    // A codec that is first in both is named once.
    let fast_out = if fast_in == fast_out { "" } else { short_codec(fast_out) };
    let fast_in = short_codec(fast_in);
    let space = if fast_out.is_empty() { "" } else { " " };
    Some(format!(
        "On average over all data and block sizes (geometric mean), {fast_in} compresses {} times and \
         {fast_out}{space}decompresses {} times as fast as zlib -9.",
        three_digits(factor_in),
        three_digits(factor_out)
    ))
}
