//! Files and links that came with the prompt.

use tieline::ContentBlock;
use tieline::schema::ResourceContents;

/// Something that came with the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attached {
    /// What people are shown.
    pub name: String,
    /// Where it is.
    pub at: At,
    /// Its text, if it came along.
    pub text: Option<String>,
}

/// Where an attachment is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum At {
    /// A file, perhaps only some lines of it.
    File { path: String, line: Option<u64>, limit: Option<u64> },
    /// A web address.
    Web(String),
    /// Somewhere we can't go.
    Elsewhere,
}

impl Attached {
    /// The attachment in a block of the prompt.
    pub fn of(block: &ContentBlock) -> Option<Self> {
        match block {
            ContentBlock::ResourceLink(link) => Some(Self::at(&link.uri, Some(&link.name), None)),
            ContentBlock::Resource(resource) => match &resource.resource {
                ResourceContents::Text(text) => Some(Self::at(&text.uri, None, Some(text.text.clone()))),
                ResourceContents::Blob(blob) => Some(Self::at(&blob.uri, None, None)),
            },
            _ => None,
        }
    }

    /// How the prompt would name it.
    pub fn address(&self) -> &str {
        match &self.at {
            At::File { path, .. } => path,
            At::Web(url) => url,
            At::Elsewhere => &self.name,
        }
    }

    fn at(uri: &str, name: Option<&str>, text: Option<String>) -> Self {
        let at = place(uri);
        let name = match (name, &at) {
            (_, At::File { path, .. }) => path.clone(),
            (Some(name), _) if !name.trim().is_empty() => name.to_owned(),
            _ => uri.to_owned(),
        };
        Self { name, at, text }
    }
}

fn place(uri: &str) -> At {
    let scheme = uri.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
    match scheme.as_deref() {
        Some("http" | "https") => At::Web(uri.to_owned()),
        Some("file") => file(uri),
        // A drive letter is no scheme.
        Some(scheme) if scheme.len() > 1 && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => At::Elsewhere,
        _ if uri.trim().is_empty() => At::Elsewhere,
        _ => At::File { path: uri.to_owned(), line: None, limit: None },
    }
}

fn file(uri: &str) -> At {
    let rest = uri.get(5..).unwrap_or_default();
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let rest = rest.split_once('?').map_or(rest, |(path, _)| path);
    let path = match rest.strip_prefix("//") {
        // The host, nearly always empty, ends at the next slash.
        Some(after) => after.find('/').map_or("", |slash| after.get(slash..).unwrap_or_default()),
        None => rest,
    };
    let mut path = percent_encoding::percent_decode_str(path).decode_utf8_lossy().into_owned();
    let bytes = path.as_bytes();
    if bytes.len() > 2 && bytes[0] == b'/' && bytes[1].is_ascii_alphabetic() && bytes[2] == b':' {
        path.remove(0);
    }
    if path.is_empty() {
        return At::Elsewhere;
    }
    let (line, limit) = lines(fragment);
    At::File { path, line, limit }
}

/// Reads `L10`, `L10-20`, `L10:20`, `L10-L20`.
fn lines(fragment: &str) -> (Option<u64>, Option<u64>) {
    let Some(rest) = fragment.strip_prefix(['L', 'l']) else { return (None, None) };
    let mut ends = rest.splitn(2, ['-', ':']);
    let first = ends.next().and_then(|text| text.parse::<u64>().ok());
    let last = ends.next().and_then(|text| text.trim_start_matches(['L', 'l']).parse::<u64>().ok());
    match (first, last) {
        (Some(first), Some(last)) if last >= first => (Some(first.max(1)), Some((last - first).saturating_add(1))),
        (Some(first), _) => (Some(first.max(1)), None),
        _ => (None, None),
    }
}
