//! Images in registries: `oci://registry/name:tag` or `oci://registry/name@sha256:...`.
//!
//! The protocol is that of the OCI distribution specification, version 1.1: a manifest names the layers, each layer is a
//! blob with a digest, and blobs are read by ranges. Registries lead to their store by redirections, and ask for a token
//! that another server gives.

mod access;
mod manifest;
mod reference;

use std::fmt;
use std::io::Read;
use std::sync::{Mutex, OnceLock, PoisonError};

use ring::digest::{SHA256, SHA512, digest};
use ureq::Body;
use ureq::http::{HeaderMap, Response};

use self::access::{Challenge, Login};
use self::manifest::Blob;
use self::reference::Reference;
use crate::error::Why;
use crate::http::{Client, Failure, text};
use crate::origin::{Origin, Request};
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

/// A layer of an artifact in a registry.
pub(crate) struct Artifact {
    reference: Reference,
    login: Option<Login>,
    /// Value of the header `Authorization`, once the registry has asked for one.
    access: Mutex<Option<String>>,
    /// Held while a token is requested.
    renewing: Mutex<()>,
    /// The layer, once the manifest was read.
    blob: OnceLock<Blob>,
}

/// Never shows credentials.
impl fmt::Debug for Artifact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl Artifact {
    /// Splits an address. `variable` looks up the environment.
    pub(crate) fn new(address: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, Why> {
        let (reference, user) = Reference::parse(address).map_err(Why::Address)?;
        let login = user.or_else(|| access::login(&reference, variable));
        Ok(Artifact { reference, login, access: Mutex::default(), renewing: Mutex::default(), blob: OnceLock::new() })
    }

    fn access(&self) -> Option<String> {
        self.access.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn url(&self, kind: &str, which: &str) -> Result<Url, Why> {
        Url::parse(&self.reference.url(kind, which)).map_err(Why::Address)
    }

    /// Finds the layer: that of the manifest, the manifest for this machine in a list of them, or the blob itself.
    fn find(&self, client: &Client) -> Result<Blob, Failure> {
        let Some(mut document) = self.manifest(client, &self.reference.which())? else {
            // The digest is that of a blob.
            return match self.reference.digest() {
                Some(digest) => Ok(Blob { digest: digest.to_owned(), len: None }),
                None => Err(Failure::Final(Why::Status { status: 404, tries: 1 })),
            };
        };
        if let Some(digest) = manifest::of_this_machine(&document)? {
            let found = self.manifest(client, &digest)?;
            document = found.ok_or_else(|| Why::Artifact("its list names a manifest that is not there".into()))?;
        }
        Ok(manifest::layer(&document)?)
    }

    /// Reads a manifest; `None` if there is none.
    fn manifest(&self, client: &Client, which: &str) -> Result<Option<serde_json::Value>, Failure> {
        let response = self.get(client, self.url("manifests", which)?)?;
        match response.status().as_u16() {
            200 => {}
            404 => return Ok(None),
            // Answers of registries that take a blob for a manifest.
            400 | 500 if which.contains(':') => return Ok(None),
            status => return Err(Failure::of_status(status, response.headers())),
        }
        let bytes = read(response)?;
        if which.contains(':') && digest_like(which, &bytes).as_deref() != Some(which) {
            return Err(Why::Contradiction(format!("a manifest that does not have the digest {which}")).into());
        }
        let parsed = serde_json::from_slice(&bytes);
        Ok(Some(parsed.map_err(|why| Why::Artifact(format!("its manifest cannot be read: {why}")))?))
    }

    /// Sends a request, authorised if the registry asks for it; the authorisation stays with its host.
    fn get(&self, client: &Client, url: Url) -> Result<Response<Body>, Failure> {
        let registry = url.origin();
        let mut url = url;
        let mut renewed = false;
        for _ in 0..=REDIRECTIONS {
            let mut headers = vec![("Accept", MANIFESTS.to_owned())];
            let access = self.access().filter(|_| url.origin() == registry);
            headers.extend(access.clone().map(|access| ("Authorization", access)));
            let response = client.get(&url, &headers)?;
            match response.status().as_u16() {
                401 if !renewed && self.authorise(client, access.as_deref(), response.headers())? => renewed = true,
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
    fn authorise(&self, client: &Client, sent: Option<&str>, headers: &HeaderMap) -> Result<bool, Failure> {
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

impl Origin for Artifact {
    fn name(&self) -> String {
        self.reference.to_string()
    }

    fn identity(&self) -> String {
        format!("{} {}", self.reference.registry, self.reference.repository)
    }

    fn digest(&self) -> Option<String> {
        self.blob.get().map(|blob| blob.digest.clone())
    }

    fn len(&self) -> Option<u64> {
        self.blob.get()?.len
    }

    fn prepare(&self, client: &Client) -> Result<(), Failure> {
        let blob = self.find(client)?;
        self.blob.get_or_init(|| blob);
        Ok(())
    }

    fn request(&self) -> Result<Request, Why> {
        let digest = self.digest().unwrap_or_default();
        let headers = self.access().map(|access| ("Authorization", access)).into_iter().collect();
        Ok(Request { url: self.url("blobs", &digest)?, headers })
    }

    /// A token is valid for minutes.
    fn renew(&self, client: &Client, sent: &Request, status: u16, headers: &HeaderMap) -> Result<bool, Failure> {
        if status == 401 { self.authorise(client, sent.header("Authorization"), headers) } else { Ok(false) }
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
