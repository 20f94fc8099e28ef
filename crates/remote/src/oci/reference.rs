//! Addresses of artifacts in registries.

use std::fmt;

use super::access::RegistryLogin;

/// The registry that short names of images belong to, and the host that serves it.
pub(super) const DOCKER: [&str; 2] = ["docker.io", "registry-1.docker.io"];

/// Registry, repository, and the manifest or blob in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ArtifactReference {
    plain: bool,
    /// Host and port.
    pub(super) registry: String,
    pub(super) repository: String,
    which: TagOrDigest,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum TagOrDigest {
    Tag(String),
    Digest(String),
}

impl ArtifactReference {
    /// Splits `oci://[USER:PASSWORD@]REGISTRY/NAME[:TAG][@DIGEST]`. The error says what is wrong with it.
    pub(super) fn parse(address: &str) -> Result<(Self, Option<RegistryLogin>), String> {
        let wrong = || "expected oci://REGISTRY/NAME:TAG or oci://REGISTRY/NAME@sha256:DIGEST".to_owned();
        let (scheme, rest) = address.split_once("://").ok_or_else(wrong)?;
        let (authority, path) = rest.split_once('/').ok_or_else(wrong)?;
        let (user, registry) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        let registry = registry.to_ascii_lowercase();
        let (name, digest) = path.split_once('@').map_or((path, None), |(name, digest)| (name, Some(digest)));
        let (name, tag) = name.rsplit_once(':').map_or((name, None), |(name, tag)| (name, Some(tag)));
        let which = match (digest, tag) {
            (Some(digest), _) if is_digest(digest) => TagOrDigest::Digest(digest.into()),
            (Some(_), _) => {
                return Err("its digest is neither sha256: with 64 nor sha512: with 128 hexadecimal digits".into());
            }
            (None, tag) if tag.is_none_or(is_tag) => TagOrDigest::Tag(tag.unwrap_or("latest").into()),
            (None, _) => return Err("its tag has characters that no tag has".into()),
        };
        if registry.is_empty() || !is_repository(name) {
            return Err(wrong());
        }
        // Docker Hub has the images with short names there.
        let repository = match DOCKER.contains(&registry.as_str()) && !name.contains('/') {
            true => format!("library/{name}"),
            false => name.into(),
        };
        let plain = scheme.eq_ignore_ascii_case("oci+http") || is_loopback(&registry);
        Ok((ArtifactReference { plain, registry, repository, which }, user.map(RegistryLogin::of_address)))
    }

    /// Returns true if the registry is asked by https.
    pub(super) fn is_secure(&self) -> bool {
        !self.plain
    }

    /// Returns the tag or digest.
    pub(super) fn which(&self) -> String {
        match &self.which {
            TagOrDigest::Tag(tag) => tag.clone(),
            TagOrDigest::Digest(digest) => digest.clone(),
        }
    }

    pub(super) fn digest(&self) -> Option<&str> {
        match &self.which {
            TagOrDigest::Tag(_) => None,
            TagOrDigest::Digest(digest) => Some(digest),
        }
    }

    /// Returns the address of a manifest or blob.
    pub(super) fn url(&self, kind: &str, which: &str) -> String {
        let scheme = if self.plain { "http" } else { "https" };
        let host = if self.registry == DOCKER[0] { DOCKER[1] } else { &self.registry };
        format!("{scheme}://{host}/v2/{}/{kind}/{which}", self.repository)
    }
}

impl fmt::Display for ArtifactReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.digest().is_some() { '@' } else { ':' };
        write!(f, "oci://{}/{}{mark}{}", self.registry, self.repository, self.which())
    }
}

/// Returns true for hosts on this machine, whose registries have no certificate.
fn is_loopback(registry: &str) -> bool {
    let host = match registry.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, _)) => host,
        None => registry.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn is_digest(text: &str) -> bool {
    let hex = |digits: &str, len| digits.len() == len && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    match text.split_once(':') {
        Some(("sha256", digits)) => hex(digits, 64),
        Some(("sha512", digits)) => hex(digits, 128),
        _ => false,
    }
}

fn is_tag(text: &str) -> bool {
    let first = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    first && text.len() <= 128 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

fn is_repository(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    let part = |part: &str| part.bytes().all(plain) && part.bytes().any(|byte| byte.is_ascii_alphanumeric());
    text.split('/').all(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_registry_repository_and_manifest() {
        let hex = "0123456789abcdef".repeat(4);
        for (address, shown, url) in [
            (
                "oci://Host:5000/a/b",
                "oci://host:5000/a/b:latest",
                "https://host:5000/v2/a/b/manifests/latest".to_owned(),
            ),
            ("oci://me:x@host/a:v1", "oci://host/a:v1", "https://host/v2/a/manifests/v1".into()),
            ("oci+http://host/a:v1", "oci://host/a:v1", "http://host/v2/a/manifests/v1".into()),
            (
                "oci://localhost:5000/a",
                "oci://localhost:5000/a:latest",
                "http://localhost:5000/v2/a/manifests/latest".into(),
            ),
            ("oci://[::1]:5000/a", "oci://[::1]:5000/a:latest", "http://[::1]:5000/v2/a/manifests/latest".into()),
            (
                "oci://docker.io/alpine",
                "oci://docker.io/library/alpine:latest",
                "https://registry-1.docker.io/v2/library/alpine/manifests/latest".into(),
            ),
            (
                &format!("oci://host/a:v1@sha256:{hex}"),
                &format!("oci://host/a@sha256:{hex}"),
                format!("https://host/v2/a/manifests/sha256:{hex}"),
            ),
        ] {
            let (reference, user) = ArtifactReference::parse(address).unwrap();
            assert_eq!(reference.to_string(), shown, "{address}");
            assert_eq!(reference.url("manifests", &reference.which()), url, "{address}");
            assert_eq!(user.is_some(), address.contains("me:x"), "{address}");
        }
        for wrong in ["oci://host", "oci:///a", "oci://host/", "oci://host/A", "oci://host/a//b", "oci://host/../x"] {
            assert!(ArtifactReference::parse(wrong).unwrap_err().contains("expected oci://"), "{wrong}");
        }
        assert!(ArtifactReference::parse("oci://host/a:b c").unwrap_err().contains("tag"));
        assert!(ArtifactReference::parse("oci://host/a@sha256:12").unwrap_err().contains("digest"));
    }
}
