//! Compressed input, recognised by its first bytes: gzip, xz, zstd, bzip2. Any number of members may follow each other, also
//! of different compression and with zeros after them: an initramfs consists of such, tapes and boot partitions pad them.

use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use packfs_blocks::units::Size;

use crate::name::display;
use crate::stream_formats::{STREAM_MAGIC_LEN, StreamCodec, refused_compression};
use crate::{Error, Result};

/// Upper bound of the memory for xz, whose headers say how much a decoder needs: `xz -9` needs 65 MiB.
#[cfg(feature = "tar-xz")]
const MEMORY: u64 = 512 << 20;
/// log2 of the largest accepted zstd window: 512 MiB, four times what the program `zstd` accepts by default.
#[cfg(feature = "tar-zstd")]
const ZSTD_WINDOW_LOG: u32 = 29;

impl StreamCodec {
    /// Returns the codec of a stream with these first bytes, `None` for bytes that are not compressed; `name` is for
    /// the error about compression that is not supported.
    pub(crate) fn of_stream(head: &[u8], name: &Path) -> Result<Option<Self>> {
        match refused_compression(head) {
            Some(what) => Err(Error::Unsupported(format!("{}: {what}: decompress it first", display(name)))),
            None => Ok(StreamCodec::recognise(head)),
        }
    }
}

/// Returns the contents of `from`, decompressed if they are compressed; `name` is for messages.
pub fn reader(from: Box<dyn Read + Send>, name: &Path) -> Result<Box<dyn Read + Send>> {
    decompressed(from, name).map(|contents| contents.bytes)
}

/// Contents of a stream that may have been compressed.
pub(crate) struct DecompressedStream {
    pub(crate) bytes: Box<dyn Read + Send>,
    /// True if reading takes time, because the stream is compressed. Otherwise, `bytes` are not buffered.
    pub(crate) was_compressed: bool,
}

/// As [`reader`], with the information whether `from` is compressed.
pub(crate) fn decompressed(from: Box<dyn Read + Send>, name: &Path) -> Result<DecompressedStream> {
    // Read as far as formats are told apart, then put in front again: a pipe cannot go back.
    let mut from = from;
    let mut start = Vec::new();
    from.by_ref().take(STREAM_MAGIC_LEN as u64).read_to_end(&mut start).map_err(Error::io("cannot read", name))?;
    let compression = StreamCodec::of_stream(&start, name)?;
    let Some(compression) = compression else {
        let bytes = Box::new(io::Cursor::new(start).chain(from));
        return Ok(DecompressedStream { bytes, was_compressed: false });
    };
    let input = CompressedInput { head: start, taken: 0, from: BufReader::with_capacity(256 << 10, from) };
    let member = Some(compression.decoder(input, name)?);
    let bytes = Box::new(DecompressedMembers { member, compression, name: name.to_owned(), given: 0 });
    Ok(DecompressedStream { bytes, was_compressed: true })
}

/// Input whose next bytes can be inspected.
struct CompressedInput {
    /// Inspected bytes, of which the first `taken` are consumed.
    head: Vec<u8>,
    taken: usize,
    from: BufReader<Box<dyn Read + Send>>,
}

impl CompressedInput {
    /// Skips zeros, and returns the bytes after them: as many as formats are told apart by, or fewer at the end.
    fn next_magic(&mut self) -> io::Result<&[u8]> {
        // Members may be shorter than what was inspected, so that zeros are in it, too.
        self.head.drain(..self.taken);
        self.head.drain(..leading_zeros(&self.head));
        self.taken = 0;
        while self.head.len() < STREAM_MAGIC_LEN {
            let more = self.from.fill_buf()?;
            if more.is_empty() {
                break;
            }
            let zeros = if self.head.is_empty() { leading_zeros(more) } else { 0 };
            let end = more.len().min(zeros + STREAM_MAGIC_LEN - self.head.len());
            self.head.extend_from_slice(&more[zeros..end]);
            self.from.consume(end);
        }
        Ok(&self.head)
    }
}

fn leading_zeros(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| **byte == 0).count()
}

impl Read for CompressedInput {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let got = self.fill_buf()?.read(buf)?;
        self.consume(got);
        Ok(got)
    }
}

impl BufRead for CompressedInput {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.taken < self.head.len() { Ok(&self.head[self.taken..]) } else { self.from.fill_buf() }
    }

    fn consume(&mut self, amount: usize) {
        if self.taken < self.head.len() { self.taken += amount } else { self.from.consume(amount) }
    }
}

/// Decompresses one member.
trait MemberDecoder: Read + Send {
    /// Returns the input, which is at the end of the member once everything was read.
    fn into_input(self: Box<Self>) -> CompressedInput;
}

#[cfg(feature = "tar-gzip")]
impl MemberDecoder for flate2::bufread::GzDecoder<CompressedInput> {
    fn into_input(self: Box<Self>) -> CompressedInput {
        self.into_inner()
    }
}

#[cfg(feature = "tar-xz")]
impl MemberDecoder for liblzma::bufread::XzDecoder<CompressedInput> {
    fn into_input(self: Box<Self>) -> CompressedInput {
        self.into_inner()
    }
}

#[cfg(feature = "tar-zstd")]
impl MemberDecoder for zstd::stream::read::Decoder<'static, CompressedInput> {
    fn into_input(self: Box<Self>) -> CompressedInput {
        self.finish()
    }
}

#[cfg(feature = "tar-bzip2")]
impl MemberDecoder for bzip2::bufread::BzDecoder<CompressedInput> {
    fn into_input(self: Box<Self>) -> CompressedInput {
        self.into_inner()
    }
}

impl StreamCodec {
    #[cfg_attr(
        not(any(feature = "tar-gzip", feature = "tar-xz", feature = "tar-zstd", feature = "tar-bzip2")),
        allow(unused_variables)
    )]
    fn decoder(self, from: CompressedInput, name: &Path) -> Result<Box<dyn MemberDecoder>> {
        #[cfg(any(feature = "tar-xz", feature = "tar-zstd"))]
        let cannot = || Error::io("cannot decompress", name);
        match self {
            #[cfg(feature = "tar-gzip")]
            StreamCodec::Gzip => Ok(Box::new(flate2::bufread::GzDecoder::new(from))),
            #[cfg(feature = "tar-xz")]
            StreamCodec::Xz => {
                let stream = liblzma::stream::Stream::new_stream_decoder(MEMORY, 0);
                let stream = stream.map_err(io::Error::from).map_err(cannot())?;
                Ok(Box::new(liblzma::bufread::XzDecoder::new_stream(from, stream)))
            }
            #[cfg(feature = "tar-zstd")]
            StreamCodec::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(from).map_err(cannot())?.single_frame();
                // Larger windows would let a small file ask for gigabytes.
                decoder.window_log_max(ZSTD_WINDOW_LOG).map_err(cannot())?;
                Ok(Box::new(decoder))
            }
            #[cfg(feature = "tar-bzip2")]
            StreamCodec::Bzip2 => Ok(Box::new(bzip2::bufread::BzDecoder::new(from))),
            #[allow(unreachable_patterns, reason = "reached when a decompressor's feature is off")]
            other => {
                let codec = other.name();
                let why = format!("this build does not decompress {codec}: it needs the cargo feature `tar-{codec}`");
                Err(Error::Unsupported(format!("{}: {why}", display(name))))
            }
        }
    }
}

/// Returns true if a library ran out of memory, which liblzma and libzstd report like damage.
#[cfg_attr(not(any(feature = "tar-xz", feature = "tar-zstd")), allow(unused_variables))]
pub fn is_out_of_memory(error: &io::Error) -> bool {
    #[cfg(feature = "tar-xz")]
    if let Some(liblzma::stream::Error::Mem) = error.get_ref().and_then(|inner| inner.downcast_ref()) {
        return true;
    }
    #[cfg(feature = "tar-zstd")]
    {
        /// `ZSTD_error_memory_allocation`, as libzstd returns it. The wrapper keeps its text only.
        const MEMORY_ALLOCATION: usize = 64_usize.wrapping_neg();
        if error.to_string() == zstd::zstd_safe::get_error_name(MEMORY_ALLOCATION) {
            return true;
        }
    }
    false
}

/// Makes the error for [`is_out_of_memory`].
pub fn out_of_memory(codec: &str) -> io::Error {
    io::Error::new(io::ErrorKind::OutOfMemory, format!("{codec}: not enough memory"))
}

/// Decompresses members one after the other; errors name the compression.
struct DecompressedMembers {
    /// The current member; `None` after the last one, or if something else follows it.
    member: Option<Box<dyn MemberDecoder>>,
    /// Compression of the current or last member.
    compression: StreamCodec,
    name: PathBuf,
    given: u64,
}

impl DecompressedMembers {
    /// Goes on to the next member, if there is one.
    fn open_next(&mut self) -> io::Result<()> {
        let Some(member) = self.member.take() else { return Ok(()) };
        let mut input = member.into_input();
        let magic = input.next_magic()?;
        if magic.is_empty() {
            return Ok(());
        }
        match StreamCodec::of_stream(magic, &self.name).map_err(io::Error::other)? {
            Some(compression) => {
                self.compression = compression;
                self.member = Some(compression.decoder(input, &self.name).map_err(io::Error::other)?);
                Ok(())
            }
            None => Err(self.damaged("is followed by bytes that are neither compressed nor zeros")),
        }
    }

    fn damaged(&self, what: &str) -> io::Error {
        let name = self.compression.name();
        let given = Size(self.given);
        let why = format!("the {name} data {what} (after {given} of decompressed data)");
        io::Error::new(io::ErrorKind::InvalidData, why)
    }
}

impl Read for DecompressedMembers {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        while let Some(member) = &mut self.member {
            match member.read(buf) {
                Ok(0) => self.open_next()?,
                Ok(n) => {
                    self.given += n as u64;
                    return Ok(n);
                }
                // The system's own errors do not concern the data.
                Err(error) if error.raw_os_error().is_some() || error.kind() == io::ErrorKind::Interrupted => {
                    return Err(error);
                }
                Err(error) if is_out_of_memory(&error) => return Err(out_of_memory(self.compression.name())),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(self.damaged("ends too early"));
                }
                Err(error) => return Err(self.damaged(&format!("is damaged: {error}"))),
            }
        }
        Ok(0)
    }
}
