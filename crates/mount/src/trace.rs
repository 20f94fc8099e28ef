//! The files that were read, in the order of their first use: a hot list for the next build of the image.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use packfs_blocks::mutex;
use packfs_image::image::Nid;

/// Writes the path of each file when it is first read, a line each. Clones write to the same place.
#[derive(Clone)]
pub struct ReadTrace(Arc<Mutex<TraceState>>);

struct TraceState {
    out: Box<dyn Write + Send>,
    /// Directory and name under which an inode was last seen.
    names: HashMap<Nid, (Nid, Box<[u8]>)>,
    read: HashSet<Nid>,
    failed: Option<io::Error>,
}

impl fmt::Debug for ReadTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadTrace").finish_non_exhaustive()
    }
}

impl ReadTrace {
    /// Makes a trace that writes to `out`, a line at a time.
    pub fn new(out: impl Write + Send + 'static) -> Self {
        let names = HashMap::new();
        let read = HashSet::new();
        ReadTrace(Arc::new(Mutex::new(TraceState { out: Box::new(out), names, read, failed: None })))
    }

    /// Returns the error of writing, if there was one: the trace ends there.
    pub fn take_error(&self) -> Option<io::Error> {
        mutex::lock(&self.0).failed.take()
    }

    /// Takes note of an inode's name.
    pub(crate) fn note_name(&self, dir: Nid, name: &[u8], nid: Nid) {
        // The first name stays: a program may use several names of a file, and one line each is enough.
        mutex::lock(&self.0).names.entry(nid).or_insert_with(|| (dir, name.into()));
    }

    /// Writes a line for a file, if it is the first time.
    pub(crate) fn note_read(&self, root: Nid, nid: Nid) {
        let mut state = mutex::lock(&self.0);
        // Part of a line may have been written, to which the next one would be added.
        if state.failed.is_some() || !state.read.insert(nid) {
            return;
        }
        let Some(mut line) = state.path(root, nid) else { return };
        line.push(b'\n');
        // At once, so that the list is whole when the mount is killed. Reads go on without it; whoever made the trace asks
        // for the error.
        state.failed = state.out.write_all(&line).and_then(|()| state.out.flush()).err();
    }
}

impl TraceState {
    /// Returns the path of an inode from the root on; `None` if it has none that a line can hold.
    fn path(&self, root: Nid, nid: Nid) -> Option<Vec<u8>> {
        let mut names = Vec::new();
        let mut here = nid;
        while here != root {
            let (dir, name) = self.names.get(&here)?;
            // A damaged image may have loops.
            if name.contains(&b'\n') || names.len() > self.names.len() {
                return None;
            }
            names.push(name);
            here = *dir;
        }
        let mut path = Vec::new();
        for name in names.into_iter().rev() {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        Some(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Out(Arc<Mutex<Vec<u8>>>);

    impl Write for Out {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn each_file_has_one_line_in_the_order_of_first_use() {
        let out = Out::default();
        let trace = ReadTrace::new(out.clone());
        let root = Nid(1);
        trace.note_name(root, b"a b", Nid(2));
        trace.note_name(Nid(2), b"c\"d", Nid(3));
        trace.note_name(root, b"e", Nid(4));
        trace.note_name(root, b"new\nline", Nid(5));
        for nid in [4, 3, 4, 5, 9] {
            trace.note_read(root, Nid(nid));
        }
        assert_eq!(String::from_utf8(out.0.lock().unwrap().clone()).unwrap(), "/e\n/a b/c\"d\n");
    }

    /// Is full once, in the middle of the second line.
    #[derive(Default)]
    struct FullOnce {
        out: Out,
        writes: usize,
    }

    impl Write for FullOnce {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.writes += 1;
            match self.writes {
                2 => self.out.write(&bytes[..3]),
                3 => Err(io::ErrorKind::StorageFull.into()),
                _ => self.out.write(bytes),
            }
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_trace_ends_at_the_first_error() {
        let out = Out::default();
        let trace = ReadTrace::new(FullOnce { out: out.clone(), writes: 0 });
        let root = Nid(1);
        for (nid, name) in [(2, "short"), (3, "longer"), (4, "late")] {
            trace.note_name(root, name.as_bytes(), Nid(nid));
            trace.note_read(root, Nid(nid));
        }
        assert_eq!(out.0.lock().unwrap()[..], *b"/short\n/lo");
        assert_eq!(trace.take_error().unwrap().kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn a_loop_in_a_damaged_image_ends() {
        let out = Out::default();
        let trace = ReadTrace::new(out.clone());
        trace.note_name(Nid(2), b"a", Nid(3));
        trace.note_name(Nid(3), b"b", Nid(2));
        trace.note_read(Nid(1), Nid(3));
        assert!(out.0.lock().unwrap().is_empty());
    }
}
