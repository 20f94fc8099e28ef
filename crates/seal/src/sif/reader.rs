//! Reads the header and the table of a SIF file, which may be anything.

use packfs_blocks::ReadAt;
use zerocopy::FromBytes;

use super::error::SifError;
use super::layout::{MAGIC, SifDescriptor, SifHeader, VERSION};
use super::metadata::SignedMetadata;
use crate::error::{Error, Result};

/// Most descriptors that are read. Apptainer makes tables of 48; a damaged length must not fill the memory.
const DESCRIPTORS_MAX: usize = 4096;

/// Header and used descriptors of a file.
#[derive(Debug)]
pub(crate) struct SifFile {
    header: SifHeader,
    pub(crate) descriptors: Vec<SifDescriptor>,
}

impl SifFile {
    /// Reads header and table. The inner error says why it is no SIF file that can be read.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn read(file: &dyn ReadAt) -> Result<std::result::Result<Self, SifError>> {
        let mut head = [0; size_of::<SifHeader>()];
        if file.len() < head.len() as u64 {
            return Ok(Err(SifError::NotSif("it is too short")));
        }
        file.read_exact_at(&mut head, 0).map_err(Error::io("cannot read the header"))?;
        let header: SifHeader = zerocopy::transmute!(head);
        if header.magic != MAGIC {
            return Ok(Err(SifError::NotSif("SIF_MAGIC is missing")));
        }
        if header.version != VERSION {
            return Ok(Err(SifError::NotSif("its version is not 01")));
        }
        let Some(table) = TableRange::of(&header, file.len()) else {
            return Ok(Err(SifError::BadTable("it is not in the file, or longer than any")));
        };
        let mut bytes = vec![0; table.len];
        file.read_exact_at(&mut bytes, table.start).map_err(Error::io("cannot read the table of objects"))?;
        let all = bytes.chunks_exact(size_of::<SifDescriptor>());
        let descriptors: Vec<SifDescriptor> =
            all.filter_map(|chunk| SifDescriptor::read_from_bytes(chunk).ok()).filter(SifDescriptor::is_used).collect();
        let is_in_file = |descriptor: &SifDescriptor| descriptor.end().is_some_and(|end| end <= file.len());
        if !descriptors.iter().all(is_in_file) {
            return Ok(Err(SifError::BadTable("an object goes beyond the end of the file")));
        }
        if descriptors.is_empty() {
            return Ok(Err(SifError::BadTable("it is empty")));
        }
        Ok(Ok(SifFile { header, descriptors }))
    }

    /// Returns the objects of a group.
    pub(crate) fn group(&self, group: u32) -> impl Iterator<Item = &SifDescriptor> {
        self.descriptors.iter().filter(move |descriptor| descriptor.group() == Some(group))
    }

    /// Returns true if the header is the one that was signed.
    pub(crate) fn is_signed_header(&self, metadata: &SignedMetadata) -> bool {
        metadata.has_header(&self.header)
    }
}

/// Where the table lies.
struct TableRange {
    start: u64,
    len: usize,
}

impl TableRange {
    /// Returns the range of the table; `None` if it is not within a file of `file_len` bytes.
    fn of(header: &SifHeader, file_len: u64) -> Option<Self> {
        let count = usize::try_from(header.descriptors_total.get()).ok().filter(|count| *count <= DESCRIPTORS_MAX)?;
        let len = count * size_of::<SifDescriptor>();
        let start = u64::try_from(header.descriptors_offset.get()).ok()?;
        let said_len = u64::try_from(header.descriptors_size.get()).ok()?;
        let end = start.checked_add(said_len)?;
        (said_len >= len as u64 && end <= file_len).then_some(TableRange { start, len })
    }
}
