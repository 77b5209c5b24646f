//! What a run is given: the words of the command line, what comes through a pipe, files, pictures and MCP servers.

use super::arguments::Arguments;
use super::printer::{Printer, To};
use crate::setup::{Result, usage};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;
use std::fs::{read_dir, read_link, read_to_string};
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tieline_client::live::{self, Part};
use tieline_schema::McpServer;

/// The longest prompt, in bytes.
const MAX_PROMPT_BYTES: u64 = 16 * 1024 * 1024;
/// The longest file with MCP servers, in bytes.
const MAX_MCP_BYTES: u64 = 1024 * 1024;
/// So long a pipe may be silent whose other end no program of a pipeline holds. Services and editors leave one open that nothing
/// ever comes through.
const SILENCE_LIMIT: Duration = Duration::from_secs(3);
/// How often a silent pipe is looked at.
const LOOK_INTERVAL: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// What has to be read before anything else.
pub struct Given {
    /// What is said.
    pub prompt: Vec<Part>,
    /// The MCP servers of `--mcp-config`.
    pub servers: Vec<McpServer>,
}

impl Given {
    /// Reads it all elsewhere, so that signals and deadlines count while nothing comes. What is waited for is told, if
    /// there is somebody to tell.
    pub async fn read(arguments: &Arguments, teller: Option<Printer>) -> Result<Self> {
        let (words, configs) = (arguments.prompt.clone(), arguments.mcp_config.clone());
        let (files, images) = (arguments.file.clone(), arguments.image.clone());
        let reading = tokio::task::spawn_blocking(move || {
            let tell = |text: &str| {
                if let Some(printer) = &teller {
                    printer.push(To::Err, format!("· {text}\n"));
                }
            };
            let prompt = parts(&words, &files, &images, &tell)?;
            let mut found = Vec::new();
            for path in &configs {
                found.extend(servers(path)?);
            }
            Ok(Self { prompt, servers: found })
        });
        reading.await.unwrap_or_else(|error| Err(usage(format!("the prompt can't be read: {error}"))))
    }
}

/// What to say: all words are one prompt, and `-` before or behind them stands for what comes through the pipe.
fn parts(words: &[String], files: &[PathBuf], images: &[PathBuf], tell: &dyn Fn(&str)) -> Result<Vec<Part>> {
    let (said, wants_input) = match words {
        [said @ .., dash] | [dash, said @ ..] if dash == "-" => (said.join(" "), true),
        all => (all.join(" "), false),
    };
    let mut parts = Vec::new();
    if said.trim().is_empty() {
        if !wants_input && words.is_empty() && std::io::stdin().is_terminal() {
            return Err(
                usage("there is no prompt").hint("tieline exec \"what to do\", or - to read it from standard input")
            );
        }
        let text = read_all()?;
        parts.extend(Some(Part::Text(text)).filter(|part| !part.is_blank()));
    } else {
        parts.push(Part::Text(said));
        if wants_input || is_meant(tell) {
            parts.extend(Some(Part::Piped(read_all()?)).filter(|part| !part.is_blank()));
        }
    }
    for path in files {
        let part = Part::file(path).map_err(|error| usage(format!("--file {}: {error}", path.display())))?;
        parts.push(part);
    }
    for path in images {
        let part = Part::image(path).map_err(|error| usage(format!("--image {}: {error}", path.display())))?;
        parts.push(part);
    }
    if parts.is_empty() {
        return Err(usage("the prompt is empty").hint("tieline exec \"what to do\""));
    }
    Ok(parts)
}

fn read_all() -> Result<String> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(MAX_PROMPT_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| usage(format!("standard input can't be read: {error}")))?;
    if bytes.len() as u64 > MAX_PROMPT_BYTES {
        return Err(usage("what comes on standard input is longer than 16 MiB").hint("give long texts with --file"));
    }
    let no_text = || usage("what comes on standard input is not UTF-8 text");
    String::from_utf8(bytes).map_err(|_| no_text().hint("with `< /dev/null` nothing is read"))
}

/// Whether something on standard input is meant for us beside the words. Waits until that is known: as long as a program of the
/// pipeline may still write.
fn is_meant(tell: &dyn Fn(&str)) -> bool {
    let stdin = std::io::stdin();
    let Ok(stat) = rustix::fs::fstat(&stdin) else { return false };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => return true,
        FileType::Fifo | FileType::Socket => {}
        _ => return false,
    }
    let (since, mut told) = (Instant::now(), false);
    loop {
        let mut ends = [PollFd::new(&stdin, PollFlags::IN)];
        if poll(&mut ends, Some(&LOOK_INTERVAL)).is_ok_and(|ready| ready > 0) {
            return true;
        }
        if since.elapsed() < SILENCE_LIMIT {
            continue;
        }
        if !has_writer() {
            tell("nothing came on standard input, so the prompt is all there is; `-` behind it waits for more");
            return false;
        }
        if !std::mem::replace(&mut told, true) {
            tell("waiting for what comes on standard input; `< /dev/null` if there is nothing");
        }
    }
}

/// Whether a program that none of our ancestors is can write to our standard input. Where that can't be told, it counts as one.
fn has_writer() -> bool {
    let Ok(pipe) = read_link("/proc/self/fd/0") else { return true };
    let mut family = vec![std::process::id()];
    while let Some(parent) = family.last().copied().and_then(parent_of).filter(|parent| !family.contains(parent)) {
        family.push(parent);
    }
    let processes = read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|process| process.file_name().to_str()?.parse::<u32>().ok());
    numbers.filter(|number| !family.contains(number)).any(|number| {
        let fds = read_dir(format!("/proc/{number}/fd")).into_iter().flatten().flatten();
        fds.filter(|fd| read_link(fd.path()).is_ok_and(|target| target == pipe)).any(|fd| {
            let info = read_to_string(format!("/proc/{number}/fdinfo/{}", fd.file_name().to_string_lossy()));
            // The last octal digit of the flags is the way it was opened: 0 to read, 1 to write, 2 for both.
            let info = info.unwrap_or_default();
            let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
            flags.is_some_and(|flags| flags.trim_end().ends_with(['1', '2']))
        })
    })
}

fn parent_of(process: u32) -> Option<u32> {
    let status = read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

/// MCP servers from a file as other tools have it.
fn servers(path: &Path) -> Result<Vec<McpServer>> {
    let wrong = |why: &dyn std::fmt::Display| usage(format!("--mcp-config {}: {why}", path.display()));
    let text = live::read(path, MAX_MCP_BYTES)
        .map_err(|error| wrong(&error))?
        .ok_or_else(|| wrong(&"the file is too long"))?;
    super::mcp::servers(&String::from_utf8_lossy(&text)).map_err(|why| wrong(&why))
}
