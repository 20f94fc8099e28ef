//! Headers of cpio archives: new ASCII (`newc`), the same with checksums (`crc`), and portable ASCII (`odc`).

use crate::archive::MAX_PATH;
use crate::archive::input::{ArchiveInput, truncated};
use crate::tree::DeviceNumber;
use crate::{Error, Result};

pub(super) const MAGIC_LEN: usize = 6;
/// Name of the last member.
const TRAILER: &[u8] = b"TRAILER!!!";

/// Forms of headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeaderForm {
    Newc,
    Crc,
    Odc,
}

/// The fields of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CpioHeader {
    /// Type and permissions, as in `stat`.
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) nlink: u32,
    pub(super) mtime: u64,
    pub(super) size: u64,
    /// Device and inode number: equal for all names of a file.
    pub(super) id: (u32, u32, u32),
    pub(super) device: DeviceNumber,
    /// Sum of all bytes of the data.
    pub(super) sum: Option<u32>,
    pub(super) name: Vec<u8>,
    /// Offset of the header.
    pub(super) at: u64,
    form: HeaderForm,
}

impl HeaderForm {
    /// Detects the form from the first bytes of a header.
    pub(super) fn of(magic: &[u8]) -> Option<Self> {
        match magic.get(..MAGIC_LEN)? {
            b"070701" => Some(HeaderForm::Newc),
            b"070702" => Some(HeaderForm::Crc),
            b"070707" => Some(HeaderForm::Odc),
            _ => None,
        }
    }

    /// Lengths of the fields after the magic.
    fn widths(self) -> &'static [usize] {
        match self {
            HeaderForm::Newc | HeaderForm::Crc => &[8; 13],
            HeaderForm::Odc => &[6, 6, 6, 6, 6, 6, 6, 11, 6, 11],
        }
    }

    /// Names and data begin at multiples of this.
    fn alignment(self) -> u64 {
        if self == HeaderForm::Odc { 1 } else { 4 }
    }

    /// Base of the numbers.
    fn base(self) -> u32 {
        if self == HeaderForm::Odc { 8 } else { 16 }
    }
}

impl CpioHeader {
    /// Reads the header at `at`, whose magic was read already, and the name after it. The data follows.
    pub(super) fn read(input: &mut dyn ArchiveInput, form: HeaderForm, at: u64) -> Result<CpioHeader> {
        let fields = fields(input, form, at)?;
        // Only sizes and times of odc have more than 32 bits.
        let small = |field: u64| u32::try_from(field).unwrap_or(u32::MAX);
        let header = match (form, &fields[..]) {
            (
                HeaderForm::Newc | HeaderForm::Crc,
                &[ino, mode, uid, gid, nlink, mtime, size, major, minor, rmajor, rminor, name_len, sum],
            ) => CpioHeader {
                mode: small(mode),
                uid: small(uid),
                gid: small(gid),
                nlink: small(nlink),
                mtime,
                size,
                id: (small(major), small(minor), small(ino)),
                device: DeviceNumber { major: small(rmajor), minor: small(rminor) },
                sum: (form == HeaderForm::Crc).then_some(small(sum)),
                name: name(input, name_len, at)?,
                at,
                form,
            },
            (HeaderForm::Odc, &[dev, ino, mode, uid, gid, nlink, rdev, mtime, name_len, size]) => CpioHeader {
                mode: small(mode),
                uid: small(uid),
                gid: small(gid),
                nlink: small(nlink),
                mtime,
                size,
                id: (small(dev), 0, small(ino)),
                // Packed as in the first systems that had it.
                device: DeviceNumber { major: small(rdev >> 8), minor: small(rdev & 0xff) },
                sum: None,
                name: name(input, name_len, at)?,
                at,
                form,
            },
            _ => return Err(bad(at, "its fields are incomplete")),
        };
        // Header and name are padded together.
        let end = header.padded(input.offset());
        match input.skip_to(end)? {
            true => Ok(header),
            false => Err(truncated("cpio header", at, input.offset() - at, end - at)),
        }
    }

    pub(super) fn is_trailer(&self) -> bool {
        self.name == TRAILER
    }

    /// Returns the end of the padding after `end`.
    pub(super) fn padded(&self, end: u64) -> u64 {
        self.at + (end - self.at).next_multiple_of(self.form.alignment())
    }
}

fn bad(at: u64, why: impl Into<String>) -> Error {
    Error::corrupt("cpio header", at, why)
}

fn fields(input: &mut dyn ArchiveInput, form: HeaderForm, at: u64) -> Result<Vec<u64>> {
    let len: usize = form.widths().iter().sum();
    let mut bytes = vec![0; len];
    let got = input.read(&mut bytes)?;
    if got < len {
        return Err(truncated("cpio header", at, (MAGIC_LEN + got) as u64, (MAGIC_LEN + len) as u64));
    }
    let mut rest = &bytes[..];
    let field = |width: &usize| {
        let (digits, after) = rest.split_at(*width);
        rest = after;
        // `from_str_radix` would take a sign.
        let text = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let number = text.and_then(|text| u64::from_str_radix(text, form.base()).ok());
        number.ok_or_else(|| bad(at, format!("`{}` is not a number", digits.escape_ascii())))
    };
    form.widths().iter().map(field).collect()
}

/// Reads a name, which ends with a NUL that counts.
fn name(input: &mut dyn ArchiveInput, len: u64, at: u64) -> Result<Vec<u8>> {
    // Bounded before memory is reserved for it.
    let len = usize::try_from(len).ok().filter(|len| (1..=MAX_PATH + 1).contains(len));
    let len = len.ok_or_else(|| bad(at, format!("its name must have 1 to {MAX_PATH} bytes")))?;
    let mut name = vec![0; len];
    let got = input.read(&mut name)?;
    if got < len {
        return Err(truncated("cpio header", at, got as u64, len as u64));
    }
    // What follows a NUL is padding of some writers.
    match name.iter().position(|byte| *byte == 0) {
        Some(end) => name.truncate(end),
        None => return Err(bad(at, "its name does not end with a NUL")),
    }
    Ok(name)
}
