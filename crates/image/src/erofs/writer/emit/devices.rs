//! The table of additional devices: the archives and images that an image refers to, or the file for its data.

use crate::erofs::format::DeviceSlot;
use crate::erofs::writer::options::{ErofsOptions, Features};
use crate::erofs::writer::stored::data::StoredData;
use crate::{Error, Result, Tree};

/// An additional device in the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlacedDevice {
    pub(crate) tag: String,
    /// Number of its blocks.
    pub(crate) blocks: u64,
    /// Its first block in the address space of the image and all devices.
    pub(crate) start: u64,
}

impl PlacedDevice {
    pub(crate) fn encode(&self) -> DeviceSlot {
        let mut tag = [0; 64];
        let len = self.tag.len().min(tag.len());
        tag[..len].copy_from_slice(&self.tag.as_bytes()[..len]);
        let low = |n: u64| u32::try_from(n & u64::from(u32::MAX)).expect("32 bits");
        let high = |n: u64| u16::try_from(n >> 32).expect("checked when the devices were placed");
        DeviceSlot {
            tag,
            blocks_lo: low(self.blocks).into(),
            uniaddr_lo: low(self.start).into(),
            blocks_hi: high(self.blocks).into(),
            uniaddr_hi: high(self.start).into(),
            reserved: [0; 52],
        }
    }
}

/// Returns the devices of an image, each with its name and its length in bytes.
pub(crate) fn devices(options: &ErofsOptions, tree: &Tree, data: &StoredData) -> Vec<(String, u64)> {
    match options.blob {
        Some(_) => vec![(String::new(), data.blob_bytes)],
        None => tree.devices.iter().map(|device| (device.tag.clone(), device.len)).collect(),
    }
}

/// Returns the number of blocks of all devices.
pub(crate) fn blocks(options: &ErofsOptions, devices: &[(String, u64)]) -> u64 {
    devices.iter().map(|(_, len)| len.div_ceil(options.block_size.into())).sum()
}

/// Places devices one after the other following an image of `blocks` blocks.
pub(crate) fn slots(options: &ErofsOptions, devices: &[(String, u64)], blocks: u64) -> Result<Vec<PlacedDevice>> {
    let room = options.devices();
    if devices.len() > room.into() {
        let why = format!("the sources are {} devices, for which there is no room", devices.len());
        return Err(Error::option("additional devices", room, why));
    }
    let mut start = blocks;
    let place = |(tag, len): &(String, u64)| {
        let slot = PlacedDevice { tag: tag.clone(), blocks: len.div_ceil(options.block_size.into()), start };
        start += slot.blocks;
        slot
    };
    let slots = devices.iter().map(place).collect();
    let bits = if options.features.contains(Features::BITS_48) { 48 } else { 32 };
    // The last address means no block.
    if start < (1 << bits) - 1 {
        return Ok(slots);
    }
    let why = format!("the image with its devices has {start} blocks, and addresses have {bits} bits");
    Err(Error::Unsupported(format!("{why}: larger blocks or the feature 48bit (Linux 6.15) go further")))
}
