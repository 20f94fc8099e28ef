//! The option `features`: words that turn EROFS features on, or off with a leading `^`.

use std::str::FromStr;

use super::options::Features;

/// A word, what it turns on, and whether the thing itself is the opposite of what the word says.
const WORDS: [(&str, Features, bool); 20] = [
    ("fragments", Features::FRAGMENTS, false),
    ("all-fragments", Features::ALL_FRAGMENTS, false),
    ("dedupe", Features::DEDUPE, false),
    ("ztailpacking", Features::ZTAILPACKING, false),
    ("48bit", Features::BITS_48, false),
    ("unaligned", Features::UNALIGNED, false),
    ("full-index", Features::FULL_INDEX, false),
    // What mkfs.erofs calls it.
    ("legacy-compress", Features::FULL_INDEX, false),
    ("chunks", Features::CHUNKS, false),
    ("inline-data", Features::NO_INLINE, true),
    ("extended-inodes", Features::EXTENDED_INODES, false),
    ("force-inode-extended", Features::EXTENDED_INODES, false),
    ("compressed-dirs", Features::COMPRESSED_DIRS, false),
    ("metabox", Features::METABOX, false),
    ("dot-omitted", Features::DOT_OMITTED, false),
    ("checksum", Features::NO_CHECKSUM, true),
    ("compact-inodes", Features::COMPACT_INODES, false),
    ("force-inode-compact", Features::COMPACT_INODES, false),
    ("chunk-indexes", Features::CHUNK_INDEXES, false),
    ("force-chunk-indexes", Features::CHUNK_INDEXES, false),
];

/// Requested changes; of two words about one feature the later counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FeatureChanges {
    /// Features to turn on.
    pub(crate) on: Features,
    /// Features to turn off.
    pub(crate) off: Features,
}

impl FeatureChanges {
    /// Returns true if any of these features was mentioned.
    pub(crate) fn mention(&self, features: Features) -> bool {
        (self.on | self.off).intersects(features)
    }

    /// Applies the changes to the default features.
    pub(crate) fn apply(&self, defaults: Features) -> Features {
        (defaults | self.on).difference(self.off)
    }

    /// Combines these changes with later ones.
    pub(crate) fn then(self, later: FeatureChanges) -> FeatureChanges {
        FeatureChanges { on: later.apply(self.on), off: self.off.difference(later.on) | later.off }
    }

    /// Turns one feature on or off.
    pub(crate) fn turn(&mut self, feature: Features, on: bool) {
        // Packing all files together includes packing tails together; the others require 48bit.
        let wide = Features::UNALIGNED | Features::METABOX | Features::DOT_OMITTED;
        let pairs = [(Features::FRAGMENTS, Features::ALL_FRAGMENTS), (Features::BITS_48, wide)];
        let goes_along = pairs.iter().find_map(|(base, more)| match on {
            true if more.contains(feature) => Some(*base),
            false if feature == *base => Some(*more),
            _ => None,
        });
        let changed = feature | goes_along.unwrap_or_default();
        let (to, from) = if on { (&mut self.on, &mut self.off) } else { (&mut self.off, &mut self.on) };
        to.insert(changed);
        from.remove(changed);
    }
}

/// Formats features as the words that turn them on, and off those that may be on by default.
pub(crate) fn in_words(features: Features) -> String {
    let defaults = Features::FRAGMENTS | Features::DEDUPE;
    let mut words: Vec<String> = Vec::new();
    let mut named = Features::empty();
    for (word, feature, opposite) in WORDS {
        let on = features.contains(feature);
        let first = !named.contains(feature);
        named |= feature;
        // Of several words for a feature the first one is used.
        if first && (on || defaults.contains(feature)) {
            words.push(if on == opposite { format!("^{word}") } else { word.to_owned() });
        }
    }
    words.join(",")
}

/// Returns the words.
pub(crate) fn words() -> Vec<&'static str> {
    WORDS.iter().map(|(word, ..)| *word).collect()
}

impl FromStr for FeatureChanges {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut changes = FeatureChanges::default();
        for word in text.split(',') {
            let name = word.strip_prefix('^').unwrap_or(word);
            let Some((_, feature, opposite)) = WORDS.iter().find(|(known, ..)| *known == name) else {
                let known = words().join(", ");
                return Err(format!("unknown feature `{name}`; accepted: {known}; ^NAME turns one off"));
            };
            let negated = name.len() < word.len();
            changes.turn(*feature, negated == *opposite);
        }
        Ok(changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_turn_features_on_and_off() {
        let table = [
            ("dedupe", Features::FRAGMENTS | Features::DEDUPE),
            ("^fragments", Features::empty()),
            ("all-fragments", Features::FRAGMENTS | Features::ALL_FRAGMENTS),
            ("all-fragments,^fragments", Features::empty()),
            ("^fragments,all-fragments", Features::FRAGMENTS | Features::ALL_FRAGMENTS),
            ("^all-fragments", Features::FRAGMENTS),
            ("^inline-data", Features::FRAGMENTS | Features::NO_INLINE),
            ("^inline-data,inline-data", Features::FRAGMENTS),
            ("legacy-compress,^full-index", Features::FRAGMENTS),
            ("unaligned", Features::FRAGMENTS | Features::BITS_48 | Features::UNALIGNED),
            ("unaligned,^48bit", Features::FRAGMENTS),
            ("^checksum,compact-inodes", Features::FRAGMENTS | Features::NO_CHECKSUM | Features::COMPACT_INODES),
            ("metabox", Features::FRAGMENTS | Features::BITS_48 | Features::METABOX),
            ("dot-omitted,metabox,^48bit,compressed-dirs", Features::FRAGMENTS | Features::COMPRESSED_DIRS),
            ("48bit,extended-inodes", Features::FRAGMENTS | Features::BITS_48 | Features::EXTENDED_INODES),
        ];
        for (text, expected) in table {
            assert_eq!(text.parse::<FeatureChanges>().unwrap().apply(Features::FRAGMENTS), expected, "{text}");
        }
        let of = |text: &str| text.parse::<FeatureChanges>().unwrap();
        assert_eq!(of("fragments,48bit").then(of("^fragments,dedupe")), of("48bit,^fragments,dedupe"));
        for wrong in ["", "fragment", "dedupe,", "^^dedupe", "!dedupe"] {
            let message = wrong.parse::<FeatureChanges>().unwrap_err();
            assert!(message.contains("accepted: fragments, all-fragments"), "{message}");
        }
    }
}
