//! Images around another image: each changes a few answers and passes all other questions on.

use std::fmt::Debug;
use std::ops::Range;

use packfs_blocks::progress::Progress;

use super::{Entry, Extent, Image, Nid, Stat, StoredPiece};
use crate::finding::Finding;
use crate::tree::XattrSet;
use crate::{Part, Result};

/// Defines the trait and its [`Image`] from one list of methods. The lint refuses an [`Image`] that leaves one out: the
/// default of a method would answer in place of the image inside.
macro_rules! define_wrapper {
    ($(fn $method:ident(&self $(, $argument:ident: $type:ty)* $(,)?) $(-> $answer:ty)?;)*) => {
        /// An image around another one. A type with this trait is an [`Image`] whose methods ask [`ImageWrapper::inner`],
        /// except for those that it overrides.
        ///
        /// Methods that belong together are overridden together: `lookup` with `read_dir`, and `extents`, `stretch`
        /// and `stored_pieces` with `read_at`.
        ///
        /// ```
        /// use packfs_tree::image::{ImageWrapper, Nid, Stat};
        /// use packfs_tree::{Image, Result};
        ///
        /// /// An image whose files all belong to root.
        /// #[derive(Debug)]
        /// struct OwnedByRoot<'i>(&'i dyn Image);
        ///
        /// impl ImageWrapper for OwnedByRoot<'_> {
        ///     fn inner(&self) -> &dyn Image {
        ///         self.0
        ///     }
        ///
        ///     fn stat(&self, nid: Nid) -> Result<Stat> {
        ///         Ok(Stat { uid: 0, gid: 0, ..self.0.stat(nid)? })
        ///     }
        /// }
        /// ```
        pub trait ImageWrapper: Send + Sync + Debug {
            /// Returns the image inside.
            fn inner(&self) -> &dyn Image;

            $(
                #[doc = concat!("[`Image::", stringify!($method), "`]; asks the image inside.")]
                fn $method(&self $(, $argument: $type)*) $(-> $answer)? {
                    self.inner().$method($($argument),*)
                }
            )*
        }

        #[deny(clippy::missing_trait_methods)]
        impl<W: ImageWrapper + ?Sized> Image for W {
            $(
                fn $method(&self $(, $argument: $type)*) $(-> $answer)? {
                    ImageWrapper::$method(self $(, $argument)*)
                }
            )*

            // Not asked of the image inside: a wrapper that overrides `check_part` changes both.
            fn check(&self, threads: usize, progress: &Progress, finding: &mut dyn FnMut(Finding)) -> Result<()> {
                ImageWrapper::check_part(self, Part::WHOLE, threads, progress, finding)
            }
        }
    };
}

define_wrapper! {
    fn root(&self) -> Nid;
    fn stat(&self, nid: Nid) -> Result<Stat>;
    fn read_dir(&self, nid: Nid) -> Result<Vec<Entry>>;
    fn lookup(&self, dir: Nid, name: &[u8]) -> Result<Option<Nid>>;
    fn xattrs(&self, nid: Nid) -> Result<XattrSet>;
    fn read_at(&self, nid: Nid, buf: &mut [u8], offset: u64) -> Result<usize>;
    fn will_read(&self, nid: Nid, range: Range<u64>);
    fn will_read_many(&self, ranges: &mut dyn Iterator<Item = (Nid, Range<u64>)>);
    fn extents(&self, nid: Nid) -> Result<Vec<Extent>>;
    fn stretch(&self, nid: Nid, offset: u64) -> Result<Option<Extent>>;
    fn stored_pieces(&self, nid: Nid, range: Range<u64>, visit: &mut dyn FnMut(StoredPiece)) -> Result<()>;
    fn parent(&self, dir: Nid) -> Result<Option<Nid>>;
    fn may_have_xattrs(&self) -> bool;
    fn may_have_acls(&self) -> bool;
    fn inode_count(&self) -> u64;
    fn holds_nanoseconds(&self) -> bool;
    fn check_part(
        &self,
        part: Part,
        threads: usize,
        progress: &Progress,
        finding: &mut dyn FnMut(Finding),
    ) -> Result<()>;
}
