//! Answers single requests. Data goes out in pieces, so that a request needs no more memory than a piece, whatever its
//! length.

use std::io::{self, Write};
use std::sync::Mutex;

use packfs_blocks::hash::is_zero;
use packfs_blocks::mutex;
use packfs_blocks::trouble::TroubleReporter;

use super::handshake::{NegotiatedExport, REQUEST_MAX};
use super::wire::{
    ALLOCATION_ID, HOLE_AND_ZERO, NbdRequest, ONE_CHUNK, ONE_EXTENT, chunk, chunk_head, command, error, simple_reply,
};

/// Bytes of a piece of data: the memory of a thread for it. Not measured.
pub(super) const PIECE: usize = 256 << 10;
/// Number of extents that one reply describes, in 8 KiB. The client asks again for what follows.
const EXTENTS_MAX: usize = 1024;
/// Room before the data of a piece, for the head of a chunk and its offset.
const ROOM: usize = chunk::HEAD + 8;

/// The connection that requests are answered on.
pub(super) struct RequestAnswerer<'s, W> {
    pub(super) agreed: NegotiatedExport<'s>,
    pub(super) trouble: &'s TroubleReporter,
    /// The way to the client. A reply, or a chunk of one, is written by one thread at a time.
    pub(super) out: Mutex<W>,
}

impl<W: Write> RequestAnswerer<'_, W> {
    /// Answers a request.
    ///
    /// # Errors
    /// If the client cannot be reached, or must not be told anything more.
    pub(super) fn answer(&self, request: &NbdRequest, buffer: &mut Vec<u8>) -> io::Result<()> {
        // Unknown flags are refused: a client that sends them relies on something that does not happen.
        match (request.command, request.flags) {
            (command::READ, flags) if flags & !self.read_flags() == 0 => self.read(request, buffer),
            (command::BLOCK_STATUS, flags) if self.agreed.allocation && flags & !ONE_EXTENT == 0 => {
                self.block_status(request)
            }
            // Nothing is ever written, so everything is on the disk.
            (command::FLUSH, 0) => self.send(&simple_reply(request.cookie, 0)),
            (command::CACHE, 0) => self.cache(request),
            (command::WRITE | command::TRIM | command::WRITE_ZEROES, _) => self.refuse(request, error::NOT_PERMITTED),
            _ => self.refuse(request, error::INVALID),
        }
    }

    fn read_flags(&self) -> u16 {
        if self.agreed.structured { ONE_CHUNK } else { 0 }
    }

    /// Returns the end of a request's range, if that lies within the export.
    fn checked_end(&self, request: &NbdRequest) -> Option<u64> {
        let end = request.offset.checked_add(request.len.into())?;
        // The protocol advises against requests of no bytes, and leaves their meaning open.
        (request.len > 0 && end <= self.agreed.export.bytes.len()).then_some(end)
    }

    fn read(&self, request: &NbdRequest, buffer: &mut Vec<u8>) -> io::Result<()> {
        let Some(end) = self.checked_end(request).filter(|_| request.len <= REQUEST_MAX) else {
            return self.refuse(request, error::INVALID);
        };
        if !self.agreed.structured {
            return self.read_simply(request, end, buffer);
        }
        // In one chunk, all of it would have to be in memory.
        let one_chunk = request.flags & ONE_CHUNK != 0;
        if one_chunk && u64::from(request.len) > as_u64(PIECE) {
            return self.refuse(request, error::OVERFLOW);
        }
        let mut at = request.offset;
        while at < end {
            // Later pieces begin where a block of any codec may begin.
            let until = if one_chunk { end } else { end.min((at / as_u64(PIECE) + 1) * as_u64(PIECE)) };
            // Earlier chunks are valid; the error ends the reply.
            let Ok(()) = self.fill_buffer(at, until, buffer) else { return self.refuse(request, error::IO) };
            let last = until == end;
            // At most a piece, or a request of 32 bits.
            let len = u32::try_from(until - at).unwrap_or(0);
            // Zeros are sent as a hole: they cost the network nothing, and clients can keep them sparse.
            if !one_chunk && is_zero(&buffer[ROOM..]) {
                let head = chunk_head(request.cookie, chunk::HOLE, last, 12);
                self.send(&[&head[..], &at.to_be_bytes(), &len.to_be_bytes()].concat())?;
            } else {
                let head = chunk_head(request.cookie, chunk::DATA, last, len + 8);
                buffer[..chunk::HEAD].copy_from_slice(&head);
                buffer[chunk::HEAD..ROOM].copy_from_slice(&at.to_be_bytes());
                self.send(buffer)?;
            }
            at = until;
        }
        Ok(())
    }

    /// Answers with a simple reply, whose first bytes already say that nothing failed: if something does later, ending
    /// the connection is the only way to say so.
    fn read_simply(&self, request: &NbdRequest, end: u64, buffer: &mut Vec<u8>) -> io::Result<()> {
        let mut at = request.offset;
        let mut until = end.min(at + as_u64(PIECE));
        let Ok(()) = self.fill_buffer(at, until, buffer) else { return self.refuse(request, error::IO) };
        let head = simple_reply(request.cookie, 0);
        let begin = ROOM - head.len();
        buffer[begin..ROOM].copy_from_slice(&head);
        // Held until the end: a simple reply has no frames, so nothing may come between its parts.
        let mut out = mutex::lock(&self.out);
        out.write_all(&buffer[begin..])?;
        while until < end {
            (at, until) = (until, end.min(until + as_u64(PIECE)));
            self.fill_buffer(at, until, buffer)?;
            out.write_all(&buffer[ROOM..])?;
        }
        out.flush()
    }

    /// Reads into the buffer, after some room; reports what fails.
    fn fill_buffer(&self, at: u64, until: u64, buffer: &mut Vec<u8>) -> io::Result<()> {
        buffer.resize(ROOM + usize::try_from(until - at).unwrap_or(usize::MAX), 0);
        let export = self.agreed.export;
        let read = export.bytes.read_exact_at(&mut buffer[ROOM..], at);
        read.inspect_err(|error| self.trouble.tell(format_args!("{}: byte {at}: {error}", export.name)))
    }

    fn block_status(&self, request: &NbdRequest) -> io::Result<()> {
        let Some(end) = self.checked_end(request) else { return self.refuse(request, error::INVALID) };
        let most = if request.flags & ONE_EXTENT != 0 { 1 } else { EXTENTS_MAX };
        let mut content = ALLOCATION_ID.to_be_bytes().to_vec();
        for (len, hole) in self.find_runs(request.offset, end, most) {
            // A run reaches the end of a request of 32 bits at most.
            content.extend(u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes());
            content.extend(if hole { HOLE_AND_ZERO } else { 0 }.to_be_bytes());
        }
        let len = u32::try_from(content.len()).unwrap_or(0);
        self.send(&[&chunk_head(request.cookie, chunk::BLOCK_STATUS, true, len)[..], &content].concat())
    }

    /// Returns lengths of runs of the same kind, at most `most`, and for each whether it is a hole.
    fn find_runs(&self, start: u64, end: u64, most: usize) -> Vec<(u64, bool)> {
        let mut runs: Vec<(u64, bool)> = Vec::new();
        let mut at = start;
        for extent in self.agreed.export.holes.iter().flat_map(|holes| holes.extents_from(start)) {
            let until = extent.offset.saturating_add(extent.len).min(end);
            if until <= at {
                continue;
            }
            let full = runs.len() == most;
            match runs.last_mut() {
                Some((len, hole)) if *hole == extent.hole => *len += until - at,
                _ if full => return runs,
                _ => runs.push((until - at, extent.hole)),
            }
            at = until;
            if at >= end {
                return runs;
            }
        }
        // What no extent covers counts as stored.
        let full = runs.len() == most;
        match runs.last_mut() {
            Some((len, false)) => *len += end - at,
            _ if full => {}
            _ => runs.push((end - at, false)),
        }
        runs
    }

    fn cache(&self, request: &NbdRequest) -> io::Result<()> {
        let Some(end) = self.checked_end(request) else { return self.refuse(request, error::INVALID) };
        self.agreed.export.bytes.will_read(request.offset..end);
        self.send(&simple_reply(request.cookie, 0))
    }

    /// Answers with an error.
    fn refuse(&self, request: &NbdRequest, number: u32) -> io::Result<()> {
        let structured = matches!(request.command, command::READ | command::BLOCK_STATUS) && self.agreed.structured;
        // Clients that agreed on structured replies take no simple one to a read.
        if !structured {
            return self.send(&simple_reply(request.cookie, number));
        }
        let head = chunk_head(request.cookie, chunk::ERROR, true, 6);
        self.send(&[&head[..], &number.to_be_bytes(), &[0, 0]].concat())
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let mut out = mutex::lock(&self.out);
        out.write_all(bytes)?;
        out.flush()
    }
}

fn as_u64(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}
