//! What is in a prompt besides words: long pastes, pictures, files.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tieline_client::live::Part;
use tieline_client::sanitize;
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use tokio::time::timeout;

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
    let pictures = chips.iter().filter(|chip| text.contains(&chip.label)).filter_map(|chip| match &chip.what {
        Stands::Picture(part) => Some((**part).clone()),
        Stands::Text(_) => None,
    });
    // Only what was typed names files: a paste that has an `@` in it is not read from.
    let named = text.split_whitespace().filter_map(|word| word.strip_prefix('@')).filter(|name| !name.is_empty());
    let (mut files, mut seen) = (Vec::new(), Vec::new());
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
    [Part::Text(written_out(text, chips))].into_iter().chain(pictures).chain(files).collect()
}

/// The text with pastes written out.
pub fn written_out(text: &str, chips: &[Chip]) -> String {
    // A paste may hold words that look like another one.
    let named = chips.iter().filter(|chip| text.contains(&chip.label));
    named.fold(text.to_owned(), |text, chip| match &chip.what {
        Stands::Text(long) => text.replacen(&chip.label, long, 1),
        Stands::Picture(_) => text,
    })
}

/// The programs that print a picture of the clipboard.
const PROGRAMS: [(&str, &[&str]); 4] = [
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

/// Takes a picture from the clipboard of this machine and writes it into a file. Says what was tried if there is none.
pub async fn clipboard_picture(into: &Path) -> Result<PathBuf, String> {
    let mut tried = Vec::new();
    for (program, arguments) in PROGRAMS {
        match timeout(CLIPBOARD, printed(program, arguments)).await {
            Ok(Ok(picture)) if picture.is_empty() => tried.push(format!("{program} has none")),
            Ok(Ok(picture)) => return keep(&picture, into).map_err(|error| format!("{}: {error}", into.display())),
            Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => {}
            Ok(Err(error)) => tried.push(format!("{program}: {error}")),
            Err(_) => tried.push(format!("{program} does not answer")),
        }
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

/// What a program prints; nothing if it fails, or if that is too much.
async fn printed(program: &str, arguments: &[&str]) -> io::Result<Vec<u8>> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let (mut child, mut bytes) = (command.spawn()?, Vec::new());
    if let Some(output) = child.stdout.take() {
        output.take(MAX_PICTURE_BYTES + 1).read_to_end(&mut bytes).await?;
    }
    let good = child.wait().await?.success() && bytes.len() as u64 <= MAX_PICTURE_BYTES;
    Ok(if good { bytes } else { Vec::new() })
}

/// In a folder that others write to, too: never through a link of theirs, and not for their eyes.
fn keep(picture: &[u8], into: &Path) -> io::Result<PathBuf> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_nanos();
    let path = into.join(format!("tieline-clipboard-{}-{now:x}.png", std::process::id()));
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?.write_all(picture)?;
    Ok(path)
}
