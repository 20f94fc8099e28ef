//! Stored bytes of an image and its additional devices: the only place of the reader that reads from its sources.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use packfs_blocks::ReadAt;
use packfs_blocks::units::Size;

use super::superblock::Superblock;
use crate::placement::Area;
use crate::{Error, Result};

/// Sources of an image's bytes.
#[derive(Debug)]
pub(super) struct DeviceBytes {
    source: Arc<dyn ReadAt>,
    path: PathBuf,
    devices: Vec<OpenDevice>,
    /// Number of bytes that the image should have.
    expected: u64,
}

/// An additional device.
#[derive(Debug)]
struct OpenDevice {
    /// Its own source; `None` if its bytes follow those of the image.
    source: Option<Arc<dyn ReadAt>>,
    /// Its offset in the common address space, in bytes; 0 if it has none.
    start: u64,
    len: u64,
}

impl DeviceBytes {
    /// Makes a disk from which only the superblock can be read yet.
    pub(super) fn new(source: Arc<dyn ReadAt>, path: PathBuf) -> Self {
        DeviceBytes { source, path, devices: Vec::new(), expected: 0 }
    }

    /// Sets the number of bytes that the image should have.
    pub(super) fn expect(&mut self, bytes: u64) {
        self.expected = bytes;
    }

    /// Sets block size and devices from the superblock. `given` lists the additional devices in
    /// their order, or none if all are in one file.
    pub(super) fn attach(&mut self, superblock: &Superblock, given: Vec<Arc<dyn ReadAt>>) -> Result<()> {
        let count = superblock.devices.len();
        // None at all is fine: then all are in the file.
        if !given.is_empty() && given.len() != count {
            let why = format!("the image has additional devices: {count}");
            return Err(Error::option("number of devices", given.len(), why));
        }
        let mut given = given.into_iter();
        let bytes = |blocks: u64| blocks.saturating_mul(superblock.block_size.into());
        let device = |slot: &super::AdditionalDevice| OpenDevice {
            source: given.next(),
            start: bytes(slot.start),
            len: bytes(slot.blocks),
        };
        self.devices = superblock.devices.iter().map(device).collect();
        Ok(())
    }

    /// Returns the length of the image itself.
    pub(super) fn len(&self) -> u64 {
        self.source.len()
    }

    /// Returns the length of the image and of its additional devices.
    pub(super) fn total_len(&self) -> u64 {
        // Devices without a source of their own are part of it.
        let devices = self.devices.iter().filter_map(|device| device.source.as_ref());
        devices.fold(self.len(), |sum, source| sum.saturating_add(source.len()))
    }

    /// Returns the position of byte `offset` of a device, by its number as in chunks, if the image and its devices were
    /// one file: the additional devices follow the image in their order.
    pub(super) fn position(&self, device: u16, offset: u64) -> u64 {
        let (area, offset) = self.locate(device, offset);
        let Area::Device(number) = area else { return offset };
        // Its bytes are in the image itself, where `locate` found them.
        if self.devices[usize::from(number) - 1].source.is_none() {
            return offset;
        }
        let before = self.devices[..usize::from(number) - 1].iter().filter_map(|device| device.source.as_ref());
        before.fold(self.len(), |sum, source| sum.saturating_add(source.len())).saturating_add(offset)
    }

    /// Returns the device that holds byte `offset` of a device by its number as in chunks, and the offset on it.
    pub(super) fn locate(&self, device: u16, offset: u64) -> (Area, u64) {
        // `wrapping_sub`, so that one comparison serves both ends.
        let holds = |device: &OpenDevice| device.start != 0 && offset.wrapping_sub(device.start) < device.len;
        let (n, offset) = match self.number(device).checked_sub(1).filter(|n| *n < self.devices.len()) {
            Some(n) => (n, offset),
            None => match self.devices.iter().position(holds) {
                Some(n) => (n, offset - self.devices[n].start),
                None => return (Area::Image, offset),
            },
        };
        match &self.devices[n] {
            // All devices are in one file, in which this one begins at `start`.
            OpenDevice { source: None, start, .. } if *start != 0 => (Area::Image, start.saturating_add(offset)),
            _ => (u16::try_from(n + 1).map_or(Area::Image, Area::Device), offset),
        }
    }

    /// Returns the number of a device from a field that holds it: 0 stands for the common address space.
    fn number(&self, field: u16) -> usize {
        // Only as many low bits as device numbers need; higher bits have other uses.
        let mask = (self.devices.len() + 1).next_power_of_two() - 1;
        usize::from(field) & mask
    }

    /// Returns true if announcing reads gains something.
    pub(super) fn has_delay(&self) -> bool {
        let devices = self.devices.iter().filter_map(|device| device.source.as_ref());
        devices.chain([&self.source]).any(|source| source.has_delay())
    }

    /// Announces a read of `len` bytes of a device by its number as in chunks.
    pub(super) fn will_read(&self, device: u16, offset: u64, len: u64) {
        let (area, offset) = self.locate(device, offset);
        if let Some(source) = self.source_of(area) {
            source.will_read(offset..offset.saturating_add(len));
        }
    }

    /// Announces reads of several ranges, each of a device by its number as in chunks.
    pub(super) fn will_read_ranges(&self, stored_ranges: &[(u16, Range<u64>)]) {
        let mut by_area: HashMap<Area, Vec<Range<u64>>> = HashMap::new();
        for (device, range) in stored_ranges {
            let (area, offset) = self.locate(*device, range.start);
            by_area.entry(area).or_default().push(offset..offset.saturating_add(range.end - range.start));
        }
        for (area, ranges) in by_area {
            if let Some(source) = self.source_of(area) {
                source.will_read_ranges(&ranges);
            }
        }
    }

    /// Returns what holds the bytes of an area.
    fn source_of(&self, area: Area) -> Option<&Arc<dyn ReadAt>> {
        match area {
            Area::Device(number) => self.devices.get(usize::from(number) - 1)?.source.as_ref(),
            _ => Some(&self.source),
        }
    }

    /// Fills `buf` from byte `offset` of the common address space; `structure` is for messages.
    pub(super) fn read(&self, structure: &'static str, offset: u64, buf: &mut [u8]) -> Result<()> {
        let holds = |device: &&OpenDevice| {
            device.start != 0 && offset.checked_sub(device.start).is_some_and(|inside| inside < device.len)
        };
        match self.devices.iter().find(holds) {
            // The common address space may also lead to a device with a source of its own.
            Some(OpenDevice { source: Some(source), start, .. }) => {
                self.read_from(&**source, structure, offset, offset - start, buf)
            }
            _ => self.read_from(&*self.source, structure, offset, offset, buf),
        }
    }

    /// Fills `buf` from byte `offset` of device number `device`, as numbered in chunks: 0 stands
    /// for the common address space.
    pub(super) fn read_device(&self, structure: &'static str, device: u16, offset: u64, buf: &mut [u8]) -> Result<()> {
        let number = self.number(device);
        let Some(n) = number.checked_sub(1) else { return self.read(structure, offset, buf) };
        match self.devices.get(n) {
            Some(OpenDevice { source: Some(source), .. }) => self.read_from(&**source, structure, offset, offset, buf),
            Some(OpenDevice { start, .. }) => {
                let offset = start.saturating_add(offset);
                self.read_from(&*self.source, structure, offset, offset, buf)
            }
            None => {
                let why = format!("on device {number}, but there are only {}", self.devices.len());
                Err(Error::corrupt(structure, offset, why))
            }
        }
    }

    /// Reads from the image itself; returns fewer bytes than `buf` holds only at its end.
    pub(super) fn read_up_to(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.source.read_at(buf, offset).map_err(Error::io("cannot read", &self.path))
    }

    /// Reads from byte `offset` of `source`; messages name `at` as the offset.
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

    /// Describes data that extends past the end.
    pub(super) fn ends_inside(&self) -> String {
        // The number of blocks in the superblock tells a truncated image from a wrong position.
        let missing = self.expected.saturating_sub(self.len());
        if missing > 0 {
            return format!("the image is truncated inside it: {} are missing", Size(missing));
        }
        match self.devices.iter().filter(|device| device.source.is_none()).count() {
            0 => "the image ends inside it".into(),
            missing => format!("the image ends before it, and its {missing} additional devices were not given"),
        }
    }
}
