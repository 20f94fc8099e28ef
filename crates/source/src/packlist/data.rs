//! Files whose bytes follow the lines of a list, as `unsquashfs -pf` and `packfs tar --format pseudo` write them.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packfs_blocks::ReadAt;
use packfs_blocks::io::FileAt;

use crate::{Contents, FileReader, unchanged};
use crate::{Error, Result};

/// Line after which, and after one more comment line, the data begins.
pub const DATA_MARK: &[u8] = b"# START OF DATA - DO NOT MODIFY\n";

/// Reads the lines of a list up to the data, if it has any.
///
/// # Errors
/// As the reader fails, or of kind `InvalidData` if the comment line after the mark is missing.
pub fn read_lines(from: &mut dyn BufRead) -> std::io::Result<(Vec<u8>, bool)> {
    let mut text = Vec::new();
    loop {
        let begin = text.len();
        if from.read_until(b'\n', &mut text)? == 0 {
            return Ok((text, false));
        }
        if text[begin..] == *DATA_MARK {
            let begin = text.len();
            from.read_until(b'\n', &mut text)?;
            return match text[begin..] == *b"#\n" {
                true => Ok((text, true)),
                false => Err(std::io::Error::new(std::io::ErrorKind::InvalidData, "no line `#` before the data")),
            };
        }
    }
}

/// Reads the list in a file: its lines, and its data if there is any.
pub(super) fn read(path: &Path) -> Result<(Vec<u8>, Option<Arc<DataBytes>>)> {
    let failed = |error| Error::io("cannot read", path)(error);
    let file = File::open(path).map_err(failed)?;
    let (text, has_data) = read_lines(&mut BufReader::new(&file)).map_err(failed)?;
    if !has_data {
        return Ok((text, None));
    }
    if !file.metadata().map_err(failed)?.is_file() {
        let why = "the data in it can only be read from a file: save the list to one";
        return Err(Error::Damaged { path: path.to_owned(), why: why.into() });
    }
    let begin = text.len() as u64;
    Ok((text, Some(Arc::new(DataBytes::open(path, begin)?))))
}

/// The bytes of a file from an offset on.
#[derive(Debug)]
pub(super) struct DataBytes {
    path: PathBuf,
    from: FileAt,
}

impl DataBytes {
    pub(super) fn open(path: &Path, begin: u64) -> Result<DataBytes> {
        let from = FileAt::open(path, begin).map_err(Error::io("cannot open", path))?;
        Ok(DataBytes { path: path.to_owned(), from })
    }

    /// Returns the file that consists of `len` of the bytes.
    pub(super) fn file(self: &Arc<Self>, offset: u64, len: u64) -> std::result::Result<Arc<dyn Contents>, String> {
        let available = self.from.len();
        match offset.checked_add(len) {
            Some(end) if end <= available => Ok(Arc::new(DataSlice { of: Arc::clone(self), offset, len })),
            _ => Err(format!(
                "{len} bytes at offset {offset} are more than the {available} bytes of data: it is cut short"
            )),
        }
    }
}

/// Some of the bytes, as a file.
struct DataSlice {
    of: Arc<DataBytes>,
    offset: u64,
    len: u64,
}

impl Contents for DataSlice {
    fn open(&self, _: u64) -> Result<Box<dyn FileReader + '_>> {
        Ok(Box::new(SliceReader(self)))
    }

    fn path(&self, _: u64) -> PathBuf {
        let mut text = self.of.path.clone().into_os_string();
        text.push(format!(": file at offset {} of its data", self.offset));
        text.into()
    }
}

struct SliceReader<'p>(&'p DataSlice);

impl FileReader for SliceReader<'_> {
    fn read_exact_at(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
        let SliceReader(DataSlice { of, offset: begin, len }) = self;
        if offset.checked_add(buf.len() as u64).is_none_or(|end| end > *len) {
            return Err(Error::Misuse("a read beyond the end of a file".into()));
        }
        match of.from.read_at(buf, begin + offset).map_err(Error::io("cannot read", &of.path))? {
            got if got == buf.len() => Ok(()),
            _ => Err(Error::Changed { path: of.path.clone(), why: "it was truncated while it was read".into() }),
        }
    }

    fn next_data(&mut self, offset: u64) -> Result<Option<(u64, u64)>> {
        Ok((offset < self.0.len).then_some((offset, self.0.len)))
    }

    fn finish(&mut self) -> Result<()> {
        unchanged(&self.0.of.from, &self.0.of.path)
    }
}
