//! Sentences about builds. All numbers come from the results.

use super::super::leaders::leaders;
use super::super::shape::{distinct, listed_features};
use super::lines::{BuildRow, FAR, SpeedupBase, error, fastest, is_own, label, lines, model, tar_bytes};
use super::tables::same_work;
use crate::build::ScalingModel;
use crate::results::BenchResults;
use crate::stats::geometric_mean;
use crate::units::{size, three};

fn format(key: &crate::build::BuildKey) -> &str {
    match key.format.as_str() {
        "squashfs" => "SquashFS",
        "erofs" => "EROFS",
        other => other,
    }
}

pub(super) fn set_title(set: &[&BuildRow]) -> String {
    let key = &set[0].key;
    format!("How small is {} as {}?", key.source, format(key))
}

pub(super) fn group_title(group: &[&BuildRow]) -> String {
    let key = &group[0].key;
    let features = if key.features.is_empty() { "no features".into() } else { listed_features(&key.features) };
    format!("{} as {} in blocks of {}, {features}", key.source, format(key), size(key.block))
}

/// Describes the source, the smallest image and the comparison with peers.
pub(super) fn of_set(results: &BenchResults, set: &[&BuildRow]) -> Vec<String> {
    let Some(smallest) = set.iter().min_by_key(|row| row.made) else { return Vec::new() };
    let mb = |bytes: u64| three(bytes as f64 / 1e6);
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
        size(smallest.key.block),
        mb(smallest.made),
        three(100.0 * smallest.made as f64 / smallest.bytes as f64),
    )];
    sentences.extend(peers(set));
    sentences
}

/// Returns the finding: the comparison with the peer that did most of the same work, else the smallest image.
pub(super) fn finding(set: &[&BuildRow]) -> Option<String> {
    let key = &set.first()?.key;
    let pairs = |tool: &str| set.iter().filter(|row| row.key.tool == tool && same_work(set, row).is_some()).count();
    let tools = distinct(set.iter().filter(|row| !is_own(&row.key)).map(|row| row.key.tool.as_str()));
    let most = tools.into_iter().max_by_key(|tool| pairs(tool)).and_then(|tool| compared(set, tool));
    if let Some(PeerComparison { tool, time, size, .. }) = most {
        return Some(format!(
            "{} as {}: {tool} takes {time} times as long as packfs for the same work, and its images are {size} times as \
             large.",
            key.source,
            format(key)
        ));
    }
    let smallest = set.iter().min_by_key(|row| row.made)?;
    let mb = three(smallest.made as f64 / 1e6);
    let share = 100.0 * smallest.ratio()?;
    let who = label(&smallest.key);
    Some(format!(
        "{} as {}: the smallest image is that of {who}, {mb} MB, {} % of the files.",
        key.source,
        format(key),
        three(share)
    ))
}

/// Comparison with a peer: geometric means over all work that both did.
struct PeerComparison<'t> {
    tool: &'t str,
    time: String,
    size: String,
    count: usize,
}

fn compared<'t>(set: &[&BuildRow], tool: &'t str) -> Option<PeerComparison<'t>> {
    let rows = set.iter().filter(|row| !is_own(&row.key) && row.key.tool == tool);
    let pairs: Vec<(&BuildRow, &BuildRow)> = rows.filter_map(|peer| Some((*peer, same_work(set, peer)?))).collect();
    let mean = |value: fn(&BuildRow) -> f64| {
        let factors: Vec<f64> = pairs.iter().map(|(peer, own)| value(peer) / value(own)).collect();
        geometric_mean(&factors).map(three)
    };
    let (time, size) = mean(|row| row.time.median).zip(mean(|row| row.made as f64))?;
    Some(PeerComparison { tool, time, size, count: pairs.len() })
}

/// Compares each peer with packfs over all work that both did.
fn peers(set: &[&BuildRow]) -> Vec<String> {
    let tools = distinct(set.iter().map(|row| row.key.tool.as_str()));
    let of = |tool: &str| {
        let PeerComparison { tool, time, size, count } = compared(set, tool)?;
        Some(format!(
            "{tool} takes {time} times as long as packfs for the same work, and its images are {size} times as large \
             (geometric means of {count} {}). packfs verifies every block, except in rows with unverified; {tool} does \
             not verify.",
            if count == 1 { "pair" } else { "pairs" }
        ))
    };
    // packfs has no pairs with itself, and is dropped here.
    tools.into_iter().filter_map(of).collect()
}

/// Describes the fastest build and the scaling of a group.
pub(super) fn of_group(group: &[&BuildRow]) -> Vec<String> {
    fastest_and_scaling(&lines(group)).into_iter().collect()
}

/// Describes the model: its formula, then the fit of each line.
pub(super) fn models(results: &BenchResults, group: &[&BuildRow]) -> Vec<String> {
    let models: Vec<String> = lines(group).iter().filter_map(|line| modelled(results, line)).collect();
    if models.is_empty() {
        return models;
    }
    let method = "The model is T(n) = s + max(c, o, w / n, (c + w) / p), fitted to stages measured on p processors: s is \
                  the work before and after the file data, c the work of the ordering thread, w the work that threads \
                  share, o all writing. It assumes that memory and devices keep up, and that there are as many \
                  processors as threads. Its results are predictions, not measurements.";
    std::iter::once(method.to_owned()).chain(models).collect()
}

fn fastest_and_scaling(lines: &[Vec<&BuildRow>]) -> Option<String> {
    let best = leaders(lines.iter().filter_map(|line| fastest(line)).map(|row| (row, row.time)));
    let (first, _) = best.first()?;
    let speed = first.speed().map_or(String::new(), |speed| format!(", {} MB/s", three(speed)));
    let scaled = lines.iter().filter_map(|line| {
        let most = line.last().filter(|row| row.key.threads > 1)?;
        Some((most, SpeedupBase::One.speedup(line, most)?, SpeedupBase::One.efficiency(line, most)?))
    });
    let scaling = scaled.max_by(|a, b| a.1.total_cmp(&b.1)).map_or(String::new(), |(row, factor, efficiency)| {
        format!(
            " {} threads are up to {} times as fast as one ({}), an efficiency of {}.",
            row.key.threads,
            three(factor),
            label(&row.key),
            three(efficiency)
        )
    });
    let how = |row: &BuildRow| match row.key.threads {
        0 => format!("{} serially", label(&row.key)),
        1 => format!("{} on 1 thread", label(&row.key)),
        n => format!("{} on {n} threads", label(&row.key)),
    };
    let names = best.named(|row| how(row));
    Some(format!("The fastest {}.{scaling}", names.is(&format!("{} s{speed}", three(first.time.median)))))
}

/// Describes the prediction of one line for many threads.
fn modelled(results: &BenchResults, line: &[&BuildRow]) -> Option<String> {
    let (model, threads) = model(results, line)?;
    let far = model.seconds(FAR);
    let enough = model.enough().map_or(String::new(), |enough| {
        let alone = three(1e3 * model.alone());
        format!(
            " Scaling stops at about {} threads, where the ordering thread ({alone} ms) becomes the limit.",
            enough.ceil()
        )
    });
    let (read, written) = rates(&model, line[0], far);
    Some(format!(
        "{}: s = {} s, c = {} s, w = {} s, measured with {threads} {}; the largest error of the model is {} %. {FAR} \
         threads would take {} s, {} times as fast as one; the limit is {}.{enough} A device that reads less than {} \
         or writes less than {} MB/s would be the limit instead.",
        label(&line[0].key),
        three(model.serial),
        three(model.conducting()),
        three(model.work()),
        if threads == 1 { "thread" } else { "threads" },
        three(100.0 * error(&model, line)),
        three(far),
        three(model.seconds(1) / far),
        model.limit(FAR).words(),
        three(read),
        three(written),
    ))
}

/// Returns the MB/s read and written by a build of this duration.
fn rates(model: &ScalingModel, row: &BuildRow, seconds: f64) -> (f64, f64) {
    // File data flows only outside the serial part; not 0, because it is a divisor.
    let flowing = (seconds - model.serial).max(f64::MIN_POSITIVE);
    (row.bytes as f64 / 1e6 / flowing, row.made as f64 / 1e6 / flowing)
}
