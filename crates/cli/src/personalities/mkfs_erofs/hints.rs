//! `--compress-hints`: lines of a cluster size, perhaps the number of a compressor, and a regular expression, as rules. The
//! first line that matches a file counts.

use super::compressor::{ImageCodec, LinuxVersion};
use crate::output::say;
use crate::personalities::regex::{MatchSubject, translate_regex};
use crate::personalities::rules::{for_each_line, rule_word};

/// Of this the size of a cluster is a multiple, whatever the block.
const BLOCK_MIN: u64 = 512;

/// A line of a file of hints.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CompressHint {
    /// Size of a cluster in bytes; 0 stores the file.
    size: u64,
    /// Number of the compressor in the order of `-z`.
    compressor: usize,
    /// The regular expression, as a word of a rule.
    test: String,
}

/// The lines of a file of hints.
#[derive(Debug, Default)]
pub(super) struct CompressHints(Vec<CompressHint>);

impl CompressHints {
    pub(super) fn read(file: &str) -> Result<Self, String> {
        let mut hints = CompressHints::default();
        for_each_line("--compress-hints", file, |line| hints.take(line))?;
        Ok(hints)
    }

    fn take(&mut self, line: &str) -> Result<(), String> {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (size, compressor, pattern) = match fields[..] {
            [size, pattern] => (size, "0", pattern),
            [size, compressor, pattern] => (size, compressor, pattern),
            _ => return Err("expected: SIZE [COMPRESSOR] PATTERN".into()),
        };
        let size: u64 = size.parse().map_err(|_| format!("{size}: expected the size of a cluster in bytes"))?;
        let compressor =
            compressor.parse().map_err(|_| format!("{compressor}: expected the number of a compressor"))?;
        // As mkfs.erofs does with a warning, too.
        if !size.is_multiple_of(BLOCK_MIN) {
            // A line that is dropped is no reason to fail: scripts have hints for other block sizes.
            say(format_args!("mkfs.erofs: --compress-hints: {size} is not a cluster size: ignored"));
            return Ok(());
        }
        // The pattern is translated now, so that an error has the number of its line.
        self.0.push(CompressHint {
            size,
            compressor,
            test: rule_word("regex", &translate_regex(pattern, MatchSubject::Path)?)?,
        });
        Ok(())
    }

    /// Returns the rules for files packed with one of `codecs`, the first of which is that of the image. Without codecs
    /// nothing is compressed, and hints do nothing.
    pub(super) fn rules(&self, codecs: &[ImageCodec]) -> Result<Vec<String>, String> {
        if codecs.is_empty() {
            return Ok(Vec::new());
        }
        let rule = |hint: &CompressHint| {
            let CompressHint { size, compressor, test } = hint;
            let (codec, _) = codecs.get(*compressor).ok_or_else(|| {
                format!("--compress-hints: compressor {compressor}: -z names {}, counted from 0", codecs.len())
            })?;
            let effect = match (size, compressor) {
                (0, _) => "store".to_owned(),
                (size, 0) => format!("cluster={size}"),
                (size, _) => format!("cluster={size} codec={codec}"),
            };
            // `stop`, as the first line that matches counts, while of rules the last one would.
            Ok(format!("{test} type=file -> {effect} stop"))
        };
        self.0.iter().map(rule).collect()
    }

    /// Returns the oldest Linux that reads what the hints ask for, if it is newer than packfs's default.
    pub(super) fn kernel(&self, codecs: &[ImageCodec]) -> Option<LinuxVersion> {
        let needed = |hint: &CompressHint| match hint.size {
            // What the rule `store` needs.
            0 => Some((5, 15)),
            _ => codecs.get(hint.compressor)?.1,
        };
        self.0.iter().filter_map(needed).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_become_rules() {
        let mut hints = CompressHints::default();
        for line in ["0 \\.jpg$", "65536 0 ^usr/", "4096 x", "8192 1 y", "1048577 z"] {
            hints.take(line).unwrap();
        }
        let codecs = [("lz4".to_owned(), None), ("zstd:3".to_owned(), Some((6, 10)))];
        assert_eq!(
            hints.rules(&codecs).unwrap(),
            [
                "regex=\\.jpg$ type=file -> store stop",
                "regex=^usr/ type=file -> cluster=65536 stop",
                "regex=x type=file -> cluster=4096 stop",
                "regex=y type=file -> cluster=8192 codec=zstd:3 stop"
            ]
        );
        assert_eq!(hints.kernel(&codecs), Some((6, 10)));
        assert_eq!(hints.rules(&[]), Ok(Vec::new()));
        assert!(hints.rules(&codecs[..1]).unwrap_err().contains("compressor 1: -z names 1"));
        for (line, why) in [("x", "expected: SIZE"), ("4K x", "4K: expected"), ("4096 a x", "a: expected the number")] {
            assert!(hints.take(line).unwrap_err().contains(why), "{line}");
        }
    }
}
