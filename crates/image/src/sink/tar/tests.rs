//! Archives written are read back the same, by this crate and by other programs.
