//! The handshake: the client looks at exports, chooses one, and says what it understands.
//!
//! Options are small and few, so that a client can neither fill memory nor keep the server busy with them.

use std::io::{self, Read, Write};

use super::exports::{ExportList, NbdExport};
use super::wire::{
    ALLOCATION, ALLOCATION_ID, EXPORT_FLAGS, FIXED_NEWSTYLE, FieldReader, MAGIC, NO_ZEROES, OPTION_MAGIC,
    OPTION_REPLY_MAGIC, SEND_DF, info, option, parse_contexts, parse_info, reply,
};

/// Longest content of an option: a name, and some questions.
const CONTENT_MAX: u32 = 16 << 10;
/// Number of options that a client may send. Known ones send fewer than ten.
const OPTIONS_MAX: usize = 64;
/// Longest range of a request: the one that clients assume if they are told none. It bounds the work for one request.
pub(super) const REQUEST_MAX: u32 = 32 << 20;
/// Length and alignment of requests that cost least, as far as clients should know: a page.
const PREFERRED: u32 = 4096;

/// The result of a handshake: an export, and how to serve it.
#[derive(Debug, Clone, Copy)]
pub(super) struct NegotiatedExport<'e> {
    pub(super) export: &'e NbdExport,
    /// The client takes structured replies.
    pub(super) structured: bool,
    /// The client may ask where the export has holes.
    pub(super) allocation: bool,
}

/// State of a client during the handshake.
struct HandshakeClient<'e> {
    exports: &'e ExportList,
    no_zeroes: bool,
    structured: bool,
    /// Name of the export of which the client may ask for holes.
    allocation: Option<String>,
}

/// Leads a handshake. Returns `None` if the client leaves, or is to be left, without an error.
pub(super) fn negotiate<'e>(
    exports: &'e ExportList,
    stream: &mut (impl Read + Write),
) -> io::Result<Option<NegotiatedExport<'e>>> {
    let greeting = [MAGIC.to_be_bytes(), OPTION_MAGIC.to_be_bytes()].concat();
    stream.write_all(&[greeting.as_slice(), &(FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes()].concat())?;
    let flags = u32::from_be_bytes(read_array(stream)?);
    // A flag that is not known may change what comes next, so the protocol wants the connection closed.
    if flags & !u32::from(FIXED_NEWSTYLE | NO_ZEROES) != 0 {
        return Ok(None);
    }
    let no_zeroes = flags & u32::from(NO_ZEROES) != 0;
    let mut client = HandshakeClient { exports, no_zeroes, structured: false, allocation: None };
    for _ in 0..OPTIONS_MAX {
        let head: [u8; 16] = read_array(stream)?;
        let mut fields = FieldReader(&head);
        let magic = fields.u64();
        let code = fields.u32().unwrap_or(0);
        let len = fields.u32().unwrap_or(0);
        // Without its flag, a client understands no replies to options.
        if magic != Some(OPTION_MAGIC) || (code != option::EXPORT_NAME && flags & u32::from(FIXED_NEWSTYLE) == 0) {
            return Ok(None);
        }
        if len > CONTENT_MAX {
            // Where the next option begins is not worth reading that far.
            send_reply(stream, code, reply::TOO_BIG, b"an option has at most 16384 bytes here")?;
            return Ok(None);
        }
        let mut content = Vec::new();
        if stream.take(len.into()).read_to_end(&mut content)? < content_len(len) {
            return Ok(None);
        }
        match client.answer_option(stream, code, &content)? {
            HandshakeStep::Option => {}
            HandshakeStep::Leave => return Ok(None),
            HandshakeStep::Serve(agreed) => return Ok(Some(agreed)),
        }
    }
    Ok(None)
}

/// The next step after an option.
enum HandshakeStep<'e> {
    Option,
    Leave,
    Serve(NegotiatedExport<'e>),
}

impl<'e> HandshakeClient<'e> {
    /// Answers an option.
    fn answer_option(&mut self, stream: &mut impl Write, code: u32, content: &[u8]) -> io::Result<HandshakeStep<'e>> {
        match code {
            option::EXPORT_NAME => return self.choose_by_name(stream, content),
            option::ABORT => {
                send_reply(stream, code, reply::ACK, b"")?;
                return Ok(HandshakeStep::Leave);
            }
            option::LIST if content.is_empty() => {
                for export in self.exports.iter() {
                    let len = u32::try_from(export.name.len()).unwrap_or(0).to_be_bytes();
                    let parts = [len.as_slice(), export.name.as_bytes(), export.description.as_bytes()];
                    send_reply(stream, code, reply::SERVER, &parts.concat())?;
                }
                send_reply(stream, code, reply::ACK, b"")?;
            }
            option::STRUCTURED_REPLY if content.is_empty() => {
                self.structured = true;
                send_reply(stream, code, reply::ACK, b"")?;
            }
            option::INFO | option::GO => match parse_info(content) {
                Some((name, wanted)) => return self.answer_info(stream, code, name, &wanted),
                None => refuse_content(stream, code)?,
            },
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => match parse_contexts(content) {
                Some((name, queries)) if self.structured => self.answer_contexts(stream, code, name, &queries)?,
                Some(_) => send_reply(stream, code, reply::INVALID, b"ask for structured replies first")?,
                None => refuse_content(stream, code)?,
            },
            option::LIST | option::STRUCTURED_REPLY => refuse_content(stream, code)?,
            _ => send_reply(stream, code, reply::UNSUPPORTED, b"this option is not known here")?,
        }
        Ok(HandshakeStep::Option)
    }

    /// Answers the oldest way to choose an export, which has no replies: a wrong name ends the connection.
    fn choose_by_name(&self, stream: &mut impl Write, name: &[u8]) -> io::Result<HandshakeStep<'e>> {
        let Some(export) = self.exports.find(name) else { return Ok(HandshakeStep::Leave) };
        let mut bytes = export.bytes.len().to_be_bytes().to_vec();
        bytes.extend(self.export_flags().to_be_bytes());
        // 124 zeros of a former version of the protocol, unless both sides leave them out.
        bytes.resize(bytes.len() + if self.no_zeroes { 0 } else { 124 }, 0);
        stream.write_all(&bytes)?;
        Ok(HandshakeStep::Serve(self.negotiated(export)))
    }

    /// Tells about an export; with `GO`, it is chosen.
    fn answer_info(
        &self,
        stream: &mut impl Write,
        code: u32,
        name: &[u8],
        wanted: &[u16],
    ) -> io::Result<HandshakeStep<'e>> {
        let Some(export) = self.exports.find(name) else {
            send_reply(stream, code, reply::UNKNOWN, b"no export has this name")?;
            return Ok(HandshakeStep::Option);
        };
        let mut tell = |kind: u16, parts: &[&[u8]]| {
            send_reply(stream, code, reply::INFO, &[&[kind.to_be_bytes().as_slice()], parts].concat().concat())
        };
        tell(info::EXPORT, &[&export.bytes.len().to_be_bytes(), &self.export_flags().to_be_bytes()])?;
        if wanted.contains(&info::NAME) {
            tell(info::NAME, &[export.name.as_bytes()])?;
        }
        if wanted.contains(&info::DESCRIPTION) && !export.description.is_empty() {
            tell(info::DESCRIPTION, &[export.description.as_bytes()])?;
        }
        if wanted.contains(&info::BLOCK_SIZE) {
            tell(info::BLOCK_SIZE, &[&1u32.to_be_bytes(), &PREFERRED.to_be_bytes(), &REQUEST_MAX.to_be_bytes()])?;
        }
        send_reply(stream, code, reply::ACK, b"")?;
        Ok(if code == option::GO { HandshakeStep::Serve(self.negotiated(export)) } else { HandshakeStep::Option })
    }

    /// Lists or sets the metadata contexts of an export.
    fn answer_contexts(
        &mut self,
        stream: &mut impl Write,
        code: u32,
        name: &[u8],
        queries: &[&[u8]],
    ) -> io::Result<()> {
        let sets = code == option::SET_META_CONTEXT;
        if sets {
            // A second request replaces the first, also if it fails.
            self.allocation = None;
        }
        let Some(export) = self.exports.find(name) else {
            return send_reply(stream, code, reply::UNKNOWN, b"no export has this name");
        };
        // To list everything, a client queries nothing; to list a family, its name and a colon.
        let is_wanted =
            queries.contains(&ALLOCATION) || (!sets && (queries.is_empty() || queries.contains(&&b"base:"[..])));
        if is_wanted {
            let number = if sets { ALLOCATION_ID } else { 0 };
            send_reply(stream, code, reply::META_CONTEXT, &[number.to_be_bytes().as_slice(), ALLOCATION].concat())?;
            if sets {
                self.allocation = Some(export.name.clone());
            }
        }
        send_reply(stream, code, reply::ACK, b"")
    }

    fn export_flags(&self) -> u16 {
        // The flag may be set only if there are structured replies.
        EXPORT_FLAGS | if self.structured { SEND_DF } else { 0 }
    }

    fn negotiated(&self, export: &'e NbdExport) -> NegotiatedExport<'e> {
        // Contexts hold for the export that they were asked for.
        let allocation = self.allocation.as_ref() == Some(&export.name);
        NegotiatedExport { export, structured: self.structured, allocation }
    }
}

/// Answers an option whose content is not what the protocol says.
fn refuse_content(stream: &mut impl Write, code: u32) -> io::Result<()> {
    send_reply(stream, code, reply::INVALID, b"the content of the option is wrong")
}

/// Sends a reply to an option.
fn send_reply(stream: &mut impl Write, code: u32, kind: u32, content: &[u8]) -> io::Result<()> {
    let len = u32::try_from(content.len()).unwrap_or(0);
    let mut bytes = OPTION_REPLY_MAGIC.to_be_bytes().to_vec();
    for number in [code, kind, len] {
        bytes.extend(number.to_be_bytes());
    }
    bytes.extend(content);
    stream.write_all(&bytes)
}

fn read_array<const N: usize>(stream: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn content_len(len: u32) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}
