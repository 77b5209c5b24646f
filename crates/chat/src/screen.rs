//! The terminal: entered, left, and never left behind in a state that nobody can use, whatever ends us.

use crossterm::event::{
    DisableBracketedPaste, DisableFocusChange, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture,
    KeyboardEnhancementFlags, PopKeyboardEnhancementFlags, PushKeyboardEnhancementFlags,
};
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use crossterm::{cursor, execute, queue, style};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use std::io::{self, Stdout, Write, stdout};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::Once;
use tieline_process::Temp;

/// What puts a terminal right, whatever state it is in: the modes that we set, all off, and the main screen. Written by who is
/// left when we are killed.
const RESTORE: &str = r"\033[?2026l\033[<u\033[?1006l\033[?1015l\033[?1003l\033[?1002l\033[?1000l\033[?1004l\033[?2004l\033[?1049l\033[0m\033[?25h";
/// Longer text is not put on the clipboard: terminals drop it.
const MAX_CLIPBOARD_BYTES: usize = 70_000;

/// The screen, while it is ours.
pub struct Screen {
    /// What is drawn on.
    pub terminal: Terminal<CrosstermBackend<Stdout>>,
    mouse: bool,
    /// Sees to the terminal if we are killed.
    guard: Option<Child>,
}

impl Screen {
    /// Takes the terminal.
    pub fn enter(mouse: bool) -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let usual = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                leave();
                usual(panic);
            }));
        });
        let guard = guard();
        take(mouse)?;
        let terminal = Terminal::new(CrosstermBackend::new(stdout())).inspect_err(|_| leave())?;
        Ok(Self { terminal, mouse, guard })
    }

    /// Captures the mouse, or gives it back.
    pub fn set_mouse(&mut self, on: bool) -> io::Result<()> {
        self.mouse = on;
        if on { execute!(stdout(), EnableMouseCapture) } else { execute!(stdout(), DisableMouseCapture) }
    }

    /// Gives the terminal to somebody else while `work` is done, and takes it back.
    pub fn lend<T>(&mut self, work: impl FnOnce() -> T) -> io::Result<T> {
        leave();
        let done = work();
        self.take_back()?;
        Ok(done)
    }

    /// Gives the terminal away with a word, until it is taken back.
    pub fn give(words: &str) {
        leave();
        let mut out = stdout();
        let _ = writeln!(out, "{words}").and_then(|()| out.flush());
    }

    /// Takes it back.
    pub fn take_back(&mut self) -> io::Result<()> {
        take(self.mouse)?;
        self.redraw()
    }

    /// Prints lines on the main screen, and enough empty ones that all of them are in its scrollback. The keys stay ours meanwhile:
    /// one that is pressed just then is not lost.
    pub fn print(&mut self, lines: &[String], height: u16) -> io::Result<()> {
        let mut out = stdout().lock();
        queue!(out, PopKeyboardEnhancementFlags, LeaveAlternateScreen)?;
        for line in lines {
            write!(out, "{line}\r\n")?;
        }
        out.write_all("\r\n".repeat(height.into()).as_bytes())?;
        queue!(out, EnterAlternateScreen)?;
        queue!(out, PushKeyboardEnhancementFlags(KeyboardEnhancementFlags::DISAMBIGUATE_ESCAPE_CODES))?;
        out.flush()?;
        drop(out);
        self.redraw()
    }

    /// Everything is drawn anew with the next frame. (`Terminal::clear` would ask the terminal where its cursor is, and the answer
    /// would be taken for keys.)
    pub fn redraw(&mut self) -> io::Result<()> {
        let size = self.terminal.size()?;
        self.terminal.resize(Rect::new(0, 0, size.width, size.height))
    }

    /// Rings.
    pub fn bell() {
        let _ = stdout().write_all(b"\x07").and_then(|()| stdout().flush());
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
        if let Some(mut guard) = self.guard.take() {
            // It goes when it hears that all is well.
            if let Some(mut input) = guard.stdin.take() {
                let _ = input.write_all(b"well\n");
            }
            let _ = guard.wait();
        }
    }
}

fn take(mouse: bool) -> io::Result<()> {
    enable_raw_mode()?;
    let mut out = stdout();
    // Who was killed before may have left something there: the first frame takes it to be empty.
    queue!(out, EnterAlternateScreen, BeginSynchronizedUpdate, Clear(ClearType::All), EndSynchronizedUpdate)?;
    queue!(out, EnableBracketedPaste)?;
    // Terminals that don't know this pass it over.
    queue!(out, PushKeyboardEnhancementFlags(KeyboardEnhancementFlags::DISAMBIGUATE_ESCAPE_CODES))?;
    if mouse {
        queue!(out, EnableMouseCapture)?;
    }
    out.flush().inspect_err(|_| leave())
}

/// All modes off, whatever was on.
fn leave() {
    let mut out = stdout();
    let _ = queue!(out, PopKeyboardEnhancementFlags, DisableMouseCapture, DisableFocusChange, DisableBracketedPaste);
    let _ = queue!(out, LeaveAlternateScreen, style::ResetColor, cursor::Show);
    let _ = out.flush();
    let _ = disable_raw_mode();
}

/// Starts a shell that waits until we say that all is well, or are gone without a word: then it puts the terminal right. In a group of
/// its own, so that what kills ours leaves it alone. The terminal is the one that we write to, which need not be the one that controls us
/// (`su -c` takes that away). Without a shell there is none.
fn guard() -> Option<Child> {
    let script = format!(
        "trap '' HUP INT QUIT TERM TSTP TTIN TTOU; exec 3>&2 2>/dev/null; saved=$(stty -g <&3); echo; \
         read -r well || {{ printf '{RESTORE}' >&3; [ -n \"$saved\" ] && stty \"$saved\" <&3; }}"
    );
    let mut guard = Command::new("/bin/sh");
    guard.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    guard.stderr(stdout().as_fd().try_clone_to_owned().ok()?);
    let mut guard = guard.env_clear().env("PATH", "/usr/bin:/bin").current_dir("/").process_group(0).spawn().ok()?;
    // It must have seen the terminal as it was; a shell that says nothing is none.
    let mut ready = [0];
    let _ = io::Read::read(guard.stdout.as_mut()?, &mut ready);
    Some(guard)
}

/// Puts text on the clipboard, by the terminal and by a program if one is there. Says what happened.
pub fn copy(text: &str) -> String {
    let mut said = Vec::new();
    let programs = [("wl-copy", "WAYLAND_DISPLAY", &[][..]), ("xclip", "DISPLAY", &["-selection", "clipboard"])];
    for (program, needs, arguments) in programs {
        if std::env::var_os(needs).is_none() {
            continue;
        }
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(mut child) = command.spawn() else { continue };
        let given = child.stdin.take().map(|mut input| input.write_all(text.as_bytes()));
        if matches!(given, Some(Ok(()))) && child.wait().is_ok_and(|status| status.success()) {
            said.push(program);
            break;
        }
    }
    if text.len() <= MAX_CLIPBOARD_BYTES {
        let mut out = stdout();
        let sent =
            write!(out, "\x1b]52;c;{}\x07", tieline::schema::to_base64(text.as_bytes())).and_then(|()| out.flush());
        if sent.is_ok() {
            said.push("the terminal (OSC 52)");
        }
    }
    match &said[..] {
        [] => "not copied: it is too long for the terminal, and neither wl-copy nor xclip works".into(),
        ways => format!("{} characters given to {}", text.chars().count(), ways.join(" and ")),
    }
}

/// Lets the user edit text in the editor of `$VISUAL` or `$EDITOR`. The file is the user's alone, and goes afterwards.
pub fn edit(text: &str) -> io::Result<String> {
    let editor =
        ["VISUAL", "EDITOR"].iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.trim().is_empty()));
    let editor = editor.unwrap_or_else(|| "vi".to_owned());
    let folder = Temp::new()?;
    let file = folder.path().join("prompt.md");
    std::fs::write(&file, text)?;
    // As every program does: the variable may hold arguments.
    let status = Command::new("/bin/sh").arg("-c").arg(format!("{editor} \"$1\"")).arg("sh").arg(&file).status()?;
    if status.success() { std::fs::read_to_string(&file) } else { Err(io::Error::other(format!("it {status}"))) }
}
