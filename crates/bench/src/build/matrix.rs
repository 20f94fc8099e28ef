//! The builds to measure: all supported combinations of format, codec, block size, features, threads and program.

use packfs_codec::{Choice, Codec};

use super::BuildKey;
use super::features::ImageFeatures;
use super::tool::{BuildProgram, BuildTool};
use crate::format::ImageFormat;
use crate::matrix::require_values;
use crate::units::short_size;
use crate::{Error, Result};

/// The values to combine.
#[derive(Debug, Clone)]
pub struct BuildMatrix {
    /// Name of the source.
    pub source: String,
    /// Digest of the source.
    pub digest: String,
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
    pub fn cells(&self, tools: &[BuildTool]) -> Result<(Vec<BuildKey>, Vec<String>)> {
        require_values(&[
            ("format", self.formats.is_empty()),
            ("block size", self.blocks.is_empty()),
            ("number of threads", self.jobs.is_empty()),
            ("choice of features", self.features.is_empty()),
        ])?;
        self.check_values()?;
        let mut cells = Vec::<BuildKey>::new();
        let mut left_out = Vec::<String>::new();
        for tool in tools {
            for key in self.keys(tool)? {
                match tool.program.refuses(&key) {
                    // Different features may come to the same for a codec, and are measured once.
                    None if !cells.contains(&key) => cells.push(key),
                    Some(why) if !left_out.contains(&why) => left_out.push(why),
                    _ => {}
                }
            }
        }
        Ok((cells, left_out))
    }

    fn keys(&self, tool: &BuildTool) -> Result<Vec<BuildKey>> {
        let mut keys = Vec::new();
        for &format in self.formats.iter().filter(|format| tool.program.makes(**format)) {
            for choice in self.choices(format)?.iter().filter(|choice| format.has(choice)) {
                for &block in &self.blocks {
                    for &features in &self.features {
                        let features = effective_features(features, format, choice, tool.program).to_string();
                        keys.extend(self.jobs.iter().map(|&threads| BuildKey {
                            source: self.source.clone(),
                            digest: self.digest.clone(),
                            tool: tool.program.name().into(),
                            format: format.name().into(),
                            codec: choice.to_string(),
                            block,
                            features: features.clone(),
                            threads,
                        }));
                    }
                }
            }
        }
        Ok(keys)
    }

    fn choices(&self, format: ImageFormat) -> Result<Vec<Choice>> {
        if let Some(choices) = &self.codecs {
            return Ok(choices.clone());
        }
        // Those of the published benchmarks that the tables follow.
        let defaults = match format {
            ImageFormat::Squashfs => "gzip,xz,lzma,lzo,lz4,zstd,none",
            ImageFormat::Erofs => "lz4,lz4hc:12,deflate,zstd,lzma,none",
        };
        defaults.split(',').map(|text| Ok(text.parse()?)).collect()
    }

    fn check_values(&self) -> Result<()> {
        for choice in self.codecs.iter().flatten() {
            if !self.formats.iter().any(|format| format.has(choice)) {
                let formats: Vec<&str> = self.formats.iter().map(|format| format.name()).collect();
                return Err(Error::Usage(format!("{} has no {choice}", formats.join(" or "))));
            }
        }
        for &block in &self.blocks {
            if !block.is_power_of_two() || !(4096..=1 << 20).contains(&block) {
                let text = "blocks of images are powers of two from 4K to 1M";
                return Err(Error::Usage(format!("{}: {text}", short_size(block))));
            }
        }
        Ok(())
    }
}

/// Drops features that have no effect without compression: EROFS has fragments of compressed files only.
fn effective_features(
    features: ImageFeatures,
    format: ImageFormat,
    choice: &Choice,
    program: BuildProgram,
) -> ImageFeatures {
    let is_plain = choice.codec() == Codec::None;
    let is_plain_erofs = is_plain && format == ImageFormat::Erofs;
    ImageFeatures {
        fragments: features.fragments && !is_plain_erofs,
        // The dedupe of mkfs.erofs works on compressed files only.
        dedupe: features.dedupe && !(is_plain_erofs && program == BuildProgram::MkfsErofs),
        unverified: features.unverified && !is_plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix() -> BuildMatrix {
        BuildMatrix {
            source: "root".into(),
            digest: "0011".into(),
            formats: vec![ImageFormat::Squashfs, ImageFormat::Erofs],
            codecs: Some(vec!["lz4".parse().unwrap(), "xz".parse().unwrap(), "none".parse().unwrap()]),
            blocks: vec![131_072],
            jobs: vec![0, 2],
            features: vec![ImageFeatures::ALL, ImageFeatures::default()],
        }
    }

    fn tools(kinds: &[BuildProgram]) -> Vec<BuildTool> {
        kinds
            .iter()
            .map(|kind| BuildTool { program: *kind, path: kind.name().into(), version: String::new() })
            .collect()
    }

    #[test]
    fn every_combination_that_makes_sense_is_a_cell_once() {
        let (cells, left_out) = matrix().cells(&tools(&[BuildProgram::Packfs])).unwrap();
        // SquashFS: three codecs. EROFS: lz4 with and without features, and uncompressed with and without dedupe. Each
        // with 0 and 2 threads.
        assert_eq!((cells.len(), left_out.len()), (3 * 2 * 2 + 2 * 2 + 2 * 2, 0));
        let mut keys = cells.clone();
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
        let of = |tool: &str| cells.iter().filter(|cell| cell.tool == tool).count();
        assert_eq!((of("mksquashfs"), of("tar2sqfs"), of("mkfs.erofs")), (3 * 2, 2, 2 + 1));
        assert!(cells.iter().all(|cell| cell.threads == 2));
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
        let codecs: Vec<&str> = cells.iter().map(|cell| cell.codec.as_str()).collect();
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
