//! Manifests: the layer that is an image, and the manifest for this machine in a list of them.

use packfs_blocks::system::container_architecture;
use serde_json::Value;

use crate::error::FailureReason;

/// A blob of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BlobDescriptor {
    pub(super) digest: String,
    /// Its length, if the manifest has it.
    pub(super) len: Option<u64>,
}

/// Returns the digest of the manifest for this machine, if `document` is a list of manifests.
pub(super) fn find_this_machine(document: &Value) -> Result<Option<String>, FailureReason> {
    let Some(all) = document.get("manifests").and_then(Value::as_array) else { return Ok(None) };
    let platform = |one: &Value| {
        let part = |name: &str| one.get("platform").and_then(|of| of.get(name)?.as_str()).unwrap_or("any").to_owned();
        format!("{}/{}", part("os"), part("architecture"))
    };
    let wanted = format!("linux/{}", container_architecture());
    let found = match all.as_slice() {
        [one] => Some(one),
        all => all.iter().find(|one| platform(one) == wanted),
    };
    let told = || {
        let digests = all.iter().filter_map(|one| Some(format!("{} ({})", descriptor_digest(one)?, platform(one))));
        format!("it has no manifest for {wanted}; name one of {}", digests.collect::<Vec<_>>().join(", "))
    };
    found.and_then(descriptor_digest).map(Some).ok_or_else(|| FailureReason::Artifact(told()))
}

fn descriptor_digest(descriptor: &Value) -> Option<String> {
    let text = descriptor.get("digest")?.as_str()?;
    // It becomes a part of addresses.
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b':';
    (text.contains(':') && text.bytes().all(plain)).then(|| text.to_owned())
}

/// Returns the layer that is an image: the one whose type says so, or the only one unless that is an archive.
pub(super) fn image_layer(document: &Value) -> Result<BlobDescriptor, FailureReason> {
    let layers = document.get("layers").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let kind = |layer: &&Value| layer.get("mediaType").and_then(Value::as_str).unwrap_or("no type").to_owned();
    let is_image = |layer: &&Value| ["squashfs", "erofs"].iter().any(|name| kind(layer).contains(name));
    let images: Vec<&Value> = layers.iter().filter(is_image).collect();
    let found = match (images.as_slice(), layers) {
        ([one], _) => one,
        ([], [one]) if !kind(&one).contains("tar") => one,
        ([], []) => return Err(FailureReason::Artifact("its manifest has no layers".into())),
        ([], all) => {
            let kinds: Vec<String> = all.iter().map(|layer| kind(&layer)).collect();
            return Err(FailureReason::Artifact(format!(
                "its layers are not file system images, but {}",
                kinds.join(", ")
            )));
        }
        (several, _) => {
            let digests: Vec<String> = several.iter().filter_map(|layer| descriptor_digest(layer)).collect();
            return Err(FailureReason::Artifact(format!(
                "it has {} images; name one of them instead: @{}",
                several.len(),
                digests.join(", @")
            )));
        }
    };
    let digest = descriptor_digest(found)
        .ok_or_else(|| FailureReason::Artifact("its manifest names no digest of the layer".into()))?;
    Ok(BlobDescriptor { digest, len: found.get("size").and_then(Value::as_u64) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn one(kind: &str, digest: &str) -> Value {
        json!({"mediaType": kind, "digest": digest, "size": 7})
    }

    #[test]
    fn the_layer_is_the_image() {
        let tar = one("application/vnd.oci.image.layer.v1.tar+gzip", "sha256:1");
        let squashfs = one("application/vnd.sylabs.image.layer.v1.squashfs", "sha256:2");
        let erofs = one("application/vnd.erofs.layer.v1", "sha256:3");
        let other = one("application/octet-stream", "sha256:4");
        for (layers, found) in
            [(vec![&squashfs], "sha256:2"), (vec![&tar, &erofs], "sha256:3"), (vec![&other], "sha256:4")]
        {
            let blob = image_layer(&json!({"layers": layers})).unwrap();
            assert_eq!((blob.digest.as_str(), blob.len), (found, Some(7)));
        }
        for (layers, why) in [
            (vec![], "no layers"),
            (vec![&tar], "not file system images, but application/vnd.oci.image.layer.v1.tar+gzip"),
            (vec![&other, &tar], "not file system images"),
            (vec![&squashfs, &erofs], "name one of them instead: @sha256:2, @sha256:3"),
            (vec![&one("x.erofs", "../../x")], "no digest"),
        ] {
            let Err(FailureReason::Artifact(told)) = image_layer(&json!({"layers": layers})) else {
                panic!("{layers:?}")
            };
            assert!(told.contains(why), "{told}");
        }
    }

    #[test]
    fn the_manifest_is_that_of_this_machine() {
        let of =
            |arch: &str, digest: &str| json!({"digest": digest, "platform": {"os": "linux", "architecture": arch}});
        let ours = of(container_architecture(), "sha256:2");
        let list = json!({"manifests": [of("none", "sha256:1"), ours]});
        assert_eq!(find_this_machine(&list), Ok(Some("sha256:2".into())));
        assert_eq!(find_this_machine(&json!({"manifests": [of("none", "sha256:1")]})), Ok(Some("sha256:1".into())));
        assert_eq!(find_this_machine(&json!({"layers": []})), Ok(None));
        let none = json!({"manifests": [of("none", "sha256:1"), of("other", "sha256:2")]});
        let Err(FailureReason::Artifact(told)) = find_this_machine(&none) else { panic!() };
        assert!(told.contains("sha256:1 (linux/none), sha256:2 (linux/other)"), "{told}");
    }
}
