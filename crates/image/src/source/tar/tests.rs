//! Archives from every writer, and hostile ones, through both ways of reading.

pub(super) fn pax_record(key: &str, value: &[u8]) -> Vec<u8> {
    let body = key.len() + value.len() + 3;
    let mut len = body + 1;
    while len != body + len.to_string().len() {
        len = body + len.to_string().len();
    }
    [format!("{len} {key}=").as_bytes(), value, b"\n"].concat()
}
