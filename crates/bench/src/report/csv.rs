//! Tables as CSV, with all digits of every number.

use super::model::{ReportTable, TableValue};

/// Returns a table as CSV.
pub fn csv(table: &ReportTable) -> String {
    let header = table.columns.iter().map(|column| field(&column.name)).collect::<Vec<_>>().join(",");
    let rows = table.rows.iter().map(|row| row.iter().map(value).collect::<Vec<_>>().join(","));
    std::iter::once(header).chain(rows).map(|line| line + "\n").collect()
}

fn value(value: &TableValue) -> String {
    match value {
        TableValue::Text(text) | TableValue::Command(text) => field(text),
        TableValue::Number(number) => number.to_string(),
        TableValue::Whole(number) => number.to_string(),
        TableValue::None => String::new(),
    }
}

/// Quotes a field if RFC 4180 requires it.
fn field(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_have_to_be() {
        let row = vec!["a \"b\", c".into(), TableValue::Number(0.1 + 0.2), TableValue::Whole(7), TableValue::None];
        let columns = ["x", "y", "z", "w"].map(Into::into).into();
        let table = ReportTable { id: "t".into(), title: "T".into(), columns, rows: vec![row] };
        assert_eq!(csv(&table), "x,y,z,w\n\"a \"\"b\"\", c\",0.30000000000000004,7,\n");
    }
}
