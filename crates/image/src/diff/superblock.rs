//! Compares what two images of one format say about themselves in their superblocks.

use std::fmt::{Debug, Display};

use packfs_blocks::hex::to_hex;

use super::{Aspect, Difference};
use crate::{AnyImage, erofs, squashfs};

/// Returns the fields in which the superblocks of two images differ; images of two formats differ in the format.
pub fn superblocks(first: &AnyImage, second: &AnyImage) -> Vec<Difference> {
    let ((format, one), (other_format, two)) = (fields(first), fields(second));
    let pairs = if format == other_format {
        one.into_iter().zip(two).map(|((field, one), (_, two))| (field, one, two)).collect()
    } else {
        vec![("format", Some(format.to_owned()), Some(other_format.to_owned()))]
    };
    let differing = pairs.into_iter().filter(|(_, one, two)| one != two);
    let difference =
        |(field, first, second)| Difference { path: Box::default(), aspect: Aspect::Superblock(field), first, second };
    differing.map(difference).collect()
}

/// A field and its value as text, absent if the image does not have what it describes.
type SuperblockField = (&'static str, Option<String>);

/// Returns the format of an image and its fields, in an order that depends on the format only.
fn fields(image: &AnyImage) -> (&'static str, Vec<SuperblockField>) {
    match image {
        AnyImage::Squashfs(reader) => ("squashfs", of_squashfs(reader.superblock())),
        AnyImage::Erofs(reader) => ("erofs", of_erofs(reader.superblock())),
    }
}

fn text(value: impl Display) -> Option<String> {
    Some(value.to_string())
}

fn of_squashfs(superblock: &squashfs::Superblock) -> Vec<SuperblockField> {
    let fragments = (superblock.fragments > 0).then_some(superblock.fragment_table);
    let options = superblock.options.as_ref().map(|options| format!("{options:?}"));
    vec![
        ("inodes", text(superblock.inodes)),
        ("created", text(superblock.mkfs_time)),
        ("block_size", text(superblock.block_size)),
        ("fragments", text(superblock.fragments)),
        ("codec", text(superblock.codec.name())),
        ("codec_options", options),
        ("flags", text(superblock.flag_names().join(", "))),
        ("ids", text(superblock.ids)),
        ("bytes_used", text(superblock.bytes_used)),
        ("root", text(superblock.root.0)),
        ("id_table", text(superblock.id_table)),
        ("xattr_table", superblock.xattr_table.map(|at| at.to_string())),
        ("inode_table", text(superblock.inode_table)),
        ("directory_table", text(superblock.directory_table)),
        ("fragment_table", fragments.map(|at| at.to_string())),
        ("export_table", superblock.export_table.map(|at| at.to_string())),
    ]
}

fn of_erofs(superblock: &erofs::Superblock) -> Vec<SuperblockField> {
    let shown = |value: &dyn Debug| Some(format!("{value:?}"));
    vec![
        ("inodes", text(superblock.inodes)),
        ("created", text(superblock.build_time)),
        ("epoch", text(format_args!("{}.{:09}", superblock.epoch.secs, superblock.epoch.nanos))),
        ("block_size", text(superblock.block_size)),
        ("blocks", text(superblock.blocks)),
        ("uuid", Some(to_hex(&superblock.uuid))),
        ("label", text(superblock.label.escape_ascii())),
        ("compatible_features", text(format_args!("{:#x}", superblock.compat.bits()))),
        ("incompatible_features", text(format_args!("{:#x}", superblock.incompat.bits()))),
        ("compression", shown(&superblock.compression)),
        ("root", text(superblock.root.0)),
        ("inode_table", text(superblock.metadata_start)),
        ("shared_xattrs", text(superblock.xattr_start)),
        ("packed_inode", superblock.packed.map(|nid| nid.0.to_string())),
        ("metabox", superblock.metabox.map(|nid| nid.0.to_string())),
        ("xattr_prefixes", text(superblock.xattr_prefixes)),
        ("devices", shown(&superblock.devices.iter().map(|device| (device.start, device.blocks)).collect::<Vec<_>>())),
    ]
}
