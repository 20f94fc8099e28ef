//! Sentences about builds. All numbers come from the results.

use super::super::leaders::leaders;
use super::super::shape::{distinct, listed_features};
use super::lines::{MANY_THREADS, SpeedupBase, fastest, fit_model, is_packfs, label, lines, model_error, tar_bytes};
use super::tables::same_work;
use crate::build::BuildKey;
use crate::results::{BenchResults, BuildRow};
use crate::stats::geometric_mean;
use crate::units::{short_size, three_digits};

fn format_name(key: &BuildKey) -> &str {
    match key.format.as_str() {
        "squashfs" => "SquashFS",
        "erofs" => "EROFS",
        other => other,
    }
}

pub(super) fn set_title(set: &[&BuildRow]) -> String {
    let key = &set[0].key;
    format!("How small is {} as {}?", key.source, format_name(key))
}

pub(super) fn group_title(group: &[&BuildRow]) -> String {
    let key = &group[0].key;
    let features = if key.features.is_empty() { "no features".into() } else { listed_features(&key.features) };
    format!("{} as {} in blocks of {}, {features}", key.source, format_name(key), short_size(key.block))
}

/// Describes the source, the smallest image and the comparison with peers.
pub(super) fn of_set(results: &BenchResults, set: &[&BuildRow]) -> Vec<String> {
    let Some(smallest) = set.iter().min_by_key(|row| row.made) else { return Vec::new() };
    let mb = |bytes: u64| three_digits(bytes as f64 / 1e6);
    let tar =
        tar_bytes(results, smallest).map_or(String::new(), |bytes| format!(", {} MB as a tar archive", mb(bytes)));
    let with = match smallest.key.features.as_str() {
        "" => String::new(),
        features => format!(" with {}", listed_features(features)),
    };
    let mut sentences = vec![format!(
        "{} has {} MB of files{tar}. The smallest image is that of {} in blocks of {}{with}: {} MB, {} % of the files.",
        smallest.key.source,
        mb(smallest.bytes),
        label(&smallest.key),
        short_size(smallest.key.block),
        mb(smallest.made),
        three_digits(100.0 * smallest.made as f64 / smallest.bytes as f64),
    )];
    sentences.extend(peers(set));
    sentences
}

/// Returns the finding: the comparison with the peer that did most of the same work, else the smallest image.
pub(super) fn finding(set: &[&BuildRow]) -> Option<String> {
    let key = &set.first()?.key;
    let pairs = |tool: &str| set.iter().filter(|row| row.key.tool == tool && same_work(set, row).is_some()).count();
    let tools = distinct(set.iter().filter(|row| !is_packfs(&row.key)).map(|row| row.key.tool.as_str()));
    let most = tools.into_iter().max_by_key(|tool| pairs(tool)).and_then(|tool| compare_peer(set, tool));
    if let Some(PeerComparison { tool, time, size, .. }) = most {
        return Some(format!(
            "{} as {}: {tool} takes {time} times as long as packfs for the same work, and its images are {size} times as \
             large.",
            key.source,
            format_name(key)
        ));
    }
    let smallest = set.iter().min_by_key(|row| row.made)?;
    let mb = three_digits(smallest.made as f64 / 1e6);
    let share = 100.0 * smallest.ratio()?;
    let who = label(&smallest.key);
    Some(format!(
        "{} as {}: the smallest image is that of {who}, {mb} MB, {} % of the files.",
        key.source,
        format_name(key),
        three_digits(share)
    ))
}

/// Comparison with a peer: geometric means over all work that both did.
struct PeerComparison<'t> {
    tool: &'t str,
    time: String,
    size: String,
    count: usize,
}

fn compare_peer<'t>(set: &[&BuildRow], tool: &'t str) -> Option<PeerComparison<'t>> {
    let rows = set.iter().filter(|row| !is_packfs(&row.key) && row.key.tool == tool);
    let pairs: Vec<(&BuildRow, &BuildRow)> = rows.filter_map(|peer| Some((*peer, same_work(set, peer)?))).collect();
    let mean = |value: fn(&BuildRow) -> f64| {
        let factors: Vec<f64> = pairs.iter().map(|(peer, own)| value(peer) / value(own)).collect();
        geometric_mean(&factors).map(three_digits)
    };
    let (time, size) = mean(|row| row.time.median).zip(mean(|row| row.made as f64))?;
    Some(PeerComparison { tool, time, size, count: pairs.len() })
}

/// Compares each peer with packfs over all work that both did.
fn peers(set: &[&BuildRow]) -> Vec<String> {
    let tools = distinct(set.iter().map(|row| row.key.tool.as_str()));
    let sentence = |tool: &str| {
        let PeerComparison { tool, time, size, count } = compare_peer(set, tool)?;
        Some(format!(
            "{tool} takes {time} times as long as packfs for the same work, and its images are {size} times as large \
             (geometric means of {count} {}). packfs verifies every block, except in rows with unverified; {tool} does \
             not verify.",
            if count == 1 { "pair" } else { "pairs" }
        ))
    };
    // packfs has no pairs with itself, and is dropped here.
    tools.into_iter().filter_map(sentence).collect()
}

/// Describes the model: its formula, then the fit of each line.
pub(super) fn models(results: &BenchResults, group: &[&BuildRow]) -> Vec<String> {
    let models: Vec<String> = lines(group).iter().filter_map(|line| model_sentence(results, line)).collect();
    if models.is_empty() {
        return models;
    }
    let method = "The model is T(n) = s + max(c, o, w / n, (c + w) / p), fitted to stages measured on p processors: s is \
                  the work before and after the file data, c the work of the ordering thread, w the work that threads \
                  share, o all writing. It assumes that memory and devices keep up, and that there are as many \
                  processors as threads. Its results are predictions, not measurements.";
    std::iter::once(method.to_owned()).chain(models).collect()
}

/// Names the fastest build of a group, and the program and codec that scale best.
pub(super) fn fastest_and_scaling(group: &[&BuildRow]) -> Option<String> {
    let lines = lines(group);
    let best = leaders(lines.iter().filter_map(|line| fastest(line)).map(|row| (row, row.time)));
    let (first, _) = best.first()?;
    let speed = first.speed().map_or(String::new(), |speed| format!(", {} MB/s", three_digits(speed)));
    let scaled = lines.iter().filter_map(|line| {
        let most = line.last().filter(|row| row.key.threads > 1)?;
        Some((most, SpeedupBase::One.speedup(line, most)?, SpeedupBase::One.efficiency(line, most)?))
    });
    let scaling = scaled.max_by(|a, b| a.1.total_cmp(&b.1)).map_or(String::new(), |(row, factor, efficiency)| {
        format!(
            " {} threads are up to {} times as fast as one ({}), an efficiency of {}.",
            row.key.threads,
            three_digits(factor),
            label(&row.key),
            three_digits(efficiency)
        )
    });
    let with_threads = |row: &BuildRow| match row.key.threads {
        0 => format!("{} serially", label(&row.key)),
        1 => format!("{} on 1 thread", label(&row.key)),
        n => format!("{} on {n} threads", label(&row.key)),
    };
    let names = best.named(|row| with_threads(row));
    Some(format!("The fastest {}.{scaling}", names.is(&format!("{} s{speed}", three_digits(first.time.median)))))
}

/// Describes the prediction of one line for many threads.
fn model_sentence(results: &BenchResults, line: &[&BuildRow]) -> Option<String> {
    let (model, threads) = fit_model(results, line)?;
    let seconds = model.seconds(MANY_THREADS);
    let enough = model.enough().map_or(String::new(), |enough| {
        let alone = three_digits(1e3 * model.alone());
        format!(
            " Scaling stops at about {} threads, where the ordering thread ({alone} ms) becomes the limit.",
            enough.ceil()
        )
    });
    // MB/s read and written. File data flows only outside the serial part; not 0, because it is a divisor.
    let flowing = (seconds - model.serial).max(f64::MIN_POSITIVE);
    let read = line[0].bytes as f64 / 1e6 / flowing;
    let written = line[0].made as f64 / 1e6 / flowing;
    Some(format!(
        "{}: s = {} s, c = {} s, w = {} s, measured with {threads} {}; the largest error of the model is {} %. \
         {MANY_THREADS} threads would take {} s, {} times as fast as one; the limit is {}.{enough} A device that reads \
         less than {} or writes less than {} MB/s would be the limit instead.",
        label(&line[0].key),
        three_digits(model.serial),
        three_digits(model.conducting()),
        three_digits(model.work()),
        if threads == 1 { "thread" } else { "threads" },
        three_digits(100.0 * model_error(&model, line)),
        three_digits(seconds),
        three_digits(model.seconds(1) / seconds),
        model.limit(MANY_THREADS).words(),
        three_digits(read),
        three_digits(written),
    ))
}
