//! Access to registries: what they ask for, and logins from the files that docker, podman and skopeo write.

use std::fmt;
use std::path::PathBuf;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::reference::{ArtifactReference, DOCKER};
use crate::url::{HttpUrl, component};

/// Value of the header `Authorization` that a user and a password make.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct RegistryLogin(String);

/// Never shows the password.
impl fmt::Debug for RegistryLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RegistryLogin")
    }
}

impl RegistryLogin {
    /// A login of user and password as in an address.
    pub(super) fn of_address(user: &str) -> Self {
        RegistryLogin(crate::url::basic(user))
    }

    pub(super) fn header(&self) -> String {
        self.0.clone()
    }
}

/// A header `WWW-Authenticate`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AuthChallenge {
    Basic,
    Bearer(BearerChallenge),
}

/// A token that is asked for, as the distribution specification has it from RFC 6750.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct BearerChallenge {
    realm: String,
    service: Option<String>,
    scope: Option<String>,
}

impl AuthChallenge {
    pub(super) fn parse(header: &str) -> Option<Self> {
        let (scheme, mut rest) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(AuthChallenge::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let mut asked = BearerChallenge::default();
        while let Some((name, after)) = rest.split_once('=') {
            // Values in quotes may have commas.
            let (value, next) = match after.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"')?,
                None => after.split_at(after.find(',').unwrap_or(after.len())),
            };
            match name.trim_matches([',', ' ']).to_ascii_lowercase().as_str() {
                "realm" => asked.realm = value.into(),
                "service" => asked.service = Some(value.into()),
                "scope" => asked.scope = Some(value.into()),
                _ => {}
            }
            rest = next;
        }
        (!asked.realm.is_empty()).then_some(AuthChallenge::Bearer(asked))
    }
}

impl BearerChallenge {
    /// Returns the address of the token to read `repository`.
    pub(super) fn url(&self, repository: &str) -> String {
        let scope = self.scope.clone().unwrap_or_else(|| format!("repository:{repository}:pull"));
        let mut url =
            format!("{}{}scope={}", self.realm, if self.realm.contains('?') { '&' } else { '?' }, component(&scope));
        if let Some(service) = &self.service {
            url += &format!("&service={}", component(service));
        }
        url
    }
}

/// Returns the reason when no token is given.
pub(super) fn explain_refusal(url: &HttpUrl, login: Option<&RegistryLogin>) -> String {
    let host = url.host();
    match login {
        Some(_) => format!("{host} refused the login to the registry; log in again with podman, docker or skopeo"),
        None => format!("{host} gives no access without a login; log in with podman, docker or skopeo"),
    }
}

/// Returns the reason when a registry knows who asks, or lets anybody ask, and does not allow the request.
pub(super) fn explain_denial(url: &HttpUrl) -> String {
    let host = url.host();
    format!("{host} answered 403 Forbidden; log in with podman, docker or skopeo as a user with access")
}

/// Finds the login to a registry in the files of other tools, the first that has one.
pub(super) fn find_login(
    reference: &ArtifactReference,
    variable: impl Fn(&str) -> Option<String>,
) -> Option<RegistryLogin> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let under = |name: &str, file: &str| Some(set(name)?.join(file));
    let files = [
        set("REGISTRY_AUTH_FILE"),
        under("XDG_RUNTIME_DIR", "containers/auth.json"),
        under("XDG_CONFIG_HOME", "containers/auth.json").or_else(|| under("HOME", ".config/containers/auth.json")),
        under("DOCKER_CONFIG", "config.json").or_else(|| under("HOME", ".docker/config.json")),
    ];
    files.into_iter().flatten().find_map(|file| find_login_in(&std::fs::read(file).ok()?, reference))
}

/// Finds the login in such a file: that of the repository, of a path to it, or of the registry.
fn find_login_in(bytes: &[u8], reference: &ArtifactReference) -> Option<RegistryLogin> {
    let parsed: serde_json::Value = serde_json::from_slice(bytes).ok()?;
    let logins = parsed.get("auths")?.as_object()?;
    let docker = DOCKER.contains(&reference.registry.as_str());
    let registry = if docker { DOCKER[0] } else { &reference.registry };
    let mut wanted = format!("{registry}/{}", reference.repository);
    loop {
        let found = logins.iter().find(|(key, _)| registry_named(key) == wanted);
        let auth = found.and_then(|(_, login)| login.get("auth")?.as_str());
        // An entry without one belongs to a program that keeps passwords, which is not started.
        if let Some(auth) = auth.filter(|auth| BASE64_STANDARD.decode(auth).is_ok_and(|login| login.contains(&b':'))) {
            return Some(RegistryLogin(format!("Basic {auth}")));
        }
        wanted.truncate(wanted.rfind('/')?);
    }
}

/// Returns the registry or repository that a key names; older files have addresses.
fn registry_named(key: &str) -> &str {
    let name = key.split_once("://").map_or(key, |(_, rest)| rest).trim_end_matches('/');
    let name = name.strip_suffix("/v1").or_else(|| name.strip_suffix("/v2")).unwrap_or(name);
    if name == "index.docker.io" || name == DOCKER[1] { DOCKER[0] } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read() {
        let header =
            "Bearer realm=\"https://auth.example/token\",service=\"registry\", scope=\"repository:a/b:pull,push\"";
        let Some(AuthChallenge::Bearer(asked)) = AuthChallenge::parse(header) else { panic!("{header}") };
        let url = "https://auth.example/token?scope=repository%3Aa/b%3Apull%2Cpush&service=registry";
        assert_eq!(asked.url("x"), url);
        let Some(AuthChallenge::Bearer(asked)) = AuthChallenge::parse("bearer realm=https://a/t?x=1") else { panic!() };
        assert_eq!(asked.url("a/b"), "https://a/t?x=1&scope=repository%3Aa/b%3Apull");
        assert_eq!(AuthChallenge::parse("Basic realm=\"x\""), Some(AuthChallenge::Basic));
        for none in ["", "Digest realm=\"x\"", "Bearer", "Bearer service=x", "Bearer realm=\"x"] {
            assert_eq!(AuthChallenge::parse(none), None, "{none}");
        }
    }

    #[test]
    fn the_login_is_that_of_the_longest_name() {
        let auth = |user: &str| BASE64_STANDARD.encode(format!("{user}:pass"));
        let file = format!(
            "{{\"auths\": {{\"host:5000\": {{\"auth\": \"{}\"}}, \"host:5000/a/b\": {{\"auth\": \"{}\"}}, \
             \"https://index.docker.io/v1/\": {{\"auth\": \"{}\"}}, \"kept\": {{}}}}, \"credsStore\": \"x\"}}",
            auth("all"),
            auth("one"),
            auth("docker")
        );
        for (address, user) in [
            ("oci://host:5000/a/b", Some("one")),
            ("oci://host:5000/a/b/c:v1", Some("one")),
            ("oci://host:5000/a", Some("all")),
            ("oci://host/a/b", None),
            ("oci://docker.io/alpine", Some("docker")),
            ("oci://kept/a", None),
        ] {
            let (reference, _) = ArtifactReference::parse(address).unwrap();
            let found = find_login_in(file.as_bytes(), &reference).map(|login| login.header());
            assert_eq!(found, user.map(|user| format!("Basic {}", auth(user))), "{address}");
        }
        assert_eq!(find_login_in(b"no json", &ArtifactReference::parse("oci://a/b").unwrap().0), None);
    }

    #[test]
    fn files_are_looked_for_where_other_tools_write_them() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("auth.json");
        let auth = BASE64_STANDARD.encode("me:hunter2");
        std::fs::write(&file, format!("{{\"auths\": {{\"host\": {{\"auth\": \"{auth}\"}}}}}}")).unwrap();
        std::fs::create_dir(dir.path().join(".docker")).unwrap();
        std::fs::copy(&file, dir.path().join(".docker/config.json")).unwrap();
        let (reference, _) = ArtifactReference::parse("oci://host/a").unwrap();
        for (name, value) in [("REGISTRY_AUTH_FILE", file.as_path()), ("HOME", dir.path())] {
            let value = value.to_str().unwrap();
            let found = find_login(&reference, |asked| (asked == name).then(|| value.to_owned())).unwrap();
            assert_eq!(found.header(), format!("Basic {auth}"));
            assert!(!format!("{found:?}").contains(&auth));
        }
        assert_eq!(find_login(&reference, |_| None), None);
    }
}
