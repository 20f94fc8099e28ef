//! Requests to one repository of a registry, with the access that the registry asks for.

use std::fmt;
use std::io::Read;
use std::sync::Mutex;

use packfs_blocks::hex::to_hex;
use packfs_blocks::mutex;
use ring::digest::{SHA256, SHA512, digest};
use ureq::Body;
use ureq::http::{HeaderMap, Method, Response};

use super::access::{self, AuthChallenge, RegistryLogin};
use super::reference::ArtifactReference;
use super::repository::Manifest;
use crate::error::{FailureReason, status_name};
use crate::http::{AttemptFailure, HttpClient, RequestBody, header_text};
use crate::url::HttpUrl;

/// Media types of manifests and of lists of them.
const MANIFESTS: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, \
                         application/vnd.docker.distribution.manifest.v2+json, \
                         application/vnd.docker.distribution.manifest.list.v2+json";
/// Largest manifest or token that is read, as registries limit manifests.
const DOCUMENT_MAX: u64 = 4 << 20;
/// Number of redirections followed to a manifest.
const REDIRECTIONS: usize = 5;

/// Access to a repository, which requests for all its manifests and blobs share.
pub(super) struct RepositorySession {
    reference: ArtifactReference,
    login: Option<RegistryLogin>,
    /// Value of the header `Authorization`, once the registry has asked for one.
    access: Mutex<Option<String>>,
    /// Held while a token is requested.
    renewing: Mutex<()>,
}

/// Never shows credentials.
impl fmt::Debug for RepositorySession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl RepositorySession {
    /// Splits an address. `variable` looks up the environment.
    pub(super) fn new(address: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, FailureReason> {
        let (reference, user) = ArtifactReference::parse(address).map_err(FailureReason::Address)?;
        let login = user.or_else(|| access::find_login(&reference, variable));
        Ok(RepositorySession { reference, login, access: Mutex::default(), renewing: Mutex::default() })
    }

    pub(super) fn reference(&self) -> &ArtifactReference {
        &self.reference
    }

    /// Address without user and password.
    pub(super) fn name(&self) -> String {
        self.reference.to_string()
    }

    pub(super) fn access(&self) -> Option<String> {
        mutex::lock(&self.access).clone()
    }

    pub(super) fn url(&self, kind: &str, which: &str) -> Result<HttpUrl, FailureReason> {
        HttpUrl::parse(&self.reference.url(kind, which)).map_err(FailureReason::Address)
    }

    /// Reads a manifest; `None` if there is none. `may_be_blob` says that the digest may be that of a blob.
    pub(super) fn manifest(
        &self,
        client: &HttpClient,
        which: &str,
        may_be_blob: bool,
    ) -> Result<Option<Manifest>, AttemptFailure> {
        let response = self.get(client, self.url("manifests", which)?)?;
        match response.status().as_u16() {
            200 => {}
            404 => return Ok(None),
            // Answers of registries that take a blob for a manifest. The second may also be a fault that passes.
            400 if which.contains(':') => return Ok(None),
            500 if may_be_blob => return Ok(None),
            status => return Err(AttemptFailure::of_status(status, response.headers())),
        }
        let media_type = header_text(response.headers(), "content-type").unwrap_or_default().to_owned();
        let bytes = read(client, response)?;
        if which.contains(':') && digest_like(which, &bytes).as_deref() != Some(which) {
            return Err(
                FailureReason::Contradiction(format!("a manifest that does not have the digest {which}")).into()
            );
        }
        Ok(Some(Manifest { media_type, bytes }))
    }

    /// Sends a request, authorised if the registry asks for it; the authorisation stays with its host. Redirections and
    /// other statuses come back as they are.
    pub(super) fn send(
        &self,
        client: &HttpClient,
        method: &Method,
        url: &HttpUrl,
        headers: &[(&'static str, String)],
        body: &RequestBody<'_>,
    ) -> Result<Response<Body>, AttemptFailure> {
        let is_registry = url.origin() == self.url("manifests", "")?.origin();
        let mut is_renewed = false;
        loop {
            let access = self.access().filter(|_| is_registry);
            let mut headers = headers.to_vec();
            headers.extend(access.clone().map(|access| ("Authorization", access)));
            let response = client.send(method, url, &headers, body)?;
            let status = response.status().as_u16();
            let is_refused = status == 401 && is_registry && !is_renewed;
            if is_refused && self.authorise(client, access.as_deref(), response.headers())? {
                is_renewed = true;
                continue;
            }
            return match status {
                401 if is_registry => {
                    Err(FailureReason::Credentials(access::explain_refusal(url, self.login.as_ref())).into())
                }
                403 if is_registry => Err(FailureReason::Credentials(access::explain_denial(url)).into()),
                _ => Ok(response),
            };
        }
    }

    /// Reads a document, which may lie elsewhere.
    fn get(&self, client: &HttpClient, url: HttpUrl) -> Result<Response<Body>, AttemptFailure> {
        let mut url = url;
        for _ in 0..=REDIRECTIONS {
            let response =
                self.send(client, &Method::GET, &url, &[("Accept", MANIFESTS.to_owned())], &RequestBody::None)?;
            match response.status().as_u16() {
                301 | 302 | 303 | 307 | 308 => {
                    let to = header_text(response.headers(), "location")
                        .ok_or(FailureReason::Redirect("to nowhere".into()))?;
                    url = url.join(to).map_err(FailureReason::Redirect)?;
                }
                _ => return Ok(response),
            }
        }
        Err(FailureReason::Redirect(format!("more than {REDIRECTIONS} times")).into())
    }

    /// Does what the registry asks for in its refusal of a request with the authorisation `sent`; returns false if nothing
    /// can be done. Of several threads that are refused at once, one requests a token for all: some registries take
    /// only the newest.
    pub(super) fn authorise(
        &self,
        client: &HttpClient,
        sent: Option<&str>,
        headers: &HeaderMap,
    ) -> Result<bool, AttemptFailure> {
        let _one = mutex::lock(&self.renewing);
        let now = self.access();
        if now.is_some() && now.as_deref() != sent {
            return Ok(true);
        }
        let challenges = headers.get_all("www-authenticate").iter().filter_map(|value| value.to_str().ok());
        let Some(challenge) = challenges.filter_map(AuthChallenge::parse).next() else { return Ok(false) };
        let access = match (challenge, &self.login) {
            // A password that was refused is not sent again: some registries lock users out.
            (AuthChallenge::Basic, Some(login)) if sent != Some(&*login.header()) => login.header(),
            (AuthChallenge::Basic, _) => return Ok(false),
            (AuthChallenge::Bearer(asked), login) => self.token(client, &asked, login.as_ref())?,
        };
        *mutex::lock(&self.access) = Some(access);
        Ok(true)
    }

    /// Requests a token from the server that the registry names.
    fn token(
        &self,
        client: &HttpClient,
        asked: &access::BearerChallenge,
        login: Option<&RegistryLogin>,
    ) -> Result<String, AttemptFailure> {
        let url = HttpUrl::parse(&asked.url(&self.reference.repository)).map_err(FailureReason::Address)?;
        if self.reference.is_secure() && !url.is_https() {
            return Err(FailureReason::Credentials(
                "the registry asks for a token over a connection that is not secure".into(),
            )
            .into());
        }
        let headers: Vec<_> = login.map(|login| ("Authorization", login.header())).into_iter().collect();
        let response = client.get(&url, &headers)?;
        match response.status().as_u16() {
            200 => {}
            400 | 401 | 403 => return Err(FailureReason::Credentials(access::explain_refusal(&url, login)).into()),
            status => {
                return Err(match AttemptFailure::of_status(status, response.headers()) {
                    // The address in the message is that of the image.
                    AttemptFailure::Final(FailureReason::Status { .. }) => {
                        let name = status_name(status);
                        let why = format!("{} answered {status}{name} to the request for a token", url.clean());
                        FailureReason::Credentials(why).into()
                    }
                    other => other,
                });
            }
        }
        let answer: Option<serde_json::Value> = serde_json::from_slice(&read(client, response)?).ok();
        let token = answer.as_ref().and_then(|answer| answer.get("token").or_else(|| answer.get("access_token")));
        let token =
            token.and_then(serde_json::Value::as_str).filter(|token| token.bytes().all(|byte| byte.is_ascii_graphic()));
        let token = token.ok_or_else(|| FailureReason::Credentials(format!("{} gave no token", url.clean())))?;
        Ok(format!("Bearer {token}"))
    }
}

fn read(client: &HttpClient, response: Response<Body>) -> Result<Vec<u8>, AttemptFailure> {
    let mut bytes = Vec::new();
    client.progress.watch(response.into_body().into_reader()).take(DOCUMENT_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > DOCUMENT_MAX {
        return Err(FailureReason::Artifact(format!("its manifest has more than {DOCUMENT_MAX} bytes")).into());
    }
    Ok(bytes)
}

/// Returns the digest of `bytes` by the algorithm of another digest, if it is known.
fn digest_like(other: &str, bytes: &[u8]) -> Option<String> {
    let (name, _) = other.split_once(':')?;
    let algorithm = match name {
        "sha256" => &SHA256,
        "sha512" => &SHA512,
        _ => return None,
    };
    Some(format!("{name}:{}", to_hex(digest(algorithm, bytes).as_ref())))
}
