//! A login in a real terminal.

#![allow(clippy::unwrap_used)]

use crate::common::{NO_BUS, Place, SOON};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::LocalModes;
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};

/// A process that does not outlive its test.
struct Login(Child);

impl Drop for Login {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What happens when the terminal is silent.
pub enum Typed<'a> {
    Bytes(&'a [u8]),
    #[allow(dead_code)]
    Signal(&'a str),
}

/// `tieline agent` with these arguments in a terminal of its own, where a key is typed when it is asked for. Gives what the
/// terminal showed, how it ended, and whether the terminal shows again what is typed.
pub fn log_in(place: &Place, arguments: &[&str], typed: Typed<'_>) -> (String, ExitStatus, bool) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let end = || Stdio::from(slave.try_clone().unwrap());
    let child = Command::new(env!("CARGO_BIN_EXE_tieline"))
        .arg("agent")
        .args(arguments)
        .env("XDG_CONFIG_HOME", place.folder.path().join("config"))
        .env("XDG_STATE_HOME", place.folder.path().join("state"))
        .env("DBUS_SESSION_BUS_ADDRESS", NO_BUS)
        .stdin(end())
        .stdout(end())
        .stderr(end())
        .spawn()
        .unwrap();
    let mut child = Login(child);
    let mut master = File::from(master);
    let mut shown = Vec::new();
    let mut asked = false;
    let start = std::time::Instant::now();
    loop {
        let mut buffer = [0; 4096];
        let wait = rustix::time::Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        let mut ready = [rustix::event::PollFd::new(&master, rustix::event::PollFlags::IN)];
        if rustix::event::poll(&mut ready, Some(&wait)).unwrap() > 0 {
            let count = master.read(&mut buffer).unwrap();
            shown.extend_from_slice(&buffer[..count]);
        } else if let Some(status) = child.0.try_wait().unwrap() {
            let echoes = rustix::termios::tcgetattr(&slave).unwrap().local_modes.contains(LocalModes::ECHO);
            return (String::from_utf8_lossy(&shown).into_owned(), status, echoes);
        }
        let silent = !rustix::termios::tcgetattr(&slave).unwrap().local_modes.contains(LocalModes::ECHO);
        if !asked && silent && String::from_utf8_lossy(&shown).contains("Key for OpenAI") {
            asked = true;
            match typed {
                Typed::Bytes(bytes) => master.write_all(bytes).unwrap(),
                Typed::Signal(name) => {
                    let pid = child.0.id().to_string();
                    assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
                }
            }
        }
        assert!(start.elapsed() < SOON, "{}", String::from_utf8_lossy(&shown));
    }
}
