//! `packfs tune`, and the builds to choose between.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, Parser, ValueEnum, ValueHint};
use packfs_bench::tune::TuneCandidate;
use packfs_bench::tune::candidates::{EROFS, EROFS_CLUSTERS, SQUASHFS, SQUASHFS_BLOCKS};
use packfs_bench::tune::choose::{TuneGoal, TuneLimits};
use packfs_image::OnError;
use packfs_image::erofs::Kernel;

use super::known::{self, NamedValueParser};
use super::{BuildPreset, FormatChoice, PackfsCli, PackfsCommand, TalkArgs, refused, value};
use crate::output::failure::UsageError;

/// Find the settings of `packfs build` that suit a source best.
///
/// Tries codecs, levels and block sizes on a sample of SOURCE with the real writers, and predicts for each the size of
/// the image, the build time and the read speed. Prints the Pareto front, and the command that builds the best image
/// for the goal within the limits. Only temporary files are written.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs tune /srv/root --goal size --max-time 2m
  packfs tune root.tar --goal read --max-size 700M --format erofs --target-kernel 6.12
  packfs tune /srv/root --min-read 500 --chart tune.html --json")]
pub(crate) struct TuneArgs {
    /// Source to pack: directory, file, archive, image or @packlist
    #[arg(value_name = "SOURCE", value_hint = ValueHint::AnyPath)]
    pub(crate) source: PathBuf,

    /// Goal: size, speed (of the build), read, or balanced
    ///
    /// `size` is the smallest image, `speed` the shortest build, `read` the fastest reads.
    #[arg(long, value_name = "GOAL", default_value = "balanced", value_parser = NamedValueParser::<TuneGoal>::of(TuneGoal::names),
        hide_possible_values = true)]
    pub(crate) goal: TuneGoal,

    /// Largest image to accept
    #[arg(long, value_name = "SIZE", value_parser = value::size)]
    pub(crate) max_size: Option<u64>,

    /// Longest build to accept: seconds, or as in 90s, 5m, 1h
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) max_time: Option<f64>,

    /// Slowest reads by one thread to accept, in MB/s
    ///
    /// 1 MB/s is a million bytes per second.
    #[arg(long, value_name = "MB/S", value_parser = speed)]
    pub(crate) min_read: Option<f64>,

    /// Format of the image [default: try both]
    #[arg(long, value_enum)]
    pub(crate) format: Option<FormatChoice>,

    /// Codecs to try, as `build --codec` takes them [default: a selection]
    ///
    /// Options of one codec are joined by colons, as in xz:6:bcj=x86.
    #[arg(short, long, value_name = "LIST", value_delimiter = ',',
        value_parser = NamedValueParser::<String>::of(known::image_codecs), hide_possible_values = true)]
    pub(crate) codecs: Vec<String>,

    /// Block sizes to try, for EROFS cluster sizes
    ///
    /// The default is 32K,128K,1M; for EROFS 16K,64K,256K.
    #[arg(short, long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) blocks: Vec<String>,

    /// Oldest Linux that must read EROFS images [default: 6.1]
    #[arg(long, value_name = "VERSION", value_parser = NamedValueParser::<Kernel>::of(Kernel::known), hide_possible_values = true)]
    pub(crate) target_kernel: Option<Kernel>,

    /// Amount of the source on which the slowest codecs are tried
    ///
    /// Faster codecs are tried on up to 4 times as much, and large blocks on twice as much. A source that is no larger
    /// is built completely, and nothing is predicted.
    #[arg(long, value_name = "SIZE", default_value = "12M", value_parser = sample)]
    pub(crate) sample: u64,

    /// Seed for the choice of the sample
    #[arg(long, value_name = "N", default_value = "1", value_parser = value::count::<u64>)]
    pub(crate) seed: u64,

    /// Number of worker threads, also in the command [default: all cores]
    #[arg(short = 'j', long = "jobs", value_name = "N", value_parser = value::jobs)]
    pub(crate) jobs: Option<usize>,

    /// Write a page with charts
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) chart: Option<PathBuf>,

    /// Replace FILE if it exists
    #[arg(short, long)]
    pub(crate) force: bool,

    /// Print everything as JSON
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) talk: TalkArgs,
}

/// A way to build: the words of its command, and what they come down to.
#[derive(Debug)]
pub(crate) struct TrialBuild {
    pub(crate) command: Vec<OsString>,
    pub(crate) candidate: TuneCandidate,
}

/// All ways to be tried, and why others are not.
#[derive(Debug, Default)]
pub(crate) struct TrialBuilds {
    pub(crate) all: Vec<TrialBuild>,
    pub(crate) refused: Vec<String>,
}

impl TrialBuilds {
    /// Adds a way, unless an earlier one has the same settings.
    fn add(&mut self, command: Vec<OsString>) {
        match resolve_candidate(&command) {
            Ok(candidate) if self.all.iter().any(|way| way.candidate.settings == candidate.settings) => {}
            Ok(candidate) => self.all.push(TrialBuild { command, candidate }),
            Err(why) if self.refused.contains(&why) => {}
            Err(why) => self.refused.push(why),
        }
    }
}

impl TuneArgs {
    /// The limits.
    pub(crate) fn limits(&self) -> TuneLimits {
        TuneLimits::default().set(|all| {
            all.size = self.max_size;
            all.seconds = self.max_time;
            all.read = self.min_read;
        })
    }

    /// Returns the ways to try.
    pub(crate) fn trial_builds(&self) -> Result<TrialBuilds, UsageError> {
        if self.source.as_os_str() == "-" {
            return Err(UsageError("standard input can be read only once: give tune a file".into()));
        }
        let mut ways = TrialBuilds::default();
        for (format, codecs, blocks) in
            [(FormatChoice::Squashfs, SQUASHFS, SQUASHFS_BLOCKS), (FormatChoice::Erofs, EROFS, EROFS_CLUSTERS)]
        {
            if self.format.is_none_or(|only| only == format) {
                if self.codecs.is_empty() && self.blocks.is_empty() {
                    self.presets(format, &mut ways);
                }
                let codecs = given_or(&self.codecs, codecs);
                let blocks = given_or(&self.blocks, blocks);
                self.of_format(format, &codecs, &blocks, &mut ways);
            }
        }
        match ways.refused.first() {
            Some(why) if ways.all.is_empty() => Err(UsageError(why.clone())),
            _ => Ok(ways),
        }
    }

    /// Adds what `--preset` stands for; these come first, so that what is equal is called by that name.
    fn presets(&self, format: FormatChoice, ways: &mut TrialBuilds) {
        for preset in BuildPreset::value_variants().iter().filter_map(BuildPreset::to_possible_value) {
            ways.add(self.command(format, &["--preset", preset.get_name()]));
        }
    }

    fn of_format(&self, format: FormatChoice, codecs: &[String], blocks: &[String], ways: &mut TrialBuilds) {
        for codec in codecs {
            for block in blocks {
                ways.add(self.command(format, &["--codec", codec, "-b", block]));
            }
        }
    }

    /// Returns the command for a build with these options.
    fn command(&self, format: FormatChoice, options: &[&str]) -> Vec<OsString> {
        let ending = if format == FormatChoice::Erofs { "erofs" } else { "sqfs" };
        let mut name = image_stem(&self.source);
        name.push(format!(".{ending}"));
        let mut words: Vec<OsString> = vec!["packfs".into(), "build".into(), value::operand(&self.source)];
        words.extend(["-o".into(), name]);
        words.extend(options.iter().map(OsString::from));
        if let Some(kernel) = self.target_kernel.filter(|_| format == FormatChoice::Erofs) {
            words.extend(["--target-kernel".into(), kernel.to_string().into()]);
        }
        if let Some(jobs) = self.jobs {
            words.extend(["-j".into(), jobs.to_string().into()]);
        }
        words
    }
}

/// Parses the words of a command, so that the measured build is the one that the command runs.
fn resolve_candidate(command: &[OsString]) -> Result<TuneCandidate, String> {
    let told = |error: clap::Error| refused::value(&error).unwrap_or_else(|| error.to_string());
    let cli = PackfsCli::try_parse_from(command).map_err(told)?;
    let PackfsCommand::Build(build) = cli.command else { return Err("not a build".into()) };
    let plan = build.resolve(None).map_err(|UsageError(text)| text)?;
    let mut target = plan.request.target;
    // Unreadable files are left out and reported.
    target.common_mut().on_error = OnError::Skip;
    Ok(TuneCandidate::new(target))
}

fn given_or(asked: &[String], default: &[&str]) -> Vec<String> {
    match asked {
        [] => default.iter().map(ToString::to_string).collect(),
        asked => asked.to_vec(),
    }
}

/// Returns the name of the image, derived from the source.
fn image_stem(source: &Path) -> OsString {
    let whole = source.canonicalize();
    let named = whole.as_deref().unwrap_or(source);
    let name = named.file_stem().map_or_else(|| "image".into(), OsString::from);
    // Dots in a directory's name are part of it.
    if named.is_dir() { named.file_name().map_or(name, OsString::from) } else { name }
}

fn seconds(text: &str) -> Result<f64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(TIMES.into()),
    };
    positive(digits).map(|number| number * unit).ok_or_else(|| TIMES.into())
}

const TIMES: &str = "expected seconds, or a number with s, m or h, as in 90s, 5m or 1.5h";

fn speed(text: &str) -> Result<f64, String> {
    positive(text).ok_or_else(|| "expected millions of bytes a second, as in 500".into())
}

fn positive(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0)
}

fn sample(text: &str) -> Result<u64, String> {
    match value::size(text)? {
        0 => Err("0 bytes tell nothing".into()),
        size => Ok(size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tune(args: &[&str]) -> TuneArgs {
        match PackfsCli::try_parse_from(["packfs", "tune"].iter().chain(args)).unwrap().command {
            PackfsCommand::Tune(tune) => *tune,
            _ => panic!("not tune"),
        }
    }

    fn text(way: &TrialBuild) -> String {
        let words: Vec<_> = way.command.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    #[test]
    fn ways_are_commands_that_mean_what_is_tried() {
        let ways = tune(&["/nowhere/a.tar", "--codecs", "zstd:9,xz:6:bcj=x86", "--blocks", "64K", "-j", "3"])
            .trial_builds()
            .unwrap();
        let commands: Vec<String> = ways.all.iter().map(text).collect();
        let want = [
            "packfs build /nowhere/a.tar -o a.sqfs --codec zstd:9 -b 64K -j 3",
            "packfs build /nowhere/a.tar -o a.sqfs --codec xz:6:bcj=x86 -b 64K -j 3",
        ];
        assert_eq!(commands, want);
        assert_eq!(ways.all[1].candidate.settings.to_string(), "squashfs xz:6:bcj=x86 64K");
        assert_eq!(ways.all[0].candidate.threads(), 3);
        // EROFS does not support xz, and zstd only in later kernels.
        assert!(ways.refused.iter().any(|why| why.contains("no xz")), "{:?}", ways.refused);
        assert!(ways.refused.iter().any(|why| why.contains("choose 6.10")), "{:?}", ways.refused);
        let newer = tune(&["x", "--format", "erofs", "--target-kernel", "6.12"]).trial_builds().unwrap();
        // Of the presets, `balanced` is one of the grid.
        assert_eq!(newer.all.len(), EROFS.len() * EROFS_CLUSTERS.len() + 1);
        assert!(newer.refused.is_empty() && text(&newer.all[0]).ends_with("--target-kernel 6.12"));
    }

    #[test]
    fn what_leaves_nothing_to_try_is_wrong_usage() {
        for (args, why) in [
            (&["-"][..], "only once"),
            (&["x", "--codecs", "bzip2"], "unknown codec"),
            (&["x", "--format", "squashfs", "--blocks", "5K"], "power of two"),
        ] {
            let UsageError(text) = tune(args).trial_builds().unwrap_err();
            assert!(text.contains(why), "{args:?}: {text}");
        }
    }

    #[test]
    fn sources_are_never_options_and_give_images_their_names() {
        assert_eq!(value::operand(Path::new("-x")), "./-x");
        assert_eq!(image_stem(Path::new("/nowhere/root.tar")), "root");
        assert_eq!(image_stem(Path::new("/")), "image");
    }

    #[test]
    fn times_and_speeds_are_positive_numbers() {
        let good = [("90", 90.0), ("1.5m", 90.0), ("2h", 7200.0), ("0.5s", 0.5)];
        for (text, want) in good {
            assert_eq!(seconds(text), Ok(want), "{text}");
        }
        for bad in ["", "s", "-1", "0", "1d", "nan", "inf"] {
            assert!(seconds(bad).is_err() && speed(bad).is_err(), "{bad}");
        }
    }
}
