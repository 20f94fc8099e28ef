//! Signatures of requests to buckets, version 4.

use std::fmt::Write as _;

use packfs_blocks::calendar::{CivilDate, DAY};
use packfs_blocks::hex::to_hex;
use ring::{digest, hmac};

use crate::url::HttpUrl;

/// Credentials of an S3 account, with which requests are signed.
pub(crate) struct S3Credentials {
    pub(crate) id: String,
    pub(crate) secret: String,
    pub(crate) token: Option<String>,
}

/// Returns the headers that sign a GET request at `now`, in seconds since 1970. `more` are further headers to sign, with
/// names in lower case.
pub(crate) fn sign(
    url: &HttpUrl,
    by: &S3Credentials,
    region: &str,
    now: u64,
    more: &[(&'static str, String)],
) -> Vec<(&'static str, String)> {
    let time = timestamp(now);
    let day = &time[..8];
    let empty = to_hex(digest::digest(&digest::SHA256, b"").as_ref());
    let mut headers = vec![("x-amz-content-sha256", empty.clone()), ("x-amz-date", time.clone())];
    headers.extend(by.token.clone().map(|token| ("x-amz-security-token", token)));
    let mut signed = [&headers, more, &[("host", url.authority().to_owned())]].concat();
    // Signature version 4 requires the names in order.
    signed.sort();
    let names = signed.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
    let (path, query) = url.path().split_once('?').unwrap_or((url.path(), ""));
    let mut request = format!("GET\n{path}\n{query}\n");
    for (name, value) in &signed {
        let _ = writeln!(request, "{name}:{}", value.trim());
    }
    let _ = write!(request, "\n{names}\n{empty}");
    let scope = format!("{day}/{region}/s3/aws4_request");
    let request = to_hex(digest::digest(&digest::SHA256, request.as_bytes()).as_ref());
    let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{request}");
    let mut key = format!("AWS4{}", by.secret).into_bytes();
    for part in [day, region, "s3", "aws4_request"] {
        key = mac(&key, part);
    }
    let id = &by.id;
    let signature = to_hex(&mac(&key, &text));
    let value = format!("AWS4-HMAC-SHA256 Credential={id}/{scope},SignedHeaders={names},Signature={signature}");
    headers.push(("Authorization", value));
    headers
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
}

/// Formats a time as in 20130524T000000Z.
fn timestamp(now: u64) -> String {
    let now = now.cast_signed();
    let CivilDate { year, month, day } = CivilDate::of_day(now.div_euclid(DAY));
    let rest = now.rem_euclid(DAY);
    format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example in Amazon's description of signatures.
    #[test]
    fn the_published_example_is_signed_as_published() {
        let url = HttpUrl::parse("https://examplebucket.s3.amazonaws.com/test.txt").unwrap();
        let by = S3Credentials {
            id: "AKIAIOSFODNN7EXAMPLE".into(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
            token: None,
        };
        let headers = sign(&url, &by, "us-east-1", 1_369_353_600, &[("range", "bytes=0-9".into())]);
        let value = &headers.last().unwrap().1;
        assert!(value.ends_with("f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"), "{value}");
        assert!(value.contains("SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"));
    }

    #[test]
    fn times_are_written_as_dates() {
        for (now, text) in [
            (0, "19700101T000000Z"),
            (951_782_399, "20000228T235959Z"),
            (951_782_400, "20000229T000000Z"),
            (1_709_251_199, "20240229T235959Z"),
            (4_102_444_800, "21000101T000000Z"),
        ] {
            assert_eq!(timestamp(now), text);
        }
    }
}
