//! Random command lines: options drawn from alternatives, judged one line after the other, and cut down to the words that
//! matter where two programs differ.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use packfs_blocks::testing::Random;

use super::examples::ManualExample;
use crate::common::program::text;

/// Lines for each program unless `PACKFS_DIFFERENTIAL` has another number.
const LINES: u64 = 12;
/// Seed unless `PACKFS_DIFFERENTIAL_SEED` has another.
const SEED: u64 = 1;
/// Differences after which a program is not tried any more.
const DIFFERENCES_MAX: usize = 8;
/// Differences that are expected of a line; others make the test fail.
pub(crate) type Judged = Result<(), String>;

/// The command lines of a program.
pub(crate) struct Grammar {
    pub(crate) program: &'static str,
    /// Options: of each group a line has one alternative or none. `~` is a blank within a word.
    pub(crate) options: &'static [&'static [&'static str]],
    /// The words that are no options, one of which a line has.
    pub(crate) operands: &'static [&'static str],
}

/// A command line: options, and the words that are none.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) options: Vec<&'static str>,
    pub(crate) operands: &'static str,
}

impl Line {
    /// Returns true if an option begins like this.
    pub(crate) fn has(&self, begin: &str) -> bool {
        self.options.iter().any(|option| option.starts_with(begin))
    }

    /// Returns the line in which the operands precede the options, as programs take it whose last option may be a list.
    pub(crate) fn operands_first(&self) -> String {
        let last = |option: &&&str| option.starts_with("-e ") || option.contains(" -e ");
        let (lists, others): (Vec<&str>, Vec<&str>) = self.options.iter().partition(|option| last(option));
        [&[self.operands][..], &others, &lists].concat().join(" ").trim().to_owned()
    }

    /// Returns the line with the options in front.
    pub(crate) fn options_first(&self) -> String {
        [&self.options[..], &[self.operands]].concat().join(" ").trim().to_owned()
    }
}

/// Judges the examples of a manual, and panics with those for which two programs differ. Where packfs refuses a line,
/// `ours` runs packfs alone.
pub(crate) fn judge_examples(
    program: &str,
    examples: &[ManualExample],
    mut judge: impl FnMut(&Line) -> Judged,
    ours: impl Fn(&Line) -> Output,
) {
    let mut told: Vec<String> = Vec::new();
    for (words, refused) in examples {
        let line = Line { options: vec![*words], operands: "" };
        let judged = if refused.is_empty() {
            judge(&line)
        } else {
            let ran = ours(&line);
            let said = text(&ran.stderr);
            match !ran.status.success() && said.contains(*refused) {
                true => Ok(()),
                false => Err(format!("  not refused because {refused}: {said}\n")),
            }
        };
        if let Err(difference) = judged {
            told.push(format!("{program} {words}\n{difference}\n"));
        }
    }
    assert!(told.is_empty(), "{} examples differ:\n\n{}", told.len(), told.join("\n"));
}

/// Judges random lines of a program and panics with those for which two programs differ.
pub(crate) fn judge_lines(grammar: &Grammar, mut judge: impl FnMut(&Line) -> Judged) {
    let seed = number("PACKFS_DIFFERENTIAL_SEED").unwrap_or(SEED);
    let mut told: Vec<String> = Vec::new();
    for n in 0..number("PACKFS_DIFFERENTIAL").unwrap_or(LINES) {
        let mut random = Random::new(seed.wrapping_mul(1_000_003).wrapping_add(n));
        let line = draw(grammar, &mut random);
        if judge(&line).is_err() {
            let (line, difference) = shrunk(line, &mut judge);
            let text = format!("{} [{}] {}\n{difference}\n", grammar.program, line.operands, line.options.join(" "));
            if !told.contains(&text) {
                told.push(text);
            }
            if told.len() == DIFFERENCES_MAX {
                break;
            }
        }
    }
    assert!(told.is_empty(), "{} differences, seed {seed}:\n\n{}", told.len(), told.join("\n"));
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable}: {text}: no number")))
}

fn draw(grammar: &Grammar, random: &mut Random) -> Line {
    // Few options together reach the interesting combinations as well as many, and rule each other out less often.
    let likely = 1 + random.below(5);
    let mut options: Vec<&str> = Vec::new();
    for group in grammar.options {
        if random.below(grammar.options.len()) < likely {
            options.push(group[random.below(group.len())]);
        }
    }
    for last in (1..options.len()).rev() {
        options.swap(last, random.below(last + 1));
    }
    Line { options, operands: grammar.operands[random.below(grammar.operands.len())] }
}

/// Leaves out options one by one as long as the programs differ.
fn shrunk(mut line: Line, judge: &mut impl FnMut(&Line) -> Judged) -> (Line, String) {
    let mut difference = judge(&line).err().unwrap_or_else(|| "not the second time".into());
    let mut at = 0;
    while at < line.options.len() {
        let mut shorter = line.clone();
        shorter.options.remove(at);
        match judge(&shorter) {
            Err(still) => (line, difference) = (shorter, still),
            Ok(()) => at += 1,
        }
    }
    (line, difference)
}

/// Runs a command line in `dir`, with a file of it on standard input if there is one.
pub(crate) fn run(dir: &Path, program: impl AsRef<Path>, line: &str, stdin: Option<&str>) -> Output {
    let mut command = Command::new(program.as_ref());
    command.args(line.split(' ').map(|word| word.replace('~', " "))).current_dir(dir);
    command.env_remove("SOURCE_DATE_EPOCH").env("TZ", "Europe/Paris").env("LC_ALL", "C");
    let stdin = stdin.map_or_else(Stdio::null, |name| Stdio::from(std::fs::File::open(dir.join(name)).unwrap()));
    command.stdin(stdin).output().unwrap()
}

/// Fails with the lines that only one of two texts has.
pub(crate) fn same(what: &str, theirs: &str, ours: &str) -> Judged {
    if theirs == ours {
        return Ok(());
    }
    let only = |mark: &str, one: &str, other: &str| {
        let others: Vec<&str> = other.lines().collect();
        let lines = one.lines().filter(|line| !others.contains(line)).take(12);
        lines.map(|line| format!("  {mark} {line}\n")).collect::<String>()
    };
    let lines = only("-", theirs, ours) + &only("+", ours, theirs);
    Err(format!("{what}: (- theirs, + ours)\n{}", if lines.is_empty() { "  another order\n" } else { &lines }))
}

/// Fails if two runs ended with different statuses.
pub(crate) fn same_status(theirs: &Output, ours: &Output) -> Judged {
    let ended = |run: &Output| format!("status {:?}\n", run.status.code());
    same("status", &ended(theirs), &ended(ours))
        .map_err(|told| format!("{told}  theirs: {}\n  ours: {}", text(&theirs.stderr), text(&ours.stderr)))
}

/// Returns the lines of a program without its bar, which it draws again and again in one line, and without empty ones.
pub(crate) fn without_bar(printed: &[u8]) -> String {
    let printed = text(printed);
    let lines = printed.lines().map(|line| line.rsplit('\r').next().unwrap_or(line));
    let is_bar = |line: &&str| line.starts_with('[') && line.ends_with('%');
    lines.filter(|line| !is_bar(line) && !line.is_empty()).flat_map(|line| [line, "\n"]).collect()
}
