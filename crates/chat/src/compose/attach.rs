//! What is in a prompt besides words: long pastes, pictures, files.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tieline_client::live::Part;
use tieline_client::sanitize;

/// A paste with more lines or bytes becomes a chip.
const MAX_PASTE: (usize, usize) = (10, 1000);
/// So many files of one prompt are read.
const MAX_FILES: usize = 20;
/// A clipboard program has so long.
const CLIPBOARD: Duration = Duration::from_secs(3);
/// A larger picture is not taken from the clipboard, in bytes.
const MAX_PICTURE_BYTES: u64 = 20 << 20;

/// Words that stand for something longer.
#[derive(Debug, Clone)]
pub struct Chip {
    /// What is written for it.
    pub label: String,
    /// What it stands for.
    pub what: Stands,
}

/// What a chip stands for.
#[derive(Debug, Clone)]
pub enum Stands {
    /// Text that was pasted.
    Text(String),
    /// A picture.
    Picture(Box<Part>),
}

/// The chip for a paste, if it is long.
pub fn long_paste(text: &str, number: usize) -> Option<Chip> {
    let lines = text.lines().count();
    let long = lines > MAX_PASTE.0 || text.len() > MAX_PASTE.1;
    let size = if lines > 1 { format!("{lines} lines") } else { format!("{} bytes", text.len()) };
    long.then(|| Chip { label: format!("[Paste {number}: {size}]"), what: Stands::Text(text.to_owned()) })
}

/// The path that a pasted or dragged word names, if it is one of a picture: quoted, escaped or as an address.
pub fn picture_path(text: &str) -> Option<PathBuf> {
    let text = text.trim();
    let text = text.strip_prefix("file://").unwrap_or(text);
    let quoted = ['\'', '"'].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote));
    let path = quoted.map_or_else(|| text.replace("\\ ", " "), str::to_owned);
    let kind = Path::new(&path).extension()?.to_str()?.to_lowercase();
    let picture = matches!(kind.as_str(), "png" | "jpg" | "jpeg" | "gif" | "webp");
    (picture && !path.contains('\n') && Path::new(&path).is_absolute()).then(|| path.into())
}

/// The chip for a picture, or why there is none.
pub fn picture(path: &Path, number: usize) -> Result<Chip, String> {
    let name = sanitize::exact_line(&path.file_name().unwrap_or_default().to_string_lossy());
    match Part::image(path) {
        Ok(part) => Ok(Chip { label: format!("[Picture {number}: {name}]"), what: Stands::Picture(Box::new(part)) }),
        Err(error) => Err(format!("{name} is not attached: {error}")),
    }
}

/// The parts of a prompt: the words with pastes written out, then the pictures, then the files named with `@` that are there.
pub fn parts(text: &str, chips: &[Chip], folder: &Path) -> Vec<Part> {
    let (mut words, mut pictures) = (text.to_owned(), Vec::new());
    for chip in chips.iter().filter(|chip| text.contains(&chip.label)) {
        match &chip.what {
            Stands::Text(long) => words = words.replacen(&chip.label, long, 1),
            Stands::Picture(part) => pictures.push((**part).clone()),
        }
    }
    // Only what was typed names files: a paste that has an `@` in it is not read from.
    let named = text.split_whitespace().filter_map(|word| word.strip_prefix('@')).filter(|name| !name.is_empty());
    let mut files: Vec<Part> = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for name in named.take(MAX_FILES) {
        let name = name.trim_end_matches([',', '.', ';', ':', ')']);
        if seen.contains(&name) || folder.as_os_str().is_empty() {
            continue;
        }
        seen.push(name);
        let path = folder.join(name);
        // Nothing that would wait, such as a pipe.
        if std::fs::metadata(&path).is_ok_and(|meta| meta.is_file() || meta.is_dir()) {
            files.extend(Part::file(&path));
        }
    }
    [Part::Text(words)].into_iter().chain(pictures).chain(files).collect()
}

/// The text with pastes written out, for the history.
pub fn written_out(text: &str, chips: &[Chip]) -> String {
    chips.iter().fold(text.to_owned(), |text, chip| match &chip.what {
        Stands::Text(long) => text.replacen(&chip.label, long, 1),
        Stands::Picture(_) => text,
    })
}

/// Takes a picture from the clipboard of this machine and writes it into a file. Waits for other programs: not for the thread
/// that draws. Says what was tried if there is none.
pub fn clipboard_picture(into: &Path) -> Result<PathBuf, String> {
    let programs: [(&str, &[&str]); 4] = [
        ("wl-paste", &["--type", "image/png"]),
        ("xclip", &["-selection", "clipboard", "-t", "image/png", "-o"]),
        ("pngpaste", &["-"]),
        (
            "powershell.exe",
            &[
                "-NoProfile",
                "-Command",
                "Add-Type -A System.Windows.Forms; $i=[Windows.Forms.Clipboard]::GetImage(); if($i){$s=[Console]::OpenStandardOutput(); $i.Save($s,[Drawing.Imaging.ImageFormat]::Png)}",
            ],
        ),
    ];
    let mut tried = Vec::new();
    for (number, (program, arguments)) in programs.iter().enumerate() {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_nanos();
        let path = into.join(format!("tieline-clipboard-{}-{now:x}-{number}.png", std::process::id()));
        match run(program, arguments, &path) {
            Ok(0) => tried.push(format!("{program} has none")),
            Ok(_) => return Ok(path),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => tried.push(format!("{program}: {error}")),
        }
        let _ = std::fs::remove_file(&path);
    }
    let over_ssh = std::env::var_os("SSH_CONNECTION").is_some();
    let way = if over_ssh {
        "over ssh the clipboard stays on your machine: copy the file here and give its path"
    } else {
        "give the path of a file, or drag it here"
    };
    let tried = if tried.is_empty() { "neither wl-paste nor xclip is installed".to_owned() } else { tried.join(", ") };
    Err(format!("no picture from the clipboard ({tried}); {way}"))
}

fn run(program: &str, arguments: &[&str], path: &Path) -> std::io::Result<u64> {
    // In a folder that others write to, too: never through a link of theirs, and not for their eyes.
    let mut options = std::fs::OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.write(true).create_new(true).open(path)?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(Stdio::null())
        .spawn()
        .inspect_err(|_| _ = std::fs::remove_file(path))?;
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            let bytes = std::fs::metadata(path)?.len();
            return Ok(if status.success() && bytes <= MAX_PICTURE_BYTES { bytes } else { 0 });
        }
        if begun.elapsed() > CLIPBOARD {
            let _ = child.kill();
            let _ = child.wait();
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
