//! `packfs bench read` as typed.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use packfs_codec::Choice;

use super::super::known::{self, NamedValueParser};
use super::super::value::ValueList;
use super::measuring::{MeasuringArgs, block, blocks, choices};

/// Measure how fast the kernel and programs read images.
///
/// The images exist already, or packfs, mksquashfs and mkfs.erofs build them from a directory with codecs and block
/// sizes of your choice. As root, packfs mounts each image again for every measurement, in a private mount namespace
/// and with dropped caches. The kernel reads all files in order, 500 of them at random and all of them at random, data
/// or metadata; fio reads the largest file, 4 KiB at a time. packfs, unsquashfs, sqfs2tar and fsck.erofs read whole
/// images, as any user. Programs that are not installed and measurements that are not permitted are reported and left
/// out.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs bench read root.sqfs root.erofs
  packfs bench read --matrix /srv/root --blocks 4K..128K --codecs lz4hc:12,zstd:15,none
  packfs bench read --matrix /srv/root --peers /opt/erofs-utils/bin --runs 9 --resume")]
pub(crate) struct BenchReadArgs {
    /// Images to read
    #[arg(value_name = "IMAGE", required_unless_present = "matrix", value_hint = ValueHint::FilePath)]
    pub(crate) images: Vec<PathBuf>,

    /// Build images of this directory, read them and remove them
    #[arg(long, value_name = "SOURCE", conflicts_with = "images", value_hint = ValueHint::DirPath)]
    pub(crate) matrix: Option<PathBuf>,

    /// Measure once, with the smallest and largest blocks only
    ///
    /// fio and long readings are left out.
    #[arg(long, conflicts_with = "runs")]
    pub(crate) quick: bool,

    /// Codecs of the images to build, as `build --codec` takes them
    ///
    /// Options of one codec are joined by colons.
    #[arg(short, long, value_name = "LIST", default_value = "lz4hc:12,none", requires = "matrix",
        value_parser = NamedValueParser::new(choices, known::image_codecs), hide_possible_values = true)]
    pub(crate) codecs: ValueList<Choice>,

    /// Block or cluster sizes to build: a list, or a range as 4K..1M
    ///
    /// A range stands for the powers of two in it.
    #[arg(short, long, value_name = "LIST", default_value = "4K,16K,64K,128K", value_parser = image_blocks,
        requires = "matrix")]
    pub(crate) blocks: ValueList<usize>,

    /// Let other programs build and read images, too
    ///
    /// mksquashfs, mkfs.erofs, unsquashfs, sqfs2tar and fsck.erofs: those in DIR before those on PATH.
    #[arg(long, value_name = "DIR", num_args = 0..=1, value_hint = ValueHint::DirPath)]
    pub(crate) peers: Option<Option<PathBuf>>,

    /// Directory for the images [default: that of temporary files]
    ///
    /// Images are also extracted there if they do not fit into memory.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) scratch: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) measuring: MeasuringArgs,
}

/// Parses block sizes that both formats support.
fn image_blocks(text: &str) -> Result<ValueList<usize>, String> {
    let sizes = blocks(text)?;
    let least = block("4K")?;
    let most = block("1M")?;
    match sizes.0.iter().find(|size| !size.is_power_of_two() || !(least..=most).contains(*size)) {
        Some(size) => Err(format!("{size} bytes; accepted: powers of two from 4K to 1M")),
        None => Ok(sizes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codecs_and_blocks_are_those_of_images() {
        let read = |text: &str| choices(text).map(|all| all.0.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(read("lz4hc:12,none,zstd").unwrap(), ["lz4hc:12", "none", "zstd:15"]);
        assert!(read("lz4,bzip2").unwrap_err().contains("unknown codec `bzip2`"));
        assert_eq!(image_blocks("4K..16K").map(|sizes| sizes.0), Ok(vec![4096, 8192, 16_384]));
        for text in ["2K", "2M", "12K"] {
            assert!(image_blocks(text).unwrap_err().contains("powers of two from 4K to 1M"), "{text}");
        }
    }
}
