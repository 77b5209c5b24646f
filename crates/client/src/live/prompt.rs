//! The prompt: words, files and pictures, read before the agent starts and shaped as the agent can take them.

use crate::journal::Kept;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use tieline::schema::{
    AgentCapabilities, ContentBlock, Image, Resource, ResourceContents, ResourceLink, TextResource, to_base64,
};

/// A larger file is linked, not embedded: the agent can read it itself.
const EMBED: u64 = 256 * 1024;
/// More than this is not taken from a pipe or a device, which can't be linked.
const STREAM: u64 = 1024 * 1024;
/// A larger picture is refused.
const PICTURE: u64 = 20 * 1024 * 1024;

/// What an address can't have in it as it is.
const ESCAPED: AsciiSet = NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The address of what came through a pipe.
const PIPE: &str = "stdin:";

/// One part of a prompt.
#[derive(Debug, Clone)]
pub enum Part {
    /// Words.
    Text(String),
    /// What another program wrote; not the words of the user.
    Piped(String),
    /// A file.
    File {
        /// Its absolute path.
        path: PathBuf,
        /// Its text, if it is text and small enough.
        text: Option<String>,
        /// Its size in bytes.
        size: u64,
    },
    /// A picture.
    Image {
        /// Its absolute path.
        path: PathBuf,
        /// Its media type.
        mime: &'static str,
        /// The bytes in base64.
        data: String,
    },
    /// A block that another client has made.
    Block(Box<ContentBlock>),
}

impl Part {
    /// Reads a file. What comes from a pipe is taken as words; that may take a while.
    pub fn file(path: &Path) -> io::Result<Self> {
        let meta = std::fs::metadata(path)?;
        if meta.is_dir() {
            return Ok(Self::File { path: path.canonicalize()?, text: None, size: 0 });
        }
        let text = |bytes| String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
        if !meta.is_file() {
            let Some(bytes) = read(path, STREAM)? else {
                return Err(io::Error::other(format!("this is no file, and more than {STREAM} bytes come from it")));
            };
            let none = || io::Error::other("this is no file, and what comes from it is no text");
            return text(bytes).map(Self::Text).ok_or_else(none);
        }
        let text = if meta.len() <= EMBED { read(path, EMBED)?.and_then(text) } else { None };
        Ok(Self::File { path: path.canonicalize()?, text, size: meta.len() })
    }

    /// Reads a picture.
    pub fn image(path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        let Some(bytes) = read(&path, PICTURE)? else {
            return Err(io::Error::other(format!("a picture may have at most {PICTURE} bytes")));
        };
        let mime = mime_of(&bytes).ok_or_else(|| io::Error::other("this is no PNG, JPEG, GIF or WebP picture"))?;
        Ok(Self::Image { path, mime, data: to_base64(&bytes) })
    }

    /// True if it says nothing.
    pub fn is_blank(&self) -> bool {
        matches!(self, Self::Text(text) | Self::Piped(text) if text.trim().is_empty())
    }

    /// The block that an agent with these capabilities can take, and what is lost by it.
    pub fn block(&self, can: &AgentCapabilities) -> (ContentBlock, Option<String>) {
        match self {
            Self::Text(text) => (text.clone().into(), None),
            Self::Block(block) => block_for(block, can),
            Self::Piped(text) if can.embedded_context => (embedded(PIPE.to_owned(), text), None),
            Self::Piped(text) => (marked(text).into(), None),
            Self::File { path, text: Some(text), .. } if can.embedded_context => (embedded(uri(path), text), None),
            Self::File { path, size, .. } => (link(path, *size, None), None),
            Self::Image { path, mime, data } if can.image => {
                let image =
                    Image { data: data.clone(), mime_type: (*mime).into(), uri: Some(uri(path)), ..Image::default() };
                (ContentBlock::Image(image), None)
            }
            Self::Image { path, mime, data } => {
                let lost = format!("the agent takes no pictures: {} was sent as a link", path.display());
                (link(path, data.len() as u64 / 4 * 3, Some(mime)), Some(lost))
            }
        }
    }
}

impl Kept {
    /// `None` for what is another client's.
    pub(super) fn of(part: &Part) -> Option<Self> {
        Some(match part {
            Part::Text(text) => Self::Text(text.clone()),
            Part::Piped(text) => Self::Piped(text.clone()),
            Part::File { path, .. } => Self::File(path.clone()),
            Part::Image { path, .. } => Self::Image(path.clone()),
            Part::Block(_) => return None,
        })
    }

    fn part(self) -> Part {
        let gone = |path: &Path, error| Part::Text(format!("[{} can't be read any more: {error}]", path.display()));
        match self {
            Self::Text(text) => Part::Text(text),
            Self::Piped(text) => Part::Piped(text),
            Self::File(path) => Part::file(&path).unwrap_or_else(|error| gone(&path, error)),
            Self::Image(path) => Part::image(&path).unwrap_or_else(|error| gone(&path, error)),
        }
    }

    /// A prompt again.
    pub(super) fn prompt(parts: Vec<Self>) -> Vec<Part> {
        parts.into_iter().map(Self::part).collect()
    }
}

/// A block of another client, as the agent can take it.
fn block_for(block: &ContentBlock, can: &AgentCapabilities) -> (ContentBlock, Option<String>) {
    let lost = |what: &str| {
        let word = format!("[{what} that the agent can't take was left out]");
        (word.into(), Some(format!("the agent takes no {what}: it was left out")))
    };
    match block {
        ContentBlock::Image(_) if !can.image => lost("picture"),
        ContentBlock::Audio(_) if !can.audio => lost("sound"),
        ContentBlock::Resource(resource) if !can.embedded_context => match &resource.resource {
            ResourceContents::Text(text) => (format!("{}:\n{}", text.uri, marked(&text.text)).into(), None),
            ResourceContents::Blob(_) => lost("embedded file"),
        },
        block => (block.clone(), None),
    }
}

/// Everything in a file; `None` if that is more than `most` bytes.
pub fn read(path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    Ok(Some(bytes).filter(|bytes| bytes.len() as u64 <= most))
}

fn embedded(uri: String, text: &str) -> ContentBlock {
    let text = TextResource { uri, text: text.to_owned(), ..TextResource::default() };
    ContentBlock::from(Resource { resource: ResourceContents::Text(text), ..Resource::default() })
}

/// Text of another program between marks that it can't have in it, for agents that take nothing but words.
fn marked(text: &str) -> String {
    let mut mark = "stdin".to_owned();
    for number in 2.. {
        if !text.contains(&format!("</{mark}>")) {
            break;
        }
        mark = format!("stdin-{number}");
    }
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("<{mark}>\n{text}{end}</{mark}>")
}

fn link(path: &Path, size: u64, mime: Option<&str>) -> ContentBlock {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    ContentBlock::from(ResourceLink {
        uri: uri(path),
        name,
        size: i64::try_from(size).ok(),
        mime_type: mime.map(str::to_owned),
        ..ResourceLink::default()
    })
}

/// The `file:` address of an absolute path.
fn uri(path: &Path) -> String {
    format!("file://{}", utf8_percent_encode(&path.to_string_lossy(), &ESCAPED))
}

fn mime_of(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}
