//! The builds to measure: all supported combinations of format, codec, block size, features, threads and program.

use packfs_codec::{Choice, Codec};

use super::features::ImageFeatures;
use super::tool::{BuildProgram, BuildTool};
use super::{BuildCell, BuildKey};
use crate::format::ImageFormat;
use crate::units::size;
use crate::{Error, Result};

/// Returns the default codecs: those of the published benchmarks that the tables follow.
fn defaults(format: ImageFormat) -> &'static str {
    match format {
        ImageFormat::Squashfs => "gzip,xz,lzma,lzo,lz4,zstd,none",
        ImageFormat::Erofs => "lz4,lz4hc:12,deflate,zstd,lzma,none",
    }
}

/// The values to combine.
#[derive(Debug, Clone)]
pub struct BuildMatrix {
    /// Name and digest of the source.
    pub source: (String, String),
    /// Formats.
    pub formats: Vec<ImageFormat>,
    /// Codecs; if `None`, the defaults of each format.
    pub codecs: Option<Vec<Choice>>,
    /// Block sizes in bytes.
    pub blocks: Vec<usize>,
    /// Numbers of threads; 0 does everything on one thread.
    pub jobs: Vec<usize>,
    /// Combinations of features.
    pub features: Vec<ImageFeatures>,
}

impl BuildMatrix {
    /// Returns all cells for these programs, and a message for each combination that a program does not support.
    pub fn cells(&self, tools: &[BuildTool]) -> Result<(Vec<BuildCell>, Vec<String>)> {
        for (what, none) in [
            ("format", self.formats.is_empty()),
            ("block size", self.blocks.is_empty()),
            ("number of threads", self.jobs.is_empty()),
            ("choice of features", self.features.is_empty()),
        ] {
            if none {
                return Err(Error::Usage(format!("no {what} is given: there is nothing to measure")));
            }
        }
        self.check()?;
        let mut cells = Vec::<BuildCell>::new();
        let mut left_out = Vec::<String>::new();
        for tool in tools {
            for key in self.keys(tool)? {
                match tool.kind.refuses(&key) {
                    // Different features may come to the same for a codec, and are measured once.
                    None if cells.iter().all(|cell| cell.key != key) => cells.push(BuildCell { key }),
                    Some(why) if !left_out.contains(&why) => left_out.push(why),
                    _ => {}
                }
            }
        }
        Ok((cells, left_out))
    }

    fn keys(&self, tool: &BuildTool) -> Result<Vec<BuildKey>> {
        let mut keys = Vec::new();
        for &format in self.formats.iter().filter(|format| tool.kind.makes(**format)) {
            for choice in self.choices(format)?.iter().filter(|choice| format.has(choice)) {
                for (&block, &features) in
                    self.blocks.iter().flat_map(|block| self.features.iter().map(move |f| (block, f)))
                {
                    keys.extend(self.jobs.iter().map(|&threads| BuildKey {
                        source: self.source.0.clone(),
                        digest: self.source.1.clone(),
                        tool: tool.kind.name().into(),
                        format: format.name().into(),
                        codec: choice.to_string(),
                        block,
                        features: possible(features, format, choice, tool.kind).to_string(),
                        threads,
                    }));
                }
            }
        }
        Ok(keys)
    }

    fn choices(&self, format: ImageFormat) -> Result<Vec<Choice>> {
        match &self.codecs {
            Some(choices) => Ok(choices.clone()),
            None => defaults(format).split(',').map(|text| Ok(text.parse()?)).collect(),
        }
    }

    fn check(&self) -> Result<()> {
        for choice in self.codecs.iter().flatten() {
            if !self.formats.iter().any(|format| format.has(choice)) {
                let formats: Vec<&str> = self.formats.iter().map(|format| format.name()).collect();
                return Err(Error::Usage(format!("{} has no {choice}", formats.join(" or "))));
            }
        }
        for &block in &self.blocks {
            if !block.is_power_of_two() || !(4096..=1 << 20).contains(&block) {
                let text = "blocks of images are powers of two from 4K to 1M";
                return Err(Error::Usage(format!("{}: {text}", size(block))));
            }
        }
        Ok(())
    }
}

/// Drops features that have no effect without compression: EROFS has fragments of compressed files only.
fn possible(features: ImageFeatures, format: ImageFormat, choice: &Choice, kind: BuildProgram) -> ImageFeatures {
    let none = choice.codec() == Codec::None;
    let raw = none && format == ImageFormat::Erofs;
    ImageFeatures {
        fragments: features.fragments && !raw,
        // The dedupe of mkfs.erofs works on compressed files only.
        dedupe: features.dedupe && !(raw && kind == BuildProgram::MkfsErofs),
        unverified: features.unverified && !none,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix() -> BuildMatrix {
        BuildMatrix {
            source: ("root".into(), "0011".into()),
            formats: vec![ImageFormat::Squashfs, ImageFormat::Erofs],
            codecs: Some(vec!["lz4".parse().unwrap(), "xz".parse().unwrap(), "none".parse().unwrap()]),
            blocks: vec![131_072],
            jobs: vec![0, 2],
            features: vec![ImageFeatures::ALL, ImageFeatures::default()],
        }
    }

    fn tools(kinds: &[BuildProgram]) -> Vec<BuildTool> {
        kinds.iter().map(|kind| BuildTool { kind: *kind, path: kind.name().into(), version: String::new() }).collect()
    }

    #[test]
    fn every_combination_that_makes_sense_is_a_cell_once() {
        let (cells, left_out) = matrix().cells(&tools(&[BuildProgram::Packfs])).unwrap();
        // SquashFS: three codecs. EROFS: lz4 with and without features, and uncompressed with and without dedupe. Each
        // with 0 and 2 threads.
        assert_eq!((cells.len(), left_out.len()), (3 * 2 * 2 + 2 * 2 + 2 * 2, 0));
        let mut keys: Vec<BuildKey> = cells.iter().map(|cell| cell.key.clone()).collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), cells.len());
        let raw = keys.iter().filter(|key| (key.format.as_str(), key.codec.as_str()) == ("erofs", "none"));
        assert_eq!(raw.map(|key| key.features.as_str()).collect::<Vec<_>>(), ["", "", "dedupe", "dedupe"]);
        assert_eq!(keys[0].to_string(), "packfs packing root as erofs, lz4, blocks of 128K, serial");
    }

    #[test]
    fn what_peers_cannot_do_is_left_out_with_a_word() {
        let (cells, left_out) = matrix()
            .cells(&tools(&[BuildProgram::Mksquashfs, BuildProgram::Tar2sqfs, BuildProgram::MkfsErofs]))
            .unwrap();
        let of = |tool: &str| cells.iter().filter(|cell| cell.key.tool == tool).count();
        assert_eq!((of("mksquashfs"), of("tar2sqfs"), of("mkfs.erofs")), (3 * 2, 2, 2 + 1));
        assert!(cells.iter().all(|cell| cell.key.threads == 2));
        insta::assert_snapshot!(left_out.join("\n"), @r"
        mksquashfs cannot work on one thread alone
        tar2sqfs cannot work on one thread alone
        tar2sqfs always uses fragments and shares what is equal
        tar2sqfs always compresses
        mkfs.erofs cannot work on one thread alone
        ");
    }

    #[test]
    fn defaults_are_codecs_that_the_formats_have() {
        let matrix = BuildMatrix { codecs: None, jobs: vec![1], features: vec![ImageFeatures::ALL], ..matrix() };
        let (cells, _) = matrix.cells(&tools(&[BuildProgram::Packfs])).unwrap();
        let codecs: Vec<&str> = cells.iter().map(|cell| cell.key.codec.as_str()).collect();
        let squashfs = ["gzip:6", "xz:6", "lzma:6", "lzo:8", "lz4", "zstd:15", "none"];
        assert_eq!(codecs, [&squashfs[..], &["lz4", "lz4hc:12", "deflate:9", "zstd:15", "lzma:6", "none"]].concat());
    }

    #[test]
    fn what_is_wrong_is_told() {
        let wrong = [
            (
                BuildMatrix {
                    formats: vec![ImageFormat::Erofs],
                    codecs: Some(vec!["xz".parse().unwrap()]),
                    ..matrix()
                },
                "erofs has no xz",
            ),
            (BuildMatrix { blocks: vec![5000], ..matrix() }, "powers of two"),
            (BuildMatrix { blocks: vec![2 << 20], ..matrix() }, "2M: blocks"),
            (BuildMatrix { jobs: vec![], ..matrix() }, "no number of threads"),
        ];
        for (matrix, why) in wrong {
            let error = matrix.cells(&tools(&[BuildProgram::Packfs])).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        for (text, shown) in [("plain", ""), ("dedupe", "dedupe"), ("dedupe+fragments", "fragments,dedupe")] {
            assert_eq!(text.parse::<ImageFeatures>().unwrap().to_string(), shown);
        }
        for text in ["", "plain+dedupe", "dedup"] {
            assert!(text.parse::<ImageFeatures>().unwrap_err().to_string().contains("accepted: plain"), "{text}");
        }
        assert!("ext4".parse::<ImageFormat>().unwrap_err().to_string().contains("squashfs, erofs"));
    }
}
