//! A real terminal with a command in it, and what its screen shows.

use crate::language::Size;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// So many frames a second a screen may draw, and so many more for keys and for the beginning.
const MAX_FRAMES: (u128, u128) = (30, 60);
/// What stands around a frame, so that terminals show it whole.
const FRAME: (&str, &str) = ("\x1b[?2026h", "\x1b[?2026l");

pub struct Terminal {
    pub child: Child,
    master: File,
    screen: Arc<Mutex<vt100::Parser>>,
    /// The bytes that came, and since when.
    wrote: Arc<Mutex<Vec<u8>>>,
    begun: Instant,
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Terminal {
    /// Starts a command as the leader of a session with this terminal, as a shell would.
    pub fn start(command: &Command, (columns, rows): Size) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let slave = File::options().read(true).write(true).open(&name).unwrap();
        let master = File::from(master);
        resize(&master, (columns, rows));
        // `setsid --ctty` makes the terminal the controlling one without unsafe code here.
        let mut leader = Command::new("setsid");
        leader.args(["--ctty", "--wait"]).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => leader.env(name, value),
                None => leader.env_remove(name),
            };
        }
        leader.current_dir(command.get_current_dir().unwrap());
        let end = || Stdio::from(slave.try_clone().unwrap());
        let child = leader.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        let screen = Arc::new(Mutex::new(vt100::Parser::new(some(rows), some(columns), 1000)));
        let (mut from, sink) = (master.try_clone().unwrap(), Arc::clone(&screen));
        let wrote = Arc::new(Mutex::new(Vec::new()));
        let bytes = Arc::clone(&wrote);
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(size @ 1..) = from.read(&mut chunk) {
                bytes.lock().unwrap().extend_from_slice(&chunk[..size]);
                sink.lock().unwrap().process(&chunk[..size]);
            }
        });
        Self { child, master, screen, wrote, begun: Instant::now() }
    }

    /// All that came since the command began.
    pub fn wrote(&self) -> String {
        String::from_utf8_lossy(&self.wrote.lock().unwrap()).into_owned()
    }

    /// Nothing flickers: on the other screen all words, and every clearing, are within frames that a terminal shows whole, and
    /// there are not too many of those.
    pub fn steady(&self) -> Result<(), String> {
        let wrote = self.wrote();
        let screens = wrote.split("\x1b[?1049h").skip(1).map(|rest| rest.split("\x1b[?1049l").next().unwrap_or(rest));
        let mut frames = 0;
        for screen in screens {
            for part in screen.split(FRAME.0).enumerate() {
                frames += u128::from(part.0 > 0);
                // Before the first frame, and behind the end of each.
                let between = match part {
                    (0, part) => part,
                    (_, part) => part.split_once(FRAME.1).map_or("", |(_, behind)| behind),
                };
                let cleared = ["\x1b[2J", "\x1b[J", "\x1b[3J", "\x1bc"].iter().any(|clear| between.contains(clear));
                // Nothing but modes: what is no part of a sequence would be words.
                let words = between.split('\x1b').skip(1).any(|sequence| {
                    let end = sequence.find(|c: char| c.is_ascii_alphabetic()).map_or(sequence.len(), |end| end + 1);
                    !sequence[end..].trim_matches(['\x07', '\\']).is_empty()
                });
                if cleared || words {
                    return Err(format!("outside of a frame: {between:?}"));
                }
            }
        }
        let most = MAX_FRAMES.0 * self.begun.elapsed().as_millis() / 1000 + MAX_FRAMES.1;
        match frames {
            0 => Err("there was no frame".into()),
            _ if frames > most => Err(format!("{frames} frames are more than {most}")),
            _ => Ok(()),
        }
    }

    /// The rows of the screen as text.
    pub fn screen(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    /// The rows as they are seen, also those of one line.
    pub fn rows(&self) -> Vec<String> {
        let screen = self.screen.lock().unwrap();
        let (_, columns) = screen.screen().size();
        screen.screen().rows(0, columns.into()).collect()
    }

    /// What has left the top of the main screen; nothing while a program has the other screen.
    pub fn scrolled(&self) -> String {
        let mut screen = self.screen.lock().unwrap();
        let mut text = String::new();
        for back in (1..=1000).rev() {
            screen.screen_mut().set_scrollback(back);
            text.extend(screen.screen().rows(0, u16::MAX).next().map(|row| row + "\n"));
        }
        screen.screen_mut().set_scrollback(0);
        text
    }

    pub fn write(&mut self, bytes: &[u8]) {
        self.master.write_all(bytes).unwrap();
    }

    pub fn resize(&mut self, size: Size) {
        self.screen.lock().unwrap().screen_mut().set_size(some(size.1), some(size.0));
        resize(&self.master, size);
    }
}

fn some(length: u16) -> NonZeroU16 {
    NonZeroU16::new(length).unwrap()
}

fn resize(master: &File, (columns, rows): Size) {
    let size = rustix::termios::Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(master, size).unwrap();
}

/// The bytes that a key sends.
pub fn key(name: &str) -> Option<Vec<u8>> {
    let bytes: &[u8] = match name {
        "enter" => b"\r",
        "shift-enter" => b"\x1b[13;2u",
        "esc" => b"\x1b",
        "tab" => b"\t",
        "backspace" => b"\x7f",
        "space" => b" ",
        "up" => b"\x1b[A",
        "down" => b"\x1b[B",
        "right" => b"\x1b[C",
        "left" => b"\x1b[D",
        "page-up" => b"\x1b[5~",
        "page-down" => b"\x1b[6~",
        "f1" => b"\x1bOP",
        "f2" => b"\x1bOQ",
        "f3" => b"\x1bOR",
        "f4" => b"\x1bOS",
        "f5" => b"\x1b[15~",
        "f6" => b"\x1b[17~",
        "f7" => b"\x1b[18~",
        "f8" => b"\x1b[19~",
        _ if name.starts_with("alt-") => return Some([b"\x1b", &name.as_bytes()[4..5]].concat()),
        _ => {
            let letter = name.strip_prefix("ctrl-")?.bytes().next()?;
            return Some(vec![letter.to_ascii_lowercase() & 0x1f]);
        }
    };
    Some(bytes.to_vec())
}
