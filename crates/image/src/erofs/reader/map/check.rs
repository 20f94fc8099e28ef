//! Checks that reading does not need: every entry of an index is right, and the superblock
//! announces all features that the index uses.

use super::clusters::{ClusterIndex, DecodedEntry, ExtentCoding, ExtentHead};
use super::header::IndexFeatures;
use super::window::{IndexBytes, IndexWindow};
use super::{ExtentMap, MapForm, MappedExtent, PieceStorage, StoredBytes, StoredPosition};
use crate::erofs::format::{Advise, Incompat};
use crate::erofs::raw_sharing::{RawExtent, RawExtents};
use crate::{Error, Result};

/// Distances from here on may be shorter than the real ones: the next bit marks a count of blocks.
const CAPPED: u64 = 2047;

/// Features announced by the superblock.
#[derive(Debug, Clone, Copy)]
pub(in crate::erofs::reader) struct AnnouncedFeatures {
    pub(in crate::erofs::reader) incompat: Incompat,
    /// A bit for each algorithm.
    pub(in crate::erofs::reader) algorithms: u16,
}

/// Receiver of findings.
type IndexFindings<'w> = &'w mut dyn FnMut(Error);

impl ExtentMap {
    /// Calls `wrong` for each defect of the map; returns true if an extent [is long and raw](Self::is_long_raw).
    ///
    /// # Errors
    ///
    /// Damage that stopped the check.
    pub(in crate::erofs::reader) fn check(
        &self,
        source: &dyn IndexBytes,
        announced: AnnouncedFeatures,
        wrong: IndexFindings<'_>,
    ) -> Result<bool> {
        let at = self.place;
        let mut say = |why: String| wrong(source.error("map header", at, why));
        match &self.form {
            MapForm::Clusters(header, clusters) => {
                self.check_header(header, &mut say);
                let mut window = IndexWindow::new(source, super::INDEX, clusters.end());
                let block_bits = self.block_bits;
                let walker = IndexWalker {
                    clusters,
                    block_bits,
                    head: None,
                    last_begun: None,
                    promised: None,
                    empty_at: None,
                    wrong: &mut *wrong,
                };
                walker.run(&mut window)?;
            }
            MapForm::Encoded(header, _) => self.check_header(header, &mut say),
            _ => {}
        }
        let mut walk = self.walk(source, 0);
        let mut raw_extents = RawExtents::default();
        let mut has_long_raw = false;
        while let Some(extent) = walk.next()? {
            has_long_raw |= self.is_long_raw(&extent);
            let unreadable = self.raw_extent(&extent).and_then(|raw| raw_extents.add(raw)).map(|earlier| {
                format!("Linux may fail to read it with the one at offset {}, of the same raw cluster", earlier.begin)
            });
            if let Some(why) = unreadable.or_else(|| self.check_extent(&extent, announced)) {
                wrong(source.error("map header", at, format!("extent at offset {}: {why}", extent.logical)));
            }
        }
        Ok(has_long_raw)
    }

    /// Returns true if an extent [is long and raw](Self::is_long_raw). The header of most maps rules it out.
    pub(in crate::erofs::reader) fn has_long_raw(&self, source: &dyn IndexBytes) -> Result<bool> {
        let MapForm::Clusters(header, _) = &self.form else { return Ok(false) };
        if !header.advise.contains(Advise::BIG_CLUSTER_2) {
            return Ok(false);
        }
        let mut walk = self.walk(source, 0);
        while let Some(extent) = walk.next()? {
            if self.is_long_raw(&extent) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns true for an uncompressed extent of more than a block, of which Linux before 6.15 reads one block and refuses
    /// the rest. Encoded extents need 6.15 in any case.
    fn is_long_raw(&self, extent: &MappedExtent) -> bool {
        let PieceStorage::Plain { stored, .. } = extent.data else { return false };
        let is_cluster = !matches!(stored.place, StoredPosition::Meta(_));
        is_cluster && matches!(self.form, MapForm::Clusters(..)) && extent.len > 1 << self.block_bits
    }

    /// Returns the features that the map uses, with their names.
    pub(in crate::erofs::reader) fn needs(&self) -> Vec<(Incompat, &'static str)> {
        let mut needs = Vec::new();
        let header = match &self.form {
            MapForm::Plain { .. } => None,
            MapForm::Chunks(_) => {
                needs.push((Incompat::CHUNKED_FILES, "files in chunks"));
                None
            }
            MapForm::Fragment(_) => {
                needs.push((Incompat::FRAGMENTS_OR_DEDUPE, "files in the packed inode"));
                None
            }
            MapForm::Clusters(header, _) => Some(header),
            MapForm::Encoded(header, _) => {
                needs.push((Incompat::BITS_48, "encoded extents"));
                Some(header)
            }
        };
        let Some(header) = header else { return needs };
        needs.push((Incompat::ZERO_PADDING, "compressed bytes at the ends of clusters"));
        let encoded = matches!(self.form, MapForm::Encoded(..));
        let clusters = [
            (Advise::BIG_CLUSTER_1 | Advise::BIG_CLUSTER_2, Incompat::BIG_CLUSTERS, "clusters of several blocks"),
            (Advise::INLINE_CLUSTER, Incompat::TAIL_PACKING, "clusters after inodes"),
        ];
        let all = [(Advise::FRAGMENT, Incompat::FRAGMENTS_OR_DEDUPE, "ends of files in the packed inode")];
        // Encoded extents use the bits of big clusters for the length of records. Their clusters never follow an inode.
        let clusters = clusters.into_iter().filter(|_| !encoded);
        for (advise, bit, what) in clusters.chain(all) {
            if header.advise.intersects(advise) {
                needs.push((bit, what));
            }
        }
        needs
    }

    fn check_header(&self, header: &IndexFeatures, say: &mut dyn FnMut(String)) {
        let known = Advise::COMPACT_2B_OR_EXTENTS
            | Advise::BIG_CLUSTER_1
            | Advise::BIG_CLUSTER_2
            | Advise::INLINE_CLUSTER
            | Advise::INTERLACED
            | Advise::FRAGMENT;
        let unknown = header.advise.difference(known).bits();
        if unknown != 0 {
            say(format!("unknown advice bits {unknown:#x}"));
        }
    }

    /// Returns the extent if Linux reads it as an uncompressed cluster.
    fn raw_extent(&self, extent: &MappedExtent) -> Option<RawExtent> {
        let MappedExtent { logical: begin, len, data } = *extent;
        let PieceStorage::Plain { stored: StoredBytes { place: StoredPosition::Image(cluster), .. }, .. } = data else {
            return None;
        };
        let has_clusters = matches!(self.form, MapForm::Clusters(..) | MapForm::Encoded(..));
        has_clusters.then_some(RawExtent { begin, len, cluster })
    }

    fn check_extent(&self, extent: &MappedExtent, announced: AnnouncedFeatures) -> Option<String> {
        let last = extent.logical + extent.len >= self.size;
        let (stored, algorithm, partial) = match extent.data {
            PieceStorage::Packed { stored, algorithm, partial } => (stored, algorithm, partial),
            _ => return None,
        };
        if announced.algorithms & 1 << algorithm == 0 {
            return Some(format!("the superblock does not announce algorithm {algorithm}"));
        }
        if partial && !announced.incompat.contains(Incompat::FRAGMENTS_OR_DEDUPE) {
            return Some("a shared cluster, which the superblock does not announce".into());
        }
        // Uncompressed clusters may be shared in part, or end with a partial block.
        let wasteful = !partial && !last && stored.len > extent.len;
        wasteful.then(|| format!("{} bytes are stored for {}", stored.len, extent.len))
    }
}

/// Visits every entry of an index.
struct IndexWalker<'c, 'w> {
    clusters: &'c ClusterIndex,
    /// log2 of a block.
    block_bits: u8,
    /// The latest head, and its cluster.
    head: Option<(u64, ExtentHead)>,
    /// The latest head at which an extent begins: a head at the end of the file begins none.
    last_begun: Option<(u64, ExtentHead)>,
    /// Range of clusters in which, according to the entries since then, the next head is.
    promised: Option<(u64, u64)>,
    /// Cluster whose entry says that the cluster of the latest head has no blocks.
    empty_at: Option<u64>,
    wrong: IndexFindings<'w>,
}

impl IndexWalker<'_, '_> {
    fn run(mut self, window: &mut IndexWindow<'_>) -> Result<()> {
        let count = self.clusters.count();
        for n in 0..count {
            match self.clusters.load(window, n)? {
                DecodedEntry::Head(head) => {
                    if head.hole {
                        self.report(window, n, "a hole, which Linux before 7.2 reads as a cluster".into());
                    }
                    self.keep_promise(window, n);
                    if (n << self.clusters.bits) + head.offset < self.clusters.size {
                        self.refuse_empty(window);
                        self.last_begun = Some((n, head));
                    }
                    self.head = Some((n, head));
                }
                DecodedEntry::Inner { back, blocks, forward } => self.check_inner(window, n, back, blocks, forward),
            }
        }
        self.check_end(window, count);
        self.check_last(window, count)
    }

    fn report(&mut self, window: &IndexWindow<'_>, n: u64, why: String) {
        (self.wrong)(window.error(self.clusters.at(n), format!("cluster {n}: {why}")));
    }

    /// Checks the entry of a cluster in which no extent begins.
    fn check_inner(&mut self, window: &IndexWindow<'_>, n: u64, back: u64, blocks: Option<u64>, forward: Option<u64>) {
        let Some((head_at, head)) = self.head else {
            return self.report(window, n, "no extent begins before it".into());
        };
        let distance = n - head_at;
        let needs_count = distance == 1 && self.clusters.may_be_big(head.kind);
        if needs_count && blocks.is_none() {
            self.report(window, n, "no count of blocks after a head".into());
        } else if !needs_count && blocks.is_some() {
            self.report(window, n, "a count of blocks that is not after a head".into());
        }
        if blocks == Some(0) {
            self.empty_at = Some(n);
        }
        if back > distance || (back < distance && back < CAPPED) {
            self.report(window, n, format!("its head is {distance} clusters back, not {back}"));
        }
        if let Some(forward) = forward {
            let (least, most) = self.promised.unwrap_or((u64::MAX, 0));
            let least = if forward < CAPPED { least.min(n + forward) } else { least };
            self.promised = Some((least, most.max(n + forward)));
        }
    }

    /// Checks that entries before the next head (or the end), at cluster `n`, announced it there.
    fn keep_promise(&mut self, window: &IndexWindow<'_>, n: u64) {
        let Some((least, most)) = self.promised.take() else { return };
        if most > n || (least != u64::MAX && least < n) {
            let said = if most > n { most } else { least };
            self.report(window, n.saturating_sub(1), format!("the next head is at cluster {n}, not {said}"));
        }
    }

    /// Refuses a cluster of no blocks: it is a hole from Linux 7.2 on, but earlier versions read
    /// another cluster. An extent in the packed inode has no cluster.
    fn refuse_empty(&mut self, window: &IndexWindow<'_>) {
        if let Some(n) = self.empty_at.take() {
            self.report(window, n, "a count of 0 blocks, which Linux before 7.2 does not read as a hole".into());
        }
    }

    /// Checks the last extent. If no entry follows it, Linux assumes that it extends to the end of
    /// its cluster, not of the file. If it is in the packed inode, it has no stored bytes, which an
    /// uncompressed extent needs.
    fn check_last(&mut self, window: &mut IndexWindow<'_>, count: u64) -> Result<()> {
        let advise = self.clusters.advise;
        if !advise.contains(Advise::FRAGMENT) {
            self.refuse_empty(window);
        }
        let Some((at, head)) = self.last_begun.filter(|(_, head)| head.kind == ExtentCoding::Plain) else {
            return Ok(());
        };
        if advise.contains(Advise::FRAGMENT) {
            self.report(window, at, "uncompressed, but in the packed inode".into());
        }
        if advise.intersects(Advise::INLINE_CLUSTER | Advise::FRAGMENT) || self.head != self.last_begun {
            return Ok(());
        }
        let span = self.clusters.measure(window, at, head)?;
        let len = (count << self.clusters.bits).saturating_sub(span.start);
        let stored = span.blocks.saturating_mul(1 << self.block_bits);
        if len > stored {
            self.report(window, at, format!("{stored} uncompressed bytes for {len} up to the end of the cluster"));
        }
        Ok(())
    }

    /// Checks that an extent that began in an earlier cluster ends with an entry of its own.
    fn check_end(&mut self, window: &IndexWindow<'_>, count: u64) {
        let used = self.clusters.size % (1 << self.clusters.bits);
        let special = self.clusters.advise.intersects(Advise::INLINE_CLUSTER | Advise::FRAGMENT);
        let Some((at, head)) = self.head.filter(|_| used > 0) else { return };
        let begins_after_end = at + 1 == count && head.offset >= used;
        if begins_after_end && (head.kind != ExtentCoding::Plain || head.offset != used) {
            self.report(window, at, format!("an extent begins after the end, at offset {}", head.offset));
        }
        if at + 1 < count && !special {
            self.report(window, count - 1, "no entry ends the last extent".into());
        }
    }
}
