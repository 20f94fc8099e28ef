//! Sentences about reads. All numbers come from the results.

use super::super::leaders::{leaders, trailers};
use super::super::shape::distinct;
use super::group::{ImageReads, ReadGroup};
use crate::read::{FIO, KERNEL};
use crate::results::{BenchResults, ReadRow};
use crate::stats::SampleSummary;
use crate::units::{short_size, three_digits};

/// Explains how images were read, and by which kernel.
pub(super) fn method(results: &BenchResults) -> Vec<String> {
    let mut sentences = vec![
        "For each measurement the kernel mounts the image again, through a loop device for both formats, and all caches \
         are dropped. One thread then reads the data or only the attributes of all files in directory order, or of files \
         in random order; starting a program is not part of the time. fio reads one file, 4 KiB at a time. Programs \
         read images from the page cache; archives are discarded, and files are extracted to memory if they fit."
            .to_owned(),
    ];
    let readers: Vec<_> = distinct(results.reads.iter().map(|row| row.session.as_str()));
    for session in results.sessions.iter().filter(|session| readers.contains(&session.session.as_str())) {
        let settings = session.settings.iter().map(|(name, value)| format!("{name}: {value}"));
        let settings = settings.collect::<Vec<_>>().join("; ");
        if !settings.is_empty() {
            sentences.push(format!("Session {}, on {}: {settings}.", session.session, session.machine.kernel));
        }
    }
    sentences
}

/// Compares the formats in a kernel read, and names the fastest and the slowest image.
pub(super) fn of_work(group: &ReadGroup<'_>, work: &str) -> Vec<String> {
    let seconds = |image: &ImageReads<'_>| image.row(KERNEL, work).map(|row| row.time);
    let extremes = extremes(group, work, &seconds, |seconds| format!("{} ms", three_digits(1e3 * seconds)));
    compare_formats(group, work).into_iter().chain(extremes).collect()
}

/// Names the images that fio reads fastest and slowest.
pub(super) fn of_pattern(group: &ReadGroup<'_>, pattern: &str) -> Option<String> {
    // Seconds per MiB.
    let cost = |image: &ImageReads<'_>| {
        let row = image.row(FIO, pattern).filter(|row| row.bytes > 0)?;
        Some(row.time.scaled(f64::from(1 << 20) / row.bytes as f64))
    };
    extremes(group, &format!("with fio, {pattern}"), &cost, |cost| format!("{} MiB/s", three_digits(1.0 / cost)))
}

/// Returns the finding: the comparison of the formats, else the smallest image.
pub(super) fn finding(group: &ReadGroup<'_>) -> Option<String> {
    compare_formats(group, "full random data").or_else(|| smallest(group))
}

/// Names the smallest compressed image, and the smallest of the other format.
pub(super) fn smallest(group: &ReadGroup<'_>) -> Option<String> {
    let compressed: Vec<&ImageReads<'_>> = group.images.iter().filter(|image| !image.is_plain()).collect();
    let least = compressed.iter().min_by_key(|image| image.len()).filter(|_| compressed.len() > 1)?;
    let share = least.bytes().map_or(String::new(), |bytes| {
        format!(", {} % of the files", three_digits(100.0 * least.len() as f64 / bytes as f64))
    });
    let other = compressed.iter().filter(|image| image.key.format != least.key.format).min_by_key(|image| image.len());
    let other = other.map_or(String::new(), |other| {
        let more = 100.0 * (other.len() as f64 / least.len() as f64 - 1.0);
        format!("; the smallest of the other format is {}, {} % larger", other.name(), three_digits(more))
    });
    Some(format!(
        "The smallest image is {}: {} MB{share}{other}.",
        least.name(),
        three_digits(least.len() as f64 / 1e6)
    ))
}

/// Names the images with the least and the greatest cost.
fn extremes(
    group: &ReadGroup<'_>,
    work: &str,
    cost: &dyn Fn(&ImageReads<'_>) -> Option<SampleSummary>,
    show: impl Fn(f64) -> String,
) -> Option<String> {
    let valued = || group.images.iter().filter_map(|image| Some((image, cost(image)?)));
    let best = leaders(valued());
    let worst = trailers(valued());
    let count = valued().count();
    let least = best.first()?.1.median;
    let most = worst.first()?.1.median;
    if count < 2 || least <= 0.0 {
        return None;
    }
    let work = capitalized(work);
    if best.len() == count {
        let why = if best.are_noisy() { "too noisy to rank" } else { "too close to tell apart" };
        return Some(format!("{work}: all {count} images are {why} ({} to {}).", show(least), show(most)));
    }
    Some(format!(
        "{work}: the fastest {}; the slowest {}.",
        best.named(|image| image.name()).is(&show(least)),
        worst.named(|image| image.name()).is(&format!("{}, {} times as long", show(most), three_digits(most / least)))
    ))
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

/// Compares the formats in a kernel read, for equal codecs, block sizes and programs.
fn compare_formats(group: &ReadGroup<'_>, work: &str) -> Option<String> {
    let is_by_packfs = |image: &ImageReads<'_>| image.key.tool == "packfs";
    let is_pair = |a: &ImageReads<'_>, b: &ImageReads<'_>| {
        let same = (&a.key.codec, a.key.block) == (&b.key.codec, b.key.block);
        // packfs is paired with itself, and peers with peers, whose names differ between the formats.
        same && a.key.format == "squashfs" && b.key.format == "erofs" && is_by_packfs(a) == is_by_packfs(b)
    };
    let known = || group.images.iter().filter(|image| !image.key.tool.is_empty() && !image.is_plain());
    let pairs = known().flat_map(|a| known().filter(move |b| is_pair(a, b)).map(move |b| (a, b)));
    let factor = |(a, b): (&ImageReads<'_>, &ImageReads<'_>)| {
        let squashfs = a.seconds(work)?;
        let erofs = b.seconds(work)?;
        (squashfs > 0.0).then(|| (100.0 * erofs / squashfs, b.key.block))
    };
    let factors: Vec<(f64, usize)> = pairs.filter_map(factor).collect();
    let (least, at) = factors.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
    let (most, at_most) = factors.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let what = format!("{}: EROFS takes", capitalized(work));
    let baseline = "of SquashFS's time with blocks of the same size";
    Some(match factors.len() {
        1 => format!("{what} {} % (blocks of {}) {baseline}.", three_digits(*least), short_size(*at)),
        n => format!(
            "{what} {} % (blocks of {}) to {} % (blocks of {}) {baseline}; {n} pairs of images.",
            three_digits(*least),
            short_size(*at),
            three_digits(*most),
            short_size(*at_most)
        ),
    })
}

/// Names the fastest program for each task and image.
pub(super) fn programs<'g, 'r>(group: &'g ReadGroup<'r>) -> Vec<String> {
    let mut sentences = Vec::new();
    for work in ["tar", "extract"] {
        let rows = || group.images.iter().flat_map(|image| image.programs().map(move |row| (image, row)));
        let cost = |(image, row): (&'g ImageReads<'r>, &'r ReadRow)| {
            (row.bytes > 0).then(|| ((image, row), row.time.scaled(1e6 / row.bytes as f64)))
        };
        let all: Vec<_> = rows().filter(|(_, row)| row.key.work == work).filter_map(cost).collect();
        if all.len() < 2 {
            continue;
        }
        let best = leaders(all);
        let Some((_, cost)) = best.first() else { continue };
        let task = if work == "tar" { "Writing an archive" } else { "Extracting" };
        let names = best.named(|(image, row)| format!("{} with {}", row.key.reader, image.name()));
        let value = format!("{} MB/s", three_digits(1.0 / cost.median));
        sentences.push(format!("{task}: the fastest {}.", names.is(&value)));
    }
    sentences
}
