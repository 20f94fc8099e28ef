//! The tables of a report.

use super::model::{Section, Table, Value, size};
use super::sentences::heading;
use crate::metrics::{efficiency, front, speedup};
use crate::record::{Failure, Session};
use crate::results::{Results, Row};
use crate::stats::{arithmetic_mean, geometric_mean};

fn table<const N: usize>(id: &str, title: &str, columns: [&str; N], rows: Vec<Vec<Value>>) -> Table {
    Table { id: id.into(), title: title.into(), columns: columns.map(str::to_owned).into(), rows }
}

/// Letters, digits and dashes of some text.
pub(super) fn slug(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    text.chars().map(plain).collect()
}

/// What a group's tables and charts are told apart by.
pub(super) fn group_id(row: &Row) -> String {
    let key = &row.key;
    let digest: String = key.digest.chars().take(4).collect();
    let (data, policy, sector, block) = (&key.data, &key.policy, key.sector, size(key.block));
    slug(&format!("{data}-{digest}-{policy}-{sector}-{block}-{}t", key.threads))
}

/// Machines and settings.
pub(super) fn sessions(results: &Results) -> Table {
    let row = |session: &Session| {
        let machine = &session.machine;
        vec![
            Value::Text(session.session.clone()),
            Value::Text(date(session.time)),
            Value::Text(session.program.clone()),
            Value::Text(machine.cpu.clone()),
            Value::Whole(machine.processors as u64),
            Value::Text(machine.governor.clone().unwrap_or_else(|| "not told".into())),
            Value::Text(machine.kernel.clone()),
            Value::Whole(u64::from(session.runs)),
        ]
    };
    let columns = ["session", "date", "packfs", "processor", "processors", "governor", "kernel", "runs"];
    table("sessions", "Sessions", columns, results.sessions.iter().map(row).collect())
}

/// A day in UTC.
fn date(secs: u64) -> String {
    // Days counted from 1 March of year 0, so that the leap day ends the year.
    let days = secs / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    format!("{:04}-{month:02}-{day:02}", era * 400 + year_of_era + u64::from(month <= 2))
}

/// Which rows of a group no other beats in size and speed, compressing and decompressing.
pub(super) fn fronts(group: &[&Row]) -> (Vec<bool>, Vec<bool>) {
    let of = |speed: fn(&Row) -> Option<f64>| {
        let cost = |row: &Row| speed(row).map_or(f64::INFINITY, |speed| 1.0 / speed);
        front(&group.iter().map(|row| (cost(row), -row.sizes.ratio())).collect::<Vec<_>>())
    };
    (of(Row::encode_speed), of(Row::decode_speed))
}

/// All metrics of a group.
pub(super) fn of_group(results: &Results, group: &[&Row]) -> Table {
    let (compressing, decompressing) = fronts(group);
    let relative = |row: &Row, metric: fn(&Row) -> Option<f64>| -> Value {
        let baseline = results.baseline(row).and_then(metric).filter(|baseline| *baseline > 0.0);
        metric(row).zip(baseline).map(|(value, baseline)| value / baseline).into()
    };
    let row = |(at, row): (usize, &&Row)| {
        let noise = results.incompressible(row);
        let noise_speed = noise.and_then(Row::encode_speed);
        let marks = [(compressing[at], "c"), (decompressing[at], "d")];
        vec![
            row.key.codec.as_str().into(),
            results.library(row).unwrap_or_default().into(),
            Value::Number(100.0 * row.sizes.ratio()),
            row.encode_speed().into(),
            row.decode_speed().into(),
            row.encode_savings().into(),
            row.decode_savings().into(),
            relative(row, Row::encode_speed),
            relative(row, Row::decode_speed),
            relative(row, Row::encode_savings),
            relative(row, Row::decode_savings),
            noise_speed.into(),
            noise.map_or(Value::None, |noise| relative(noise, Row::encode_speed)),
            noise_speed.zip(row.encode_speed()).map(|(noise, data)| noise / data).into(),
            Value::Number(100.0 * row.sizes.share()),
            Value::Number(row.encode_cpu * 1e9 / row.sizes.raw as f64),
            row.decode_cpu.map(|cpu| cpu * 1e9 / row.sizes.decoded as f64).into(),
            Value::Number(100.0 * row.encode.spread()),
            row.decode.map(|decode| 100.0 * decode.spread()).into(),
            Value::Whole(row.encode.count as u64),
            Value::Text(marks.iter().filter(|(on, _)| *on).map(|(_, name)| *name).collect()),
        ]
    };
    let columns = [
        "codec",
        "library",
        "size %",
        "in MB/s",
        "out MB/s",
        "saved in MB/s",
        "saved out MB/s",
        "in x",
        "out x",
        "saved in x",
        "saved out x",
        "noise MB/s",
        "noise x",
        "abort gain",
        "kept %",
        "CPU in ns/B",
        "CPU out ns/B",
        "spread in %",
        "spread out %",
        "runs",
        "front",
    ];
    table(&group_id(group[0]), &heading(group), columns, group.iter().enumerate().map(row).collect())
}

/// Factors to zlib -9 of a codec at a block size on one thread, one for each data set.
#[derive(Debug)]
pub(super) struct Relative {
    pub(super) codec: String,
    pub(super) block: usize,
    /// Speed in and out, savings in and out.
    pub(super) factors: [Vec<f64>; 4],
}

pub(super) fn factors(results: &Results) -> Vec<Relative> {
    let mut all: Vec<Relative> = Vec::new();
    for row in results.groups().into_iter().flatten().filter(|row| row.key.threads == 1) {
        let Some(baseline) = results.baseline(row) else { continue };
        let found = all.iter().position(|one| one.codec == row.key.codec && one.block == row.key.block);
        let at = found.unwrap_or_else(|| {
            all.push(Relative { codec: row.key.codec.clone(), block: row.key.block, factors: Default::default() });
            all.len() - 1
        });
        let metrics = [Row::encode_speed, Row::decode_speed, Row::encode_savings, Row::decode_savings];
        for (factors, metric) in all[at].factors.iter_mut().zip(metrics) {
            let pair = metric(row).zip(metric(baseline)).filter(|(a, b)| *a > 0.0 && *b > 0.0);
            factors.extend(pair.map(|(a, b)| a / b));
        }
    }
    all
}

/// Averages of factors to zlib -9, in both ways to average.
pub(super) fn relative(results: &Results) -> Option<Table> {
    let row = |one: Relative| {
        let means = one.factors.iter().flat_map(|f| [geometric_mean(f), arithmetic_mean(f)]).map(Value::from);
        let sets = Value::Whole(one.factors[0].len() as u64);
        [Value::Text(one.codec), Value::Text(size(one.block)), sets].into_iter().chain(means).collect()
    };
    let rows: Vec<Vec<Value>> = factors(results).into_iter().map(row).collect();
    let columns = [
        "codec",
        "block",
        "data sets",
        "in x",
        "in x, arithmetic",
        "out x",
        "out x, arithmetic",
        "saved in x",
        "saved in x, arithmetic",
        "saved out x",
        "saved out x, arithmetic",
    ];
    let title = "Relative to zlib -9 on one thread, averaged over data: geometric and arithmetic means";
    (!rows.is_empty()).then(|| table("relative", title, columns, rows))
}

/// How speed grows with threads.
pub(super) fn threads(results: &Results) -> Option<Table> {
    let mut rows = Vec::new();
    for row in results.groups().into_iter().flatten().filter(|row| row.key.threads > 1) {
        let Some(one) = results.one_thread(row) else { continue };
        let (threads, into) = (row.key.threads, (one.encode.median, row.encode.median));
        let out = one.decode.zip(row.decode).map(|(one, many)| (one.median, many.median));
        rows.push(vec![
            row.key.data.as_str().into(),
            row.key.codec.as_str().into(),
            Value::Text(size(row.key.block)),
            Value::Whole(threads as u64),
            row.encode_speed().into(),
            speedup(into.0, into.1).into(),
            efficiency(into.0, into.1, threads).into(),
            row.decode_speed().into(),
            out.and_then(|(one, many)| speedup(one, many)).into(),
            out.and_then(|(one, many)| efficiency(one, many, threads)).into(),
        ]);
    }
    let columns = [
        "data",
        "codec",
        "block",
        "threads",
        "in MB/s",
        "in speed-up",
        "in efficiency",
        "out MB/s",
        "out speed-up",
        "out efficiency",
    ];
    (!rows.is_empty()).then(|| table("threads", "Scaling by threads", columns, rows))
}

/// What could not be measured.
pub(super) fn failures(results: &Results) -> Option<Section> {
    let row = |failure: &Failure| {
        let key = &failure.key;
        vec![
            key.data.as_str().into(),
            key.codec.as_str().into(),
            Value::Text(size(key.block)),
            Value::Whole(key.threads as u64),
            failure.why.as_str().into(),
        ]
    };
    let rows: Vec<Vec<Value>> = results.failures.iter().map(row).collect();
    (!rows.is_empty()).then(|| Section {
        title: "What could not be measured".into(),
        sentences: Vec::new(),
        charts: Vec::new(),
        tables: vec![table("failures", "Failures", ["data", "codec", "block", "threads", "why"], rows)],
    })
}

/// What was published beside what was measured.
pub(super) fn published(rows: Vec<Vec<Value>>) -> Table {
    let title = "Published in 2011 on other hardware, and measured here";
    table("published", title, ["what", "published", "on", "measured here"], rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (secs, day) in [(0, "1970-01-01"), (951_782_400, "2000-02-29"), (1_795_305_600, "2026-11-22")] {
            assert_eq!(date(secs), day);
        }
    }
}
