//! `packfs bench split` as typed.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use packfs_bench::memory::PageShares;
use packfs_bench::split::DiskProfile;

use super::super::known::{self, NamedValueParser};
use super::super::value::{self, ValueList};
use super::measuring::MeasuringArgs;

/// Measure how fast a dump is split over several disks and joined.
///
/// Prints time and speed-up for each codec and number of outputs, the utilisation of the disks, the cost of disks of
/// different speeds, and the speed of joining and checking. Disks are simulated (pipes with a limited speed) or
/// directories on real disks. Everything that was written is removed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs bench split
  packfs bench split --disks 200 --disks 100,100,400 --outputs 1,2,4 --codecs raw,lz4,zstd:3
  packfs bench split --data /var/crash/core --dirs /mnt/a /mnt/b /mnt/c --makedumpfile makedumpfile")]
pub(crate) struct BenchSplitArgs {
    /// Files to split, each a data set of its own
    ///
    /// The default is data like the memory of a machine, and data that does not compress.
    #[arg(long, value_name = "FILE", num_args = 1.., value_hint = ValueHint::FilePath)]
    pub(crate) data: Vec<PathBuf>,

    /// Size of each generated data set
    #[arg(long, value_name = "SIZE", default_value = "128M", value_parser = value::size, conflicts_with = "data")]
    pub(crate) size: u64,

    /// Shares of the kinds of pages in data like memory
    #[arg(long, value_name = "KIND=SHARE,...", default_value_t, conflicts_with = "data")]
    pub(crate) shares: PageShares,

    /// Codecs, as `split --codec` takes them
    ///
    /// Options of one codec are joined by colons.
    #[arg(short, long, value_name = "LIST", default_value = "raw,lzo,snappy,lz4,zstd:1",
        value_parser = NamedValueParser::new(codecs, known::dump_codecs), hide_possible_values = true)]
    pub(crate) codecs: ValueList<String>,

    /// Numbers of outputs: a list, or a range such as 1..8
    ///
    /// The default is 1..8, or one up to the number of directories.
    #[arg(long, value_name = "LIST", value_parser = outputs)]
    pub(crate) outputs: Option<ValueList<usize>>,

    /// Speeds of simulated disks in MB/s, as in 50,50,200 (repeat for more)
    ///
    /// 50 stands for disks of one speed, 50,50,200 for these three, 50@20 for a disk that fails after 20 MB. The
    /// default is 50, and then 50,50,50,200.
    #[arg(long, value_name = "SPEEDS")]
    pub(crate) disks: Vec<DiskProfile>,

    /// Directories for the parts, each on its own disk
    ///
    /// They replace the simulated disks.
    #[arg(long, value_name = "DIR", num_args = 1.., value_hint = ValueHint::DirPath, conflicts_with = "disks")]
    pub(crate) dirs: Vec<PathBuf>,

    /// Directory for temporary files
    ///
    /// Generated data, pipes and joined dumps go there. The default is the system's temporary directory.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) scratch: Option<PathBuf>,

    /// Measure nsplit, too: a program by its path or on PATH
    ///
    /// Its codecs are raw, lzo and snappy.
    #[arg(long, value_name = "PROGRAM", value_hint = ValueHint::CommandName)]
    pub(crate) nsplit: Option<PathBuf>,

    /// Measure `makedumpfile --split`, too
    ///
    /// It needs data that is an ELF core, and --dirs. Its codecs are raw, gzip, lzo, snappy and zstd.
    #[arg(long, value_name = "PROGRAM", value_hint = ValueHint::CommandName)]
    pub(crate) makedumpfile: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) measuring: MeasuringArgs,
}

fn codecs(text: &str) -> Result<ValueList<String>, String> {
    let mut codecs: Vec<String> = Vec::new();
    for codec in text.split(',') {
        packfs_dump::fastest_form(codec).parse::<packfs_codec::Choice>().map_err(|error| error.to_string())?;
        if !codecs.iter().any(|other| other == codec) {
            codecs.push(codec.to_owned());
        }
    }
    Ok(ValueList(codecs))
}

/// More simulated disks than this are more than one machine has.
const MOST: usize = 64;

fn outputs(text: &str) -> Result<ValueList<usize>, String> {
    let number = |text: &str| match text.parse() {
        Ok(number) if (1..=MOST).contains(&number) => Ok(number),
        _ => Err(format!("accepted: numbers from 1 to {MOST}, as in 1,2,4, and ranges, as in 1..8")),
    };
    let mut all = Vec::new();
    for part in text.split(',') {
        match part.split_once("..") {
            None => all.push(number(part)?),
            Some((first, last)) => {
                let first = number(first)?;
                let last = number(last)?;
                if first > last {
                    return Err(format!("{part}: a range begins with the smaller number"));
                }
                all.extend(first..=last);
            }
        }
    }
    all.sort_unstable();
    all.dedup();
    Ok(ValueList(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_outputs_are_read() {
        let read = |text| outputs(text).map(|outputs| outputs.0);
        assert_eq!(read("1..3,8,2"), Ok(vec![1, 2, 3, 8]));
        for text in ["", "0", "65", "3..1", "1..", "x"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn codecs_stay_as_they_were_written() {
        assert_eq!(codecs("raw,lzo,raw,zstd:3").unwrap().0, ["raw", "lzo", "zstd:3"]);
        for text in ["", "raw,", "bzip2", "zstd:99"] {
            assert!(codecs(text).is_err(), "{text}");
        }
    }
}
