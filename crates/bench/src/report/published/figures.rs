//! Published figures and claims from the data files `figures.tsv` and `claims.tsv`.

use std::sync::LazyLock;

/// A figure of a document.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PublishedFigure {
    /// Name and year of the document.
    pub(super) document: &'static str,
    /// The measured work, or `size` or `source`.
    pub(super) work: &'static str,
    /// The codec or format.
    pub(super) variant: &'static str,
    /// The data or kernel, if the document has several.
    pub(super) setting: &'static str,
    /// Number of jobs or outputs, or cluster size in bytes.
    pub(super) scale: usize,
    /// The value in its unit.
    pub(super) value: f64,
    pub(super) unit: FigureUnit,
}

/// Unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FigureUnit {
    Seconds,
    Bytes,
    /// MiB/s.
    Speed,
}

/// A statement in the text of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PublishedClaim {
    pub(super) document: &'static str,
    /// Name of the statement.
    pub(super) name: &'static str,
    /// The quantity in words.
    pub(super) what: &'static str,
    /// A number, a range or words.
    statement: &'static str,
    unit: &'static str,
    pub(super) hardware: &'static str,
}

const FIGURES: &str = include_str!("figures.tsv");
const CLAIMS: &str = include_str!("claims.tsv");

// Lines that do not parse cannot vanish unnoticed: a test compares the sums with the documents.
static ALL: LazyLock<Vec<PublishedFigure>> =
    LazyLock::new(|| lines(FIGURES).filter_map(PublishedFigure::parse).collect());

/// Returns all figures of a document, in file order.
pub(super) fn figures(document: &str) -> impl Iterator<Item = &'static PublishedFigure> {
    ALL.iter().filter(move |figure| figure.document == document)
}

/// Returns one value of a document.
pub(super) fn figure_value(document: &str, work: &str, variant: &str, setting: &str, scale: usize) -> Option<f64> {
    let found = figures(document)
        .find(|figure| (figure.work, figure.variant, figure.setting, figure.scale) == (work, variant, setting, scale));
    found.map(|figure| figure.value)
}

/// Returns all claims of a document, in file order.
pub(super) fn claims(document: &str) -> impl Iterator<Item = PublishedClaim> {
    lines(CLAIMS).filter_map(PublishedClaim::parse).filter(move |claim| claim.document == document)
}

fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().filter(|line| !line.starts_with('#'))
}

fn fields<const N: usize>(line: &'static str) -> Option<[&'static str; N]> {
    line.split('\t').collect::<Vec<_>>().try_into().ok()
}

impl PublishedFigure {
    fn parse(line: &'static str) -> Option<Self> {
        let [document, work, variant, setting, scale, value, unit] = fields(line)?;
        let mut value = value.parse::<f64>().ok()?;
        let unit = match unit {
            "s" => FigureUnit::Seconds,
            "B" => FigureUnit::Bytes,
            "MiB/s" => FigureUnit::Speed,
            "KiB/s" => {
                // The document prints slow reads in KiB/s.
                value /= 1024.0;
                FigureUnit::Speed
            }
            _ => return None,
        };
        Some(PublishedFigure { document, work, variant, setting, scale: scale.parse().ok()?, value, unit })
    }
}

impl PublishedClaim {
    fn parse(line: &'static str) -> Option<Self> {
        let [document, name, what, statement, unit, hardware] = fields(line)?;
        Some(PublishedClaim { document, name, what, statement, unit, hardware })
    }

    /// Returns the statement as a number, unless it is in words or a range.
    pub(super) fn number(&self) -> Option<f64> {
        self.statement.parse().ok()
    }

    /// Returns the statement with its unit, unless it is in words.
    pub(super) fn with_unit(&self) -> String {
        let PublishedClaim { statement, unit, .. } = self;
        let has_unit = statement.ends_with(|c: char| c.is_ascii_digit()) && *unit != "x";
        if has_unit { format!("{statement} {unit}") } else { (*statement).into() }
    }
}

/// Returns the name of a codec without level and options. `raw` and `none` are the same.
pub(super) fn codec_name(codec: &str) -> &str {
    match codec.split(':').next() {
        Some("raw") => "none",
        Some(name) => name,
        None => codec,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Every line of both files can be parsed and is unique, and the sums are those of the documents' tables, so that
    /// no digit changes unnoticed.
    #[test]
    fn the_files_are_whole() {
        assert_eq!(ALL.len(), lines(FIGURES).count());
        let keys: BTreeSet<_> =
            ALL.iter().map(|one| (one.document, one.work, one.variant, one.setting, one.scale)).collect();
        assert_eq!(keys.len(), ALL.len());
        assert!(ALL.iter().all(|one| one.value.is_finite() && one.value > 0.0));
        let sums = [
            ("squashfs-tools-ng 2020", FigureUnit::Seconds, 102, 19_646.264),
            ("squashfs-tools-ng 2020", FigureUnit::Bytes, 7, 22_088_816_128.0),
            ("squashfs-tools-ng 2021", FigureUnit::Seconds, 126, 20_300.99),
            ("squashfs-tools-ng 2021", FigureUnit::Bytes, 8, 28_631_266_816.0),
            ("nsplit 2012", FigureUnit::Seconds, 72, 2938.071),
            ("nsplit 2012", FigureUnit::Bytes, 1, 10_737_418_240.0),
            ("erofs-utils 2023", FigureUnit::Seconds, 36, 98.0303),
            ("erofs-utils 2023", FigureUnit::Bytes, 19, 1_713_053_696.0),
            ("erofs-utils 2023", FigureUnit::Speed, 24, 3894.7 + 11_193.0 / 1024.0),
        ];
        for (document, unit, count, sum) in sums {
            let of: Vec<f64> = figures(document).filter(|one| one.unit == unit).map(|one| one.value).collect();
            assert_eq!(of.len(), count, "{document} {unit:?}");
            assert!((of.iter().sum::<f64>() - sum).abs() < 1e-3, "{document} {unit:?}");
        }
        assert_eq!(sums.iter().map(|(_, _, count, _)| count).sum::<usize>(), ALL.len(), "every figure is in a sum");
        assert_eq!(lines(CLAIMS).filter_map(PublishedClaim::parse).count(), lines(CLAIMS).count());
        assert_eq!(claims("synthetic test 2011").next().unwrap().with_unit(), "367 MB/s");
    }
}
