//! File descriptors, of which a process has a limited number (`RLIMIT_NOFILE`).

/// Returns the number of descriptors that the process can still open; a very large one if there is no limit.
pub fn free() -> usize {
    crate::system::free_descriptors()
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_open_file_takes_one() {
        let before = super::free();
        let files: Vec<_> = (0..50).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        let after = super::free();
        drop(files);
        // Other tests open and close files meanwhile.
        assert!(after < before && before < usize::MAX, "{before} and {after}");
    }
}
