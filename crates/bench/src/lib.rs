//! Measures: codecs, builds, reads and splits, on the user's own data, with every sample kept.
