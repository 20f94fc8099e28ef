//! Headers before a member's data: a ustar header, and a pax header if that one is too narrow.

use std::io::Write as _;

use zerocopy::{FromZeros, IntoBytes};

use crate::image::{FileType, Stat};
use crate::source::tar::format::{BLOCK, TarHeader, USTAR, checksum, flag};
use crate::tree::{DeviceNumber, Time, XattrSet, acl};

/// The largest numbers that fit in fields of 8 and 12 bytes.
const MAX_8: u64 = 0o777_7777;
const MAX_12: u64 = 0o777_7777_7777;

/// A member to write.
#[derive(Debug)]
pub(super) struct TarMember<'m> {
    /// Path, with a trailing slash for a directory.
    pub(super) path: &'m [u8],
    pub(super) stat: &'m Stat,
    /// Permissions, which are fewer than those in `stat` if there is an ACL.
    pub(super) mode: u16,
    pub(super) xattrs: &'m XattrSet,
    /// The earlier name of the same file.
    pub(super) hard_link: Option<&'m [u8]>,
    /// The regions of data of a file with holes.
    pub(super) regions: Option<&'m [(u64, u64)]>,
}

/// Adds the headers of `member`, and the map if it is sparse.
pub(super) fn add(out: &mut Vec<u8>, member: &TarMember<'_>) {
    let map = member.regions.map(sparse_map);
    let mut pax = Vec::new();
    let mut header = describe(member, map.as_deref(), &mut pax);
    if let Some((path, regions)) = member.regions.map(|regions| (member.path, regions)) {
        record(&mut pax, b"GNU.sparse.major", b"1");
        record(&mut pax, b"GNU.sparse.minor", b"0");
        record(&mut pax, b"GNU.sparse.name", path);
        record(&mut pax, b"GNU.sparse.realsize", size_of(member.stat).to_string().as_bytes());
        debug_assert!(!regions.is_empty(), "the map ends with the end of the file");
        // As GNU tar makes it up, with 0 for its process number, since the bytes must always be the same.
        let stand_in = [b"GNUSparseFile.0/", base(path)].concat();
        put(&mut header.name, &stand_in);
    } else if !set_name(&mut header, member.path) {
        record(&mut pax, b"path", member.path);
        put(&mut header.name, member.path);
    }
    for (name, value) in member.xattrs {
        record(&mut pax, &xattr_key(name), value);
        // GNU tar, bsdtar and star restore ACLs from text only.
        let key = match &**name {
            acl::ACCESS => &b"SCHILY.acl.access"[..],
            acl::DEFAULT => b"SCHILY.acl.default",
            _ => continue,
        };
        if let Some(text) = acl::to_text(value) {
            record(&mut pax, key, text.as_bytes());
        }
    }
    if !pax.is_empty() {
        let link = member.hard_link.or(symlink_target(member.stat)).unwrap_or_default();
        if std::str::from_utf8(member.path).is_err() || std::str::from_utf8(link).is_err() {
            // Names in pax records are UTF-8 unless this comes before them.
            let mut charset = Vec::new();
            record(&mut charset, b"hdrcharset", b"BINARY");
            pax.splice(0..0, charset);
        }
        add_pax(out, member.path, &pax);
    }
    seal(&mut header);
    out.extend_from_slice(header.as_bytes());
    out.extend(map.into_iter().flatten());
    pad(out);
}

/// Fills in the header except the name; values that do not fit go to `pax`.
fn describe(member: &TarMember<'_>, map: Option<&[u8]>, pax: &mut Vec<u8>) -> TarHeader {
    let mut header = TarHeader::new_zeroed();
    let Stat { kind, uid, gid, mtime, .. } = member.stat;
    (header.magic, header.version) = USTAR;
    number(&mut header.mode, member.mode.into());
    let small = |field: &mut [u8; 8], value: u32, key: &str, pax: &mut Vec<u8>| {
        if u64::from(value) > MAX_8 {
            record(pax, key.as_bytes(), value.to_string().as_bytes());
        }
        number(field, Some(value.into()).filter(|value| *value <= MAX_8).unwrap_or(0));
    };
    small(&mut header.uid, *uid, "uid", pax);
    small(&mut header.gid, *gid, "gid", pax);
    let secs = u64::try_from(mtime.secs).ok().filter(|secs| *secs <= MAX_12);
    if secs.is_none() || mtime.nanos != 0 {
        record(pax, b"mtime", decimal(*mtime).as_bytes());
    }
    number(&mut header.mtime, secs.unwrap_or(0));
    let mut device = |device: &DeviceNumber, flag: u8| {
        small(&mut header.devmajor, device.major, "SCHILY.devmajor", pax);
        small(&mut header.devminor, device.minor, "SCHILY.devminor", pax);
        flag
    };
    let (typeflag, link, size) = match (kind, member.hard_link) {
        (_, Some(first)) => (flag::HARD_LINK, first, 0),
        (FileType::Dir, _) => (flag::DIR, &[][..], 0),
        (FileType::Symlink { target }, _) => (flag::SYMLINK, &**target, 0),
        (FileType::Char(number), _) => (device(number, flag::CHAR), &[][..], 0),
        (FileType::Block(number), _) => (device(number, flag::BLOCK), &[][..], 0),
        (FileType::Fifo | FileType::Socket, _) => (flag::FIFO, &[][..], 0),
        (FileType::File { size }, _) => (flag::FILE, &[][..], stored(*size, member.regions, map)),
    };
    header.typeflag = typeflag;
    if size > MAX_12 {
        record(pax, b"size", size.to_string().as_bytes());
    }
    number(&mut header.size, Some(size).filter(|size| *size <= MAX_12).unwrap_or(0));
    if link.len() > header.linkname.len() {
        record(pax, b"linkpath", link);
    }
    put(&mut header.linkname, link);
    header
}

/// Returns the number of bytes that a file takes in the archive, including its map.
fn stored(size: u64, regions: Option<&[(u64, u64)]>, map: Option<&[u8]>) -> u64 {
    let Some(regions) = regions else { return size };
    regions.iter().map(|(_, len)| len).sum::<u64>() + map.map_or(0, |map| map.len() as u64)
}

fn symlink_target(stat: &Stat) -> Option<&[u8]> {
    if let FileType::Symlink { target } = &stat.kind { Some(target) } else { None }
}

fn size_of(stat: &Stat) -> u64 {
    if let FileType::File { size } = stat.kind { size } else { 0 }
}

/// Makes the map of sparse format 1.0: decimal numbers, one per line, padded to a block.
fn sparse_map(regions: &[(u64, u64)]) -> Vec<u8> {
    let mut map = format!("{}\n", regions.len()).into_bytes();
    for (offset, len) in regions {
        write!(map, "{offset}\n{len}\n").expect("memory takes all");
    }
    pad(&mut map);
    map
}

/// Stores the name in the header, split over both its fields if needed. Returns true if it fits.
fn set_name(header: &mut TarHeader, path: &[u8]) -> bool {
    if path.len() <= header.name.len() {
        put(&mut header.name, path);
        return true;
    }
    // The first slash that leaves few enough bytes after it; a trailing slash does not count.
    let from = path.len() - header.name.len() - 1;
    let slash = path[from..path.len() - 1].iter().position(|byte| *byte == b'/').map(|at| from + at);
    match slash {
        Some(slash @ 1..=155) => {
            put(&mut header.prefix, &path[..slash]);
            put(&mut header.name, &path[slash + 1..]);
            true
        }
        _ => false,
    }
}

/// Fills a field with as much of `text` as it holds.
fn put(field: &mut [u8], text: &[u8]) {
    let n = text.len().min(field.len());
    field[..n].copy_from_slice(&text[..n]);
}

/// Fills a field with octal digits; the value fits.
fn number(field: &mut [u8], value: u64) {
    let width = field.len() - 1;
    put(field, format!("{value:0width$o}").as_bytes());
}

fn seal(header: &mut TarHeader) {
    let sum = checksum(header);
    put(&mut header.checksum, format!("{sum:06o}\0 ").as_bytes());
}

/// Returns the last component.
fn base(path: &[u8]) -> &[u8] {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

/// Adds the extended header that holds `records`.
fn add_pax(out: &mut Vec<u8>, path: &[u8], records: &[u8]) {
    let mut header = TarHeader::new_zeroed();
    (header.magic, header.version) = USTAR;
    header.typeflag = flag::PAX;
    put(&mut header.name, &[b"PaxHeaders/", base(path)].concat());
    number(&mut header.mode, 0o644);
    for field in [&mut header.uid, &mut header.gid, &mut header.devmajor, &mut header.devminor] {
        number(field, 0);
    }
    number(&mut header.size, records.len() as u64);
    number(&mut header.mtime, 0);
    seal(&mut header);
    out.extend_from_slice(header.as_bytes());
    out.extend_from_slice(records);
    pad(out);
}

/// Adds a record: its length, which counts itself, the key and the value.
fn record(pax: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut len = rest + 1;
    while len != rest + digits(len) {
        len = rest + digits(len);
    }
    pax.extend_from_slice(format!("{len} ").as_bytes());
    pax.extend_from_slice(key);
    pax.push(b'=');
    pax.extend_from_slice(value);
    pax.push(b'\n');
}

fn digits(n: usize) -> usize {
    n.to_string().len()
}

/// Makes the key of an extended attribute, with bytes that a key cannot contain escaped as GNU tar does.
fn xattr_key(name: &[u8]) -> Vec<u8> {
    let mut key = b"SCHILY.xattr.".to_vec();
    for byte in name {
        match byte {
            b'=' => key.extend_from_slice(b"%3D"),
            b'%' => key.extend_from_slice(b"%25"),
            _ => key.push(*byte),
        }
    }
    key
}

/// Formats seconds with their exact fraction.
fn decimal(time: Time) -> String {
    let (sign, secs, nanos) = match time {
        Time { secs, nanos } if secs >= 0 => ("", secs.unsigned_abs(), nanos),
        Time { secs, nanos: 0 } => ("-", secs.unsigned_abs(), 0),
        Time { secs, nanos } => ("-", secs.unsigned_abs() - 1, 1_000_000_000 - nanos),
    };
    match nanos {
        0 => format!("{sign}{secs}"),
        _ => format!("{sign}{secs}.{nanos:09}").trim_end_matches('0').to_owned(),
    }
}

fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(BLOCK), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_exactly() {
        let cases = [
            (12, 0, "12"),
            (12, 500_000_000, "12.5"),
            (0, 1, "0.000000001"),
            (-1, 0, "-1"),
            (-2, 750_000_000, "-1.25"),
            (-1, 999_999_999, "-0.000000001"),
            (i64::MIN, 0, "-9223372036854775808"),
        ];
        for (secs, nanos, want) in cases {
            assert_eq!(decimal(Time { secs, nanos }), want);
        }
    }

    #[test]
    fn a_records_length_counts_its_own_digits() {
        for (value, want) in [(1, "6 k="), (4, "9 k="), (5, "11 k="), (93, "99 k="), (94, "101 k=")] {
            let mut pax = Vec::new();
            record(&mut pax, b"k", &vec![b'v'; value]);
            assert!(pax.starts_with(want.as_bytes()), "{value}: {}", pax.escape_ascii());
            assert!(want.starts_with(&pax.len().to_string()), "{value}: {}", pax.len());
        }
    }

    #[test]
    fn names_are_split_where_both_parts_fit() {
        let long = |n: usize| vec![b'x'; n];
        let cases = [
            (long(100), true),
            (long(101), false),
            ([&long(155)[..], b"/", &long(100)].concat(), true),
            ([&long(156)[..], b"/", &long(100)].concat(), false),
            ([&long(155)[..], b"/", &long(101)].concat(), false),
            ([&long(100)[..], b"/"].concat(), false),
            ([b"a/", &long(99)[..], b"/"].concat(), true),
            ([b"/", &long(100)[..]].concat(), false),
        ];
        for (path, fits) in cases {
            let mut header = TarHeader::new_zeroed();
            assert_eq!(set_name(&mut header, &path), fits, "{}", path.escape_ascii());
            if fits && path.len() > 100 {
                let text = |field: &[u8]| field.split(|byte| *byte == 0).next().unwrap_or_default().to_vec();
                assert_eq!([text(&header.prefix), text(&header.name)].join(&b'/'), path);
            }
        }
    }
}
