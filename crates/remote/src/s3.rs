//! Objects in buckets: `s3://bucket/key`, with credentials from the environment and the files of the AWS tools.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use packfs_blocks::mutex;
use ureq::http::HeaderMap;

use crate::error::FailureReason;
use crate::http::{AttemptFailure, HttpClient, header_text};
use crate::origin::{ObjectOrigin, OriginRequest};
use crate::sign::{S3Credentials, sign};
use crate::url::{HttpUrl, component};

/// The region of buckets whose region nothing tells.
const REGION: &str = "us-east-1";

/// An object in a bucket.
pub(crate) struct BucketObject {
    bucket: String,
    /// The key as in an address.
    key: String,
    /// Address of another service than Amazon's.
    endpoint: Option<String>,
    region: Mutex<String>,
    /// `None` for requests without a signature.
    credentials: Option<S3Credentials>,
}

/// Never shows credentials.
impl fmt::Debug for BucketObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl BucketObject {
    /// Splits an address. `variable` looks up the environment.
    pub(crate) fn new(address: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, FailureReason> {
        let wrong = || FailureReason::Address("expected s3://BUCKET/KEY".into());
        let (_, rest) = address.split_once("://").ok_or_else(wrong)?;
        let (bucket, key) = rest.split_once('/').ok_or_else(wrong)?;
        // It becomes a part of the host's name.
        let allowed = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
        if bucket.is_empty() || key.is_empty() || !bucket.chars().all(allowed) {
            return Err(wrong());
        }
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let profile = AwsProfile::read(&variable);
        let region =
            variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION")).or_else(|| profile.get("region"));
        let endpoint = variable("AWS_ENDPOINT_URL_S3").or_else(|| variable("AWS_ENDPOINT_URL"));
        Ok(BucketObject {
            bucket: bucket.into(),
            key: component(key),
            endpoint: endpoint.or_else(|| profile.get("endpoint_url")),
            region: Mutex::new(region.unwrap_or_else(|| REGION.into())),
            credentials: credentials(&variable, &profile)?,
        })
    }

    fn region(&self) -> String {
        mutex::lock(&self.region).clone()
    }

    fn url(&self) -> Result<HttpUrl, FailureReason> {
        let bucket = &self.bucket;
        let key = &self.key;
        let region = self.region();
        let address = match &self.endpoint {
            Some(endpoint) => format!("{}/{bucket}/{key}", endpoint.trim_end_matches('/')),
            // A certificate for all buckets does not cover names with dots.
            None if bucket.contains('.') => format!("https://s3.{region}.amazonaws.com/{bucket}/{key}"),
            None => format!("https://{bucket}.s3.{region}.amazonaws.com/{key}"),
        };
        HttpUrl::parse(&address).map_err(|why| FailureReason::Address(format!("the endpoint or region: {why}")))
    }
}

impl ObjectOrigin for BucketObject {
    fn name(&self) -> String {
        format!("s3://{}/{}", self.bucket, self.key)
    }

    fn identity(&self) -> String {
        format!("{} {}", self.endpoint.as_deref().unwrap_or_default(), self.name())
    }

    fn request(&self) -> Result<OriginRequest, FailureReason> {
        let url = self.url()?;
        let headers = match &self.credentials {
            Some(credentials) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
                sign(&url, credentials, &self.region(), now, &[])
            }
            None => Vec::new(),
        };
        Ok(OriginRequest { url, headers })
    }

    /// A bucket in another region says so in its refusal. Another request may have learnt the same meanwhile, so what
    /// is known by now does not tell how this one was signed.
    fn renew(&self, _: &HttpClient, _: &OriginRequest, _: u16, headers: &HeaderMap) -> Result<bool, AttemptFailure> {
        let Some(told) = header_text(headers, "x-amz-bucket-region") else { return Ok(false) };
        // It becomes a part of the host's name, and anybody could have sent the header.
        if !told.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            return Ok(false);
        }
        *mutex::lock(&self.region) = told.into();
        Ok(true)
    }
}

fn credentials(
    variable: &impl Fn(&str) -> Option<String>,
    profile: &AwsProfile,
) -> Result<Option<S3Credentials>, FailureReason> {
    let half = |what: &str| {
        FailureReason::Credentials(format!("{what} has a key without its secret, or a secret without its key"))
    };
    let pair = |id: Option<String>, secret: Option<String>, token, what| match (id, secret) {
        (Some(id), Some(secret)) => Ok(Some(S3Credentials { id, secret, token })),
        (None, None) => Ok(None),
        _ => Err(half(what)),
    };
    let id = variable("AWS_ACCESS_KEY_ID");
    let secret = variable("AWS_SECRET_ACCESS_KEY");
    if let Some(found) = pair(id, secret, variable("AWS_SESSION_TOKEN"), "the environment")? {
        return Ok(Some(found));
    }
    let id = profile.get("aws_access_key_id");
    let secret = profile.get("aws_secret_access_key");
    pair(id, secret, profile.get("aws_session_token"), "the profile in ~/.aws")
}

/// The settings of one profile in the files of the AWS tools.
#[derive(Default)]
struct AwsProfile(HashMap<String, String>);

impl AwsProfile {
    fn read(variable: &impl Fn(&str) -> Option<String>) -> Self {
        let name = variable("AWS_PROFILE").unwrap_or_else(|| "default".into());
        let in_home = |file: &str| variable("HOME").map(|home| PathBuf::from(home).join(".aws").join(file));
        let config = variable("AWS_CONFIG_FILE").map(PathBuf::from).or_else(|| in_home("config"));
        let shared = variable("AWS_SHARED_CREDENTIALS_FILE").map(PathBuf::from).or_else(|| in_home("credentials"));
        let mut profile = AwsProfile::default();
        // The second file wins, as with the AWS tools.
        for file in [config, shared].into_iter().flatten() {
            profile.take(&std::fs::read_to_string(file).unwrap_or_default(), &name);
        }
        profile
    }

    fn take(&mut self, text: &str, name: &str) {
        let mut inside = false;
        for line in text.lines() {
            if let Some(section) = line.trim().strip_prefix('[').and_then(|rest| rest.split(']').next()) {
                inside = section.trim().strip_prefix("profile ").unwrap_or(section.trim()).trim() == name;
            } else if let Some((key, value)) = line.split_once('=').filter(|_| inside && !line.starts_with([' ', '#']))
            {
                self.0.insert(key.trim().into(), value.trim().into());
            }
        }
    }

    fn get(&self, key: &str) -> Option<String> {
        self.0.get(key).filter(|value| !value.is_empty()).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(address: &str, set: &[(&str, &str)]) -> Result<BucketObject, FailureReason> {
        BucketObject::new(address, |name| {
            set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn addresses_follow_endpoint_region_and_name() {
        let url = |address: &str, set: &[(&str, &str)]| bucket(address, set).unwrap().url().unwrap().request();
        assert_eq!(url("s3://b/a b+c", &[]), "https://b.s3.us-east-1.amazonaws.com/a%20b%2Bc");
        assert_eq!(url("s3://b.c/k", &[("AWS_REGION", "eu-1")]), "https://s3.eu-1.amazonaws.com/b.c/k");
        assert_eq!(url("s3://b/k", &[("AWS_ENDPOINT_URL", "http://h:9000/")]), "http://h:9000/b/k");
        for wrong in ["s3://b", "s3:///k", "s3://b/", "s3://b@c/k"] {
            assert!(bucket(wrong, &[]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn credentials_come_from_the_environment_then_from_the_profile() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("credentials");
        let text = "[default]\naws_access_key_id = A\n# x = y\n[profile two]\naws_access_key_id=B\n\
                    aws_secret_access_key = C\naws_session_token = D\nregion = r\n";
        std::fs::write(&file, text).unwrap();
        let file = ("AWS_SHARED_CREDENTIALS_FILE", file.to_str().unwrap());
        let two = bucket("s3://b/k", &[file, ("AWS_PROFILE", "two")]).unwrap();
        let found = two.credentials.as_ref().unwrap();
        assert_eq!((found.id.as_str(), found.secret.as_str(), found.token.as_deref()), ("B", "C", Some("D")));
        assert_eq!(two.region(), "r");
        assert!(!format!("{two:?}").contains('C'));
        assert!(matches!(bucket("s3://b/k", &[file]), Err(FailureReason::Credentials(_))));
        assert!(bucket("s3://b/k", &[]).unwrap().credentials.is_none());
        let own = [("AWS_ACCESS_KEY_ID", "X"), ("AWS_SECRET_ACCESS_KEY", "Y"), file];
        assert_eq!(bucket("s3://b/k", &own).unwrap().credentials.unwrap().id, "X");
    }
}
