//! Predicts the image of the whole source from builds of parts.

use serde::Serialize;

use super::candidate::{TuneCandidate, TuneSettings};
use super::plan::{BuiltImage, ImageReading, TunePlan};
use crate::units::whole_part;

/// Predicted size and times of an image.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ImagePrediction {
    /// Settings of the build.
    #[serde(flatten)]
    pub settings: TuneSettings,
    /// Size of the image in bytes.
    pub size: u64,
    /// Build time in seconds on an idle machine.
    pub seconds: f64,
    /// Processor time of the build in seconds, summed over all threads.
    pub cpu_seconds: f64,
    /// Speed in MB/s of reading all files in order with one thread, in user space.
    pub read_speed: f64,
    /// Milliseconds to read 4 KiB at a random place with empty caches.
    pub random_read: f64,
    /// Bytes of the sample.
    pub tried: u64,
    /// True if the sample was the whole source, so that this is a measurement.
    pub measured: bool,
}

/// Builds with the reference codec.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReferenceBuilds {
    /// Build of the whole source, or of its maximum part.
    pub(super) most: BuiltImage,
    /// True if that is the whole source.
    pub(super) complete: bool,
    /// Build of the candidate's part.
    pub(super) part: BuiltImage,
}

/// Images are padded to whole pages.
const PAGE: u64 = 4096;

/// Predicts a candidate from the build of a part; without a reference, from the build of the whole.
pub(super) fn predict(
    plan: &TunePlan,
    candidate: &TuneCandidate,
    built: &BuiltImage,
    reference: Option<ReferenceBuilds>,
) -> ImagePrediction {
    let measured = reference.is_none();
    let mut data = built.data as f64;
    let mut metadata = built.metadata as f64;
    let mut cpu = built.time.cpu_seconds();
    let mut wall = built.time.seconds();
    if let Some(ReferenceBuilds { most, complete, part }) = reference {
        // The reference built `most`; these factors lead from there to the whole source.
        let byte_factor = if complete { 1.0 } else { quotient(plan.bytes, most.bytes) };
        let inode_factor = if complete { 1.0 } else { quotient(plan.inodes, most.inodes) };
        // Metadata grows with the number of inodes, data with that of bytes.
        data = most.data as f64 * byte_factor * quotient(built.data, part.data);
        metadata = most.metadata as f64 * inode_factor * quotient(built.metadata, part.metadata);
        // Additional time of the codec is proportional to its data. A candidate may be faster than the reference.
        let more_on_part = built.time.cpu_seconds() - part.time.cpu_seconds();
        let more = more_on_part * quotient(most.packed, part.packed) * byte_factor;
        cpu = (most.time.cpu_seconds() * byte_factor + more).max(0.0);
        // Time of the reference that is not the work of its threads remains constant, and no build is shorter than an
        // even share of its processor time.
        let threads = candidate.threads().max(1) as f64;
        wall = (most.time.seconds() * byte_factor + more / threads).max(cpu / threads);
    }
    let read = built.read.unwrap_or(ImageReading { speed: 0.0, random: 0.0 });
    ImagePrediction {
        settings: candidate.settings.clone(),
        size: whole_part((data + metadata).round()).next_multiple_of(PAGE),
        seconds: wall + plan.scan.seconds(),
        cpu_seconds: cpu + plan.scan.cpu_seconds(),
        read_speed: read.speed,
        random_read: 1000.0 * read.random,
        tried: built.bytes,
        measured,
    }
}

/// Returns `a / b`; 1 if there is nothing to compare.
fn quotient(a: u64, b: u64) -> f64 {
    if a == 0 || b == 0 { 1.0 } else { a as f64 / b as f64 }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::sample::PassTiming;
    use packfs_image::build::AnyOptions;
    use packfs_image::squashfs;

    /// A made-up prediction.
    pub(crate) fn made_up(codec: &str, size: u64, seconds: f64, read_speed: f64) -> ImagePrediction {
        let settings = TuneSettings { format: "squashfs".into(), codec: codec.into(), block: 131_072 };
        let random_read = 100.0 / read_speed;
        let cpu_seconds = 2.0 * seconds;
        ImagePrediction {
            settings,
            size,
            seconds,
            cpu_seconds,
            read_speed,
            random_read,
            tried: 100_000,
            measured: false,
        }
    }

    fn built(data: u64, metadata: u64, packed: u64, (wall, cpu): (u64, u64)) -> BuiltImage {
        let time = PassTiming { wall: wall * 1_000_000, cpu: cpu * 1_000_000, passes: 1 };
        let read = Some(ImageReading { speed: 500.0, random: 0.002 });
        BuiltImage { bytes: packed, inodes: 10, data, metadata, packed, time, read }
    }

    fn plan(bytes: u64, inodes: u64) -> TunePlan {
        let scan = PassTiming { wall: 10_000_000, cpu: 20_000_000, passes: 1 };
        TunePlan { candidates: Vec::new(), sample: 1, bytes, inodes, scan, stop: Default::default() }
    }

    fn candidate() -> TuneCandidate {
        TuneCandidate::new(AnyOptions::Squashfs(squashfs::SquashfsOptions::default().with(|build| build.threads = 2)))
    }

    #[test]
    fn predictions_are_those_computed_by_hand() {
        // The candidate's data is 8/10 of the reference's, and takes 900 ms more for a tenth of the data.
        let most = built(5_000_000, 50_000, 10_000_000, (400, 500));
        let part = built(500_000, 4000, 1_000_000, (50, 60));
        let tried = built(400_000, 3000, 1_000_000, (600, 960));
        let reference = ReferenceBuilds { most, complete: true, part };
        let one = predict(&plan(99, 99), &candidate(), &tried, Some(reference));
        assert_eq!(one.size, (4_000_000u64 + 37_500).next_multiple_of(4096));
        assert!((one.cpu_seconds - (0.5 + 9.0 + 0.02)).abs() < 1e-9, "{one:?}");
        assert!((one.seconds - (0.4 + 4.5 + 0.01)).abs() < 1e-9, "{one:?}");
        assert_eq!((one.read_speed, one.random_read, one.tried, one.measured), (500.0, 2.0, 1_000_000, false));
        // The reference built a tenth of the bytes and half of the inodes.
        let larger = predict(
            &plan(100_000_000, 20),
            &candidate(),
            &tried,
            Some(ReferenceBuilds { complete: false, ..reference }),
        );
        assert_eq!(larger.size, (40_000_000u64 + 75_000).next_multiple_of(4096));
        assert!((larger.cpu_seconds - (5.0 + 90.0 + 0.02)).abs() < 1e-9, "{larger:?}");
    }

    #[test]
    fn what_was_built_whole_is_a_measurement() {
        let one = predict(&plan(1, 1), &candidate(), &built(1000, 500, 2000, (30, 40)), None);
        assert_eq!((one.size, one.measured), (4096, true));
        assert!((one.seconds - 0.04).abs() < 1e-9 && (one.cpu_seconds - 0.06).abs() < 1e-9);
    }

    #[test]
    fn nothing_to_compare_with_changes_nothing() {
        let nothing = built(0, 200, 0, (1, 1));
        let reference = ReferenceBuilds { most: nothing, complete: false, part: nothing };
        let one = predict(&plan(0, 10), &candidate(), &nothing, Some(reference));
        assert_eq!(one.size, 4096);
        assert!(one.seconds.is_finite() && one.cpu_seconds.is_finite());
    }
}
