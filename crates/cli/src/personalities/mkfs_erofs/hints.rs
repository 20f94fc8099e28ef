//! `--compress-hints`: lines of a cluster size, perhaps the number of a compressor, and a regular expression, as rules. The
//! first line that matches a file counts.

use crate::personalities::rules::{lines, word};

/// Rules of a file of hints.
#[derive(Debug, Default)]
pub(super) struct Hints {
    pub(super) rules: Vec<String>,
    /// Cluster sizes other than 0, which have to be that of the image.
    pub(super) clusters: Vec<u64>,
}

impl Hints {
    pub(super) fn read(file: &str) -> Result<Self, String> {
        let mut hints = Hints::default();
        lines("--compress-hints", file, |line| hints.take(line))?;
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
        if size > 0 && compressor != "0" {
            return Err(format!("compressor {compressor}: packfs has one codec for all files of an image"));
        }
        let effect = if size == 0 { "store stop" } else { "stop" };
        self.rules.push(format!("{} type=file -> {effect}", word("regex", pattern)?));
        self.clusters.extend((size > 0).then_some(size));
        Ok(())
    }

    /// Returns true if files are to be stored.
    pub(super) fn store(&self) -> bool {
        self.rules.iter().any(|rule| rule.ends_with("store stop"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_become_rules() {
        let mut hints = Hints::default();
        for line in ["0 \\.jpg$", "65536 0 ^usr/", "4096 x"] {
            hints.take(line).unwrap();
        }
        assert_eq!(
            hints.rules,
            ["regex=\\.jpg$ type=file -> store stop", "regex=^usr/ type=file -> stop", "regex=x type=file -> stop"]
        );
        assert_eq!((hints.clusters.as_slice(), hints.store()), (&[65536, 4096][..], true));
        for (line, why) in [("x", "expected: SIZE"), ("4K x", "4K: expected"), ("4096 1 x", "one codec for all")] {
            assert!(hints.take(line).unwrap_err().contains(why), "{line}");
        }
    }
}
