//! The records of pax extended headers, for the next member or for all that follow.

use std::collections::BTreeMap;

use packfs_blocks::percent;
use packfs_blocks::units::beyond;

use crate::archive::input::DataRegion;
use crate::tree::{Time, XattrSet};
use crate::{Error, Result};
use packfs_tree::decode_base64;

/// Maximum number of bytes of names and attributes that global headers may apply to every member. They are copied for
/// each, so that short archives could demand much work.
const MAX_GLOBAL: usize = 65_536;

type PaxXattrs = BTreeMap<Box<[u8]>, Box<[u8]>>;

/// Values of pax records. Where a record is missing, the member's header counts.
#[derive(Debug, Clone, Default)]
pub(super) struct PaxRecords {
    pub(super) path: Option<Vec<u8>>,
    pub(super) linkpath: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) mtime: Option<Time>,
    pub(super) devmajor: Option<u32>,
    pub(super) devminor: Option<u32>,
    pub(super) sparse: PaxSparse,
    pub(super) uname: Option<Vec<u8>>,
    pub(super) gname: Option<Vec<u8>>,
    /// Access control lists as text.
    pub(super) acl: Option<Vec<u8>>,
    pub(super) default_acl: Option<Vec<u8>>,
    /// True if there is an access control list of a kind that Linux does not support.
    pub(super) foreign_acl: bool,
    /// Attributes of the member itself; the first record for a name counts.
    own_xattrs: PaxXattrs,
    /// Attributes from global headers; the member's own records take precedence.
    global_xattrs: PaxXattrs,
}

/// The `GNU.sparse.*` records.
#[derive(Debug, Clone, Default)]
pub(super) struct PaxSparse {
    pub(super) major: Option<u64>,
    pub(super) minor: Option<u64>,
    pub(super) name: Option<Vec<u8>>,
    /// `GNU.sparse.size` (0.0, 0.1) and `GNU.sparse.realsize` (1.0): the length of the file.
    pub(super) size: Option<u64>,
    pub(super) map: Vec<DataRegion>,
    pending_offset: Option<u64>,
}

impl PaxRecords {
    /// Returns the values that apply to a member before its own records: those of the global headers.
    pub(super) fn after(globals: &PaxRecords) -> PaxRecords {
        let mut pax = PaxRecords { sparse: PaxSparse::default(), ..globals.clone() };
        pax.global_xattrs = std::mem::take(&mut pax.own_xattrs);
        pax
    }

    /// Adds another global header, `records`.
    pub(super) fn add_global(&mut self, records: &[u8], at: u64) -> Result<()> {
        let mut next = PaxRecords::after(self);
        next.add(records, at)?;
        let mut xattrs = std::mem::take(&mut next.global_xattrs);
        xattrs.append(&mut next.own_xattrs);
        let PaxRecords { path, linkpath, uname, gname, acl, default_acl, .. } = &next;
        let names = [path, linkpath, uname, gname, acl, default_acl].into_iter().flatten().map(Vec::len).sum::<usize>();
        let bytes = names + xattrs.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        if bytes > MAX_GLOBAL {
            let why = format!("attributes for every member, all together {}", beyond(bytes as u64, MAX_GLOBAL as u64));
            return Err(bad(at, why));
        }
        *self = PaxRecords { own_xattrs: xattrs, ..next };
        Ok(())
    }

    /// Returns all extended attributes, each name once.
    pub(super) fn xattrs(self) -> XattrSet {
        let mut xattrs = self.global_xattrs;
        xattrs.extend(self.own_xattrs);
        xattrs.into_iter().collect()
    }

    /// Adds `records` ("LENGTH KEY=VALUE\n", over and over), found at `at`.
    pub(super) fn add(&mut self, mut records: &[u8], at: u64) -> Result<()> {
        while !records.is_empty() {
            let (key, value, rest) = split_record(records)
                .ok_or_else(|| bad(at, format!("`{}` is not a valid record", start(records).escape_ascii())))?;
            self.set(key, value).map_err(|why| {
                bad(at, format!("{}={}: {why}", start(key).escape_ascii(), start(value).escape_ascii()))
            })?;
            records = rest;
        }
        Ok(())
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> std::result::Result<(), &'static str> {
        if let Some(name) = key.strip_prefix(b"SCHILY.xattr.") {
            // The only escapes that GNU tar writes: `%3D` for `=`, and `%25` for `%`.
            return self.set_xattr(&percent::decode_wanted(name, |byte| matches!(byte, b'=' | b'%')), value);
        }
        if let Some(name) = key.strip_prefix(b"LIBARCHIVE.xattr.") {
            let value = decode_base64(value).ok_or("the value is not base 64")?;
            return self.set_xattr(&percent::decode(name), &value);
        }
        match key {
            b"path" => self.path = name(value)?,
            b"linkpath" => self.linkpath = name(value)?,
            b"size" => self.size = decimal(value)?,
            b"uid" => self.uid = decimal(value)?,
            b"gid" => self.gid = decimal(value)?,
            b"mtime" => self.mtime = time(value)?,
            b"uname" => self.uname = name(value)?,
            b"gname" => self.gname = name(value)?,
            b"SCHILY.acl.access" => self.acl = name(value)?,
            b"SCHILY.acl.default" => self.default_acl = name(value)?,
            b"SCHILY.acl.ace" => self.foreign_acl = !value.is_empty(),
            // The kernel's value ends with a NUL, the record does not.
            b"RHT.security.selinux" if !value.is_empty() => {
                let context = value.strip_suffix(b"\0").unwrap_or(value);
                return self.set_xattr(b"security.selinux", &[context, b"\0"].concat());
            }
            b"SCHILY.devmajor" => self.devmajor = decimal(value)?,
            b"SCHILY.devminor" => self.devminor = decimal(value)?,
            b"GNU.sparse.major" => self.sparse.major = decimal(value)?,
            b"GNU.sparse.minor" => self.sparse.minor = decimal(value)?,
            b"GNU.sparse.name" => self.sparse.name = name(value)?,
            b"GNU.sparse.size" | b"GNU.sparse.realsize" => self.sparse.size = decimal(value)?,
            b"GNU.sparse.offset" => self.sparse.pending_offset = decimal(value)?,
            b"GNU.sparse.numbytes" => {
                let offset = self.sparse.pending_offset.take().ok_or("no GNU.sparse.offset before it")?;
                let len = decimal(value)?.ok_or("expected a number")?;
                self.sparse.map.push(DataRegion { offset, len });
            }
            b"GNU.sparse.map" => self.sparse.map = map(value)?,
            _ => {}
        }
        Ok(())
    }

    fn set_xattr(&mut self, name: &[u8], value: &[u8]) -> std::result::Result<(), &'static str> {
        if name.is_empty() || name.contains(&0) {
            return Err("not a valid name of an extended attribute");
        }
        // bsdtar writes each attribute in both spellings.
        self.own_xattrs.entry(name.into()).or_insert_with(|| value.into());
        Ok(())
    }
}

fn bad(at: u64, why: String) -> Error {
    Error::corrupt("pax header", at, why)
}

/// Returns as much of a record as a message should show.
fn start(record: &[u8]) -> &[u8] {
    &record[..record.len().min(40)]
}

/// Splits off the first record: its key, its value, and the remaining records.
fn split_record(records: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    // No length has more than 20 digits. The record counts its own length, too, so it cannot end before the space.
    let space = records.iter().take(20).position(|byte| *byte == b' ')?;
    let len: usize = std::str::from_utf8(&records[..space]).ok()?.parse().ok()?;
    let (record, rest) = records.split_at_checked(len)?;
    let record = record.get(space + 1..)?.strip_suffix(b"\n")?;
    let equals = record.iter().position(|byte| *byte == b'=')?;
    Some((&record[..equals], &record[equals + 1..], rest))
}

type RecordValue<T> = std::result::Result<Option<T>, &'static str>;

/// Parses a number. An empty value withdraws an earlier one.
fn decimal<T: TryFrom<u64>>(value: &[u8]) -> RecordValue<T> {
    match value {
        [] => Ok(None),
        _ => parse_decimal(value).and_then(|n| T::try_from(n).ok()).map(Some).ok_or(match size_of::<T>() {
            4 => "expected a number from 0 to 4294967295",
            _ => "expected a number from 0 to 18446744073709551615",
        }),
    }
}

/// Parses a number made only of digits.
pub(super) fn parse_decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |value, digit| match digit {
        b'0'..=b'9' => value.checked_mul(10)?.checked_add(u64::from(digit - b'0')),
        _ => None,
    })
}

fn name(value: &[u8]) -> RecordValue<Vec<u8>> {
    match value {
        [] => Ok(None),
        _ if value.contains(&0) => Err("a NUL in a name"),
        _ => Ok(Some(value.to_vec())),
    }
}

const NO_TIME: &str = "expected seconds since 1970, as in 1700000000 or 0.5";

/// Parses `[-]SECONDS[.FRACTION]`; digits beyond the nanoseconds are dropped.
fn time(value: &[u8]) -> RecordValue<Time> {
    if value.is_empty() {
        return Ok(None);
    }
    let (negative, value) = value.strip_prefix(b"-").map_or((false, value), |rest| (true, rest));
    let mut parts = value.splitn(2, |byte| *byte == b'.');
    let secs = parts.next().and_then(parse_decimal).and_then(|secs| i64::try_from(secs).ok()).ok_or(NO_TIME)?;
    let fraction = parts.next().unwrap_or_default();
    if !fraction.iter().all(u8::is_ascii_digit) {
        return Err(NO_TIME);
    }
    let nanos = (0..9).fold(0, |nanos, n| nanos * 10 + fraction.get(n).map_or(0, |digit| u32::from(digit - b'0')));
    // Nanoseconds count upwards: -1.25 s are -2 s and 750,000,000 ns.
    Ok(Some(match (negative, nanos) {
        (false, _) => Time { secs, nanos },
        (true, 0) => Time { secs: -secs, nanos: 0 },
        (true, _) => Time { secs: -secs - 1, nanos: 1_000_000_000 - nanos },
    }))
}

/// Parses `OFFSET,LENGTH,OFFSET,LENGTH...`, the map of sparse format 0.1.
fn map(value: &[u8]) -> std::result::Result<Vec<DataRegion>, &'static str> {
    let mut numbers = value.split(|byte| *byte == b',');
    let mut map = Vec::new();
    while let Some(offset) = numbers.next() {
        let pair = parse_decimal(offset).zip(numbers.next().and_then(parse_decimal));
        let (offset, len) = pair.ok_or("expected OFFSET,LENGTH,OFFSET,LENGTH...")?;
        map.push(DataRegion { offset, len });
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(key: &str, value: &[u8]) -> Vec<u8> {
        super::super::tests::pax_record(key, value)
    }

    #[test]
    fn a_members_own_records_override_global_ones_and_an_empty_value_withdraws() {
        let mut globals = PaxRecords::default();
        let first = [record("uid", b"7"), record("path", b"g"), record("SCHILY.xattr.user.a", b"1")].concat();
        globals.add_global(&first, 0).unwrap();
        globals.add_global(&[record("uid", b"8"), record("SCHILY.xattr.user.a", b"2")].concat(), 0).unwrap();
        let mut member = PaxRecords::after(&globals);
        assert_eq!(member.clone().xattrs(), [(b"user.a"[..].into(), b"2"[..].into())]);
        let own = [record("path", b""), record("SCHILY.xattr.user.a", b"x\0=\n"), record("gid", b"9")].concat();
        member.add(&own, 0).unwrap();
        assert_eq!((member.uid, member.gid, &member.path), (Some(8), Some(9), &None));
        assert_eq!(member.clone().xattrs(), [(b"user.a"[..].into(), b"x\0=\n"[..].into())]);
        assert_eq!((globals.uid, globals.path.as_deref()), (Some(8), Some(&b"g"[..])));
    }

    #[test]
    fn the_first_of_two_xattrs_counts_in_either_spelling() {
        let mut pax = PaxRecords::default();
        let records = [
            record("LIBARCHIVE.xattr.user.a%20b", b"AAEC/w"),
            record("SCHILY.xattr.user.a b", b"later"),
            record("SCHILY.xattr.user.c%3Dd%25", b""),
        ];
        pax.add(&records.concat(), 0).unwrap();
        let want: XattrSet =
            vec![(b"user.a b"[..].into(), [0, 1, 2, 255][..].into()), (b"user.c=d%"[..].into(), b""[..].into())];
        assert_eq!(pax.xattrs(), want);
    }

    #[test]
    fn times() {
        let cases: [(&[u8], RecordValue<Time>); 9] = [
            (b"", Ok(None)),
            (b"12", Ok(Some(Time { secs: 12, nanos: 0 }))),
            (b"12.5", Ok(Some(Time { secs: 12, nanos: 500_000_000 }))),
            (b"12.0000000019", Ok(Some(Time { secs: 12, nanos: 1 }))),
            (b"-1.25", Ok(Some(Time { secs: -2, nanos: 750_000_000 }))),
            (b"-3", Ok(Some(Time { secs: -3, nanos: 0 }))),
            (b"1.x", Err(NO_TIME)),
            (b"99999999999999999999", Err(NO_TIME)),
            (b".5", Err(NO_TIME)),
        ];
        for (text, want) in cases {
            assert_eq!(time(text), want, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn broken_records_are_refused_with_their_place() {
        let cases: [(&[u8], &str); 13] = [
            (b"11 path=abc", "`11 path=abc` is not a valid record"),
            (b"99 path=abc\n", "`99 path=abc\\n` is not"),
            (b"0 path=abc\n", "`0 path=abc\\n` is not"),
            (b"3 =\n", "`3 =\\n` is not"),
            (b"11 pathxabc\n", "`11 pathxabc\\n` is not"),
            (b"99999999999999999999999 path=abc\n", "`99999999999999999999999 path=abc\\n` is not"),
            (b"12 size=abc\n", "size=abc: expected a number from 0 to 18446744073709551615"),
            (b"18 uid=4294967296\n", "uid=4294967296: expected a number from 0 to 4294967295"),
            (b"13 mtime=abc\n", "mtime=abc: expected seconds since 1970, as in"),
            (b"20 GNU.sparse.map=1\n", "GNU.sparse.map=1: expected OFFSET,LENGTH"),
            (b"25 GNU.sparse.numbytes=5\n", "GNU.sparse.numbytes=5: no GNU.sparse.offset before it"),
            (b"12 path=a\0c\n", "path=a\\x00c: a NUL in a name"),
            (b"28 SCHILY.xattr.=some value\n", "SCHILY.xattr.=some value: not a valid name"),
        ];
        for (records, why) in cases {
            let error = PaxRecords::default().add(records, 1536).unwrap_err().to_string();
            assert!(error.starts_with(&format!("pax header at byte 1536: {why}")), "{error}");
        }
    }
}
