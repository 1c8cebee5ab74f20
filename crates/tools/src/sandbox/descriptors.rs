//! Transfer of descriptors to the launcher, over the socket that is its standard input.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Maximum number of descriptors in one message; Linux accepts 253.
const BATCH: usize = 250;

/// The byte that carries descriptors: white space before the JSON of the request.
const CARRIER: &[u8] = b" ";

/// Sends descriptors ahead of the request.
///
/// # Errors
/// Returns an error of the operating system.
pub(crate) fn send(socket: &UnixStream, descriptors: &[Arc<OwnedFd>]) -> io::Result<()> {
    for batch in descriptors.chunks(BATCH) {
        let borrowed: Vec<_> = batch.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(BATCH))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(&borrowed)) {
            return Err(io::Error::other("too many descriptors"));
        }
        sendmsg(
            socket,
            &[IoSlice::new(CARRIER)],
            &mut control,
            SendFlags::NOSIGNAL,
        )?;
    }
    Ok(())
}

/// Receives the first line and the descriptors sent with it.
///
/// Programs started later do not inherit the descriptors.
///
/// # Errors
/// Returns an error if the line is longer than `limit` or the socket is closed.
pub(super) fn receive_line(
    socket: &UnixStream,
    limit: usize,
) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let (mut line, mut descriptors) = (Vec::new(), Vec::new());
    let mut block = vec![0; 64 * 1024];
    while line.last() != Some(&b'\n') {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(BATCH))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [IoSliceMut::new(&mut block)];
        let received = match recvmsg(socket, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => continue,
            received => received?.bytes,
        };
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(sent) = message {
                descriptors.extend(sent);
            }
        }
        line.extend_from_slice(block.get(..received).unwrap_or_default());
        if received == 0 || line.len() > limit {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    Ok((line, descriptors))
}
