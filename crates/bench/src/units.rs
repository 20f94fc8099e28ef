//! Numbers and sizes in the form people read.

use packfs_blocks::units::group_digits;

/// A number with three figures, as the charts write it: `0.0123`, `12.3`, `12,300`.
pub(crate) fn three(number: f64) -> String {
    let decimals = |number: f64| match number.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        size if size >= 0.1 => 3,
        _ => 4,
    };
    let shown = format!("{number:.*}", decimals(number));
    // Rounding may carry into another figure: 9.996 is 10.0, not 10.00.
    match shown.parse::<f64>() {
        Ok(0.0) => "0".into(),
        Ok(rounded) if rounded.abs() >= 1000.0 => thousands(number),
        Ok(rounded) => format!("{rounded:.*}", decimals(rounded)),
        Err(_) => shown,
    }
}

/// A number of four figures or more, of which three are not zeros, with a comma at each third.
fn thousands(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let zeros = digits.len() - 3;
    let place = 10_f64.powi(i32::try_from(zeros).unwrap_or(i32::MAX));
    let digits = format!("{:.0}", (number.abs() / place).round() * place);
    let sign = if number < 0.0 { "-" } else { "" };
    format!("{sign}{}", group_digits(&digits))
}

/// The name of a codec in sentences, as the charts shorten it.
pub(crate) fn codec(name: &str) -> &str {
    if name == "lzo:algorithm=lzo1x_1" { "lzo-fast" } else { name }
}

/// A block size as users write it: `128K`.
pub(crate) fn size(bytes: usize) -> String {
    match bytes {
        _ if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{}M", bytes >> 20),
        _ if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => format!("{}K", bytes >> 10),
        _ => bytes.to_string(),
    }
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
            assert_eq!(three(number), text, "{number}");
        }
        assert_eq!([size(512), size(8192), size(131_072), size(1 << 20)], ["512", "8K", "128K", "1M"]);
    }
}
