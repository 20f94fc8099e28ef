//! The best of several measurements, including those within the noise: a sentence calls nothing the fastest if the next
//! one differs by less than the spread.

use crate::stats::Summary;

/// Maximum number of names in a sentence; further ones are counted.
const LISTED: usize = 3;

/// Returns the items with the least cost: the best first, then all that its spread does not separate from it.
pub(super) fn leaders<T>(items: impl IntoIterator<Item = (T, Summary)>) -> Vec<(T, Summary)> {
    let mut items: Vec<(T, Summary)> = items.into_iter().collect();
    items.sort_by(|a, b| a.1.median.total_cmp(&b.1.median));
    let Some(best) = items.first().map(|(_, cost)| *cost) else { return items };
    items.retain(|(_, cost)| !best.is_apart_from(cost));
    items
}

/// Returns the items with the greatest cost, like [`leaders`].
pub(super) fn trailers<T>(items: impl IntoIterator<Item = (T, Summary)>) -> Vec<(T, Summary)> {
    let mut items: Vec<(T, Summary)> = items.into_iter().collect();
    items.sort_by(|a, b| b.1.median.total_cmp(&a.1.median));
    let Some(worst) = items.first().map(|(_, cost)| *cost) else { return items };
    items.retain(|(_, cost)| !worst.is_apart_from(cost));
    items
}

/// Returns `is a (1 s)`, or `are a and b (1 s; too close to tell apart)`: names, and the value of the first.
pub(super) fn is(names: &[String], value: &str) -> String {
    format!("{} {}", if names.len() == 1 { "is" } else { "are" }, with(names, value))
}

/// Returns `a (1 s)`, or `a and b (1 s; too close to tell apart)`: names, and the value of the first.
pub(super) fn with(names: &[String], value: &str) -> String {
    let doubt = if names.len() == 1 { "" } else { "; too close to tell apart" };
    format!("{} ({value}{doubt})", listed(names))
}

/// Returns `a`, `a and b`, `a, b and c`, or `a, b, c and 4 others`.
pub(super) fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [firsts @ .., last] if names.len() <= LISTED => format!("{} and {last}", firsts.join(", ")),
        [..] => {
            let others = names.len() - LISTED;
            let word = if others == 1 { "other" } else { "others" };
            format!("{} and {others} {word}", names[..LISTED].join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_noise_does_not_tell_apart_leads_together() {
        let cost = |samples: &[f64]| Summary::of(samples).unwrap();
        let items = [
            ("slow", cost(&[2.0, 2.1, 2.2])),
            ("quick", cost(&[1.00, 1.01, 1.02])),
            ("quicker", cost(&[0.99, 1.0, 1.01])),
            ("slower", cost(&[2.1, 2.15, 2.2])),
        ];
        let names =
            |found: Vec<(&str, Summary)>| found.into_iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>();
        assert_eq!(names(leaders(items)), ["quicker", "quick"]);
        assert_eq!(names(trailers(items)), ["slower", "slow"]);
        assert_eq!(names(leaders([items[0], items[2]])), ["quicker"]);
        assert!(leaders::<&str>([]).is_empty());
        assert_eq!(is(&names(leaders(items)), "1 s"), "are quicker and quick (1 s; too close to tell apart)");
        assert_eq!(is(&["one".into()], "1 s"), "is one (1 s)");
        let many = ["a", "b", "c", "d", "e"].map(String::from);
        assert_eq!(listed(&many), "a, b, c and 2 others");
        assert_eq!(listed(&many[..4]), "a, b, c and 1 other");
        assert_eq!([listed(&many[..3]), listed(&many[..1]), listed(&[])], ["a, b and c", "a", ""]);
    }
}
