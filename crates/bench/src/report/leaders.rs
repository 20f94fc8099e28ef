//! The best of several measurements, including those within the noise: a sentence calls nothing the fastest if the next
//! one differs by less than the spread.

use crate::stats::SampleSummary;

/// Maximum number of names in a sentence; further ones are counted.
const MAX_LISTED_NAMES: usize = 3;
/// Ratio of medians above which tied results are called noisy instead of close. On an idle machine, ties differ by a
/// few percent: a lower ratio would blame the machine for them, and a higher one would call very different results
/// close.
const MIN_NOISY_RATIO: f64 = 1.25;

/// The items at one end of a ranking: the first, and those after it until its spread separates one.
#[derive(Debug)]
pub(super) struct RankingLeaders<T>(Vec<(T, SampleSummary)>);

/// Returns the items with the least cost.
pub(super) fn leaders<T>(items: impl IntoIterator<Item = (T, SampleSummary)>) -> RankingLeaders<T> {
    let mut items: Vec<(T, SampleSummary)> = items.into_iter().collect();
    items.sort_by(|a, b| a.1.median.total_cmp(&b.1.median));
    RankingLeaders::of_ranking(items)
}

/// Returns the items with the greatest cost.
pub(super) fn trailers<T>(items: impl IntoIterator<Item = (T, SampleSummary)>) -> RankingLeaders<T> {
    let mut items: Vec<(T, SampleSummary)> = items.into_iter().collect();
    items.sort_by(|a, b| b.1.median.total_cmp(&a.1.median));
    RankingLeaders::of_ranking(items)
}

impl<T> RankingLeaders<T> {
    /// Keeps the beginning of a ranking. An item of great spread further on is not tied with the first, because the
    /// items between them are separate from it.
    fn of_ranking(mut items: Vec<(T, SampleSummary)>) -> Self {
        if let Some((_, first)) = items.first() {
            let first = *first;
            let tied = items.iter().position(|(_, cost)| first.is_apart_from(cost)).unwrap_or(items.len());
            items.truncate(tied);
        }
        RankingLeaders(items)
    }

    pub(super) fn first(&self) -> Option<&(T, SampleSummary)> {
        self.0.first()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if tied items differ too much to be called equal.
    pub(super) fn are_noisy(&self) -> bool {
        let (Some((_, first)), Some((_, last))) = (self.0.first(), self.0.last()) else { return false };
        // Either can be the greater one: trailers begin with the highest cost.
        first.median.max(last.median) > MIN_NOISY_RATIO * first.median.min(last.median)
    }

    /// Names the items for a sentence.
    pub(super) fn named(&self, name: impl Fn(&T) -> String) -> LeaderNames {
        let doubt = match self.len() {
            0 | 1 => None,
            _ if self.are_noisy() => Some("too noisy to rank"),
            _ => Some("too close to tell apart"),
        };
        LeaderNames { names: self.0.iter().map(|(item, _)| name(item)).collect(), doubt }
    }
}

/// Names of leaders, and the reason why there are several.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LeaderNames {
    names: Vec<String>,
    doubt: Option<&'static str>,
}

impl LeaderNames {
    /// Returns `is a (1 s)`, or `are a and b (1 s; too close to tell apart)`: names, and the value of the first.
    pub(super) fn is(&self, value: &str) -> String {
        format!("{} {}", if self.names.len() == 1 { "is" } else { "are" }, self.with(value))
    }

    /// Returns `a (1 s)`, or `a and b (1 s; too close to tell apart)`: names, and the value of the first.
    pub(super) fn with(&self, value: &str) -> String {
        let doubt = self.doubt.map_or(String::new(), |doubt| format!("; {doubt}"));
        format!("{} ({value}{doubt})", listed(&self.names))
    }
}

/// Returns `a`, `a and b`, `a, b and c`, or `a, b, c and 4 others`.
pub(super) fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [firsts @ .., last] if names.len() <= MAX_LISTED_NAMES => format!("{} and {last}", firsts.join(", ")),
        [..] => {
            let others = names.len() - MAX_LISTED_NAMES;
            let word = if others == 1 { "other" } else { "others" };
            format!("{} and {others} {word}", names[..MAX_LISTED_NAMES].join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(samples: &[f64]) -> SampleSummary {
        SampleSummary::of(samples).unwrap()
    }

    fn names(found: &RankingLeaders<&str>) -> Vec<String> {
        found.named(|name| (*name).to_owned()).names
    }

    #[test]
    fn what_noise_does_not_tell_apart_leads_together() {
        let items = [
            ("slow", cost(&[2.0, 2.1, 2.2])),
            ("quick", cost(&[1.00, 1.01, 1.02])),
            ("quicker", cost(&[0.99, 1.0, 1.01])),
            ("slower", cost(&[2.1, 2.15, 2.2])),
        ];
        assert_eq!(names(&leaders(items)), ["quicker", "quick"]);
        assert_eq!(names(&trailers(items)), ["slower", "slow"]);
        assert_eq!(names(&leaders([items[0], items[2]])), ["quicker"]);
        assert!(leaders::<&str>([]).first().is_none());
        let several = leaders(items).named(|name| (*name).to_owned());
        assert_eq!(several.is("1 s"), "are quicker and quick (1 s; too close to tell apart)");
        let one = leaders([items[0]]).named(|name| (*name).to_owned());
        assert_eq!(one.is("1 s"), "is slow (1 s)");
        let many = ["a", "b", "c", "d", "e"].map(String::from);
        assert_eq!(listed(&many), "a, b, c and 2 others");
        assert_eq!(listed(&many[..4]), "a, b, c and 1 other");
        assert_eq!([listed(&many[..3]), listed(&many[..1]), listed(&[])], ["a, b and c", "a", ""]);
    }

    /// As measured on a busy machine: 1,810 and 83 MB/s, with others between them.
    #[test]
    fn only_the_beginning_of_a_ranking_is_tied_and_noise_is_called_so() {
        let quick = ("lz4", cost(&[0.5, 0.55, 0.6]));
        let between = ("zstd:3", cost(&[2.0, 2.1, 2.2]));
        let noisy = ("zstd:15", cost(&[1.0, 12.0, 40.0]));
        assert!(!quick.1.is_apart_from(&noisy.1));
        assert_eq!(names(&leaders([noisy, between, quick])), ["lz4"]);
        let tied = leaders([noisy, quick]).named(|name| (*name).to_owned());
        assert_eq!(tied.is("1810 MB/s"), "are lz4 and zstd:15 (1810 MB/s; too noisy to rank)");
        assert!(trailers([noisy, quick]).are_noisy());
    }
}
