//! The stored bytes of an image and of its further devices: the only place of the reader that reads from
//! its sources.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use packfs_blocks::ReadAt;

use super::superblock::Superblock;
use crate::name::display;
use crate::{Error, Result};

/// Where the bytes of an image come from.
#[derive(Debug)]
pub(super) struct Disk {
    source: Arc<dyn ReadAt>,
    path: PathBuf,
    devices: Vec<Device>,
    /// Bytes that the image should have.
    expected: u64,
}

/// A further device.
#[derive(Debug)]
struct Device {
    /// Its own bytes; without, they follow those of the image.
    source: Option<Arc<dyn ReadAt>>,
    /// Its place in the address space of all devices, in bytes; 0 when it has none.
    start: u64,
    len: u64,
}

impl Disk {
    /// A disk of which nothing but the superblock can be read yet.
    pub(super) fn new(source: Arc<dyn ReadAt>, path: PathBuf) -> Self {
        Disk { source, path, devices: Vec::new(), expected: 0 }
    }

    /// Says how many bytes the image should have.
    pub(super) fn expect(&mut self, bytes: u64) {
        self.expected = bytes;
    }

    /// Takes over what the superblock says of block size and devices. `given` are the further devices in
    /// their order, or none if all lie in one file.
    pub(super) fn attach(&mut self, superblock: &Superblock, given: Vec<Arc<dyn ReadAt>>) -> Result<()> {
        let count = superblock.devices.len();
        if !given.is_empty() && given.len() != count {
            let why =
                format!("{}: {} further devices given, but the image has {count}", display(&self.path), given.len());
            return Err(Error::option("devices", given.len(), why));
        }
        let mut given = given.into_iter();
        let bytes = |blocks: u64| blocks.saturating_mul(superblock.block_size.into());
        let device =
            |slot: &super::Device| Device { source: given.next(), start: bytes(slot.start), len: bytes(slot.blocks) };
        self.devices = superblock.devices.iter().map(device).collect();
        Ok(())
    }

    /// Length of the image itself.
    pub(super) fn len(&self) -> u64 {
        self.source.len()
    }

    /// Fills `buf` from byte `offset` of the address space of all devices, where `structure` lies.
    pub(super) fn read(&self, structure: &'static str, offset: u64, buf: &mut [u8]) -> Result<()> {
        let holds = |device: &&Device| {
            device.start != 0 && offset.checked_sub(device.start).is_some_and(|inside| inside < device.len)
        };
        match self.devices.iter().find(holds) {
            Some(Device { source: Some(source), start, .. }) => {
                self.read_from(&**source, structure, offset, offset - start, buf)
            }
            _ => self.read_from(&*self.source, structure, offset, offset, buf),
        }
    }

    /// Fills `buf` from byte `offset` of device number `device`, as chunks number them: 0 stands for all.
    pub(super) fn read_device(&self, structure: &'static str, device: u16, offset: u64, buf: &mut [u8]) -> Result<()> {
        // As many low bits as numbers of devices take; those above are for other uses.
        let mask = (self.devices.len() + 1).next_power_of_two() - 1;
        let number = usize::from(device) & mask;
        let Some(n) = number.checked_sub(1) else { return self.read(structure, offset, buf) };
        match self.devices.get(n) {
            Some(Device { source: Some(source), .. }) => self.read_from(&**source, structure, offset, offset, buf),
            Some(Device { start, .. }) => {
                let offset = start.saturating_add(offset);
                self.read_from(&*self.source, structure, offset, offset, buf)
            }
            None => {
                let why = format!("on device {number}, but there are only {}", self.devices.len());
                Err(Error::corrupt(structure, offset, why))
            }
        }
    }

    /// Reads from the image itself: fewer bytes than `buf` holds only at its end.
    pub(super) fn read_up_to(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.source.read_at(buf, offset).map_err(Error::io("cannot read", &self.path))
    }

    /// `at` is where messages say that it is, `offset` where it is in `source`.
    fn read_from(
        &self,
        source: &dyn ReadAt,
        structure: &'static str,
        at: u64,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<()> {
        source.read_exact_at(buf, offset).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Error::corrupt(structure, at, self.ends_inside()),
            _ => Error::io("cannot read", &self.path)(error),
        })
    }

    /// What to say of something that reaches past the end.
    pub(super) fn ends_inside(&self) -> String {
        let missing = self.expected.saturating_sub(self.len());
        if missing > 0 {
            return format!("the image is truncated inside it: {missing} bytes are missing");
        }
        match self.devices.iter().filter(|device| device.source.is_none()).count() {
            0 => "the image ends inside it".into(),
            missing => format!("the image ends before it, and its {missing} further devices were not given"),
        }
    }
}
