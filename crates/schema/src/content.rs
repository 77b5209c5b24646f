//! Content blocks: what messages, prompts and tool results are made of (the same as in MCP).

use crate::macros::{open_enum, record, tagged};
use crate::{Decode, Dialects, Encode, Writer};
use tieline_json::{Error, Reader};

// What is large and rare is boxed: a block is mostly text, and waits in queues as large as its largest kind.
tagged! {
    /// One piece of content.
    ContentBlock by "type" closed {
        /// Text, by default Markdown.
        Text(Text) = "text";
        /// A picture.
        Image(Image) = "image";
        /// Sound.
        Audio(Audio) = "audio";
        /// A link to something the receiver can fetch itself.
        ResourceLink(Box<ResourceLink>) = "resource_link";
        /// A whole file or other resource.
        Resource(Box<Resource>) = "resource";
    }
}

impl From<&str> for ContentBlock {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for ContentBlock {
    fn from(text: String) -> Self {
        Self::Text(Text { text, ..Text::default() })
    }
}

impl From<ResourceLink> for ContentBlock {
    fn from(link: ResourceLink) -> Self {
        Self::ResourceLink(Box::new(link))
    }
}

impl From<Resource> for ContentBlock {
    fn from(resource: Resource) -> Self {
        Self::Resource(Box::new(resource))
    }
}

impl ContentBlock {
    /// The text of a text block.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(&text.text),
            _ => None,
        }
    }
}

record! {
    /// Text.
    Text {
        /// The text itself.
        text: String => "text", required;
        /// Hints for the receiver.
        annotations: Option<Box<Annotations>> => "annotations", lenient;
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }
}

record! {
    /// A picture.
    Image {
        /// The bytes in base64.
        data: String => "data", required;
        /// For example `image/png`.
        mime_type: String => "mimeType", required;
        /// Where it came from.
        uri: Option<String> => "uri", lenient;
        /// Hints for the receiver.
        annotations: Option<Box<Annotations>> => "annotations", lenient;
    }
}

record! {
    /// Sound.
    Audio {
        /// The bytes in base64.
        data: String => "data", required;
        /// For example `audio/wav`.
        mime_type: String => "mimeType", required;
        /// Hints for the receiver.
        annotations: Option<Box<Annotations>> => "annotations", lenient;
    }
}

record! {
    /// A link to something the receiver can fetch itself.
    ResourceLink {
        /// Where it is.
        uri: String => "uri", required;
        /// What it is called.
        name: String => "name", required;
        /// Its media type.
        mime_type: Option<String> => "mimeType", lenient;
        /// A title for people.
        title: Option<String> => "title", lenient;
        /// What it is.
        description: Option<String> => "description", lenient;
        /// Its size in bytes.
        size: Option<i64> => "size", lenient;
        /// Pictures that stand for it.
        icons: Vec<Icon> => "icons", rare_list, Dialects::V2;
        /// Hints for the receiver.
        annotations: Option<Box<Annotations>> => "annotations", lenient;
    }
}

record! {
    /// A picture that stands for a resource.
    Icon {
        /// An `https:` or `data:` address.
        src: String => "src", required;
        /// Its media type.
        mime_type: Option<String> => "mimeType", lenient;
        /// Sizes it is good for, such as `48x48`.
        sizes: Vec<String> => "sizes", rare_list;
        /// The background it is made for.
        theme: Option<String> => "theme", lenient;
    }
}

record! {
    /// A whole file or other resource.
    Resource {
        /// Its contents.
        resource: ResourceContents => "resource", required;
        /// Hints for the receiver.
        annotations: Option<Box<Annotations>> => "annotations", lenient;
    }
}

/// Text or bytes of a resource, told apart by the key that is there.
#[derive(Debug, Clone, PartialEq)]
pub enum ResourceContents {
    /// A text resource.
    Text(TextResource),
    /// A binary resource.
    Blob(BlobResource),
}

impl Default for ResourceContents {
    fn default() -> Self {
        Self::Text(TextResource::default())
    }
}

record! {
    /// A text resource.
    TextResource {
        /// Where it is.
        uri: String => "uri", required;
        /// Its text.
        text: String => "text", required;
        /// Its media type.
        mime_type: Option<String> => "mimeType", lenient;
    }
}

record! {
    /// A binary resource.
    BlobResource {
        /// Where it is.
        uri: String => "uri", required;
        /// Its bytes in base64.
        blob: String => "blob", required;
        /// Its media type.
        mime_type: Option<String> => "mimeType", lenient;
    }
}

impl Decode for ResourceContents {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        let mark = json.mark();
        let mut object = json.object()?;
        while let Some(key) = object.key(json)? {
            match &*key {
                "text" => {
                    json.rewind(mark);
                    return TextResource::decode(json).map(Self::Text);
                }
                "blob" => {
                    json.rewind(mark);
                    return BlobResource::decode(json).map(Self::Blob);
                }
                _ => json.skip()?,
            }
        }
        Err(Error::data("a resource needs `text` or `blob`"))
    }
}

impl Encode for ResourceContents {
    fn encode(&self, out: &mut Writer<'_>) {
        match self {
            Self::Text(text) => out.object(text),
            Self::Blob(blob) => out.object(blob),
        }
    }
}

record! {
    /// Hints for whoever shows or uses the content.
    Annotations {
        /// Who it is for.
        audience: Vec<Role> => "audience", rare_list;
        /// How important it is, from 0 to 1.
        priority: Option<f64> => "priority", lenient;
        /// When it last changed (ISO 8601).
        last_modified: Option<String> => "lastModified", lenient;
    }
}

open_enum! {
    /// Who content is for.
    Role, default User {
        /// The person.
        User = "user";
        /// The model.
        Assistant = "assistant";
    }
}
