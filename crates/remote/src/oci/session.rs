//! Requests to one repository of a registry, with the access that the registry asks for.

use std::fmt;
use std::io::Read;
use std::sync::{Mutex, PoisonError};

use ring::digest::{SHA256, SHA512, digest};
use ureq::Body;
use ureq::http::{HeaderMap, Method, Response};

use super::access::{self, Challenge, Login};
use super::reference::Reference;
use crate::error::Why;
use crate::http::{Client, Failure, RequestBody, text};
use crate::sign::hex;
use crate::url::Url;

/// Media types of manifests and of lists of them.
const MANIFESTS: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, \
                         application/vnd.docker.distribution.manifest.v2+json, \
                         application/vnd.docker.distribution.manifest.list.v2+json";
/// Largest manifest or token that is read, as registries limit manifests.
const DOCUMENT_MAX: u64 = 4 << 20;
/// Number of redirections followed to a manifest.
const REDIRECTIONS: usize = 5;

/// Access to a repository, which requests for all its manifests and blobs share.
pub(super) struct Session {
    reference: Reference,
    login: Option<Login>,
    /// Value of the header `Authorization`, once the registry has asked for one.
    access: Mutex<Option<String>>,
    /// Held while a token is requested.
    renewing: Mutex<()>,
}

/// Never shows credentials.
impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// A manifest or a list of them, with its media type.
pub(super) struct Document {
    pub(super) media_type: String,
    pub(super) bytes: Vec<u8>,
}

impl Session {
    /// Splits an address. `variable` looks up the environment.
    pub(super) fn new(address: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, Why> {
        let (reference, user) = Reference::parse(address).map_err(Why::Address)?;
        let login = user.or_else(|| access::login(&reference, variable));
        Ok(Session { reference, login, access: Mutex::default(), renewing: Mutex::default() })
    }

    pub(super) fn reference(&self) -> &Reference {
        &self.reference
    }

    /// Address without user and password.
    pub(super) fn name(&self) -> String {
        self.reference.to_string()
    }

    pub(super) fn access(&self) -> Option<String> {
        self.access.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn url(&self, kind: &str, which: &str) -> Result<Url, Why> {
        Url::parse(&self.reference.url(kind, which)).map_err(Why::Address)
    }

    /// Reads a manifest; `None` if there is none.
    pub(super) fn manifest(&self, client: &Client, which: &str) -> Result<Option<Document>, Failure> {
        let response = self.get(client, self.url("manifests", which)?)?;
        match response.status().as_u16() {
            200 => {}
            404 => return Ok(None),
            // Answers of registries that take a blob for a manifest.
            400 | 500 if which.contains(':') => return Ok(None),
            status => return Err(Failure::of_status(status, response.headers())),
        }
        let media_type = text(response.headers(), "content-type").unwrap_or_default().to_owned();
        let bytes = read(response)?;
        if which.contains(':') && digest_like(which, &bytes).as_deref() != Some(which) {
            return Err(Why::Contradiction(format!("a manifest that does not have the digest {which}")).into());
        }
        Ok(Some(Document { media_type, bytes }))
    }

    /// Sends a request, authorised if the registry asks for it; the authorisation stays with its host. Redirections and
    /// other statuses come back as they are.
    pub(super) fn send(
        &self,
        client: &Client,
        method: &Method,
        url: &Url,
        headers: &[(&'static str, String)],
        body: &RequestBody<'_>,
    ) -> Result<Response<Body>, Failure> {
        let is_registry = url.origin() == self.url("manifests", "")?.origin();
        let mut is_renewed = false;
        loop {
            let access = self.access().filter(|_| is_registry);
            let mut headers = headers.to_vec();
            headers.extend(access.clone().map(|access| ("Authorization", access)));
            let response = client.send(method, url, &headers, body)?;
            let is_refused = response.status() == 401 && is_registry && !is_renewed;
            if !is_refused || !self.authorise(client, access.as_deref(), response.headers())? {
                return Ok(response);
            }
            is_renewed = true;
        }
    }

    /// Reads a document, which may lie elsewhere.
    fn get(&self, client: &Client, url: Url) -> Result<Response<Body>, Failure> {
        let mut url = url;
        for _ in 0..=REDIRECTIONS {
            let response =
                self.send(client, &Method::GET, &url, &[("Accept", MANIFESTS.to_owned())], &RequestBody::None)?;
            match response.status().as_u16() {
                301 | 302 | 303 | 307 | 308 => {
                    let to = text(response.headers(), "location").ok_or(Why::Redirect("to nowhere".into()))?;
                    url = url.join(to).map_err(Why::Redirect)?;
                }
                _ => return Ok(response),
            }
        }
        Err(Why::Redirect(format!("more than {REDIRECTIONS} times")).into())
    }

    /// Does what the registry asks for in its refusal of a request with the authorisation `sent`; returns false if nothing
    /// can be done. Of several threads that are refused at once, one requests a token for all: some registries take
    /// only the newest.
    pub(super) fn authorise(&self, client: &Client, sent: Option<&str>, headers: &HeaderMap) -> Result<bool, Failure> {
        let _one = self.renewing.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.access();
        if now.is_some() && now.as_deref() != sent {
            return Ok(true);
        }
        let challenges = headers.get_all("www-authenticate").iter().filter_map(|value| value.to_str().ok());
        let Some(challenge) = challenges.filter_map(Challenge::parse).next() else { return Ok(false) };
        let access = match (challenge, &self.login) {
            // A password that was refused is not sent again: some registries lock users out.
            (Challenge::Basic, Some(login)) if sent != Some(&*login.header()) => login.header(),
            (Challenge::Basic, _) => return Ok(false),
            (Challenge::Bearer(asked), login) => self.token(client, &asked, login.as_ref())?,
        };
        *self.access.lock().unwrap_or_else(PoisonError::into_inner) = Some(access);
        Ok(true)
    }

    /// Requests a token from the server that the registry names.
    fn token(&self, client: &Client, asked: &access::Bearer, login: Option<&Login>) -> Result<String, Failure> {
        let url = Url::parse(&asked.url(&self.reference.repository)).map_err(Why::Address)?;
        if self.reference.is_secure() && !url.is_https() {
            return Err(
                Why::Credentials("the registry asks for a token over a connection that is not secure".into()).into()
            );
        }
        let headers: Vec<_> = login.map(|login| ("Authorization", login.header())).into_iter().collect();
        let response = client.get(&url, &headers)?;
        match response.status().as_u16() {
            200 => {}
            400 | 401 | 403 => return Err(Why::Credentials(access::refused(&url, login)).into()),
            status => return Err(Failure::of_status(status, response.headers())),
        }
        let answer: Option<serde_json::Value> = serde_json::from_slice(&read(response)?).ok();
        let token = answer.as_ref().and_then(|answer| answer.get("token").or_else(|| answer.get("access_token")));
        let token =
            token.and_then(serde_json::Value::as_str).filter(|token| token.bytes().all(|byte| byte.is_ascii_graphic()));
        let token = token.ok_or_else(|| Why::Credentials(format!("{} gave no token", url.clean())))?;
        Ok(format!("Bearer {token}"))
    }
}

fn read(response: Response<Body>) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    response.into_body().into_reader().take(DOCUMENT_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > DOCUMENT_MAX {
        return Err(Why::Artifact(format!("its manifest has more than {DOCUMENT_MAX} bytes")).into());
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
    Some(format!("{name}:{}", hex(digest(algorithm, bytes).as_ref())))
}
