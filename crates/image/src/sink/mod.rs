//! Where images go: directories, tar archives, listings.
