//! Structure-aware mutations: sets every field of an image to wrong values, one at a time.
//!
//! A format's test lists the [`Field`]s of an image; [`judge`] changes each, and does everything
//! that can be done with the result. Images that a check still calls sound are mounted, where that
//! is possible: the kernel must show the same tree as the reader. Ordinary tests try a few values
//! and mount some images; with `PACKFS_MUTATIONS` in the environment, every value is tried and
//! every image mounted. If `PACKFS_MUTATIONS_KEEP` names a directory, images on which the two differ
//! are kept there.
//!
//! Images that a check rejects are never mounted here: some hang a kernel. If
//! `PACKFS_MUTATIONS_REJECTED` names a directory, some are left there for a kernel in a virtual
//! machine, each with what the check said.

use std::path::Path;
use std::time::Duration;

use super::{Mount, can_mount, differences, findings, snapshot, snapshot_image};
use crate::image::{FileType, Image};
use crate::{Result, Severity};

/// One in this many rejected images is left for a virtual machine, which takes a second for twenty.
const REJECTED_SHARE: usize = 8;
/// Maximum processor time for an image.
const TIME_MAX: Duration = Duration::from_secs(5);
/// Maximum memory use of the process.
const MEMORY_MAX: u64 = 256 << 20;
/// Larger files are not compared: reading holes takes time.
const FILE_MAX: u64 = 16 << 20;

/// A field of a structure: a little-endian number.
#[derive(Debug, Clone)]
pub struct Field {
    /// Names of structure and field, as in `format.rs`.
    pub name: String,
    /// Offset in [`Subject::image`].
    pub at: usize,
    /// Length in bytes, up to 8.
    pub len: usize,
}

/// Opens an image.
type Open<'s> = &'s dyn Fn(&[u8]) -> Result<Box<dyn Image>>;

/// The image under test, and its functions.
#[allow(missing_debug_implementations, reason = "closures have no debug form")]
pub struct Subject<'s> {
    /// Name of the image in messages.
    pub name: &'s str,
    /// The file system's name, for mounting.
    pub kind: &'s str,
    /// The image in the form in which it is changed, such as with its metadata decompressed.
    pub image: &'s [u8],
    /// Opens an image.
    pub open: Open<'s>,
    /// Makes an image of that form again, with checksums repaired; `None` where a change does not fit in it.
    pub finish: &'s dyn Fn(&[u8]) -> Option<Vec<u8>>,
    /// Parts of the names of fields for which the kernel and packfs are known to differ, as the
    /// page on the format explains.
    pub known: &'s [&'s str],
}

/// Returns true if every value is tried.
pub fn thorough() -> bool {
    std::env::var_os("PACKFS_MUTATIONS").is_some()
}

/// Returns true if the image called `name` is to be tested: its name contains the value of
/// `PACKFS_MUTATIONS`, or that is empty.
pub fn is_asked_for(name: &str) -> bool {
    let only = std::env::var("PACKFS_MUTATIONS").unwrap_or_default();
    only.len() < 2 || name.contains(&only)
}

/// Adds the fields of a structure of a format at byte `at`; returns the offset after it.
macro_rules! fields {
    ($out:expr, $at:expr, $format:ident :: $type:ident { $($field:ident),* $(,)? }) => {{
        fn len_of<T, F>(_: fn(&T) -> &F) -> usize {
            size_of::<F>()
        }
        let at: usize = $at;
        $($out.push($crate::testing::mutate::Field {
            name: format!("{}.{}", stringify!($type), stringify!($field).trim_start_matches("r#")),
            at: at + std::mem::offset_of!($format::$type, $field),
            len: len_of(|raw: &$format::$type| &raw.$field),
        });)*
        at + size_of::<$format::$type>()
    }};
}
pub(crate) use fields;

/// Changes each field in turn. Returns a description of every failure.
///
/// # Panics
/// If the image itself is not sound.
pub fn judge(subject: &Subject<'_>, fields: &[Field]) -> Vec<String> {
    let image = (subject.finish)(subject.image).expect("nothing was changed");
    let reader = (subject.open)(&image).expect("the image can be opened");
    assert_eq!(findings(&*reader, 0), Vec::<String>::new(), "{}", subject.name);
    keep(&image, subject.name);
    let mounts = can_mount(subject.name);
    let dir = tempfile::tempdir().expect("there is room for an image");
    let mut wrong = Vec::new();
    let mut tried = 0;
    let mut unfit = 0;
    let mut rejected_images = 0usize;
    reset_peak();
    for (n, field) in fields.iter().enumerate() {
        for value in values(field, subject.image, n as u64) {
            let mut image = subject.image.to_vec();
            image[field.at..field.at + field.len].copy_from_slice(&value.to_le_bytes()[..field.len]);
            tried += 1;
            let Some(image) = (subject.finish)(&image) else {
                unfit += 1;
                continue;
            };
            let begun = processor_time();
            let checked = (subject.open)(&image).map_err(|error| error.to_string());
            let checked = checked.and_then(|reader| check(&*reader).map(|()| reader));
            let spent = processor_time().saturating_sub(begun);
            let mut say = |why: String| {
                wrong.push(format!("{}: {} at {} = {value:#x}: {why}", subject.name, field.name, field.at));
            };
            if spent > TIME_MAX {
                say(format!("took {spent:?}"));
            }
            let reader = match checked {
                Ok(reader) => reader,
                Err(finding) => {
                    rejected_images += 1;
                    if rejected_images.is_multiple_of(REJECTED_SHARE) {
                        leave_rejected(subject, &image, rejected_images, &field.name, &finding);
                    }
                    continue;
                }
            };
            // Mounting all sound images takes minutes.
            if !mounts || !thorough() {
                continue;
            }
            if !subject.known.iter().any(|known| field.name.contains(known)) {
                let found = compare(&*reader, &image, &dir.path().join("image"), subject.kind);
                if !found.is_empty() {
                    keep(&image, &format!("{} {} {} {value:#x}", subject.name, field.name, field.at));
                }
                found.into_iter().for_each(say);
            }
        }
    }
    assert!(unfit * 10 < tried, "{}: {unfit} of {tried} changes do not fit", subject.name);
    match peak() {
        Some(bytes) if thorough() && bytes > MEMORY_MAX => wrong.push(format!("{}: took {bytes} bytes", subject.name)),
        _ => {}
    }
    wrong
}

/// Values that a field is set to.
fn values(field: &Field, image: &[u8], seed: u64) -> Vec<u64> {
    let mut bytes = [0; 8];
    bytes[..field.len].copy_from_slice(&image[field.at..field.at + field.len]);
    let (old, max) = (u64::from_le_bytes(bytes), u64::MAX >> (64 - 8 * field.len));
    // Multiplicative hashing: the same values in every run.
    let random = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ old;
    let bits = (0..8 * field.len).map(|bit| old ^ 1 << bit);
    let mut values = vec![0, max, old.wrapping_add(1) & max];
    if thorough() {
        values.extend([
            1,
            max >> 1,
            (max >> 1) + 1,
            old.wrapping_sub(1) & max,
            random & max,
            random.rotate_left(29) & max,
        ]);
        values.extend(bits);
    }
    values.sort_unstable();
    values.dedup();
    values.retain(|value| *value != old);
    values
}

/// Exercises an image in every way; returns the first damage that a check finds.
fn check(image: &dyn Image) -> std::result::Result<(), String> {
    super::exercise(image, 60, 20);
    let mut damage = None;
    let checked = image.check(0, &packfs_blocks::Progress::default(), &mut |finding| {
        if finding.severity == Severity::Damage {
            damage.get_or_insert_with(|| finding.to_string());
        }
    });
    checked.map_err(|error| error.to_string())?;
    damage.map_or(Ok(()), Err)
}

/// Leaves a rejected image, and what was changed and found, for a kernel in a virtual machine.
fn leave_rejected(subject: &Subject<'_>, image: &[u8], number: usize, field: &str, finding: &str) {
    let Some(dir) = std::env::var_os("PACKFS_MUTATIONS_REJECTED") else { return };
    let name = subject.name.replace(|letter: char| !letter.is_ascii_alphanumeric(), "_");
    let path = Path::new(&dir).join(format!("{name}-{number}.{}", subject.kind));
    let text = format!("{field}\n{finding}\n");
    let written = std::fs::write(&path, image).and_then(|()| std::fs::write(path.with_extension("txt"), text));
    written.expect("there is room for an image");
}

/// Keeps an image for later inspection.
fn keep(image: &[u8], name: &str) {
    if let Some(dir) = std::env::var_os("PACKFS_MUTATIONS_KEEP") {
        let name = name.replace(|letter: char| !letter.is_ascii_alphanumeric(), "_");
        std::fs::write(Path::new(&dir).join(name), image).expect("there is room for an image");
    }
}

/// Compares the trees that the kernel and the reader show.
fn compare(reader: &dyn Image, image: &[u8], place: &Path, kind: &str) -> Vec<String> {
    if has_huge_files(reader).unwrap_or(false) {
        return Vec::new();
    }
    std::fs::write(place, image).expect("there is room for an image");
    let ours = match snapshot_image(reader) {
        Ok(ours) => ours,
        Err(error) => return vec![format!("sound, but {error}")],
    };
    match Mount::new(place, kind).map(|mount| snapshot(&mount.path())) {
        Ok(Ok(kernel)) => {
            differences(&kernel, &ours).into_iter().map(|line| format!("kernel / packfs: {line}")).collect()
        }
        Ok(Err(error)) => vec![format!("sound, but the kernel says {error}")],
        Err(error) => vec![format!("sound, but cannot be mounted: {error}")],
    }
}

fn has_huge_files(image: &dyn Image) -> Result<bool> {
    let mut stack = vec![image.root()];
    while let Some(nid) = stack.pop() {
        match image.stat(nid)?.kind {
            FileType::Dir => stack.extend(image.read_dir(nid)?.into_iter().map(|entry| entry.nid)),
            FileType::File { size } if size > FILE_MAX => return Ok(true),
            _ => {}
        }
    }
    Ok(false)
}

/// CPU time used by this thread.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Resets the kernel's record of peak memory.
fn reset_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Returns the peak memory of the process in bytes.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}
