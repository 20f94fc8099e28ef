//! Tests that need writer and reader, or the kernel and other programs.
