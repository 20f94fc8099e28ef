//! Images behind addresses, wherever a command takes an image.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use packfs_blocks::ReadAt;

use crate::args::RemoteArgs;

/// Returns the bytes behind an address; `None` if `path` is not one.
pub(super) fn bytes(path: &Path, args: &RemoteArgs) -> Option<Result<Arc<dyn ReadAt>>> {
    inner::bytes(path, args)
}

/// Returns true if `path` is the address of an image.
pub(crate) fn is_address(path: &Path) -> bool {
    inner::is_address(path)
}

/// Returns an address as it may be shown, without user, password and query; any other path as it is.
pub(crate) fn without_secrets(path: &Path) -> PathBuf {
    inner::without_secrets(path)
}

/// An object behind an address, of which ranges are fetched as they are asked for.
pub(super) trait FetchRanges: Sync {
    /// Returns the address as it may be shown.
    fn name(&self) -> &str;
    /// Returns the length of the object in bytes.
    fn len(&self) -> u64;
    /// Returns the number of requests so far.
    fn requests(&self) -> u64;
    /// Fetches a range within the object and passes its bytes on in order.
    fn fetch(&self, range: Range<u64>, take: &mut dyn FnMut(&[u8])) -> Result<()>;
}

/// Opens the object at an address to fetch ranges of it.
pub(super) fn open_ranges(address: &str, args: &RemoteArgs) -> Result<Box<dyn FetchRanges>> {
    inner::open_ranges(address, args)
}

/// Returns the address that `location` means in a document at `address`.
pub(super) fn join_address(address: &str, location: &str) -> Result<String> {
    inner::join_address(address, location)
}

/// Returns the way to open sources that are addresses.
pub(super) fn elsewhere(args: &RemoteArgs) -> packfs_image::source::open::SourceOpener {
    let args = args.clone();
    packfs_image::source::open::SourceOpener::new(move |path| inner::source(path, &args))
}

#[cfg(feature = "remote")]
mod inner {
    use anyhow::Context;
    use packfs_remote::{RangeFetcher, RemoteObject, RemoteOptions, WarningReceiver, clean};

    use super::{Arc, FetchRanges, Path, PathBuf, Range, ReadAt, RemoteArgs, Result};
    use crate::args::size;
    use crate::output::failure::UsageError;
    use crate::output::say;

    /// Environment variable with the size of the cache.
    const CACHE: &str = "PACKFS_REMOTE_CACHE";

    pub(super) fn bytes(path: &Path, args: &RemoteArgs) -> Option<Result<Arc<dyn ReadAt>>> {
        let address = path.to_str().filter(|text| packfs_remote::is_address(text))?;
        Some(options(args).and_then(|options| Ok(Arc::new(RemoteObject::open(address, &options)?) as Arc<dyn ReadAt>)))
    }

    pub(super) fn source(path: &Path, args: &RemoteArgs) -> Option<packfs_image::Result<(PathBuf, Arc<dyn ReadAt>)>> {
        let address = path.to_str().filter(|text| packfs_remote::is_address(text))?;
        let name = without_secrets(path);
        let opened = match options(args) {
            Ok(options) => RemoteObject::open(address, &options).map_err(Into::into),
            Err(error) => Err(std::io::Error::other(error.to_string())),
        };
        let opened = opened.map_err(packfs_image::Error::io("cannot open", &name));
        Some(opened.map(|remote| (name, Arc::new(remote) as Arc<dyn ReadAt>)))
    }

    impl FetchRanges for RangeFetcher {
        fn name(&self) -> &str {
            self.name()
        }

        fn len(&self) -> u64 {
            self.len()
        }

        fn requests(&self) -> u64 {
            self.requests()
        }

        fn fetch(&self, range: Range<u64>, take: &mut dyn FnMut(&[u8])) -> Result<()> {
            Ok(self.fetch(range, take)?)
        }
    }

    pub(super) fn open_ranges(address: &str, args: &RemoteArgs) -> Result<Box<dyn FetchRanges>> {
        Ok(Box::new(RangeFetcher::open(address, &options(args)?)?))
    }

    pub(super) fn join_address(address: &str, location: &str) -> Result<String> {
        Ok(packfs_remote::join_address(address, location)?)
    }

    pub(super) fn is_address(path: &Path) -> bool {
        path.to_str().is_some_and(packfs_remote::is_address)
    }

    pub(super) fn without_secrets(path: &Path) -> PathBuf {
        match path.to_str().filter(|text| packfs_remote::is_address(text)) {
            Some(address) => clean(address).into(),
            None => path.to_owned(),
        }
    }

    fn options(args: &RemoteArgs) -> Result<RemoteOptions> {
        let told = std::env::var(CACHE).ok().filter(|text| !text.is_empty());
        let told =
            told.map(|text| size(&text).map_err(|why| UsageError(format!("{CACHE}={text}: {why}")))).transpose()?;
        let mut options = RemoteOptions::default();
        options.cache = directory();
        options.cache_bytes = args.remote_cache.or(told).unwrap_or(options.cache_bytes);
        if options.cache.is_none() && args.remote_cache.is_some_and(|size| size > 0) {
            return Err(UsageError("--remote-cache needs a directory".into()))
                .context("neither XDG_CACHE_HOME nor HOME is set");
        }
        options.allow_unversioned = args.remote_unversioned;
        options.report = Some(WarningReceiver::new(|line| say(format_args!("packfs: warning: {line}"))));
        Ok(options)
    }

    /// Returns the directory of the cache. A relative XDG_CACHE_HOME is to be ignored.
    fn directory() -> Option<PathBuf> {
        let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
        let caches = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
        Some(caches.join("packfs/remote"))
    }
}

#[cfg(not(feature = "remote"))]
mod inner {
    use super::{Arc, FetchRanges, Path, PathBuf, ReadAt, RemoteArgs, Result};

    pub(super) fn open_ranges(_: &str, _: &RemoteArgs) -> Result<Box<dyn FetchRanges>> {
        anyhow::bail!("this build of packfs has no images behind addresses")
    }

    pub(super) fn join_address(_: &str, location: &str) -> Result<String> {
        Ok(location.to_owned())
    }

    pub(super) fn bytes(_: &Path, _: &RemoteArgs) -> Option<Result<Arc<dyn ReadAt>>> {
        None
    }

    pub(super) fn source(_: &Path, _: &RemoteArgs) -> Option<packfs_image::Result<(PathBuf, Arc<dyn ReadAt>)>> {
        None
    }

    pub(super) fn is_address(_: &Path) -> bool {
        false
    }

    pub(super) fn without_secrets(path: &Path) -> PathBuf {
        path.to_owned()
    }
}
