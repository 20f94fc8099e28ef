//! Numbers and sizes in the form people read.

use packfs_blocks::units::group_digits;

/// Formats a number with three figures, as the charts write it: `0.0123`, `12.3`, `12,300`.
pub(crate) fn three_digits(number: f64) -> String {
    let decimals = |number: f64| match number.abs() {
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        0.1.. => 3,
        _ => 4,
    };
    let shown = format!("{number:.*}", decimals(number));
    // Rounding may carry into another figure: 9.996 is 10.0, not 10.00.
    match shown.parse::<f64>() {
        Ok(0.0) => "0".into(),
        Ok(rounded) if rounded.abs() >= 1000.0 => rounded_thousands(number),
        Ok(rounded) => format!("{rounded:.*}", decimals(rounded)),
        Err(_) => shown,
    }
}

/// Formats a number of at least 1000: three figures, then zeros, in groups of three.
fn rounded_thousands(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let zeros = digits.len() - 3;
    let unit = 10_f64.powi(i32::try_from(zeros).unwrap_or(i32::MAX));
    let digits = format!("{:.0}", (number.abs() / unit).round() * unit);
    let sign = if number < 0.0 { "-" } else { "" };
    format!("{sign}{}", group_digits(&digits))
}

/// Returns the name of a codec in sentences, as the charts shorten it.
pub(crate) fn short_codec(name: &str) -> &str {
    if name == "lzo:algorithm=lzo1x_1" { "lzo-fast" } else { name }
}

/// Formats a block size as users write it: `128K`.
pub(crate) fn short_size(bytes: usize) -> String {
    match bytes {
        _ if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{}M", bytes >> 20),
        _ if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => format!("{}K", bytes >> 10),
        _ => bytes.to_string(),
    }
}

/// Drops the fraction. The conversion saturates: what is below 0 becomes 0.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
pub(crate) fn whole_part(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_figures() {
        let cases = [
            (0.0, "0"),
            (0.012_34, "0.0123"),
            (0.5, "0.500"),
            (0.999_61, "1.00"),
            (1.234, "1.23"),
            (9.996, "10.0"),
            (12.34, "12.3"),
            (99.96, "100"),
            (999.7, "1,000"),
            (1234.6, "1,230"),
            (-83_747.0, "-83,700"),
            (1.2e10, "12,000,000,000"),
            (-3.5, "-3.50"),
            (-1e-15, "0"),
        ];
        for (number, text) in cases {
            assert_eq!(three_digits(number), text, "{number}");
        }
        assert_eq!(
            [short_size(512), short_size(8192), short_size(131_072), short_size(1 << 20)],
            ["512", "8K", "128K", "1M"]
        );
    }
}
