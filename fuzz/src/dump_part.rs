//! Any bytes as the parts of a dump. A test of `packfs-dump` runs this over the corpus, too.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use packfs_blocks::{Progress, ReadAt};
use packfs_dump::Set;
use packfs_dump::format::{ALIGN, FOOTER_MAGIC, MAGIC, Record, SEGMENT_MAGIC, SegmentHeader, sum};
use packfs_dump::join;
use packfs_dump::set::SetOptions;
use zerocopy::{FromBytes, IntoBytes};

/// Enough of a dump; its fills may be as long as they like.
const LOOK: usize = 1 << 20;

struct Enough(usize);

impl Write for Enough {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        if self.0 < LOOK { Ok(bytes.len()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads what the input unpacks to, as it is or with its checksums made right.
pub fn look(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let mut bytes = crate::zeros::unpack(rest);
    if first & 1 == 0 {
        mend(&mut bytes);
    }
    open(bytes);
}

/// Does everything a reader can do with them. A part begins at each multiple of 4096 bytes where there is the magic
/// number of one.
pub fn open(bytes: Vec<u8>) {
    let begins = |at: &usize| *at == 0 || bytes[*at..].starts_with(&MAGIC);
    let mut begins: Vec<usize> = (0..bytes.len()).step_by(ALIGN).filter(begins).collect();
    begins.push(bytes.len());
    let parts = begins.windows(2).map(|at| Arc::new(bytes[at[0]..at[1]].to_vec()) as Arc<dyn ReadAt>);
    let parts = parts.enumerate().map(|(n, part)| (PathBuf::from(n.to_string()), part)).collect();
    let Ok(set) = Set::from_sources(parts, &SetOptions::default().set(|all| all.cache_bytes = 1 << 20)) else { return };
    let _ = (set.info(), set.lost());
    let _ = set.check(0, &Progress::default(), &mut |finding| drop(finding.to_string()));
    let mut piece = [0; 5000];
    for offset in [0, set.len() / 2, set.len().saturating_sub(1), set.len(), u64::MAX] {
        let _ = set.read_at(&mut piece, offset);
    }
    let options = join::JoinOptions::default().set(|all| (all.threads, all.memory, all.partial) = (0, 1 << 20, true));
    let _ = join::to_stream(&set, &mut Enough(0), &options, &Progress::default());
}

/// Gives every structure its checksum, so that what is behind the checksums is tried too.
pub fn mend(bytes: &mut [u8]) {
    for at in (0..bytes.len()).step_by(ALIGN) {
        let rest = &mut bytes[at..];
        if rest.starts_with(&MAGIC) || rest.starts_with(&FOOTER_MAGIC) {
            if let Some(block) = rest.get_mut(..ALIGN) {
                let sum = sum(&block[..ALIGN - 8]);
                block[ALIGN - 8..].copy_from_slice(&sum.to_le_bytes());
            }
        } else if rest.starts_with(&SEGMENT_MAGIC) {
            mend_segment(rest);
        }
    }
}

fn mend_segment(bytes: &mut [u8]) -> Option<()> {
    let (mut header, _) = SegmentHeader::read_from_prefix(bytes).ok()?;
    let records = (header.records.get() as usize).checked_mul(size_of::<Record>())?;
    let head = records.checked_add(size_of::<SegmentHeader>())?;
    let payload = bytes.get(head..head.checked_add(header.payload.get() as usize)?)?;
    header.payload_sum = sum(payload).into();
    header.sum = 0.into();
    bytes[..size_of::<SegmentHeader>()].copy_from_slice(header.as_bytes());
    header.sum = sum(&bytes[..head]).into();
    bytes[..size_of::<SegmentHeader>()].copy_from_slice(header.as_bytes());
    Some(())
}
