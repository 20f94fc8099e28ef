//! Everything a reader can do with an image, and what has to hold if the check calls it sound.

use packfs_blocks::Progress;
use packfs_image::image::{FileType, Nid};
use packfs_image::sink::Walk;
use packfs_image::{Error, Image, Severity};

/// Files up to this length are read whole.
const WHOLE: u64 = 64 << 10;
/// Bytes that are read of all files together.
const ALL: u64 = 1 << 20;

/// Checks, walks and reads an image.
pub(crate) fn look(image: &dyn Image) {
    let mut damaged = false;
    let checked = image.check(0, &Progress::default(), &mut |finding| {
        damaged |= finding.severity == Severity::Damage;
        drop(finding.to_string());
    });
    let sound = checked.is_ok() && !damaged;
    let read = walk(image);
    if let (true, Err(why)) = (sound, read) {
        panic!("the check finds nothing, but {why}");
    }
}

/// Reads all there is; an error says what cannot be read.
fn walk(image: &dyn Image) -> Result<(), String> {
    let mut left = ALL;
    let mut first = Ok(());
    let mut walk = Walk::new(image, &[]).map_err(|error| error.to_string())?;
    while let Some(visit) = walk.step().map_err(|error| format!("the walk fails: {error}"))? {
        let (nid, kind) = (visit.nid, visit.stat.kind.clone());
        let mut note = |what: &str, error: packfs_image::Error| {
            let path = visit.path.escape_ascii();
            first = first.clone().and(Err(format!("{what} of /{path}: {error}")));
        };
        if let Err(error) = image.xattrs(nid) {
            note("xattrs", error);
        }
        match kind {
            FileType::File { size } => {
                if let Err(error) = file(image, nid, size, &mut left) {
                    note("data", error);
                }
            }
            FileType::Dir => {
                if let Err(error) = entries(image, nid) {
                    note("entries", error);
                }
            }
            _ => {}
        }
    }
    first
}

/// Checks that names that are listed are found, and no others.
fn entries(image: &dyn Image, dir: Nid) -> packfs_image::Result<()> {
    let entries = image.read_dir(dir)?;
    for entry in entries.iter().take(50) {
        let found = image.lookup(dir, &entry.name)?;
        assert_eq!(found, Some(entry.nid), "{} is listed and not found", entry.name.escape_ascii());
    }
    let _ = image.lookup(dir, b"nowhere to be found");
    Ok(())
}

fn file(image: &dyn Image, nid: Nid, size: u64, left: &mut u64) -> packfs_image::Result<()> {
    let extents = image.extents(nid)?;
    let mut end = 0;
    for extent in &extents {
        assert_eq!(extent.offset, end, "extents without gaps");
        end += extent.len;
    }
    assert_eq!(end, size, "extents cover the file");
    let mut piece = [0; 5000];
    if size <= WHOLE.min(*left) {
        *left -= size;
        let mut whole = Vec::new();
        while (whole.len() as u64) < size {
            let got = image.read_at(nid, &mut piece, whole.len() as u64)?;
            assert!(got > 0, "the file ends before its end");
            whole.extend_from_slice(&piece[..got]);
        }
        assert_eq!(whole.len() as u64, size);
        for extent in &extents {
            let [start, len] = [extent.offset, extent.len].map(|number| usize::try_from(number).expect("a short file"));
            let want = &whole[start..start + len];
            if extent.hole {
                assert!(want.iter().all(|byte| *byte == 0), "holes are zeros");
            } else {
                let mut got = vec![1; want.len()];
                assert_eq!(image.read_at(nid, &mut got, extent.offset)?, want.len());
                if got != want {
                    // Of a sound image; what a match at distance 0 decodes to depends on what was decoded before.
                    return Err(Error::Unsupported("the bytes depend on how they are read".into()));
                }
            }
        }
    } else {
        for offset in [0, size / 2, size - 1] {
            let got = image.read_at(nid, &mut piece, offset)?;
            assert_eq!(got as u64, (size - offset).min(piece.len() as u64));
        }
    }
    assert_eq!(image.read_at(nid, &mut piece, size)?, 0);
    Ok(())
}
