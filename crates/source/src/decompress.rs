//! Compressed input, recognised by its first bytes: gzip, xz, zstd, bzip2, with any number of members each.

use std::io::{self, BufReader, Read};
use std::path::Path;

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
    let from = io::Cursor::new(start).chain(from);
    let Some(compression) = compression else {
        return Ok(DecompressedStream { bytes: Box::new(from), was_compressed: false });
    };
    let from = compression.decoder(InspectedInput::with_capacity(256 << 10, from), name)?;
    let bytes = Box::new(NamedDecoder { from, compression, given: 0 });
    Ok(DecompressedStream { bytes, was_compressed: true })
}

/// Input whose first bytes were inspected.
type InspectedInput = BufReader<io::Chain<io::Cursor<Vec<u8>>, Box<dyn Read + Send>>>;

impl StreamCodec {
    #[cfg_attr(
        not(any(feature = "tar-gzip", feature = "tar-xz", feature = "tar-zstd", feature = "tar-bzip2")),
        allow(unused_variables)
    )]
    fn decoder(self, from: InspectedInput, name: &Path) -> Result<Box<dyn Read + Send>> {
        #[cfg(any(feature = "tar-xz", feature = "tar-zstd"))]
        let cannot = || Error::io("cannot decompress", name);
        match self {
            #[cfg(feature = "tar-gzip")]
            StreamCodec::Gzip => Ok(Box::new(flate2::bufread::MultiGzDecoder::new(from))),
            #[cfg(feature = "tar-xz")]
            StreamCodec::Xz => {
                // Members follow each other in archives that were made by several threads.
                let stream = liblzma::stream::Stream::new_stream_decoder(MEMORY, liblzma::stream::CONCATENATED);
                let stream = stream.map_err(io::Error::from).map_err(cannot())?;
                Ok(Box::new(liblzma::bufread::XzDecoder::new_stream(from, stream)))
            }
            #[cfg(feature = "tar-zstd")]
            StreamCodec::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(from).map_err(cannot())?;
                // Larger windows would let a small file ask for gigabytes.
                decoder.window_log_max(ZSTD_WINDOW_LOG).map_err(cannot())?;
                Ok(Box::new(decoder))
            }
            #[cfg(feature = "tar-bzip2")]
            StreamCodec::Bzip2 => Ok(Box::new(bzip2::bufread::MultiBzDecoder::new(from))),
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

/// Adds the name of the compression to a decoder's errors.
struct NamedDecoder {
    from: Box<dyn Read + Send>,
    compression: StreamCodec,
    given: u64,
}

impl Read for NamedDecoder {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.from.read(buf) {
            Ok(n) => {
                self.given += n as u64;
                Ok(n)
            }
            // The system's own errors do not concern the data.
            Err(error) if error.raw_os_error().is_some() || error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) if is_out_of_memory(&error) => Err(out_of_memory(self.compression.name())),
            Err(error) => {
                let name = self.compression.name();
                let given = self.given;
                let what = match error.kind() {
                    io::ErrorKind::UnexpectedEof => "ends too early".to_owned(),
                    _ => format!("are damaged: {error}"),
                };
                let why = format!("the {name} data {what} (after {} of decompressed data)", Size(given));
                Err(io::Error::new(io::ErrorKind::InvalidData, why))
            }
        }
    }
}
