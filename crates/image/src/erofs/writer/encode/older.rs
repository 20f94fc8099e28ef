//! Pieces whose clusters an older image has: taken from there, and proven, if all of a piece is as it was.

use packfs_blocks::Digest;

use super::piece::{PackedCluster, PieceJob, PieceTail, TailPolicy};
use super::worker::{LaneEncoder, PackOutput};
use crate::Result;
use crate::build::{NotedUnit, OlderUnit, UnitKey, UnitOrigin, UnitStretch};
use crate::erofs::writer::stored::cluster::{StoredLen, count};

/// Numbers by which an index says where the bytes of a piece after its clusters are.
mod tail_code {
    pub(super) const NOTHING: u8 = 0;
    pub(super) const FRAGMENT: u8 = 1;
    pub(super) const PLAIN: u8 = 2;
}

impl PieceTail {
    /// Its number in an index; `None` if an index cannot say where these bytes are.
    pub(crate) fn number(&self) -> Option<u8> {
        match self {
            PieceTail::Nothing => Some(tail_code::NOTHING),
            PieceTail::Fragment(..) => Some(tail_code::FRAGMENT),
            PieceTail::Plain(_) => Some(tail_code::PLAIN),
            PieceTail::Inline { .. } => None,
        }
    }
}

impl LaneEncoder {
    /// Packs a whole piece, or takes it from an older image.
    pub(super) fn pack_piece(
        &mut self,
        piece: &PieceJob,
        src: &[u8],
        out: &mut PackOutput,
    ) -> Result<(PieceTail, Option<NotedUnit>)> {
        // What depends on clusters of this image is no result of the piece alone.
        if !self.packing.units.is_on() || !piece.reuse.is_empty() {
            return Ok((self.pack_fresh(piece, src, out)?, None));
        }
        let key = UnitKey::new(&piece.digest.unwrap_or_else(|| Digest::of(src)), form(piece));
        let units = self.packing.units.clone();
        let before = out.mark();
        let mut fate = UnitOrigin::Fresh;
        if let Some(unit) = units.find(&key) {
            if let Some(tail) = self.take_older(unit, piece, src, out) {
                return Ok((tail, Some(NotedUnit { key, check: unit.check(), fate: UnitOrigin::Taken })));
            }
            out.return_to(before);
            fate = UnitOrigin::Damaged;
        }
        let tail = self.pack_fresh(piece, src, out)?;
        let check = Digest::of(&out.bytes[before.len..out.len]).half();
        let noted = tail.number().map(|_| NotedUnit { key, check, fate });
        Ok((tail, noted))
    }

    /// Takes a piece from an older image; `None` if that has other bytes than it should.
    fn take_older(
        &mut self,
        unit: OlderUnit<'_>,
        piece: &PieceJob,
        src: &[u8],
        out: &mut PackOutput,
    ) -> Option<PieceTail> {
        let start = out.len;
        let mut at = 0;
        let plain = unit.rest() == tail_code::PLAIN;
        for stretch in unit.stretches() {
            let content = src.get(at..)?.get(..stretch.content as usize)?;
            self.take_cluster(&stretch, content, plain, out)?;
            at += content.len();
        }
        if !unit.has(&out.bytes[start..out.len]) {
            return None;
        }
        let left = &src[at..];
        match unit.rest() {
            tail_code::NOTHING if left.is_empty() => Some(PieceTail::Nothing),
            tail_code::FRAGMENT if piece.tail_policy == TailPolicy::Fragment => {
                Some(PieceTail::Fragment(left.to_vec(), Digest::of(left)))
            }
            tail_code::PLAIN if piece.whole && at == self.plain_len(src.len()) => Some(PieceTail::Plain(left.to_vec())),
            _ => None,
        }
    }

    /// Takes a cluster that has to decode to `content`, or to be all of a file in plain blocks.
    fn take_cluster(&mut self, stretch: &UnitStretch, content: &[u8], plain: bool, out: &mut PackOutput) -> Option<()> {
        let stored = stretch.stored as usize;
        if !self.packing.unaligned && !stored.is_multiple_of(self.packing.block) {
            return None;
        }
        let dst = out.bytes.get_mut(out.len..)?.get_mut(..stored)?;
        if stretch.raw {
            // Its bytes are here already.
            let longest = if plain { self.longest_plain() } else { self.packing.raw };
            if stored != self.packing.physical(content.len()) || stored > longest {
                return None;
            }
            dst[..content.len()].copy_from_slice(content);
            dst[content.len()..].fill(0);
        } else {
            // A compressed cluster that is no shorter would have been stored uncompressed.
            let fits = stored <= self.packing.cluster && stored < content.len() && !plain;
            if !fits || !self.packing.units.read(stretch, dst) {
                return None;
            }
            // No stream begins with a zero.
            let padding = if self.packing.unaligned { 0 } else { dst.iter().position(|byte| *byte != 0)? };
            // What does not decode to the content is damage in the older image. It fails no build: the piece
            // is packed again.
            self.prover.prove_stored(content, &dst[padding..]).ok()?;
        }
        out.len += stored;
        let cut = PackedCluster::new(StoredLen::new(stretch.stored.into())?, count(content.len()), stretch.raw);
        out.cuts.push(PackedCluster { older: Some(stretch.start), ..cut });
        Some(())
    }
}

/// Tells apart the ways in which the same bytes are packed.
fn form(piece: &PieceJob) -> u8 {
    let tail_policy = match piece.tail_policy {
        TailPolicy::More => 0,
        TailPolicy::Cluster => 1,
        TailPolicy::Fragment => 2,
        TailPolicy::Inline => 3,
    };
    tail_policy | u8::from(piece.whole) << 2
}
