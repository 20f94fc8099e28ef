//! Any bytes as a tar archive from a stream, which may be compressed. What can be read in place as well reads the same.
//! Reading ahead takes a thread, so this is slower than [`tar_source`](crate::tar_source).

/// Reads it both ways.
pub fn look(bytes: &[u8]) {
    let bytes = crate::zeros::unpack(bytes);
    let stream = crate::tar_source::as_stream(bytes.clone());
    if let (Some(stream), Some(in_place)) = (stream, crate::tar_source::in_place(bytes)) {
        assert_eq!(in_place, stream, "in place and as a stream");
    }
}
