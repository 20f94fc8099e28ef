//! Options of a build in a plan: those that the bytes of the image depend on.

use packfs_codec::Choice;

use super::{AnyOptions, Shards};
use crate::build::Order;
use crate::{Result, erofs, squashfs};
use packfs_tree::encoding::{Get, Put};

/// Appends options.
pub(super) fn encode(options: &AnyOptions, to: &mut dyn Put) {
    let common = options.common();
    to.u8(match options {
        AnyOptions::Squashfs(_) => 0,
        AnyOptions::Erofs(_) => 1,
    });
    to.bytes(common.codec.to_string().as_bytes());
    let digest = inode_digest(options);
    let switches = [common.dedup, common.sparse, common.verify, digest.is_some()];
    to.u8(bits(&switches));
    to.u64(common.offset);
    to.u8(u8::from(common.time.is_some()));
    to.u64(common.time.unwrap_or(0).cast_unsigned());
    // The lists of the shards are in this order already: the assembly only reports it.
    to.u8(match common.order {
        None => 0,
        Some(Order::Path) => 1,
        Some(Order::Type) => 2,
        Some(Order::Similar) => 3,
    });
    match options {
        AnyOptions::Squashfs(options) => {
            to.u32(options.block_size);
            to.u8(match options.fragments {
                squashfs::Fragments::None => 0,
                squashfs::Fragments::Small => 1,
                squashfs::Fragments::Tails => 2,
            });
            to.u8(squashfs_flags(options));
        }
        AnyOptions::Erofs(options) => {
            to.u32(options.cluster_size);
            to.u32(options.block_size);
            to.u32(options.features.bits());
            to.bytes(options.target_kernel.to_string().as_bytes());
            to.count(options.xattr_prefixes.len());
            options.xattr_prefixes.iter().for_each(|prefix| to.bytes(prefix));
            to.u32(options.xattr_share.map_or(0, |above| above.saturating_add(1)));
            to.u32(options.chunk_size);
            to.u32(options.fragment_cluster.unwrap_or(0));
            to.u32(options.metabox.cluster_size);
            to.bytes(options.metabox.codec.as_ref().map(ToString::to_string).unwrap_or_default().as_bytes());
            to.bytes(options.uuid.as_ref().map_or(&[], |uuid| &uuid[..]));
            to.bytes(options.label.as_bytes());
            digest.into_iter().for_each(|name| to.bytes(name));
        }
    }
}

/// Returns the switches of a SquashFS image as bits; a plan of a version without one of them has a 0 there.
fn squashfs_flags(options: &squashfs::Options) -> u8 {
    let squashfs::Options { export, plain_metadata, plain_data, plain_fragments, pad, .. } = options;
    bits(&[*export, *plain_metadata, !*pad, *plain_data, *plain_fragments])
}

fn bits(switches: &[bool]) -> u8 {
    switches.iter().enumerate().fold(0, |all, (n, set)| all | u8::from(*set) << n)
}

/// Returns the name of the attribute for digests; a plan of a version without them has none.
fn inode_digest(options: &AnyOptions) -> Option<&[u8]> {
    match options {
        AnyOptions::Squashfs(_) => None,
        AnyOptions::Erofs(options) => options.inode_digest.as_deref(),
    }
}

/// Takes options of a build in `shards` shards.
pub(super) fn decode(from: &mut Get<'_>, shards: Shards) -> Result<AnyOptions> {
    let format = from.u8()?;
    let codec = from.text()?.parse::<Choice>()?;
    let flags = from.u8()?;
    let offset = from.u64()?;
    let (has_time, time) = (from.bool()?, from.u64()?.cast_signed());
    let order = match from.u8()? {
        0 => None,
        1 => Some(Order::Path),
        2 => Some(Order::Type),
        3 => Some(Order::Similar),
        _ => return Err(from.wrong("the order is unknown")),
    };
    let mut options = match format {
        0 => {
            let (block_size, fragments, flags) = (from.u32()?, from.u8()?, from.u8()?);
            let fragments = match fragments {
                0 => squashfs::Fragments::None,
                1 => squashfs::Fragments::Small,
                _ => squashfs::Fragments::Tails,
            };
            let is = |bit: u8| flags & bit != 0;
            AnyOptions::Squashfs(squashfs::Options {
                build: squashfs::Options::default().build,
                block_size,
                fragments,
                export: is(1),
                plain_metadata: is(2),
                plain_data: is(8),
                plain_fragments: is(16),
                pad: !is(4),
                // A plan refuses it.
                stream: false,
            })
        }
        1 => {
            let (cluster_size, block_size, features) = (from.u32()?, from.u32()?, from.u32()?);
            let target_kernel = from.text()?.parse().map_err(|_| from.wrong("the kernel has no version"))?;
            AnyOptions::Erofs(erofs::Options {
                build: erofs::Options::default().build,
                cluster_size,
                block_size,
                features: erofs::Features::from_bits(features).ok_or_else(|| from.wrong("a feature is unknown"))?,
                target_kernel,
                xattr_prefixes: from.list(8, |from| from.bytes().map(Box::from))?,
                xattr_share: from.u32()?.checked_sub(1),
                chunk_size: from.u32()?,
                fragment_cluster: Some(from.u32()?).filter(|size| *size > 0),
                metabox: metabox(from)?,
                extent_max: None,
                data_align: None,
                refer: 0,
                blob: None,
                reflink: false,
                uuid: from.bytes()?.try_into().ok(),
                label: from.text()?.to_owned(),
                inode_digest: (flags & 8 != 0).then(|| from.bytes().map(Box::from)).transpose()?,
            })
        }
        _ => return Err(from.wrong("the format is unknown")),
    };
    let common = options.common_mut();
    (common.codec, common.offset, common.shards) = (codec, offset, Some(shards));
    (common.dedup, common.sparse, common.verify) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0);
    common.time = has_time.then_some(time);
    common.order = order;
    Ok(options)
}

/// Takes how a metabox is compressed.
fn metabox(from: &mut Get<'_>) -> Result<erofs::Metabox> {
    let cluster_size = from.u32()?;
    let codec = from.text()?;
    let codec = if codec.is_empty() { None } else { Some(codec.parse()?) };
    Ok(erofs::Metabox { cluster_size, codec })
}
