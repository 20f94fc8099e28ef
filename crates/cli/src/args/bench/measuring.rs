//! Options shared by all kinds of measurements.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use packfs_bench::codecs::CodecMethod;
use packfs_codec::Choice;

use super::super::TalkArgs;
use super::super::value::{self, ValueList};

/// Number of measurements, and target of the samples.
#[derive(Debug, Clone, Args)]
pub(crate) struct MeasuringArgs {
    /// Number of measurements of each cell
    #[arg(long, value_name = "N", default_value = "5", value_parser = runs)]
    pub(crate) runs: u32,

    /// Seed of the order, and of generated data
    #[arg(long, value_name = "N", default_value = "1", value_parser = value::count::<u64>)]
    pub(crate) seed: u64,

    /// File to append samples to
    #[arg(short, long, value_name = "RESULTS", default_value = "packfs-bench.jsonl", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,

    /// Continue the last session in RESULTS
    ///
    /// The session must have been started on this machine with the same options.
    #[arg(long)]
    pub(crate) resume: bool,

    /// True if the command has --resume.
    #[arg(skip = true)]
    pub(crate) resumable: bool,

    /// Print the results as JSON
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) talk: TalkArgs,
}

fn runs(text: &str) -> Result<u32, String> {
    text.parse().ok().filter(|runs| *runs > 0).ok_or_else(|| "expected a number of measurements, 1 or more".into())
}

pub(super) fn choices(text: &str) -> Result<ValueList<Choice>, String> {
    let choice = |method| match method {
        CodecMethod::Choice(choice) => Ok(choice),
        other => Err(format!("no image has {other}")),
    };
    let methods = CodecMethod::list(text).map_err(|error| error.to_string())?;
    methods.into_iter().map(choice).collect::<Result<_, _>>().map(ValueList)
}

/// Parses one block size.
pub(super) fn block(text: &str) -> Result<usize, String> {
    match usize::try_from(value::size(text)?) {
        Ok(size) if (1..=LARGEST).contains(&size) => Ok(size),
        _ => Err("accepted: 1 to 64M".into()),
    }
}

/// No file system has larger blocks.
const LARGEST: usize = 64 << 20;

/// Parses several block sizes, or a range of powers of two.
pub(super) fn blocks(text: &str) -> Result<ValueList<usize>, String> {
    let mut sizes = Vec::new();
    for part in text.split(',') {
        match part.split_once("..") {
            None => sizes.push(block(part)?),
            Some((first, last)) => {
                let first = block(first)?;
                let last = block(last)?;
                if !first.is_power_of_two() || first > last {
                    return Err(format!("{part}: a range begins with a power of two and ends above it, as 4K..1M"));
                }
                sizes
                    .extend(std::iter::successors(Some(first), |size| Some(size * 2)).take_while(|size| *size <= last));
            }
        }
    }
    sizes.sort_unstable();
    sizes.dedup();
    Ok(ValueList(sizes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_sizes_are_read() {
        let read = |text| blocks(text).map(|sizes| sizes.0);
        assert_eq!(read("128K,8K,8K"), Ok(vec![8192, 131_072]));
        assert_eq!(read("4K..32K,1M").unwrap(), [4096, 8192, 16_384, 32_768, 1 << 20]);
        for text in ["", "0", "5K..40K", "8K..4K", "65M"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
