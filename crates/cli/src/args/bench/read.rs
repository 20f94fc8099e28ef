//! `packfs bench read` as typed.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::super::known::{self, Known};
use super::measuring::{Choices, Measuring, Sizes, block, blocks, choices};

/// Measure how fast images are read, by the kernel and by programs.
///
/// Takes images, or makes them of a directory: by packfs, mksquashfs and mkfs.erofs, in blocks and with codecs of your
/// choice. As root each is mounted anew for every measurement, where only this program sees it, and read with caches
/// dropped: all files in order, 500 of them and all of them at random, their data or their metadata; and with fio the
/// largest file, 4 KiB at a time. packfs, unsquashfs, sqfs2tar and fsck.erofs read whole images, as any user. What is
/// not installed or not permitted is named, and the rest is measured.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs bench read root.sqfs root.erofs
  packfs bench read --matrix /srv/root --blocks 4K..128K --codecs lz4hc:12,zstd:15,none
  packfs bench read --matrix /srv/root --peers /opt/erofs-utils/bin --runs 9 --resume")]
pub(crate) struct Read {
    /// Images to read
    #[arg(value_name = "IMAGE", required_unless_present = "matrix", value_hint = ValueHint::FilePath)]
    pub(crate) images: Vec<PathBuf>,

    /// Make images of this directory and read them; they are removed afterwards
    #[arg(long, value_name = "SOURCE", conflicts_with = "images", value_hint = ValueHint::DirPath)]
    pub(crate) matrix: Option<PathBuf>,

    /// A first look: one measurement each, of the smallest and the largest blocks, without fio and without readings that
    /// take long
    #[arg(long, conflicts_with = "runs")]
    pub(crate) quick: bool,

    /// Codecs of the images to make, as --codec of `packfs build` takes them, with colons between options
    #[arg(short, long, value_name = "LIST", default_value = "lz4hc:12,none", requires = "matrix",
        value_parser = Known::new(choices, known::image_codecs), hide_possible_values = true)]
    pub(crate) codecs: Choices,

    /// Their blocks or clusters: a list, or a range of powers of two such as 4K..1M
    #[arg(short, long, value_name = "LIST", default_value = "4K,16K,64K,128K", value_parser = image_blocks,
        requires = "matrix")]
    pub(crate) blocks: Sizes,

    /// Let other programs make and read images too, those in DIR before those on PATH: mksquashfs, mkfs.erofs,
    /// unsquashfs, sqfs2tar, fsck.erofs
    #[arg(long, value_name = "DIR", num_args = 0..=1, value_hint = ValueHint::DirPath)]
    pub(crate) peers: Option<Option<PathBuf>>,

    /// Where images are made, and extracted if they do not fit into memory [default: the directory for temporary files]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) scratch: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) measuring: Measuring,
}

/// Parses block sizes that both formats support.
fn image_blocks(text: &str) -> Result<Sizes, String> {
    let sizes = blocks(text)?;
    let (least, most) = (block("4K")?, block("1M")?);
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
