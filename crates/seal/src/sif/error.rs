//! Reasons for which Apptainer refuses a SIF file, or for which an image cannot become one.

/// Something by which `apptainer verify` refuses a SIF file, or by which an image cannot become one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SifError {
    /// Bytes that are not SIF of the only version there is.
    #[error("it is not a SIF file: {0}")]
    NotSif(&'static str),
    /// A table of objects that nobody can read.
    #[error("its table of objects is wrong: {0}")]
    BadTable(&'static str),
    /// A file system other than SquashFS.
    #[error("the image is not SquashFS: Apptainer runs no other file system")]
    NotSquashfs,
    /// A file that no container can be started from.
    #[error("it has no primary partition, which is the one that Apptainer runs")]
    NoPartition,
    /// An object that no signature can cover.
    #[error("object {id} is in no group: signatures are those of groups")]
    NoGroup {
        /// Number of the object.
        id: u32,
    },
    /// A group that nobody signed.
    #[error("nobody signed the objects of group {group}")]
    UnsignedGroup {
        /// Number of the group.
        group: u32,
    },
    /// A signature of OpenPGP.
    #[error("object {id} is a signature of OpenPGP, which only a key ring verifies (apptainer verify without --key)")]
    PgpSignature {
        /// Number of the object with the signature.
        id: u32,
    },
    /// A signature that cannot be read.
    #[error("the signature in object {id} cannot be read: {why}")]
    BadEnvelope {
        /// Number of the object with the signature.
        id: u32,
        /// Reason.
        why: &'static str,
    },
    /// A signature by another key, or of other bytes.
    #[error("the signature in object {id} is not that of its contents by the given key")]
    OtherKey {
        /// Number of the object with the signature.
        id: u32,
    },
    /// An object of a group that its signature does not name.
    #[error("object {id} is not signed: it was added to the group after signing")]
    UnsignedObject {
        /// Number of the object.
        id: u32,
    },
    /// An object that a signature names, and that is not there.
    #[error("object {id} was signed, and is not there")]
    MissingObject {
        /// Number of the object.
        id: u32,
    },
    /// A header that differs from the one that was signed.
    #[error("the header was changed after signing")]
    ChangedHeader,
    /// A descriptor that differs from the one that was signed.
    #[error("the descriptor of object {id} was changed after signing")]
    ChangedDescriptor {
        /// Number of the object.
        id: u32,
    },
    /// Data that differ from those that were signed.
    #[error("the data of object {id} were changed after signing")]
    ChangedObject {
        /// Number of the object.
        id: u32,
    },
}

impl SifError {
    /// Returns the name by which programs know the mistake. It never changes.
    pub fn name(&self) -> &'static str {
        match self {
            SifError::NotSif(_) => "not-sif",
            SifError::BadTable(_) => "bad-object-table",
            SifError::NotSquashfs => "not-squashfs",
            SifError::NoPartition => "no-primary-partition",
            SifError::NoGroup { .. } => "no-group",
            SifError::UnsignedGroup { .. } => "unsigned-group",
            SifError::PgpSignature { .. } => "pgp-signature",
            SifError::BadEnvelope { .. } => "bad-envelope",
            SifError::OtherKey { .. } => "other-key",
            SifError::UnsignedObject { .. } => "unsigned-object",
            SifError::MissingObject { .. } => "missing-object",
            SifError::ChangedHeader => "changed-header",
            SifError::ChangedDescriptor { .. } => "changed-descriptor",
            SifError::ChangedObject { .. } => "changed-object",
        }
    }
}
