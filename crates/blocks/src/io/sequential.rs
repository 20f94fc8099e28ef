//! `SequentialStorage`: a storage on something that cannot seek, such as a pipe.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::sync::Mutex;

use super::storage::Storage;

use crate::mutex;

/// Bytes that go to a writer in the order of their positions. What arrives early waits in memory, so the threads that
/// write must be bound by a window. Nothing can be read back or written twice.
pub struct SequentialStorage<W> {
    state: Mutex<SequentialState<W>>,
}

struct SequentialState<W> {
    to: W,
    /// Position of the next byte that the writer gets.
    next: u64,
    /// Bytes of later positions.
    early: BTreeMap<u64, Vec<u8>>,
}

impl<W> fmt::Debug for SequentialStorage<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SequentialStorage").finish_non_exhaustive()
    }
}

impl<W: Write> SequentialStorage<W> {
    /// Makes a storage whose first byte is the next one of a writer.
    pub fn new(to: W) -> Self {
        SequentialStorage { state: Mutex::new(SequentialState { to, next: 0, early: BTreeMap::new() }) }
    }
}

impl<W: Write> SequentialState<W> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.to.write_all(bytes)?;
        self.next += bytes.len() as u64;
        Ok(())
    }
}

impl<W: Write + Send> Storage for SequentialStorage<W> {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut state = mutex::lock(&self.state);
        if offset < state.next || state.early.contains_key(&offset) {
            return Err(io::Error::new(io::ErrorKind::NotSeekable, format!("byte {offset} has been written already")));
        }
        if offset > state.next {
            state.early.insert(offset, bytes.to_vec());
            return Ok(());
        }
        state.put(bytes)?;
        while let Some((&at, _)) = state.early.first_key_value() {
            if at != state.next {
                break;
            }
            let Some((_, bytes)) = state.early.pop_first() else { break };
            state.put(&bytes)?;
        }
        Ok(())
    }

    fn read_exact_at(&self, _: &mut [u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::NotSeekable.into())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(mutex::lock(&self.state).next)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if self.len()? == len { Ok(()) } else { Err(io::ErrorKind::NotSeekable.into()) }
    }

    /// Flushes the writer; fails if bytes wait for others that never came.
    fn sync_data(&self) -> io::Result<()> {
        let mut state = mutex::lock(&self.state);
        match state.early.is_empty() {
            true => state.to.flush(),
            false => Err(io::Error::other(format!("bytes are missing from {} on", state.next))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// A writer whose bytes can be seen.
    #[derive(Clone, Default)]
    struct Seen(Arc<Mutex<Vec<u8>>>);

    impl Write for Seen {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn bytes_arrive_in_order_and_once() {
        let seen = Seen::default();
        let storage = SequentialStorage::new(seen.clone());
        for (bytes, at) in [(&b"cd"[..], 2), (b"e", 4), (b"gh", 6), (b"", 0), (b"", 3), (b"", 6)] {
            storage.write_all_at(bytes, at).unwrap();
        }
        assert!(storage.write_all_at(b"GH", 6).is_err());
        assert_eq!(seen.0.lock().unwrap().len(), 0);
        storage.write_all_at(b"ab", 0).unwrap();
        assert_eq!(*seen.0.lock().unwrap(), b"abcde");
        assert!(storage.sync_all().unwrap_err().to_string().contains("from 5 on"));
        storage.write_all_at(b"f", 5).unwrap();
        assert_eq!((&seen.0.lock().unwrap()[..], storage.len().unwrap()), (&b"abcdefgh"[..], 8));
        storage.sync_all().unwrap();
        assert!(storage.write_all_at(b"x", 7).is_err() && storage.read_exact_at(&mut [0], 0).is_err());
        assert!(storage.set_len(8).is_ok() && storage.set_len(9).is_err());
    }
}
