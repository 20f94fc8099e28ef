//! `-E`: extended options become features.

use packfs_image::tree::parse_c_number;

/// Features that mkfs.erofs has off, and packfs on where they serve.
const OFF: [&str; 5] = ["fragments", "all-fragments", "dedupe", "ztailpacking", "chunks"];

/// Features of compressed files; mkfs.erofs accepts them without a compressor, too, and does nothing.
const COMPRESSED: [&str; 5] = ["fragments", "all-fragments", "ztailpacking", "legacy-compress", "compressed-dirs"];

/// Features in the order of the bits of `--zfeature-bits`.
const BITS: [&str; 8] =
    ["legacy-compress", "ztailpacking", "fragments", "all-fragments", "dedupe", "fragdedupe", "48bit", "dot-omitted"];

/// The features asked for.
#[derive(Debug, Default)]
pub(super) struct ExtendedOptions {
    /// Words of `--features`, the last of a name counts.
    words: Vec<String>,
    /// Cluster size of the packed inode.
    pub(super) fragment_cluster: Option<String>,
    /// True if all files get one time, for which compact inodes have room.
    pub(super) ignore_mtime: bool,
}

impl ExtendedOptions {
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
            // Without fragments for whole files there are none for tails, either.
            ("all-fragments", None) if !on => {
                self.set("all-fragments", false);
                self.set("fragments", false);
            }
            (
                "fragments" | "all-fragments" | "dedupe" | "ztailpacking" | "48bit" | "legacy-compress" | "dot-omitted",
                None,
            ) => {
                self.set(name, on);
            }
            ("inline_data", None) => self.set("inline-data", on),
            ("noinline_data", None) => self.set("inline-data", !on),
            // The last of these two counts.
            ("force-inode-extended", None) => {
                self.set("extended-inodes", true);
                self.forget("compact-inodes");
            }
            ("force-inode-compact", None) => {
                self.set("compact-inodes", true);
                self.forget("extended-inodes");
                // A compact inode has no time of its own, so the time of the image stands for all.
                self.ignore_mtime = true;
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
            ("fragdedupe", _) | ("xattr-name-filter" | "plain-xattr-prefixes", None) => {}
            _ => return Err(format!("-E {word}: there is no such option")),
        }
        Ok(())
    }

    /// Takes the value of `--zfeature-bits`: the features up to the highest bit that is set are turned on or off.
    pub(super) fn take_bits(&mut self, text: &str) -> Result<(), String> {
        let bits = parse_c_number(text).filter(|bits| *bits < 1 << BITS.len());
        let bits =
            bits.ok_or_else(|| format!("--zfeature-bits {text}: expected a number below {}", 1 << BITS.len()))?;
        // As in mkfs.erofs, bits above the highest one that is set leave their features alone.
        for (bit, feature) in BITS.iter().enumerate().take_while(|(bit, _)| bits >> bit > 0) {
            let is_on = bits >> bit & 1 == 1;
            self.take_word(&if is_on { (*feature).to_owned() } else { format!("^{feature}") })?;
        }
        Ok(())
    }

    /// Cancels earlier settings of a feature.
    fn forget(&mut self, feature: &str) {
        self.words.retain(|word| word.trim_start_matches('^') != feature);
    }

    pub(super) fn set(&mut self, feature: &str, on: bool) {
        self.forget(feature);
        self.words.push(if on { feature.into() } else { format!("^{feature}") });
    }

    /// Returns true if a feature was asked for.
    pub(super) fn has(&self, feature: &str) -> bool {
        self.words.iter().any(|word| word == feature)
    }

    /// Returns the value of `--features`. Features that mkfs.erofs leaves off are off, unless `fast`. A metabox needs
    /// 48-bit addresses.
    pub(super) fn features(mut self, fast: bool, compressed: bool, has_metabox: bool) -> Option<String> {
        // Indexes for kernels before 5.3 serve nothing in an image that needs 6.15.
        if has_metabox || self.has("48bit") || self.has("dot-omitted") {
            self.forget("legacy-compress");
        }
        for feature in OFF.into_iter().filter(|_| !fast) {
            // What the command line sets, on or off, stays as it is.
            let known = self.words.iter().any(|word| word.trim_start_matches('^') == feature);
            // `^fragments` would cancel it.
            let implied = feature == "fragments" && self.has("all-fragments");
            if !known && !implied {
                self.set(feature, false);
            }
        }
        // Of features that do nothing without a compressor packfs would complain.
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
            let mut extended = ExtendedOptions::default();
            texts.iter().for_each(|text| extended.take(text).unwrap());
            assert_eq!(extended.features(false, true, false).as_deref(), Some(features));
        }
        let mut small = ExtendedOptions::default();
        small.take("all-fragments=16384,nosbcrc,force-inode-compact").unwrap();
        assert_eq!((small.fragment_cluster.as_deref(), small.ignore_mtime), (Some("16384"), true));
        let words = small.features(true, true, false);
        assert_eq!(words.as_deref(), Some("all-fragments,^checksum,compact-inodes"));
        assert_eq!(ExtendedOptions::default().features(true, true, false), None);
        let mut extended = ExtendedOptions::default();
        extended.take("fragments,dedupe").unwrap();
        assert_eq!(extended.features(false, false, false).as_deref(), Some("dedupe,^chunks"));
        for (bits, features) in [
            ("6", "^legacy-compress,ztailpacking,fragments"),
            ("0x10", "^legacy-compress,^ztailpacking,^all-fragments,^fragments,dedupe"),
            ("0", ""),
            ("128", "^legacy-compress,^ztailpacking,^all-fragments,^fragments,^dedupe,^48bit,dot-omitted"),
        ] {
            let mut extended = ExtendedOptions::default();
            extended.take_bits(bits).unwrap();
            assert_eq!(extended.words.join(","), features, "{bits}");
        }
        let mut last = ExtendedOptions::default();
        last.take("force-inode-compact,force-inode-extended,^fragdedupe,fragdedupe").unwrap();
        assert_eq!(last.words, ["extended-inodes"]);
        assert!(["256", "-1", "x"].iter().all(|wrong| ExtendedOptions::default().take_bits(wrong).is_err()));
        for wrong in ["nosuch", "^fragments=4096", "dedupe=1"] {
            assert!(ExtendedOptions::default().take(wrong).is_err(), "{wrong}");
        }
    }
}
