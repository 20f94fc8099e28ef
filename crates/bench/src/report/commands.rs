//! Shell commands that repeat a measurement. Charts show them with a value.

use std::ffi::OsStr;
use std::path::Path;

use crate::keys::{build, codec, read, split};
use crate::units::short_size;

/// Returns the command that measures a codec.
pub(super) fn codec(key: &codec::CodecKey) -> String {
    let codec::CodecKey { data, codec, block, threads, policy, .. } = key;
    format!(
        "packfs bench codecs --data {} --codecs {codec} --blocks {} --policy {policy} -j {threads}",
        shell_word(data),
        short_size(*block)
    )
}

/// Returns the command that builds an image.
pub(super) fn build(key: &build::BuildKey) -> Option<String> {
    use crate::build::{BuildInput, BuildProgram, BuildTool, PEERS};
    let program = PEERS.into_iter().chain([BuildProgram::Packfs]).find(|program| program.name() == key.tool)?;
    let tool = BuildTool { program, path: program.name().into(), version: String::new() };
    let tar = format!("{}.tar", key.source);
    let input = BuildInput { directory: key.source.clone().into(), tar: Some(tar.clone().into()), bytes: 0 };
    let image = format!("{}.{}", key.source, key.format);
    let (command, stdin) = tool.command(key, &input, Path::new(&image)).ok()?;
    let from = stdin.map_or(String::new(), |_| format!(" < {}", shell_word(&tar)));
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    Some(shell_line(words) + &from)
}

/// Returns the command that reads an image with a program; kernel reads have none.
pub(super) fn read(key: &read::ReadKey) -> Option<String> {
    let image = shell_word(&format!("{}.{}", key.source, key.format));
    let reader = &key.reader;
    Some(match (reader.as_str(), key.work.as_str()) {
        ("packfs", "tar") => format!("packfs tar -q {image} > /dev/null"),
        ("packfs", "extract") => format!("packfs extract -q -C out {image}"),
        ("sqfs2tar", _) => format!("sqfs2tar {image} > /dev/null"),
        ("unsquashfs", _) => format!("unsquashfs -no-progress -d out {image}"),
        ("fsck.erofs", _) => format!("fsck.erofs --extract=out {image}"),
        _ => return None,
    })
}

/// Returns the command that splits a dump or restores it.
pub(super) fn split(key: &split::SplitKey) -> Option<String> {
    let list_parts = |option: &str| (1..=key.outputs).map(|part| format!(" {option}part{part}")).collect::<String>();
    let codec = &key.codec;
    let data = shell_word(&key.data);
    Some(match (key.tool.as_str(), key.work.as_str()) {
        ("packfs", "split") => format!("packfs split --as-is --codec {codec} {data}{}", list_parts("-o ")),
        ("packfs", work) => format!("packfs {work}{}", list_parts("")),
        _ => return None,
    })
}

/// Returns a command line, quoted for a shell.
pub(super) fn shell_line<'w>(words: impl Iterator<Item = &'w OsStr>) -> String {
    words.map(|one| shell_word(&one.to_string_lossy())).collect::<Vec<_>>().join(" ")
}

/// Quotes a word for a shell, if necessary.
pub fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@+,%^".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_those_that_were_run() {
        let key = build::BuildKey {
            source: "my root".into(),
            digest: "00".into(),
            tool: "mksquashfs".into(),
            format: "squashfs".into(),
            codec: "zstd:3".into(),
            block: 131_072,
            features: "fragments,dedupe".into(),
            threads: 2,
        };
        assert_eq!(
            build(&key).unwrap(),
            "mksquashfs 'my root' 'my root.squashfs' -noappend -no-progress -quiet -b 131072 -processors 2 \
             -always-use-fragments -comp zstd -Xcompression-level 3"
        );
        let packed = build(&build::BuildKey { tool: "packfs".into(), ..key.clone() }).unwrap();
        assert!(packed.starts_with("packfs build 'my root' -o 'my root.squashfs' "), "{packed}");
        let piped = build(&build::BuildKey { tool: "tar2sqfs".into(), ..key.clone() }).unwrap();
        assert!(piped.ends_with(" < 'my root.tar'"), "{piped}");
        assert_eq!(build(&build::BuildKey { tool: "unknown".into(), ..key }), None);
        let key = split::SplitKey {
            data: "core".into(),
            digest: "00".into(),
            tool: "packfs".into(),
            codec: "lzo".into(),
            disks: "50".into(),
            outputs: 2,
            work: "split".into(),
        };
        assert_eq!(split(&key).unwrap(), "packfs split --as-is --codec lzo core -o part1 -o part2");
        assert_eq!(split(&split::SplitKey { work: "join".into(), ..key }).unwrap(), "packfs join part1 part2");
    }
}
