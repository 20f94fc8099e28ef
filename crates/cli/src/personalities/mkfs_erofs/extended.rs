//! `-E`: extended options become features.

/// Features that mkfs.erofs has off, and packfs on where they serve.
const OFF: [&str; 5] = ["fragments", "all-fragments", "dedupe", "ztailpacking", "chunks"];

/// Features of compressed files; mkfs.erofs accepts them without a compressor, too, and does nothing.
const COMPRESSED: [&str; 5] = ["fragments", "all-fragments", "ztailpacking", "legacy-compress", "compressed-dirs"];

/// The features asked for.
#[derive(Debug, Default)]
pub(super) struct Extended {
    /// Words of `--features`, the last of a name counts.
    words: Vec<String>,
    /// Cluster size of the packed inode.
    pub(super) fragment_cluster: Option<String>,
    /// True if all files get one time, for which compact inodes have room.
    pub(super) ignore_mtime: bool,
}

impl Extended {
    /// Takes the value of an option `-E`.
    pub(super) fn take(&mut self, text: &str) -> Result<(), String> {
        text.split(',').filter(|word| !word.is_empty()).try_for_each(|word| self.take_word(word))
    }

    fn take_word(&mut self, word: &str) -> Result<(), String> {
        let (plain, on) = match word.strip_prefix('^') {
            Some(plain) => (plain, false),
            None => (word, true),
        };
        let (name, value) = plain.split_once('=').map_or((plain, None), |(name, value)| (name, Some(value)));
        match (name, value) {
            (
                "fragments" | "all-fragments" | "dedupe" | "ztailpacking" | "48bit" | "legacy-compress" | "dot-omitted",
                None,
            ) => {
                self.set(name, on);
            }
            ("inline_data", None) => self.set("inline-data", on),
            ("noinline_data", None) => self.set("inline-data", !on),
            ("force-inode-extended", None) => self.set("extended-inodes", on),
            ("force-inode-compact", None) => {
                self.set("compact-inodes", on);
                self.ignore_mtime |= on;
            }
            ("force-chunk-indexes", None) => self.set("chunk-indexes", on),
            ("force-inode-blockmap", None) => self.set("chunk-indexes", !on),
            ("nosbcrc", None) => self.set("checksum", !on),
            ("fragments" | "all-fragments", Some(size)) if on => {
                self.set(name, on);
                self.fragment_cluster = Some(size.to_owned());
            }
            // Fragments are found by their content in any case. The others change how names are stored, not what a reader
            // sees.
            ("fragdedupe", Some("off" | "inode" | "full")) | ("xattr-name-filter" | "plain-xattr-prefixes", None) => {}
            _ => return Err(format!("-E {word}: there is no such option")),
        }
        Ok(())
    }

    pub(super) fn set(&mut self, feature: &str, on: bool) {
        self.words.retain(|word| word.trim_start_matches('^') != feature);
        self.words.push(if on { feature.into() } else { format!("^{feature}") });
    }

    /// Returns true if a feature was asked for.
    pub(super) fn has(&self, feature: &str) -> bool {
        self.words.iter().any(|word| word == feature)
    }

    /// Returns the value of `--features`; what mkfs.erofs has off is off, unless `fast`.
    pub(super) fn features(mut self, fast: bool, compressed: bool) -> Option<String> {
        for feature in OFF.into_iter().filter(|_| !fast) {
            let known = self.words.iter().any(|word| word.trim_start_matches('^') == feature);
            let implied = feature == "fragments" && self.has("all-fragments");
            if !known && !implied {
                self.set(feature, false);
            }
        }
        self.words.retain(|word| compressed || !COMPRESSED.contains(&word.trim_start_matches('^')));
        (!self.words.is_empty()).then(|| self.words.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extended_options_become_features() {
        for (texts, features) in [
            (&[][..], "^fragments,^all-fragments,^dedupe,^ztailpacking,^chunks"),
            (&["fragments,dedupe", "^dedupe"], "fragments,^dedupe,^all-fragments,^ztailpacking,^chunks"),
            (
                &["all-fragments,fragdedupe=inode,noinline_data"],
                "all-fragments,^inline-data,^dedupe,^ztailpacking,^chunks",
            ),
        ] {
            let mut extended = Extended::default();
            texts.iter().for_each(|text| extended.take(text).unwrap());
            assert_eq!(extended.features(false, true).as_deref(), Some(features));
        }
        let mut small = Extended::default();
        small.take("all-fragments=16384,nosbcrc,force-inode-compact").unwrap();
        assert_eq!((small.fragment_cluster.as_deref(), small.ignore_mtime), (Some("16384"), true));
        let words = small.features(true, true);
        assert_eq!(words.as_deref(), Some("all-fragments,^checksum,compact-inodes"));
        assert_eq!(Extended::default().features(true, true), None);
        let mut extended = Extended::default();
        extended.take("fragments,dedupe").unwrap();
        assert_eq!(extended.features(false, false).as_deref(), Some("dedupe,^chunks"));
        for wrong in ["nosuch", "^fragments=4096", "dedupe=1", "fragdedupe=x"] {
            assert!(Extended::default().take(wrong).is_err(), "{wrong}");
        }
    }
}
