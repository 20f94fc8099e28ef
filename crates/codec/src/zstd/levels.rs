//! Encoders and parameters of zstd levels for independent blocks, where a search found better ones than the
//! library's presets. From level 14 on, our own parser chooses the sequences ([`own`]).
//!
//! The presets of libzstd 1.5.7 are tuned for inputs that the window slides over. For blocks of 4 to 128 KiB, its levels with a
//! binary tree but without an optimal parser (`btlazy2`) are slow for what they gain. The `lazy2` strategy with its cheaper
//! hash chains, and with blocks split where their statistics change, is smaller and takes about half the time. The library
//! splits blocks from `btopt` on only, although it helps all strategies with an entropy stage.
//! docs/design/zstd-parameters.md has the search and its figures.

use zstd_safe::{CParameter, ParamSwitch, Strategy};

/// Longest block of each class, and the shortest of the next. The library has presets for blocks of up to 16 and of up to
/// 128 KiB; in the search, 64 KiB needed others than 128.
const SMALL: usize = 16 << 10;
const MEDIUM_MIN: usize = SMALL + 1;
const MEDIUM: usize = 64 << 10;
const LARGE_MIN: usize = MEDIUM + 1;
const LARGE: usize = 128 << 10;
/// The library has other presets for blocks above 256 KiB.
const HUGE_MIN: usize = LARGE + 1;
const HUGE: usize = 256 << 10;
/// Longest block that does not keep the presets.
const MIB: usize = 1 << 20;

/// Effort of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ZstdEffort {
    /// Length from which a match is taken without looking further; below [`super::prices::LENS`].
    pub(super) nice: usize,
    /// Greatest number of earlier positions compared for matches of four to seven and of more bytes.
    pub(super) depths: [usize; 2],
    /// A position is left out if the next one costs at most this much more, in units of 1/256 bit.
    pub(super) slack: u32,
    /// True if the beginning is parsed twice, the first time for its statistics only.
    pub(super) twice: bool,
    /// True for blocks above 128 KiB, whose matches are longer and farther apart: more lengths are offered, and repeats
    /// where nothing else is.
    pub(super) large: bool,
}

/// Search parameters; the window is the block.
#[derive(Clone, Copy)]
struct SearchParameters {
    strategy: Strategy,
    chain_log: u32,
    hash_log: u32,
    search_log: u32,
    min_match: u32,
    target_length: u32,
}

/// Lazy matching over hash chains.
const fn lazy(log: u32, hash_log: u32, search_log: u32, target_length: u32) -> SearchParameters {
    SearchParameters {
        strategy: Strategy::ZSTD_lazy2,
        chain_log: log,
        hash_log,
        search_log,
        min_match: 4,
        target_length,
    }
}

/// One pass of our parser, for levels that libzstd parses once.
const fn once(depths: [usize; 2], slack: u32, nice: usize) -> ZstdEffort {
    ZstdEffort { nice, depths, slack, twice: false, large: false }
}

/// Two passes, the first for statistics only.
const fn twice(depths: [usize; 2], slack: u32, nice: usize) -> ZstdEffort {
    ZstdEffort { nice, depths, slack, twice: true, large: false }
}

/// The same for blocks above 128 KiB.
const fn large(effort: ZstdEffort) -> ZstdEffort {
    ZstdEffort { large: true, ..effort }
}

/// Returns the effort of our own parser if it takes the place of libzstd's at `level` for blocks of up to `block_len` bytes.
pub(super) fn own(level: i32, block_len: usize) -> Option<ZstdEffort> {
    let effort = match (level, block_len) {
        (18..=22, 0..=SMALL) => twice([64, 64], 192, 512),
        (14 | 15, MEDIUM_MIN..=MEDIUM) => once([24, 32], 448, 256),
        (16 | 17, MEDIUM_MIN..=MEDIUM) => once([32, 48], 256, 256),
        (18, MEDIUM_MIN..=MEDIUM) => once([64, 64], 128, 256),
        (19, MEDIUM_MIN..=MEDIUM) => twice([64, 64], 192, 512),
        (20..=22, MEDIUM_MIN..=MEDIUM) => twice([128, 128], 128, 512),
        (14, LARGE_MIN..=LARGE) => once([32, 32], 448, 256),
        (15, LARGE_MIN..=LARGE) => once([32, 48], 384, 256),
        (16 | 17, LARGE_MIN..=LARGE) => once([96, 96], 64, 256),
        (18, LARGE_MIN..=LARGE) => once([128, 128], 48, 512),
        (19, LARGE_MIN..=LARGE) => twice([128, 128], 64, 512),
        (20..=22, LARGE_MIN..=LARGE) => twice([192, 192], 64, 1000),
        (15, HUGE_MIN..=HUGE) => large(once([16, 16], 448, 256)),
        (16 | 17, HUGE_MIN..=HUGE) => large(once([64, 48], 32, 256)),
        (18, HUGE_MIN..=HUGE) => large(twice([64, 32], 64, 512)),
        (18, ..=MIB) => large(once([48, 24], 160, 512)),
        (19, ..=MIB) => large(twice([96, 64], 0, 1000)),
        (20..=22, ..=MIB) => large(twice([160, 96], 0, 1000)),
        _ => return None,
    };
    Some(effort)
}

/// Returns the parameters that replace those of `level` for blocks of up to `block_len` bytes; none where the library's are as good.
pub(super) fn better(level: i32, block_len: usize) -> Vec<CParameter> {
    let search = match (level, block_len) {
        (9 | 10, 0..=SMALL) => lazy(14, 15, 6, 8),
        (11 | 12, MEDIUM_MIN..=MEDIUM) => lazy(16, 17, 7, 12),
        (13, MEDIUM_MIN..=MEDIUM) => lazy(16, 17, 9, 12),
        (11, LARGE_MIN..=LARGE) => lazy(17, 17, 7, 12),
        (12, LARGE_MIN..=LARGE) => lazy(17, 17, 9, 12),
        _ => return Vec::new(),
    };
    vec![
        CParameter::Strategy(search.strategy),
        CParameter::ChainLog(search.chain_log),
        CParameter::HashLog(search.hash_log),
        CParameter::SearchLog(search.search_log),
        CParameter::MinMatch(search.min_match),
        CParameter::TargetLength(search.target_length),
        CParameter::UseBlockSplitter(ParamSwitch::Enable),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Choice;

    /// Text and machine code: sources of this crate, and the program that runs this test.
    fn data() -> [Vec<u8>; 2] {
        let sources = concat!(
            include_str!("../lzo/dense.rs"),
            include_str!("../lzo/tests.rs"),
            include_str!("../xz/stream.rs"),
            include_str!("../settings.rs"),
            include_str!("../syntax.rs"),
            include_str!("../lz4/fill.rs"),
            include_str!("../rust/inflate.rs"),
        );
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        [sources.into(), program[program.len() / 4..][..1 << 20].to_vec()]
    }

    #[test]
    fn no_level_is_much_larger_than_the_preset_that_it_replaces() {
        let mut replaced = 0;
        for (level, block_len) in
            (-5..=22).flat_map(|level| [4096, SMALL, MEDIUM, LARGE, 2 * LARGE, MIB].map(|len| (level, len)))
        {
            if better(level, block_len).is_empty() && own(level, block_len).is_none() {
                continue;
            }
            replaced += 1;
            let choice: Choice = format!("zstd:{level}").parse().unwrap();
            let mut encoder = choice.encoder(block_len).unwrap();
            let mut dst = vec![0; block_len + 1000];
            // Each build of the program is another one, and differs more than the sources do.
            for (data, most) in data().into_iter().zip([101, 102]) {
                let mut ours = 0;
                let mut preset = 0;
                for block in data.chunks(block_len) {
                    ours += encoder.encode(block, &mut dst).unwrap().unwrap();
                    preset += zstd_safe::compress(&mut dst[..], block, level).unwrap();
                }
                assert!(ours * 100 <= preset * most, "level {level}, blocks of {block_len}: {ours}, preset {preset}");
            }
        }
        // Other parameters: 9 and 10 twice, 11 to 13, 11 and 12. Our parser: 18 to 22 twice, 14 to 22 twice, 15 to 22, 18 to 22.
        assert_eq!(replaced, 4 + 3 + 2 + 10 + 18 + 8 + 5);
    }

    /// Numbers that count up, in several widths and spellings.
    fn tables() -> Vec<(&'static str, Vec<u8>)> {
        /// Bytes of a table.
        const LEN: usize = 1 << 20;
        let of_records = |record: &dyn Fn(u32) -> Vec<u8>| (0..).flat_map(record).take(LEN).collect::<Vec<u8>>();
        vec![
            ("lines", of_records(&|number| format!("{number}\n").into())),
            ("four bytes", of_records(&|number| number.to_le_bytes().into())),
            ("multiples", of_records(&|number| (number * 7).to_le_bytes().into())),
            ("eight bytes", of_records(&|number| u64::from(number).to_le_bytes().into())),
            ("big endian", of_records(&|number| (5_000_000 + u64::from(number)).to_be_bytes().into())),
            ("rows", of_records(&|number| format!("{number},{},row {number}\n", 2 * number).into())),
        ]
    }

    #[test]
    fn tables_are_hardly_larger_than_with_the_preset() {
        let mut dst = vec![0; MIB + 1000];
        for (name, table) in tables() {
            for (level, block_len) in [(15, LARGE), (19, LARGE), (18, HUGE), (18, MIB), (22, MIB)] {
                let mut encoder = format!("zstd:{level}").parse::<Choice>().unwrap().encoder(block_len).unwrap();
                let mut ours = 0;
                let mut preset = 0;
                for block in table.chunks(block_len) {
                    let len = encoder.encode(block, &mut dst).unwrap().unwrap();
                    assert!(zstd_safe::decompress(&mut vec![0; block_len], &dst[..len]) == Ok(block.len()));
                    ours += len;
                    preset += zstd_safe::compress(&mut dst[..], block, level).unwrap();
                }
                assert!(ours * 100 <= preset * 101, "{name}, level {level} of {block_len}: {ours}, preset {preset}");
            }
        }
    }

    #[test]
    fn huge_blocks_keep_the_presets() {
        for level in -5..=22 {
            assert!(better(level, MIB + 1).is_empty() && own(level, MIB + 1).is_none());
        }
    }
}
