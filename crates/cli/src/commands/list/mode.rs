//! File types and permissions as `ls -l` shows them.

use packfs_image::image::FileType;

/// Formats type and permissions, as in `drwxr-sr-x`.
pub(crate) fn mode_text(kind: &FileType, mode: u16) -> ModeText {
    let mut text = *b"?rwxrwxrwx";
    text[0] = match kind.letter() {
        b'f' => b'-',
        letter => letter,
    };
    for (bit, slot) in text[1..].iter_mut().rev().enumerate() {
        if mode & (1 << bit) == 0 {
            *slot = b'-';
        }
    }
    for (bit, at, set) in [(0o4000, 3, b's'), (0o2000, 6, b's'), (0o1000, 9, b't')] {
        if mode & bit != 0 {
            text[at] = if text[at] == b'-' { set.to_ascii_uppercase() } else { set };
        }
    }
    ModeText(text)
}

pub(crate) struct ModeText([u8; 10]);

impl ModeText {
    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_look_as_ls_shows_them() {
        let cases = [
            (FileType::Dir, 0o755, "drwxr-xr-x"),
            (FileType::File { size: 0 }, 0, "----------"),
            (FileType::File { size: 0 }, 0o4755, "-rwsr-xr-x"),
            (FileType::File { size: 0 }, 0o6644, "-rwSr-Sr--"),
            (FileType::Dir, 0o1777, "drwxrwxrwt"),
            (FileType::Dir, 0o1776, "drwxrwxrwT"),
            (FileType::Fifo, 0o421, "pr---w---x"),
        ];
        for (kind, bits, text) in cases {
            assert_eq!(mode_text(&kind, bits).as_str(), text);
        }
    }
}
