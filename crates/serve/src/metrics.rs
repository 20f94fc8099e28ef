//! Counters, in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use packfs_blocks::mutex;

/// Counts what a server does.
#[derive(Debug, Default)]
pub(crate) struct ServerMetrics {
    /// By route and status, of which there are few.
    // A tree, so that the text has the same order each time.
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
    pub(crate) bytes: AtomicU64,
    pub(crate) connections: AtomicU64,
    pub(crate) failures: AtomicU64,
}

impl ServerMetrics {
    /// Counts a request.
    pub(crate) fn count(&self, route: &'static str, status: u16) {
        *mutex::lock(&self.requests).entry((route, status)).or_default() += 1;
    }

    /// Returns all counters as text.
    pub(crate) fn text(&self, open: usize) -> String {
        let mut out = String::new();
        let mut put = |name: &str, kind: &str, help: &str, rows: &mut dyn Iterator<Item = (String, u64)>| {
            let _ = write!(out, "# HELP packfs_{name} {help}\n# TYPE packfs_{name} {kind}\n");
            for (labels, value) in rows {
                let _ = writeln!(out, "packfs_{name}{labels} {value}");
            }
        };
        let mut one = |name: &str, kind: &str, help: &str, value: u64| {
            put(name, kind, help, &mut std::iter::once((String::new(), value)));
        };
        // Relaxed: each counter stands for itself.
        one("sent_bytes_total", "counter", "Bytes sent to clients.", self.bytes.load(Relaxed));
        one("connections_total", "counter", "Connections accepted.", self.connections.load(Relaxed));
        one("connections_open", "gauge", "Connections now open.", open as u64);
        one("read_failures_total", "counter", "Requests that met an unreadable image.", self.failures.load(Relaxed));
        let requests = mutex::lock(&self.requests);
        let mut rows = requests
            .iter()
            .map(|((route, status), count)| (format!("{{route=\"{route}\",status=\"{status}\"}}"), *count));
        put("requests_total", "counter", "Requests by route and status.", &mut rows);
        out
    }
}
