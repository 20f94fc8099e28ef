//! Descriptors that the caller of the program opened: a FUSE device whose mount is made already, a pipe to tell that it
//! is ready.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

/// Returns the number in `/dev/fd/N`, `/proc/self/fd/N` or `/proc/thread-self/fd/N`.
pub(crate) fn descriptor_number(path: &Path) -> Option<i32> {
    let dirs = ["/dev/fd", "/proc/self/fd", "/proc/thread-self/fd"];
    let dir = path.parent()?;
    let name = path.file_name()?.to_str()?;
    // Only digits: `parse` would take a sign as well.
    if !dirs.iter().any(|known| dir == Path::new(known)) || !name.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    name.parse().ok()
}

/// Returns a duplicate of the open descriptor with a number, as callers pass them on a command line.
///
/// A number alone says nothing about who owns the descriptor, so it is duplicated by the kernel: sent through a socket
/// and received again, which works on every Linux and in every container.
pub fn inherited(number: i32) -> io::Result<OwnedFd> {
    let (sender, receiver) = UnixDatagram::pair()?;
    let passed = [number];
    sendmsg::<()>(
        sender.as_raw_fd(),
        &[IoSlice::new(&[0])],
        &[ControlMessage::ScmRights(&passed)],
        MsgFlags::empty(),
        None,
    )?;
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    // Close-on-exec from the start: another thread may start a program at this moment.
    recvmsg(&receiver, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut fds = control.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => fds.collect::<Vec<_>>(),
        _ => Vec::new(),
    });
    fds.next().ok_or_else(|| io::Error::other("it did not arrive"))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn descriptors_are_named_by_paths_with_numbers() {
        assert_eq!(descriptor_number("/dev/fd/7".as_ref()), Some(7));
        assert_eq!(descriptor_number("/proc/self/fd/12".as_ref()), Some(12));
        for other in ["/dev/fd", "/dev/fd/", "/dev/fd/x", "/dev/fd/+1", "/dev/fd/1/2", "/mnt/1", "/proc/1/fd/1"] {
            assert_eq!(descriptor_number(other.as_ref()), None, "{other}");
        }
    }

    #[test]
    fn an_inherited_descriptor_is_the_same_open_file() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        File::from(inherited(writer.as_raw_fd()).unwrap()).write_all(b"ready").unwrap();
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "ready");
        assert!(inherited(1_000_000).is_err());
    }
}
