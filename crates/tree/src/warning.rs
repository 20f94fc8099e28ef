//! Warnings: messages of a source or a writer that continues nevertheless.
//!
//! They are collected in [`Tree::warnings`](crate::Tree::warnings) while sources fill the tree and
//! a writer checks it, and end up in the writer's summary. Counts are exact; only the first paths
//! of each kind are kept.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Serialize, Serializer};

use crate::{Error, Result};

/// Number of warnings of one kind that are kept with their paths.
const KEPT: usize = 1000;

/// Reason for a warning; its text says what happened and, if something can be done about it, what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum WarningKind {
    /// A tar archive stops after a whole member, without the zero blocks that end an archive.
    ArchiveNotEnded,
    /// An entry has POSIX ACLs, which the format cannot store.
    PosixAcl,
    /// An entry is a socket, which a tar archive cannot store.
    Socket,
    /// Bytes that are neither zeros nor another archive follow the end of a tar archive; they are not read.
    BytesAfterArchive,
    /// A member of a tar archive has an empty name and is left out.
    MemberWithoutName,
    /// An access control list of a tar archive cannot be converted and is left out.
    AclNotKept,
    /// A line of a sort file names a path that is not in the tree.
    SortPathMissing,
    /// A rule matches no entry.
    RuleMatchesNothing,
    /// Patterns of entries to leave out match none.
    ExcludeMatchesNothing,
    /// A list of files to pack names none.
    ListNamesNothing,
    /// A line of a hot list names a path that is not in the tree.
    HotPathMissing,
    /// Times are truncated to whole seconds because the new format has no fractions.
    FractionsOfSeconds,
    /// The image lies in the source directory that it is built from.
    OutputInSource,
    /// The index of the image to be reused is by another version, codec or options, so nothing is taken from it.
    ReuseOtherEncoder,
    /// The index does not belong to the image to be reused, so nothing is taken from it.
    ReuseOtherImage,
    /// Blocks of the image to be reused are damaged, and are compressed again.
    ReuseDamaged,
}

impl fmt::Display for WarningKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WarningKind::ArchiveNotEnded => {
                "the archive ends after a complete member, without the zero blocks of an end marker: \
                 it is complete only if its writer left them out"
            }
            WarningKind::Socket => "left out a socket, which a tar archive cannot store",
            WarningKind::PosixAcl => "left out POSIX ACLs, which SquashFS cannot store (EROFS can)",
            WarningKind::BytesAfterArchive => "the bytes after the end of the archive were not read",
            WarningKind::MemberWithoutName => "a member without a name was left out",
            WarningKind::RuleMatchesNothing => "the rule matches no entry",
            WarningKind::ExcludeMatchesNothing => "no entry matches the patterns of entries to leave out",
            WarningKind::ListNamesNothing => "the list of files is empty, so none is packed from it",
            WarningKind::HotPathMissing => "the hot list names a path that is not in the image",
            WarningKind::SortPathMissing => "the sort file names a path that is not in the image",
            WarningKind::FractionsOfSeconds => "SquashFS stores whole seconds: fractions of timestamps are dropped",
            WarningKind::OutputInSource => {
                "the image lies in its source directory: a build of that directory to another file packs it, \
                 unless it is excluded"
            }
            WarningKind::ReuseOtherEncoder => {
                "nothing is reused, because the image was built by another version, codec or with other options"
            }
            WarningKind::ReuseOtherImage => {
                "nothing is reused, because the index belongs to another image, such as one that was replaced since"
            }
            WarningKind::ReuseDamaged => "blocks of the image to be reused are damaged, and were compressed again",
            WarningKind::AclNotKept => "an access control list of the archive was left out",
        })
    }
}

/// A warning about one entry or source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Warning {
    /// Reason for the warning.
    #[serde(skip)]
    pub kind: WarningKind,
    /// Path of the entry in the image, or of the source if the warning concerns all of it.
    #[serde(serialize_with = "path_as_text")]
    #[cfg_attr(feature = "json-schema", schemars(with = "String"))]
    pub path: PathBuf,
    /// Details of this case: a name, a position. May be empty.
    pub detail: String,
}

impl Warning {
    /// Makes a warning without details.
    pub fn new(kind: WarningKind, path: impl Into<PathBuf>) -> Self {
        Warning { kind, path: path.into(), detail: String::new() }
    }

    /// Adds the details of this case.
    #[must_use]
    pub fn with_detail(self, detail: impl Into<String>) -> Self {
        Warning { detail: detail.into(), ..self }
    }

    /// Returns path and details, without the reason: the form in which examples of a kind are shown.
    pub fn place(&self) -> String {
        match &*self.detail {
            "" => crate::name::display(&self.path).to_string(),
            detail => format!("{} ({detail})", crate::name::display(&self.path)),
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place(), self.kind)
    }
}

/// Warnings collected, by kind.
#[derive(Debug, Clone, Default)]
pub struct Warnings {
    strict: bool,
    kinds: BTreeMap<WarningKind, CountedWarnings>,
}

/// The warnings of one kind.
#[derive(Debug, Clone, Default)]
pub struct CountedWarnings {
    /// Total number of warnings.
    pub count: u64,
    /// The first warnings, in order.
    pub first: Vec<Warning>,
}

impl Warnings {
    /// Makes an empty collection; if `strict`, the first warning is an error.
    pub fn new(strict: bool) -> Self {
        Warnings { strict, kinds: BTreeMap::new() }
    }

    /// Adds a warning. Fails with [`Error::Refused`] if the collection is strict.
    pub fn add(&mut self, warning: Warning) -> Result<()> {
        // The first one stops everything, before the image is finished.
        if self.strict {
            return Err(Error::Refused(Box::new(warning)));
        }
        let counted = self.kinds.entry(warning.kind).or_default();
        counted.count += 1;
        // Kinds are few, but a source may give a warning for each entry.
        if counted.first.len() < KEPT {
            counted.first.push(warning);
        }
        Ok(())
    }

    /// Returns true if there are no warnings.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Returns each kind that occurred, with its warnings.
    pub fn kinds(&self) -> impl Iterator<Item = (WarningKind, &CountedWarnings)> {
        self.kinds.iter().map(|(kind, counted)| (*kind, counted))
    }

    /// Returns the number of warnings of a kind.
    pub fn count(&self, kind: WarningKind) -> u64 {
        self.kinds.get(&kind).map_or(0, |counted| counted.count)
    }
}

/// Warnings of one kind, as they are serialised.
#[derive(Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
struct WarningGroup<'w> {
    /// Name of the kind.
    kind: WarningKind,
    /// Explanation of the kind, as a sentence.
    text: String,
    /// Number of all warnings of this kind.
    count: u64,
    /// The first 1,000 warnings of this kind.
    shown: &'w [Warning],
}

/// Serializes as an array with one object per kind.
impl Serialize for Warnings {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_seq(self.kinds().map(|(kind, counted)| WarningGroup {
            kind,
            text: kind.to_string(),
            count: counted.count,
            shown: &counted.first,
        }))
    }
}

#[cfg(feature = "json-schema")]
impl schemars::JsonSchema for Warnings {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Warnings".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Vec::<WarningGroup<'_>>::json_schema(generator)
    }
}

fn path_as_text<S: Serializer>(path: &std::path::Path, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    use packfs_blocks::system::OsStrExt;
    serializer.serialize_str(&crate::name::encode(path.as_os_str().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warning(n: usize) -> Warning {
        Warning::new(WarningKind::ArchiveNotEnded, format!("{n}.tar"))
    }

    #[test]
    fn all_are_counted_and_the_first_kept() {
        let mut warnings = Warnings::default();
        assert!(warnings.is_empty());
        for n in 0..=KEPT {
            warnings.add(warning(n)).unwrap();
        }
        let (kind, counted) = warnings.kinds().next().unwrap();
        assert_eq!((kind, warnings.count(kind)), (WarningKind::ArchiveNotEnded, KEPT as u64 + 1));
        assert_eq!((counted.first.len(), &counted.first[KEPT - 1]), (KEPT, &warning(KEPT - 1)));
    }

    #[test]
    fn a_strict_collection_fails_on_the_first() {
        let error = Warnings::new(true).add(warning(1).with_detail("at byte 512")).unwrap_err();
        assert!(matches!(&error, Error::Refused(warning) if warning.path == std::path::Path::new("1.tar")));
        assert!(error.to_string().starts_with("1.tar (at byte 512): the archive ends after"), "{error}");
    }

    #[test]
    fn json_has_count_and_examples_of_every_kind() {
        let mut warnings = Warnings::default();
        warnings.add(warning(1).with_detail("here")).unwrap();
        warnings.add(warning(2)).unwrap();
        let json = serde_json::to_value(&warnings).unwrap();
        assert_eq!((&json[0]["kind"], &json[0]["count"]), (&"archive-not-ended".into(), &2.into()));
        assert_eq!(json[0]["shown"][0], serde_json::json!({"path": "1.tar", "detail": "here"}));
    }
}
