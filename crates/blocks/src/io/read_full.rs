//! Reads of streams that may return less than was asked for.

use std::io::{self, Read};

/// Reads until `buf` is full or the stream ends; returns the number of bytes read.
pub fn read_full(stream: &mut (impl Read + ?Sized), buf: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < buf.len() {
        match stream.read(&mut buf[got..]) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_read_over_interruptions_and_short_reads() {
        struct Drip(u8);
        impl Read for Drip {
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                self.0 += 1;
                match self.0 {
                    1 | 3 => Err(io::ErrorKind::Interrupted.into()),
                    2 | 4 => {
                        buf[0] = self.0;
                        Ok(1)
                    }
                    _ => Ok(0),
                }
            }
        }
        let mut buf = [0; 4];
        assert_eq!(read_full(&mut Drip(0), &mut buf).unwrap(), 2);
        assert_eq!(buf[..2], [2, 4]);
    }
}
