//! Numbers and messages of the protocol. All integers are big-endian.

/// First bytes of a server, `NBDMAGIC`.
pub(super) const MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Follows [`MAGIC`] and begins each option, `IHAVEOPT`.
pub(super) const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Begins each reply to an option.
pub(super) const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const SIMPLE_MAGIC: u32 = 0x6744_6698;
const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Flags of the handshake, with the same meaning from server and client.
pub(super) const FIXED_NEWSTYLE: u16 = 1;
pub(super) const NO_ZEROES: u16 = 2;

/// Options of the handshake.
pub(super) mod option {
    pub(in super::super) const EXPORT_NAME: u32 = 1;
    pub(in super::super) const ABORT: u32 = 2;
    pub(in super::super) const LIST: u32 = 3;
    pub(in super::super) const INFO: u32 = 6;
    pub(in super::super) const GO: u32 = 7;
    pub(in super::super) const STRUCTURED_REPLY: u32 = 8;
    pub(in super::super) const LIST_META_CONTEXT: u32 = 9;
    pub(in super::super) const SET_META_CONTEXT: u32 = 10;
}

/// Replies to options; errors have the highest bit.
pub(super) mod reply {
    pub(in super::super) const ACK: u32 = 1;
    pub(in super::super) const SERVER: u32 = 2;
    pub(in super::super) const INFO: u32 = 3;
    pub(in super::super) const META_CONTEXT: u32 = 4;
    pub(in super::super) const UNSUPPORTED: u32 = 1 << 31 | 1;
    pub(in super::super) const INVALID: u32 = 1 << 31 | 3;
    pub(in super::super) const UNKNOWN: u32 = 1 << 31 | 6;
    pub(in super::super) const TOO_BIG: u32 = 1 << 31 | 9;
}

/// Kinds of information about an export.
pub(super) mod info {
    pub(in super::super) const EXPORT: u16 = 0;
    pub(in super::super) const NAME: u16 = 1;
    pub(in super::super) const DESCRIPTION: u16 = 2;
    pub(in super::super) const BLOCK_SIZE: u16 = 3;
}

/// Flags of an export: there are flags, read-only, flush, one chunk on demand, several connections, cache.
pub(super) const EXPORT_FLAGS: u16 = 1 | 1 << 1 | 1 << 2 | 1 << 8 | 1 << 10;
/// Flag of an export: a read can be answered in one chunk on demand.
pub(super) const SEND_DF: u16 = 1 << 7;

/// Commands of requests.
pub(super) mod command {
    pub(in super::super) const READ: u16 = 0;
    pub(in super::super) const WRITE: u16 = 1;
    pub(in super::super) const DISCONNECT: u16 = 2;
    pub(in super::super) const FLUSH: u16 = 3;
    pub(in super::super) const TRIM: u16 = 4;
    pub(in super::super) const CACHE: u16 = 5;
    pub(in super::super) const WRITE_ZEROES: u16 = 6;
    pub(in super::super) const BLOCK_STATUS: u16 = 7;
}

/// Flag of a read: the answer is one chunk.
pub(super) const ONE_CHUNK: u16 = 1 << 2;
/// Flag of a request for the status of blocks: of the first extent only.
pub(super) const ONE_EXTENT: u16 = 1 << 3;

/// Errors of replies.
pub(super) mod error {
    pub(in super::super) const NOT_PERMITTED: u32 = 1;
    pub(in super::super) const IO: u32 = 5;
    pub(in super::super) const INVALID: u32 = 22;
    pub(in super::super) const OVERFLOW: u32 = 75;
}

/// Kinds of chunks of structured replies.
pub(super) mod chunk {
    pub(in super::super) const DATA: u16 = 1;
    pub(in super::super) const HOLE: u16 = 2;
    pub(in super::super) const BLOCK_STATUS: u16 = 5;
    pub(in super::super) const ERROR: u16 = 1 << 15 | 1;
    /// Bytes of the head of a chunk.
    pub(in super::super) const HEAD: usize = 20;
}

/// The only metadata context.
pub(super) const ALLOCATION: &[u8] = b"base:allocation";
/// Its number on a connection.
pub(super) const ALLOCATION_ID: u32 = 1;
/// State of an extent in that context: not stored, and zeros.
pub(super) const HOLE_AND_ZERO: u32 = 3;

/// Bytes of a request's head.
pub(super) const REQUEST_LEN: usize = 28;

/// The head of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NbdRequest {
    pub(super) flags: u16,
    pub(super) command: u16,
    /// The client's number for it, which the reply repeats.
    pub(super) cookie: u64,
    pub(super) offset: u64,
    pub(super) len: u32,
}

impl NbdRequest {
    /// Takes the head of a request apart; `None` if it is none.
    pub(super) fn parse(bytes: &[u8; REQUEST_LEN]) -> Option<NbdRequest> {
        let mut fields = FieldReader(bytes);
        (fields.u32()? == REQUEST_MAGIC).then_some(())?;
        let flags = fields.u16()?;
        let command = fields.u16()?;
        let cookie = fields.u64()?;
        Some(NbdRequest { flags, command, cookie, offset: fields.u64()?, len: fields.u32()? })
    }
}

/// A simple reply without data.
pub(super) fn simple_reply(cookie: u64, error: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&SIMPLE_MAGIC.to_be_bytes());
    bytes[4..8].copy_from_slice(&error.to_be_bytes());
    bytes[8..].copy_from_slice(&cookie.to_be_bytes());
    bytes
}

/// The head of a chunk of a structured reply, before `len` bytes of content.
pub(super) fn chunk_head(cookie: u64, kind: u16, last: bool, len: u32) -> [u8; chunk::HEAD] {
    let mut bytes = [0; chunk::HEAD];
    bytes[..4].copy_from_slice(&CHUNK_MAGIC.to_be_bytes());
    bytes[4..6].copy_from_slice(&u16::from(last).to_be_bytes());
    bytes[6..8].copy_from_slice(&kind.to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    bytes[16..].copy_from_slice(&len.to_be_bytes());
    bytes
}

/// The content of `INFO` and `GO`: a name, and what the client wants to know.
pub(super) fn parse_info(bytes: &[u8]) -> Option<(&[u8], Vec<u16>)> {
    let mut fields = FieldReader(bytes);
    let name = fields.text()?;
    let count = fields.u16()?;
    let wanted = (0..count).map(|_| fields.u16()).collect::<Option<_>>()?;
    // Bytes that are left over would mean something else to their sender.
    fields.0.is_empty().then_some((name, wanted))
}

/// The content of `LIST_META_CONTEXT` and `SET_META_CONTEXT`: a name and queries.
pub(super) fn parse_contexts(bytes: &[u8]) -> Option<(&[u8], Vec<&[u8]>)> {
    let mut fields = FieldReader(bytes);
    let name = fields.text()?;
    let count = fields.u32()?;
    // Each query has four bytes at least, so the loop ends with the bytes, whatever the count.
    let mut queries = Vec::new();
    for _ in 0..count {
        queries.push(fields.text()?);
    }
    fields.0.is_empty().then_some((name, queries))
}

/// Takes integers and texts from the beginning of bytes.
pub(super) struct FieldReader<'b>(pub(super) &'b [u8]);

impl<'b> FieldReader<'b> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Takes a length and as many bytes.
    fn text(&mut self) -> Option<&'b [u8]> {
        let len = usize::try_from(self.u32()?).ok()?;
        let (text, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_of_options_are_whole_or_refused() {
        let info = b"\0\0\0\x02ab\0\x02\0\x01\0\x03";
        assert_eq!(parse_info(info), Some((b"ab".as_slice(), vec![1, 3])));
        let contexts = b"\0\0\0\0\0\0\0\x02\0\0\0\x01x\0\0\0\0";
        assert_eq!(parse_contexts(contexts), Some((b"".as_slice(), vec![b"x".as_slice(), b""])));
        for len in 0..info.len() {
            assert_eq!(parse_info(&info[..len]), None, "{len}");
        }
        for len in 0..contexts.len() {
            assert_eq!(parse_contexts(&contexts[..len]), None, "{len}");
        }
        assert_eq!(parse_info(&[info.as_slice(), b"x"].concat()), None);
        assert_eq!(parse_contexts(&[contexts.as_slice(), b"x"].concat()), None);
        assert_eq!(parse_contexts(b"\xff\xff\xff\xff"), None);
        assert_eq!(parse_contexts(b"\0\0\0\0\xff\xff\xff\xff\0\0\0\0"), None);
    }

    #[test]
    fn requests_are_taken_apart() {
        let mut bytes = [0; REQUEST_LEN];
        bytes.copy_from_slice(b"\x25\x60\x95\x13\0\x04\0\x07COOKIE..\0\0\0\0\0\x01\0\0\0\0\x10\0");
        let cookie = u64::from_be_bytes(*b"COOKIE..");
        let request = NbdRequest { flags: 4, command: 7, cookie, offset: 65536, len: 4096 };
        assert_eq!(NbdRequest::parse(&bytes), Some(request));
        bytes[0] = 0x26;
        assert_eq!(NbdRequest::parse(&bytes), None);
    }
}
