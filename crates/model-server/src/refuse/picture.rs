//! Pictures that a vendor does not take.

use super::{Checked, Refusal};
use crate::talk::{Format, string};
use serde_json::Value;

/// What is wrong with a picture.
pub(super) fn check(format: Format, body: &Value, blind: bool) -> Checked {
    match body {
        Value::Array(all) => all.iter().try_for_each(|value| check(format, value, blind)),
        Value::Object(all) => {
            if let Some(mime) = picture(format, body)
                && (blind || !taken(format, &mime))
            {
                return Err(Refusal::from(match format {
                    _ if blind => "This model does not support image input.".into(),
                    Format::Messages => format!(
                        "image.source.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp', \
                         not {mime}"
                    ),
                    Format::Gemini => format!("Unsupported MIME type: {mime}"),
                    _ => "You uploaded an unsupported image. Please make sure your image has of one the following formats: \
                          ['png', 'jpeg', 'gif', 'webp']."
                        .into(),
                }));
            }
            all.values().try_for_each(|value| check(format, value, blind))
        }
        _ => Ok(()),
    }
}

/// The media type of a picture, if this is one with its data in it.
fn picture(format: Format, value: &Value) -> Option<String> {
    match format {
        Format::Messages if value["type"] == "image" && value["source"]["type"] == "base64" => {
            Some(string(&value["source"], "media_type"))
        }
        Format::Gemini => Some(string(value.get("inlineData")?, "mimeType")),
        Format::Chat | Format::Responses => {
            let address = &value["image_url"];
            let address = address.as_str().or_else(|| address["url"].as_str())?;
            Some(address.strip_prefix("data:")?.split([';', ',']).next()?.to_owned())
        }
        _ => None,
    }
}

fn taken(format: Format, mime: &str) -> bool {
    match format {
        // It takes sounds, films and papers, too.
        Format::Gemini => {
            !mime.starts_with("image/")
                || matches!(mime, "image/png" | "image/jpeg" | "image/webp" | "image/heic" | "image/heif")
        }
        _ => matches!(mime, "image/png" | "image/jpeg" | "image/gif" | "image/webp"),
    }
}
