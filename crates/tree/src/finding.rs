//! Findings of a check: the type that both formats report, and a collector that limits their number.
//!
//! A reader's check adds its findings to a [`FindingCollector`]; the caller of
//! [`Image::check`](crate::Image::check) receives each [`Finding`] as it is found. Nothing is
//! printed here.

use std::collections::BTreeMap;
use std::fmt;

use crate::{Error, Result};

/// Maximum number of findings listed per severity: a damaged image may have millions.
const LISTED_MAX: usize = 1000;
/// Structure of a finding about the image as a whole.
const IMAGE: &str = "image";

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// Unusual, but all readers get the same tree from the image: it is sound.
    Note,
    /// Damage: a reader fails, or readers disagree.
    Damage,
}

/// A finding of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// Severity of the finding.
    pub severity: Severity,
    /// Name of the structure, as the format's documentation calls it.
    pub structure: &'static str,
    /// Byte offset of the structure in the image; `None` if the finding concerns the whole image.
    pub offset: Option<u64>,
    /// Description of the finding.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.offset {
            Some(offset) => write!(f, "{} at byte {offset}: {}", self.structure, self.text),
            None => write!(f, "{}: {}", self.structure, self.text),
        }
    }
}

/// Outcome of a job of a check that must be reported.
#[derive(Debug)]
pub enum CheckRemark {
    /// The error that stopped a step.
    Error(Error),
    /// An unusual property of a structure: its name, its offset, and the text.
    Note(&'static str, u64, String),
}

/// Collector of findings.
pub struct FindingCollector<'f> {
    finding: &'f mut dyn FnMut(Finding),
    notes: usize,
    damage: usize,
    muted: bool,
    shared: BTreeMap<FindingKey, SharedFinding>,
}

/// Common part of findings that are reported as one.
type FindingKey = (Severity, &'static str, u64, String);

/// First subject of a shared finding, and the number of others.
struct SharedFinding {
    first: String,
    others: u64,
}

impl fmt::Debug for FindingCollector<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FindingCollector")
            .field("notes", &self.notes)
            .field("damage", &self.damage)
            .finish_non_exhaustive()
    }
}

impl<'f> FindingCollector<'f> {
    /// Makes a collector that calls `finding` for each finding.
    pub fn new(finding: &'f mut dyn FnMut(Finding)) -> Self {
        FindingCollector { finding, notes: 0, damage: 0, muted: false, shared: BTreeMap::new() }
    }

    /// Returns the first damage that a step of a check reports.
    pub fn first_damage(step: impl FnOnce(&mut FindingCollector<'_>) -> Result<()>) -> Result<Option<Finding>> {
        let mut first = None;
        let mut keep = |finding: Finding| {
            if finding.severity == Severity::Damage {
                first.get_or_insert(finding);
            }
        };
        let mut report = FindingCollector::new(&mut keep);
        step(&mut report)?;
        report.finish();
        // Findings that several subjects share come last.
        Ok(first)
    }

    /// Has the following findings left out, or not; returns whether they were until now.
    pub fn set_muted(&mut self, muted: bool) -> bool {
        std::mem::replace(&mut self.muted, muted)
    }

    /// Reports damage of a structure.
    pub fn add(&mut self, structure: &'static str, offset: u64, text: impl Into<String>) {
        self.tell(Finding { severity: Severity::Damage, structure, offset: Some(offset), text: text.into() });
    }

    /// Reports an unusual property of a structure.
    pub fn note(&mut self, structure: &'static str, offset: u64, text: impl Into<String>) {
        self.tell(Finding { severity: Severity::Note, structure, offset: Some(offset), text: text.into() });
    }

    /// Records a finding that several subjects may share, such as a missing fragment.
    /// [`FindingCollector::finish`] reports it once, with the first subject and the number of others.
    pub fn shared(
        &mut self,
        severity: Severity,
        structure: &'static str,
        offset: u64,
        text: impl Into<String>,
        who: impl FnOnce() -> String,
    ) {
        // Even the text of the subject would cost something.
        if self.muted {
            return;
        }
        let key = (severity, structure, offset, text.into());
        if let Some(shared) = self.shared.get_mut(&key) {
            shared.others += 1;
        } else if self.shared.len() <= LISTED_MAX {
            // Findings beyond the listed number need not be kept.
            self.shared.insert(key, SharedFinding { first: who(), others: 0 });
        }
    }

    /// Reports damage that stopped a reader; errors that do not concern the image are returned.
    pub fn error(&mut self, error: Error) -> Result<()> {
        match error {
            Error::Corrupt { structure, offset, why } => self.add(structure, offset, why),
            Error::Unsupported(_) => {
                let text = error.to_string();
                self.tell(Finding { severity: Severity::Damage, structure: IMAGE, offset: None, text });
            }
            // Errors of the system say nothing about the image.
            other => return Err(other),
        }
        Ok(())
    }

    /// Reports a remark of a job.
    pub fn remark(&mut self, remark: CheckRemark) -> Result<()> {
        match remark {
            CheckRemark::Error(error) => self.error(error),
            CheckRemark::Note(structure, offset, text) => {
                self.note(structure, offset, text);
                Ok(())
            }
        }
    }

    /// Returns the value of a step, or `None` if damage stopped it.
    pub fn take<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) => self.error(error).map(|()| None),
        }
    }

    /// Returns true if further damage would not be listed.
    pub fn is_full(&self) -> bool {
        // One more than is listed, so that the collector still tells that there are more.
        self.damage > LISTED_MAX
    }

    /// Reports the shared findings.
    pub fn finish(mut self) {
        self.muted = false;
        // Sorted by the key, so that they come in the same order every time.
        for ((severity, structure, offset, text), SharedFinding { first, others }) in std::mem::take(&mut self.shared) {
            let text = match others {
                0 => format!("{text} ({first})"),
                1 => format!("{text} ({first} and 1 other)"),
                _ => format!("{text} ({first} and {others} others)"),
            };
            self.tell(Finding { severity, structure, offset: Some(offset), text });
        }
    }

    fn tell(&mut self, finding: Finding) {
        if self.muted {
            return;
        }
        let severity = finding.severity;
        let (count, what) = match severity {
            Severity::Note => (&mut self.notes, "notes"),
            Severity::Damage => (&mut self.damage, "findings"),
        };
        *count += 1;
        // Counted further, but not passed on.
        if *count <= LISTED_MAX {
            (self.finding)(finding);
        } else if *count == LISTED_MAX + 1 {
            let text = format!("more than {LISTED_MAX} {what}; the rest is not listed");
            (self.finding)(Finding { severity, structure: IMAGE, offset: None, text });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(work: impl FnOnce(&mut FindingCollector<'_>)) -> Vec<(Severity, String)> {
        let mut told = Vec::new();
        let mut take = |finding: Finding| told.push((finding.severity, finding.to_string()));
        let mut report = FindingCollector::new(&mut take);
        work(&mut report);
        report.finish();
        told
    }

    #[test]
    fn shared_findings_are_reported_once() {
        let told = told(|report| {
            for n in [3, 5, 8] {
                let who = || format!("inode {n}");
                report.shared(Severity::Damage, "inode table", 7, "fragment 9 of only 1", who);
                if n < 8 {
                    report.shared(Severity::Note, "superblock", 1024, "no bit for chunks", who);
                }
            }
            report.shared(Severity::Damage, "inode table", 9, "fragment 9 of only 1", || "inode 9".into());
            report.add("id table", 5, "it has the id 0 twice");
        });
        let expected = [
            (Severity::Damage, "id table at byte 5: it has the id 0 twice"),
            (Severity::Note, "superblock at byte 1024: no bit for chunks (inode 3 and 1 other)"),
            (Severity::Damage, "inode table at byte 7: fragment 9 of only 1 (inode 3 and 2 others)"),
            (Severity::Damage, "inode table at byte 9: fragment 9 of only 1 (inode 9)"),
        ];
        assert_eq!(told, expected.map(|(severity, text)| (severity, text.to_owned())));
    }

    #[test]
    fn notes_do_not_crowd_out_damage() {
        let told = told(|report| {
            for n in 0..5000 {
                report.note("inode", n, "odd");
            }
            assert!(!report.is_full());
            for n in 0..5000 {
                report.add("inode", n, "wrong");
            }
            assert!(report.is_full());
        });
        assert_eq!(told.len(), 2 * (LISTED_MAX + 1));
        assert_eq!(told[LISTED_MAX].1, "image: more than 1000 notes; the rest is not listed");
        assert_eq!(told.last().unwrap().1, "image: more than 1000 findings; the rest is not listed");
    }

    #[test]
    fn only_damage_becomes_a_finding() {
        let lacking = || Error::Unsupported("EROFS algorithm 9".into());
        let told = told(|report| {
            assert!(report.take(Err::<(), _>(Error::corrupt("inode", 4, "no type"))).unwrap().is_none());
            report.error(lacking()).unwrap();
            assert_eq!(report.take(Ok(3)).unwrap(), Some(3));
            assert!(report.error(Error::Misuse("no".into())).is_err());
        });
        let texts: Vec<_> = told.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(texts, ["inode at byte 4: no type", "image: not supported: EROFS algorithm 9"]);
    }
}
