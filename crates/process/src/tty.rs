//! Where a command's output comes from: a pipe, or a terminal of its own.

use crate::Size;
use rustix::io::ioctl_fionbio;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Our end, ready to be read without blocking, and the command's. A terminal that nobody has open any more answers with an
/// error, which is its end.
pub(crate) fn open(tty: Option<Size>) -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = match tty {
        None => io::pipe().map(|(reader, writer)| (reader.into(), writer.into()))?,
        Some(size) => terminal(size)?,
    };
    ioctl_fionbio(&ours, true)?;
    Ok((ours, theirs))
}

fn terminal(size: Size) -> io::Result<(OwnedFd, OwnedFd)> {
    // It must never become the terminal that controls us.
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = openpt(flags)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    resize(&ours, size)?;
    let theirs = ioctl_tiocgptpeer(&ours, flags)?;
    Ok((ours, theirs))
}

/// Gives a terminal another size. What runs in it is told by a signal.
pub(crate) fn resize(terminal: impl AsFd, size: Size) -> io::Result<()> {
    let size = Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(tcsetwinsize(terminal, size)?)
}
