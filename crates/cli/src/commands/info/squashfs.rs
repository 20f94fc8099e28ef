//! `packfs info` for SquashFS images.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Result;
use packfs_image::squashfs::{CompressorOptions, Superblock};
use packfs_image::tree::Time;
use serde::Serialize;

use crate::output::units;

/// Facts about a SquashFS image.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::commands) struct SquashfsInfo {
    /// `squashfs 4.0`.
    format: &'static str,
    /// Oldest Linux that reads it, if its configuration has the codec; null if none does (`lzma`).
    needs_linux: Option<&'static str>,
    /// Name of the codec.
    codec: &'static str,
    /// Values of the codec's options by name; empty if the image does not store them.
    codec_options: BTreeMap<&'static str, i64>,
    /// Size of a block in bytes.
    block_size: u32,
    /// Length of the image in bytes, without padding.
    bytes_used: u64,
    /// Time of the image in seconds since 1970.
    created: u32,
    /// Number of inodes.
    inodes: u32,
    /// Number of different owners and groups.
    ids: u16,
    /// Number of fragment blocks.
    fragments: u32,
    /// True if there is an export table.
    exportable: bool,
    /// True if there is a table of extended attributes.
    xattrs: bool,
    /// Names of the flags that are set.
    flags: Vec<&'static str>,
    /// Byte offset of each region.
    layout: SquashfsLayout,
}

/// Byte offset of each region.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SquashfsLayout {
    /// Offset of the inode table.
    inode_table: u64,
    /// Offset of the directory table.
    directory_table: u64,
    /// Offset of the fragment table; null if there are no fragments.
    fragment_table: Option<u64>,
    /// Offset of the export table; null if there is none.
    export_table: Option<u64>,
    /// Offset of the table of owners and groups.
    id_table: u64,
    /// Offset of the table of extended attributes; null if there is none.
    xattr_table: Option<u64>,
}

impl SquashfsInfo {
    pub(super) fn new(superblock: &Superblock) -> Self {
        SquashfsInfo {
            format: "squashfs 4.0",
            needs_linux: superblock.oldest_linux(),
            codec: superblock.codec.name(),
            codec_options: superblock.options.map(list_options).unwrap_or_default(),
            block_size: superblock.block_size,
            bytes_used: superblock.bytes_used,
            created: superblock.mkfs_time,
            inodes: superblock.inodes,
            ids: superblock.ids,
            fragments: superblock.fragments,
            exportable: superblock.export_table.is_some(),
            xattrs: superblock.xattr_table.is_some(),
            flags: superblock.flag_names(),
            layout: SquashfsLayout {
                inode_table: superblock.inode_table,
                directory_table: superblock.directory_table,
                fragment_table: (superblock.fragments > 0).then_some(superblock.fragment_table),
                export_table: superblock.export_table,
                id_table: superblock.id_table,
                xattr_table: superblock.xattr_table,
            },
        }
    }

    pub(super) fn print(&self, out: &mut impl Write) -> Result<()> {
        let options: Vec<_> = self.codec_options.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let options = if options.is_empty() { "defaults".into() } else { options.join(", ") };
        let created = units::utc(Time { secs: i64::from(self.created), nanos: 0 });
        writeln!(out, "format       {}", self.format)?;
        match self.needs_linux {
            Some(linux) => writeln!(out, "needs        Linux {linux}")?,
            None => writeln!(out, "needs        no Linux of kernel.org reads it")?,
        }
        writeln!(out, "codec        {} ({options})", self.codec)?;
        writeln!(out, "block size   {}", units::bytes(u64::from(self.block_size)))?;
        writeln!(out, "size         {}", units::exact(self.bytes_used))?;
        writeln!(out, "created      {created} UTC ({})", self.created)?;
        writeln!(out, "inodes       {}", units::count(u64::from(self.inodes)))?;
        writeln!(out, "owners       {}", units::count(u64::from(self.ids)))?;
        writeln!(out, "fragments    {}", units::count(u64::from(self.fragments)))?;
        writeln!(out, "flags        {}", self.flags.join(", "))?;
        for (name, position) in self.layout.rows() {
            match position {
                Some(position) => writeln!(out, "{name:<12} at byte {}", units::count(position))?,
                None => writeln!(out, "{name:<12} none")?,
            }
        }
        Ok(())
    }
}

impl SquashfsLayout {
    fn rows(&self) -> [(&'static str, Option<u64>); 6] {
        [
            ("inode table", Some(self.inode_table)),
            ("directories", Some(self.directory_table)),
            ("fragments", self.fragment_table),
            ("export table", self.export_table),
            ("id table", Some(self.id_table)),
            ("xattrs", self.xattr_table),
        ]
    }
}

fn list_options(options: CompressorOptions) -> BTreeMap<&'static str, i64> {
    let pairs = match options {
        CompressorOptions::Gzip { level, window, strategies } => {
            vec![("level", level.into()), ("window", window.into()), ("strategies", strategies.into())]
        }
        CompressorOptions::Xz { dictionary, filters } => {
            vec![("dictionary", dictionary.into()), ("filters", filters.into())]
        }
        CompressorOptions::Lzo { algorithm, level } => vec![("algorithm", algorithm.into()), ("level", level.into())],
        CompressorOptions::Lz4 { version, flags, .. } => vec![("version", version.into()), ("flags", flags.into())],
        CompressorOptions::Zstd { level } => vec![("level", level.into())],
        _ => Vec::new(),
    };
    pairs.into_iter().collect()
}
