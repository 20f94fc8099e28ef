//! Decompressor configuration of the running kernel, if known. It affects all results.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use crate::format::ImageFormat;
use crate::program;

/// Build configuration of a kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelConfig {
    /// Path of the file that contains it.
    from: Option<String>,
    values: BTreeMap<String, String>,
}

impl KernelConfig {
    /// Reads the configuration of the running kernel from the usual places; empty if there is none.
    pub fn running() -> Self {
        if let Ok(unpacked) = program::run(Command::new("gzip").args(["-dc", "/proc/config.gz"]), true) {
            return Self::parse("/proc/config.gz".into(), &String::from_utf8_lossy(&unpacked.output));
        }
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        for path in [format!("/boot/config-{release}"), format!("/lib/modules/{release}/config")] {
            if let Ok(text) = fs::read_to_string(&path) {
                return Self::parse(path, &text);
            }
        }
        Self::default()
    }

    fn parse(from: String, text: &str) -> Self {
        let lines = text.lines().filter_map(|line| line.split_once('='));
        let values = lines.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
        KernelConfig { from: Some(from), values: values.collect() }
    }

    /// Returns the description of the first enabled option. `options` have names and descriptions.
    fn describe_first(&self, options: &[(&str, &str)], otherwise: &str) -> String {
        let is_enabled = |name: &str| self.values.get(name).is_some_and(|value| matches!(value.as_str(), "y" | "m"));
        let enabled = options.iter().find(|(name, _)| is_enabled(name));
        match (&self.from, enabled) {
            (None, _) => "unknown: the kernel keeps no configuration in /proc/config.gz, /boot or /lib/modules".into(),
            (Some(from), Some((name, meaning))) => format!("{meaning} ({name} in {from})"),
            (Some(from), None) => format!("{otherwise} (by {from})"),
        }
    }

    /// Returns the settings that affect reads of a format, by name. `options` are those of a mount, which may select
    /// the decompressor.
    pub fn describe(&self, format: ImageFormat, options: &str) -> BTreeMap<String, String> {
        let settings = match format {
            ImageFormat::Squashfs => {
                let threads = options.split(',').find_map(|option| option.strip_prefix("threads="));
                let decompressors = match threads {
                    Some(threads) => format!("threads={threads} by the mount"),
                    None => self.describe_first(&SQUASHFS_DECOMPRESSORS, "unknown"),
                };
                let target = self.describe_first(&SQUASHFS_TARGETS, "unknown");
                vec![("SquashFS decompressors", decompressors), ("SquashFS decompresses", target)]
            }
            ImageFormat::Erofs => {
                let threads = self.describe_first(&EROFS_THREADS, "by work queues, no threads of its own");
                vec![("EROFS decompression", threads)]
            }
        };
        settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// Number of decompressors, by option.
const SQUASHFS_DECOMPRESSORS: [(&str, &str); 3] = [
    ("CONFIG_SQUASHFS_DECOMP_SINGLE", "one for a mount"),
    ("CONFIG_SQUASHFS_DECOMP_MULTI", "up to two for each processor"),
    ("CONFIG_SQUASHFS_DECOMP_MULTI_PERCPU", "one for each processor"),
];

/// Where SquashFS decompresses to, by option.
const SQUASHFS_TARGETS: [(&str, &str); 2] = [
    ("CONFIG_SQUASHFS_FILE_DIRECT", "straight into the page cache"),
    ("CONFIG_SQUASHFS_FILE_CACHE", "into a buffer first"),
];

/// Threads that decompress EROFS, by option.
const EROFS_THREADS: [(&str, &str); 2] = [
    ("CONFIG_EROFS_FS_PCPU_KTHREAD_HIPRI", "by a thread for each processor, of high priority"),
    ("CONFIG_EROFS_FS_PCPU_KTHREAD", "by a thread for each processor"),
];

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "#\n# Linux/x86 6.1 Kernel Configuration\n#\nCONFIG_SQUASHFS=m\n# CONFIG_SQUASHFS_FILE_CACHE is not \
                        set\nCONFIG_SQUASHFS_FILE_DIRECT=y\nCONFIG_SQUASHFS_DECOMP_MULTI_PERCPU=y\nCONFIG_EROFS_FS=m\n\
                        CONFIG_SQUASHFS_FRAGMENT_CACHE_SIZE=3\n";

    fn described(config: &KernelConfig, options: &str) -> Vec<String> {
        let all = ImageFormat::ALL.into_iter().flat_map(|format| config.describe(format, options));
        all.map(|(name, value)| format!("{name}: {value}")).collect()
    }

    #[test]
    fn a_configuration_is_told_in_words() {
        let config = KernelConfig::parse("/boot/config-6.1".into(), TEXT);
        assert_eq!(
            described(&config, "ro,errors=continue"),
            [
                "SquashFS decompresses: straight into the page cache (CONFIG_SQUASHFS_FILE_DIRECT in /boot/config-6.1)",
                "SquashFS decompressors: one for each processor (CONFIG_SQUASHFS_DECOMP_MULTI_PERCPU in /boot/config-6.1)",
                "EROFS decompression: by work queues, no threads of its own (by /boot/config-6.1)",
            ]
        );
        let threads = "CONFIG_EROFS_FS_PCPU_KTHREAD=y\nCONFIG_SQUASHFS_DECOMP_SINGLE=y\n";
        let config = KernelConfig::parse("/proc/config.gz".into(), threads);
        let shown = described(&config, "ro");
        assert_eq!(shown[0], "SquashFS decompresses: unknown (by /proc/config.gz)");
        assert_eq!(
            shown[1],
            "SquashFS decompressors: one for a mount (CONFIG_SQUASHFS_DECOMP_SINGLE in /proc/config.gz)"
        );
        let thread = "by a thread for each processor (CONFIG_EROFS_FS_PCPU_KTHREAD in /proc/config.gz)";
        assert_eq!(shown[2], format!("EROFS decompression: {thread}"));
    }

    #[test]
    fn what_a_mount_says_counts_more() {
        let config = KernelConfig::parse("/boot/config-6.6".into(), TEXT);
        let shown = described(&config, "ro,errors=continue,threads=multi");
        assert_eq!(shown[1], "SquashFS decompressors: threads=multi by the mount");
    }

    #[test]
    fn what_is_not_told_is_said_to_be_unknown() {
        let shown = described(&KernelConfig::default(), "ro");
        assert_eq!(shown.len(), 3);
        assert!(shown.iter().all(|line| line.contains("unknown: the kernel keeps no configuration in")), "{shown:?}");
    }
}
