//! Plays a journey step by step.

use crate::language::{Case, What, Where};
use crate::terminal::{Terminal, key};
use crate::world::World;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long something may take that must come.
const STEP_TIMEOUT: Duration = Duration::from_mins(1);
/// A person reads before an answer is typed, and questions count on it: a yes that comes at once is none.
const READING_TIME: Duration = Duration::from_millis(700);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

type Gathered = Arc<Mutex<(Vec<u8>, bool)>>;

/// A command under way.
struct Running {
    child: Child,
    out: Gathered,
    err: Gathered,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a command said.
#[derive(Default)]
struct Said {
    out: String,
    err: String,
}

struct Player {
    world: World,
    said: Said,
    running: BTreeMap<String, Running>,
    terminal: Option<Terminal>,
    input: Option<String>,
}

/// Plays it; an error says where it broke and what was seen there.
pub fn play(group: &str, case: &Case) -> Result<(), String> {
    let mut player = Player {
        world: World::new(case),
        said: Said::default(),
        running: BTreeMap::new(),
        terminal: None,
        input: None,
    };
    for step in &case.steps {
        let done = player.step(&step.what).and_then(|()| player.world.trapped());
        done.map_err(|why| {
            let Said { out, err } = &player.said;
            let screen = player.terminal.as_ref().map(|terminal| format!("-- screen\n{}\n", terminal.screen()));
            let screen = screen.unwrap_or_default();
            let requests = player.world.requests().join("\n");
            format!(
                "{group}.journey:{}: {:?}\n{why}\n-- out\n{out}\n-- err\n{err}\n{screen}-- requests\n{requests}",
                step.line, step.what
            )
        })?;
    }
    Ok(())
}

impl Player {
    #[allow(clippy::too_many_lines, reason = "one arm for each kind of step")]
    fn step(&mut self, what: &What) -> Result<(), String> {
        let fill = |text: &str| self.world.fill(text);
        match what {
            What::File(root, path, text) => self.world.write(root, path, text),
            What::Models(name, script) => self.world.models(name, script)?,
            What::Trap => self.world.trap()?,
            What::Env(name, value) => self.world.set(name, value),
            What::Input(text) => self.input = Some(fill(text)),
            What::Run(line, code) => {
                let mut running = self.start(line)?;
                self.finish(&mut running, *code)?;
            }
            What::Keep(name, line) => {
                let mut running = self.start(line)?;
                self.finish(&mut running, 0)?;
                let value = self.said.out.trim().to_owned();
                self.world.values.insert(name.clone(), value);
            }
            What::Start(name, line) => {
                let running = self.start(line)?;
                self.running.insert(name.clone(), running);
            }
            What::Wait(name, code) => {
                let mut running = self.running.remove(name).ok_or("nothing of this name was started")?;
                self.finish(&mut running, *code)?;
            }
            What::Signal(name, signal) => {
                let running = self.running.get(name).ok_or("nothing of this name was started")?;
                // The shell has become the program: one command line is one process.
                let id = running.child.id().to_string();
                let sent = Command::new("kill").args([&format!("-{signal}"), &id]).status();
                sent.ok().filter(ExitStatus::success).ok_or("it could not be signalled")?;
            }
            What::Until(name, text) => {
                let text = fill(text);
                let running = self.running.get(name).ok_or("nothing of this name was started")?;
                let there = || [&running.out, &running.err].iter().any(|from| read(from).contains(&text));
                poll(there).map_err(|()| format!("{name} does not say {text:?}; it said {}", read(&running.out)))?;
            }
            What::Has(place, text, expected) => {
                let (text, found) = (fill(text), self.look(place)?);
                if found.contains(&text) != *expected {
                    return Err(format!("{} {text:?} in:\n{found}", if *expected { "no" } else { "there is" }));
                }
            }
            What::Is(place, text) => {
                let (text, found) = (fill(text), self.look(place)?);
                if found.trim_end() != text.trim_end() {
                    return Err(format!("expected:\n{text}\nfound:\n{found}"));
                }
            }
            What::Exists(path, expected) => {
                if self.world.path(path).symlink_metadata().is_ok() != *expected {
                    return Err(format!("{path} is {}there", if *expected { "not " } else { "" }));
                }
            }
            What::Requests(count) => {
                let found = self.world.requests().len();
                if found != *count {
                    return Err(format!("{found} requests instead of {count}"));
                }
            }
            What::Terminal(size, line) => {
                let command = self.world.command(line);
                self.terminal = Some(Terminal::start(&command, *size));
            }
            What::See(text) => {
                let text = fill(text);
                let terminal = self.terminal.as_ref().ok_or("there is no terminal")?;
                poll(|| terminal.screen().contains(&text)).map_err(|()| "the screen does not show it")?;
            }
            What::Unseen(text) => {
                let text = fill(text);
                if self.screen()?.screen().contains(&text) {
                    return Err("the screen shows it".into());
                }
            }
            What::NoRow(text) => {
                if let Some(row) = self.screen()?.rows().iter().find(|row| row.starts_with(text)) {
                    return Err(format!("a row of the screen begins with it: {row}"));
                }
            }
            What::Type(text) => {
                let text = fill(text);
                std::thread::sleep(READING_TIME);
                self.screen()?.write(text.as_bytes());
            }
            What::Paste(text) => {
                let text = format!("\x1b[200~{}\x1b[201~", fill(text));
                self.screen()?.write(text.as_bytes());
            }
            What::Pour(count, line) => {
                let text: String = (1..=*count).map(|n| line.replace("{n}", &n.to_string()) + "\r").collect();
                self.screen()?.write(text.as_bytes());
            }
            What::Scrolled(text) => {
                let text = fill(text);
                let terminal = self.terminal.as_ref().ok_or("there is no terminal")?;
                poll(|| terminal.scrolled().contains(&text)).map_err(|()| "the scrollback does not have it")?;
            }
            What::Press(names) => {
                for name in names.split_whitespace() {
                    let bytes = key(name).ok_or_else(|| format!("there is no key {name}"))?;
                    // No person presses two at once; what comes together is taken for a paste.
                    std::thread::sleep(Duration::from_millis(150));
                    self.screen()?.write(&bytes);
                }
            }
            What::Steady => self.screen()?.steady()?,
            What::Resize(size) => self.screen()?.resize(*size),
            What::End(code) => {
                let terminal = self.screen()?;
                let status = end(&mut terminal.child).ok_or("it does not end")?;
                check(status, *code)?;
            }
        }
        Ok(())
    }

    fn screen(&mut self) -> Result<&mut Terminal, String> {
        self.terminal.as_mut().ok_or_else(|| "there is no terminal".into())
    }

    fn start(&mut self, line: &str) -> Result<Running, String> {
        let mut command = self.world.command(line);
        let input = self.input.take();
        command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
        if let Some(input) = input {
            let mut stdin = child.stdin.take().ok_or("no standard input")?;
            std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
        }
        let (out, err) = (gather(child.stdout.take()), gather(child.stderr.take()));
        Ok(Running { child, out, err })
    }

    fn finish(&mut self, running: &mut Running, code: i32) -> Result<(), String> {
        let status = end(&mut running.child);
        if status.is_some() {
            // A child that outlived the command would hold its streams open.
            let closed = || [&running.out, &running.err].iter().all(|from| from.lock().unwrap().1);
            poll(closed).map_err(|()| "the command has ended, but somebody holds its streams open")?;
        }
        self.said = Said { out: read(&running.out), err: read(&running.err) };
        check(status.ok_or("the command does not end")?, code)
    }

    fn look(&self, place: &Where) -> Result<String, String> {
        Ok(match place {
            Where::Out => self.said.out.clone(),
            Where::Err => self.said.err.clone(),
            Where::Terminal => self.terminal.as_ref().ok_or("there is no terminal")?.wrote(),
            Where::Request => self.world.requests().join("\n"),
            Where::File(path) => {
                let bytes = std::fs::read(self.world.path(path)).map_err(|error| format!("{path}: {error}"))?;
                String::from_utf8_lossy(&bytes).into_owned()
            }
        })
    }
}

fn check(status: ExitStatus, code: i32) -> Result<(), String> {
    use std::os::unix::process::ExitStatusExt as _;
    // As a shell says it.
    let found = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    if found == code { Ok(()) } else { Err(format!("exit {found} instead of {code}")) }
}

fn end(child: &mut Child) -> Option<ExitStatus> {
    let mut status = None;
    let _ = poll(|| {
        status = child.try_wait().ok().flatten();
        status.is_some()
    });
    status
}

fn poll(mut there: impl FnMut() -> bool) -> Result<(), ()> {
    let start = Instant::now();
    while !there() {
        if start.elapsed() > STEP_TIMEOUT {
            return Err(());
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

fn read(from: &Gathered) -> String {
    String::from_utf8_lossy(&from.lock().unwrap().0).into_owned()
}

fn gather(stream: Option<impl Read + Send + 'static>) -> Gathered {
    let all = Gathered::default();
    let (sink, Some(mut stream)) = (Arc::clone(&all), stream) else { return all };
    std::thread::spawn(move || {
        let mut chunk = vec![0; 65536];
        while let Ok(size @ 1..) = stream.read(&mut chunk) {
            sink.lock().unwrap().0.extend_from_slice(&chunk[..size]);
        }
        sink.lock().unwrap().1 = true;
    });
    all
}
