//! What a command tries.

use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

pub fn attempt(deed: &str, on: &str) -> i32 {
    match go(deed, on) {
        Ok(()) => 0,
        Err(error) => {
            println!("{deed} {on}: {error}");
            1
        }
    }
}

fn go(deed: &str, on: &str) -> io::Result<()> {
    match deed {
        "write" => fs::write(on, "1"),
        "append" => fs::File::options().append(true).open(on)?.write_all(b"x"),
        // Without the right to write.
        "truncate" => {
            use rustix::fs::{Mode, OFlags, open};
            Ok(open(on, OFlags::RDONLY | OFlags::TRUNC, Mode::empty()).map(drop)?)
        }
        "chmod" => fs::set_permissions(on, std::os::unix::fs::PermissionsExt::from_mode(0o777)),
        "setuid-chmod" => fs::set_permissions(on, std::os::unix::fs::PermissionsExt::from_mode(0o4755)),
        "setuid-fchmod" => {
            let file = fs::File::options().write(true).open(on)?;
            file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o2755))
        }
        "setuid-open" | "setuid-creat" => {
            use std::os::unix::fs::OpenOptionsExt;
            let mode = if deed == "setuid-open" { 0o4755 } else { 0o2755 };
            fs::File::options().write(true).create_new(true).mode(mode).open(format!("{on}-new")).map(drop)
        }
        "setuid-tmpfile" => {
            use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};
            let folder = std::path::Path::new(on).parent().unwrap();
            let file = open(folder, OFlags::TMPFILE | OFlags::WRONLY, Mode::from_raw_mode(0o4755))?;
            let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
            Ok(linkat(CWD, &path, CWD, format!("{on}-linked"), AtFlags::SYMLINK_FOLLOW)?)
        }
        "setuid-openat2" => {
            use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
            let mode = Mode::from_raw_mode(0o4755);
            Ok(openat2(CWD, format!("{on}-second"), flags, mode, ResolveFlags::empty()).map(drop)?)
        }
        "setuid-mknod" => {
            use rustix::fs::{CWD, FileType, Mode, mknodat};
            Ok(mknodat(CWD, format!("{on}-node"), FileType::RegularFile, Mode::from_raw_mode(0o4755), 0)?)
        }
        // All capabilities, for whoever runs the file.
        "setcap" => {
            let mut value = vec![1, 0, 0, 2];
            value.extend([0xff_u8; 4]);
            value.extend([0; 4]);
            value.extend([0xff, 0xff, 0xff, 0x01]);
            value.extend([0; 4]);
            Ok(rustix::fs::setxattr(on, "security.capability", &value, rustix::fs::XattrFlags::empty())?)
        }
        "remove" => fs::remove_file(on),
        "rename" => fs::rename(on, format!("{on}-moved")),
        "read" => fs::read(on).and_then(|bytes| match bytes.len() {
            0 => Err(io::Error::other("it is empty")),
            _ => Ok(()),
        }),
        "tcp" => TcpStream::connect_timeout(&on.parse().unwrap(), Duration::from_secs(2)).map(drop),
        "udp" => UdpSocket::bind("127.0.0.1:0")?.send_to(b"hello", on).map(drop),
        "unix" => UnixStream::connect(on).map(drop),
        "abstract" => UnixStream::connect_addr(&SocketAddr::from_abstract_name(on)?).map(drop),
        "pair" => UnixStream::pair().map(drop),
        "loopback" => {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            TcpStream::connect(listener.local_addr()?).map(drop)
        }
        "own-unix" => {
            let listener = UnixListener::bind(on)?;
            UnixStream::connect(on)?;
            listener.accept().map(drop)
        }
        "packet" => {
            use rustix::net::{AddressFamily, SocketType, socket};
            Ok(socket(AddressFamily::PACKET, SocketType::RAW, None).map(drop)?)
        }
        "signal" => Ok(kill_process(Pid::from_raw(on.parse().unwrap()).unwrap(), Signal::CONT)?),
        // The kernel asks here whether we may trace it.
        "trace" => fs::File::options().read(true).write(true).open(format!("/proc/{on}/mem")).map(drop),
        "mount" => Ok(rustix::mount::mount_bind("/", on)?),
        "umount" => Ok(rustix::mount::unmount(on, rustix::mount::UnmountFlags::DETACH)?),
        // New namespaces have all rights inside. They must not be of use outside.
        "nested" => {
            use rustix::thread::UnshareFlags;
            #[expect(deprecated)]
            rustix::thread::unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?;
            rustix::mount::unmount(on, rustix::mount::UnmountFlags::DETACH)?;
            fs::read_dir(on)?.next().map(drop).ok_or_else(|| io::Error::other("it is empty"))
        }
        other => panic!("no deed {other}"),
    }
}
