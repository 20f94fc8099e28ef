//! Options of a build in a plan: those that the bytes of the image depend on. Those of the tables of options are stored by
//! name, with the values that set them.

use std::ffi::OsString;

use super::{AnyOptions, Shards};
use crate::build::OptionDraft;
use crate::tree::path_of;
use crate::{Result, erofs, squashfs};
use packfs_tree::encoding::{FieldDecoder, FieldEncoder};

/// Appends options.
pub(super) fn encode(options: &AnyOptions, to: &mut dyn FieldEncoder) {
    let common = options.common();
    to.bytes(options.format().as_bytes());
    to.u8(u8::from(common.verify));
    to.u64(common.offset);
    to.u8(u8::from(common.time.is_some()));
    to.u64(common.time.unwrap_or(0).cast_unsigned());
    let mut values: Vec<(&str, OsString)> = Vec::new();
    for option in options.option_tables().into_iter().flatten() {
        values.extend((option.get)(options).into_iter().map(|value| (option.name, value)));
    }
    to.count(values.len());
    for (name, value) in values {
        to.bytes(name.as_bytes());
        to.bytes(value.as_encoded_bytes());
    }
}

/// Takes options of a build in `shards` shards.
pub(super) fn decode(from: &mut FieldDecoder<'_>, shards: Shards) -> Result<AnyOptions> {
    let mut target = match from.text()? {
        "squashfs" => AnyOptions::Squashfs(squashfs::SquashfsOptions::default()),
        "erofs" => AnyOptions::Erofs(erofs::ErofsOptions::default()),
        _ => return Err(from.wrong("the format is unknown")),
    };
    let common = target.common_mut();
    common.shards = Some(shards);
    common.verify = from.bool()?;
    common.offset = from.u64()?;
    let has_time = from.bool()?;
    let time = from.u64()?.cast_signed();
    common.time = has_time.then_some(time);
    // The plan names all features; those that are on by default must not be added to them.
    target.clear_features();
    let mut draft = OptionDraft::new(target, 0);
    for (name, value) in from.list(8, |from| Ok((from.text()?.to_owned(), path_of(from.bytes()?))))? {
        let mut known = draft.target.option_tables().into_iter().flatten();
        let option = known.find(|option| option.name == name).ok_or_else(|| from.wrong("an option is unknown"))?;
        draft.set(option, value.as_os_str())?;
    }
    Ok(draft.target)
}
