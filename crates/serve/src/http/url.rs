//! Paths and parameters of requests: decoded exactly once.

use packfs_blocks::hex::byte_of_digits;

/// Decodes `%XX`; `None` if a `%` is not followed by two hexadecimal digits.
pub(crate) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(&byte) = rest.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        out.push(byte_of_digits(*rest.next()?, *rest.next()?)?);
    }
    Some(out)
}

/// Splits the path of a request into decoded components, without empty ones. `None` unless each can be the name of a
/// directory entry: `.`, `..`, and encoded `/` and NUL are refused.
pub(crate) fn components(path: &[u8]) -> Option<Vec<Vec<u8>>> {
    let parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty());
    let parts = parts.map(|part| decode(part).filter(|name| is_name(name)));
    parts.collect()
}

/// Splits a decoded path into components, with the rules of [`components`].
pub(crate) fn names(path: &[u8]) -> Option<Vec<Vec<u8>>> {
    let parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty());
    parts.map(|part| is_name(part).then(|| part.to_vec())).collect()
}

fn is_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.iter().any(|byte| matches!(byte, b'/' | 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_decoded_once_and_never_lead_upwards() {
        let cases: [(&str, Option<&[&[u8]]>); 14] = [
            ("/", Some(&[])),
            ("//a///b/", Some(&[b"a", b"b"])),
            ("/a%20b/%e4%F6", Some(&[b"a b", b"\xe4\xf6"])),
            ("/%252e%252e/x", Some(&[b"%2e%2e", b"x"])),
            ("/...", Some(&[b"..."])),
            ("/a/../b", None),
            ("/./b", None),
            ("/%2e%2E/b", None),
            ("/.%2e", None),
            ("/a%2fb", None),
            ("/a%00", None),
            ("/a%", None),
            ("/a%4", None),
            ("/a%+1", None),
        ];
        for (path, expected) in cases {
            let expected = expected.map(|parts| parts.iter().map(|part| part.to_vec()).collect());
            assert_eq!(components(path.as_bytes()), expected, "{path}");
        }
    }
}
