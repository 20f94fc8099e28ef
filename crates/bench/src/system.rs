//! Properties of this machine, for the results file.

use std::fs;

use crate::record::MachineRecord;

impl MachineRecord {
    /// Returns the properties of this machine. Unknown ones are empty.
    pub fn this() -> Self {
        let uname = rustix::system::uname();
        let part = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
        let kernel = format!("{} {} {}", part(uname.sysname()), part(uname.release()), part(uname.machine()));
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let memory = field(&read("/proc/meminfo"), "MemTotal").and_then(|value| kib(&value)).unwrap_or(0);
        let governor = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
        MachineRecord {
            cpu: field(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
            processors: packfs_blocks::pipeline::cores(),
            governor: Some(governor.trim().to_owned()).filter(|governor| !governor.is_empty()),
            memory,
            kernel,
        }
    }
}

/// Returns the value of the first line `NAME: value`.
pub(crate) fn field(text: &str, name: &str) -> Option<String> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
}

pub(crate) fn kib(value: &str) -> Option<u64> {
    value.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found() {
        let text = "processor\t: 0\nmodel name\t: A: fast one\nmodel name\t: other\n";
        assert_eq!(field(text, "model name").as_deref(), Some("A: fast one"));
        assert_eq!(field(text, "flags"), None);
        assert_eq!((kib("  123 kB"), kib("12")), (Some(125_952), None));
        assert!(MachineRecord::this().processors > 0 && !MachineRecord::this().kernel.is_empty());
    }
}
