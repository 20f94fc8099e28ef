//! Bytes of plans and shards: integers in little-endian order, byte strings after their length. What is read was proven
//! by a digest before, but is checked like any other input.

use crate::{Error, Result};

/// Receives bytes in order.
pub trait FieldEncoder {
    /// Appends bytes.
    fn put(&mut self, bytes: &[u8]);

    /// Appends a byte.
    fn u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    /// Appends a number of 32 bits.
    fn u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    /// Appends a number of 64 bits.
    fn u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }

    /// Appends the length of a list.
    fn count(&mut self, len: usize) {
        self.u64(len as u64);
    }

    /// Appends a byte string.
    fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.put(bytes);
    }
}

impl FieldEncoder for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Takes bytes in order.
#[derive(Debug)]
pub struct FieldDecoder<'b> {
    bytes: &'b [u8],
    at: usize,
    structure: &'static str,
}

impl<'b> FieldDecoder<'b> {
    /// Takes from `bytes`; `structure` names them in errors.
    pub fn new(structure: &'static str, bytes: &'b [u8]) -> Self {
        FieldDecoder { bytes, at: 0, structure }
    }

    /// Returns the error of something that cannot be.
    pub fn wrong(&self, why: &str) -> Error {
        Error::corrupt(self.structure, self.at as u64, why)
    }

    /// Fails unless `holds`.
    pub fn check(&self, holds: bool, why: &str) -> Result<()> {
        if holds { Ok(()) } else { Err(self.wrong(why)) }
    }

    /// Takes `len` bytes.
    pub fn take(&mut self, len: usize) -> Result<&'b [u8]> {
        // Also if the position and the length together do not fit.
        let taken = self.bytes.get(self.at..).and_then(|rest| rest.get(..len));
        let taken = taken.ok_or_else(|| self.wrong("ends too early"))?;
        self.at += len;
        Ok(taken)
    }

    /// Takes as many bytes as the array has.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(*self.take(N)?.first_chunk().expect("so many bytes"))
    }

    /// Takes a byte.
    pub fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// Takes a number of 32 bits.
    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Takes a number of 64 bits.
    pub fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Takes a byte, which is false if it is 0.
    pub fn bool(&mut self) -> Result<bool> {
        Ok(self.u8()? != 0)
    }

    /// Takes the length of a list whose entries have at least `least` bytes.
    pub fn count(&mut self, least: usize) -> Result<usize> {
        let count = self.u64()?;
        // Before memory is reserved: a wrong count would ask for any amount of it.
        let left = self.bytes.len() - self.at;
        let count = usize::try_from(count).ok().filter(|count| count.saturating_mul(least.max(1)) <= left);
        count.ok_or_else(|| self.wrong("a list is longer than its structure"))
    }

    /// Takes a list whose entries have at least `least` bytes.
    pub fn list<T>(&mut self, least: usize, mut one: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        (0..self.count(least)?).map(|_| one(self)).collect()
    }

    /// Takes a byte string.
    pub fn bytes(&mut self) -> Result<&'b [u8]> {
        let len = self.count(1)?;
        self.take(len)
    }

    /// Takes a byte string that must be UTF-8.
    pub fn text(&mut self) -> Result<&'b str> {
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes).map_err(|_| self.wrong("a text is not UTF-8"))
    }

    /// Returns the number of bytes taken.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Fails if anything is left.
    pub fn end(&self) -> Result<()> {
        self.check(self.at == self.bytes.len(), "something follows its end")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_taken_and_short_input_is_an_error() {
        let mut bytes = Vec::new();
        bytes.u8(1);
        bytes.u32(2);
        bytes.u64(3);
        bytes.bytes(b"text");
        let take = |bytes: &[u8]| -> Result<_> {
            let mut get = FieldDecoder::new("test", bytes);
            let all = (get.u8()?, get.u32()?, get.u64()?, get.text()?.to_owned());
            get.end()?;
            Ok(all)
        };
        assert_eq!(take(&bytes).unwrap(), (1, 2, 3, "text".to_owned()));
        for len in 0..bytes.len() {
            take(&bytes[..len]).unwrap_err();
        }
        bytes.u8(0);
        take(&bytes).unwrap_err();
        let long = FieldDecoder::new("test", &u64::MAX.to_le_bytes()).count(8).unwrap_err().to_string();
        assert!(long.contains("a list is longer"), "{long}");
    }
}
