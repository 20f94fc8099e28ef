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
        let governor = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
        MachineRecord {
            cpu: field(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
            processors: packfs_blocks::pipeline::cores(),
            governor: Some(governor.trim().to_owned()).filter(|governor| !governor.is_empty()),
            memory: field_bytes(&read("/proc/meminfo"), "MemTotal"),
            kernel,
        }
    }
}

/// Returns the value of the first line `NAME: value`.
fn field(text: &str, name: &str) -> Option<String> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
}

/// Returns the bytes in the first line `NAME: NUMBER kB`; 0 if there is none.
pub(crate) fn field_bytes(text: &str, name: &str) -> u64 {
    let kib = |value: String| value.strip_suffix("kB")?.trim().parse::<u64>().ok();
    field(text, name).and_then(kib).and_then(|kib| kib.checked_mul(1024)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found() {
        let text = "processor\t: 0\nmodel name\t: A: fast one\nmodel name\t: other\n";
        assert_eq!(field(text, "model name").as_deref(), Some("A: fast one"));
        assert_eq!(field(text, "flags"), None);
        let sizes = "VmHWM:\t  123 kB\nThreads:\t12\n";
        assert_eq!(["VmHWM", "Threads", "VmPeak"].map(|name| field_bytes(sizes, name)), [125_952, 0, 0]);
        assert!(MachineRecord::this().processors > 0 && !MachineRecord::this().kernel.is_empty());
    }
}
