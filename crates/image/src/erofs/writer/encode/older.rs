//! Pieces whose clusters an older image has: taken from there, and proven, if all of a piece is as it was.

use packfs_blocks::Digest;

use super::piece::{Cut, Ending, Piece, Rest};
use super::worker::{Lane, Out};
use crate::Result;
use crate::build::{Fate, Key, Noted, Stretch, Unit};
use crate::erofs::writer::stored::cluster::{StoredLen, count};

/// Numbers by which an index says where the bytes of a piece behind its clusters are.
mod rest {
    pub(super) const NOTHING: u8 = 0;
    pub(super) const FRAGMENT: u8 = 1;
    pub(super) const PLAIN: u8 = 2;
}

impl Rest {
    /// Its number in an index; `None` if an index cannot say where these bytes are.
    pub(crate) fn number(&self) -> Option<u8> {
        match self {
            Rest::Nothing => Some(rest::NOTHING),
            Rest::Fragment(..) => Some(rest::FRAGMENT),
            Rest::Plain(_) => Some(rest::PLAIN),
            Rest::Inline { .. } => None,
        }
    }
}

impl Lane {
    /// Packs a whole piece, or takes it from an older image.
    pub(super) fn whole(&mut self, piece: &Piece, src: &[u8], out: &mut Out) -> Result<(Rest, Option<Noted>)> {
        // What depends on clusters of this image is no result of the piece alone.
        if !self.packing.units.is_on() || !piece.reuse.is_empty() {
            return Ok((self.anew(piece, src, out)?, None));
        }
        let key = Key::new(&piece.digest.unwrap_or_else(|| Digest::of(src)), form(piece));
        let units = self.packing.units.clone();
        let before = (out.cuts.len(), out.len);
        let mut fate = Fate::Fresh;
        if let Some(unit) = units.find(&key) {
            if let Some(rest) = self.take(unit, piece, src, out) {
                return Ok((rest, Some(Noted { key, check: unit.check(), fate: Fate::Taken })));
            }
            out.cuts.truncate(before.0);
            out.len = before.1;
            fate = Fate::Damaged;
        }
        let rest = self.anew(piece, src, out)?;
        let check = Digest::of(&out.bytes[before.1..out.len]).half();
        let noted = rest.number().map(|_| Noted { key, check, fate });
        Ok((rest, noted))
    }

    /// Takes a piece from an older image; `None` if that has other bytes than it should.
    fn take(&mut self, unit: Unit<'_>, piece: &Piece, src: &[u8], out: &mut Out) -> Option<Rest> {
        let (start, mut at) = (out.len, 0);
        let plain = unit.rest() == rest::PLAIN;
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
            rest::NOTHING if left.is_empty() => Some(Rest::Nothing),
            rest::FRAGMENT if piece.ending == Ending::Fragment => Some(Rest::Fragment(left.to_vec(), Digest::of(left))),
            rest::PLAIN if piece.whole && at == self.plain_len(src.len()) => Some(Rest::Plain(left.to_vec())),
            _ => None,
        }
    }

    /// Takes a cluster that has to decode to `content`, or to be all of a file in plain blocks.
    fn take_cluster(&mut self, stretch: &Stretch, content: &[u8], plain: bool, out: &mut Out) -> Option<()> {
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
            let fits = stored <= self.packing.cluster && stored < content.len() && !plain;
            if !fits || !self.packing.units.read(stretch, dst) {
                return None;
            }
            // No stream begins with a zero.
            let padding = if self.packing.unaligned { 0 } else { dst.iter().position(|byte| *byte != 0)? };
            self.prover.prove_stored(content, &dst[padding..]).ok()?;
        }
        out.len += stored;
        let cut = Cut::new(StoredLen::new(stretch.stored.into())?, count(content.len()), stretch.raw);
        out.cuts.push(Cut { older: Some(stretch.start), ..cut });
        Some(())
    }
}

/// Tells apart the ways in which the same bytes are packed.
fn form(piece: &Piece) -> u8 {
    let ending = match piece.ending {
        Ending::More => 0,
        Ending::Cluster => 1,
        Ending::Fragment => 2,
        Ending::Inline => 3,
    };
    ending | u8::from(piece.whole) << 2
}
