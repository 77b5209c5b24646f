//! A session as one HTML file: no script, no request to anywhere, every text escaped.

use super::{Brought, Part, brought, changed_text, text_of, title, tool_words, turns, who};
use crate::journal::{HowAsked, Story};
use crate::sanitize;
use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd};
use std::fmt::{self, Write as _};
use tieline::schema::{ContentBlock, ToolCallItem, ToolCallStatus, from_base64};

const STYLE: &str = include_str!("page.css");
/// Nothing is loaded, nothing runs, nothing is sent; pictures are inside of the file.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";
/// Pictures that every browser shows and none runs.
const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Text in which nothing is taken for a tag.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in self.0.chars() {
            match letter {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                letter => f.write_char(letter)?,
            }
        }
        Ok(())
    }
}

pub(super) fn write(story: &Story) -> String {
    let entry = &story.entry;
    let title = title(story);
    let title = Escaped(&title);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<header>\n<h1>{title}</h1>\n"
    );
    let agent = sanitize::line(&entry.agent);
    let cwd = sanitize::line(&entry.cwd);
    let protocol = entry.protocol.map(|dialect| format!(" · protocol {dialect}")).unwrap_or_default();
    let _ = writeln!(
        out,
        "<p class=\"facts\">{} · <code>{}</code>{protocol} · <time>{}</time> · <code>{}</code></p>\n</header>",
        Escaped(&agent),
        Escaped(&cwd),
        entry.created,
        Escaped(&entry.id)
    );
    if let Some(damage) = &story.damage {
        let _ =
            writeln!(out, "<p class=\"bad\">A part of this session is lost: {}</p>", Escaped(&sanitize::line(damage)));
    }
    for (turn, parts) in turns(story) {
        let _ = writeln!(out, "<section id=\"turn-{}\">", turn.number);
        if turn.number > 0 {
            let _ = writeln!(out, "<h2>Turn {} <time>{}</time></h2>", turn.number, turn.began);
        }
        for part in &parts {
            write_part(&mut out, story, part);
        }
        out.push_str("</section>\n");
    }
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

fn write_part(out: &mut String, story: &Story, part: &Part<'_>) {
    match part {
        Part::Prompt { told, text, blocks } => {
            let _ = writeln!(
                out,
                "<div class=\"user\"><p class=\"who\">{}</p><div class=\"text\">{}</div>",
                who(*told),
                Escaped(text)
            );
            pictures(out, blocks);
            out.push_str("</div>\n");
        }
        Part::Said { thought: true, blocks } => {
            let text = rendered(text_of(blocks).trim());
            let _ = writeln!(out, "<details class=\"thought\"><summary>Thought</summary>{text}</details>");
        }
        Part::Said { thought: false, blocks } => {
            let _ = writeln!(out, "<div class=\"agent\">{}", rendered(text_of(blocks).trim()));
            pictures(out, blocks);
            out.push_str("</div>\n");
        }
        Part::Tool(call) => tool(out, story, call),
        Part::Note(text) => {
            let _ = writeln!(out, "<p class=\"note\">{}</p>", Escaped(text));
        }
        Part::Changes(changes) => {
            out.push_str("<div class=\"changes\"><p class=\"who\">Files changed in this turn</p>\n");
            for changed in *changes {
                let line = changed_text(changed, &story.entry.cwd);
                let class = if changed.asked == HowAsked::Never { " class=\"bad\"" } else { "" };
                match &changed.diff {
                    Some(text) => {
                        let _ = writeln!(out, "<details open><summary{class}>{}</summary>", Escaped(&line));
                        diff(out, &sanitize::exact(text));
                        out.push_str("</details>\n");
                    }
                    None => {
                        let _ = writeln!(out, "<p{class}>{}</p>", Escaped(&line));
                    }
                }
            }
            out.push_str("</div>\n");
        }
        Part::End(text) => {
            let _ = writeln!(out, "<p class=\"end\">{}</p>", Escaped(text));
        }
    }
}

fn tool(out: &mut String, story: &Story, call: &ToolCallItem) {
    let mark = match call.status {
        ToolCallStatus::Completed => "done",
        ToolCallStatus::Failed => "failed",
        _ => "open",
    };
    let pieces = brought(story, call, true);
    let open = if pieces.iter().any(|piece| matches!(piece, Brought::Diff(_))) { " open" } else { "" };
    let (name, status) = tool_words(call);
    let _ = writeln!(
        out,
        "<details class=\"tool {mark}\"{open}><summary>{} <span class=\"kind\">{}</span></summary>",
        Escaped(&name),
        Escaped(&status)
    );
    for piece in pieces {
        match piece {
            Brought::Text(text) => {
                let _ = writeln!(out, "<pre>{}</pre>", Escaped(&text));
            }
            Brought::Diff(text) => diff(out, &text),
        }
    }
    out.push_str("</details>\n");
}

/// Markdown as HTML: tags in it are text, and nothing is asked for from elsewhere; a picture is only a link to it.
fn rendered(markdown: &str) -> String {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let events = Parser::new_ext(markdown, options).filter_map(|event| match event {
        Event::Html(tag) | Event::InlineHtml(tag) => Some(Event::Text(tag)),
        Event::Start(Tag::HtmlBlock) | Event::End(TagEnd::HtmlBlock) => None,
        Event::Start(Tag::Image { link_type, dest_url, title, id } | Tag::Link { link_type, dest_url, title, id }) => {
            let web = ["http://", "https://", "mailto:"].iter().any(|start| dest_url.starts_with(start));
            let dest_url = if web { dest_url } else { CowStr::Borrowed("#") };
            Some(Event::Start(Tag::Link { link_type, dest_url, title, id }))
        }
        Event::End(TagEnd::Image) => Some(Event::End(TagEnd::Link)),
        Event::SoftBreak => Some(Event::HardBreak),
        event => Some(event),
    });
    let mut out = String::new();
    pulldown_cmark::html::push_html(&mut out, events);
    out
}

fn diff(out: &mut String, text: &str) {
    out.push_str("<pre class=\"diff\">");
    for line in text.lines() {
        let class = match line.as_bytes() {
            [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => "file",
            [b'@', ..] => "place",
            [b'+', ..] => "new",
            [b'-', ..] => "old",
            _ => "same",
        };
        let _ = write!(out, "<span class=\"{class}\">{}\n</span>", Escaped(line));
    }
    out.push_str("</pre>\n");
}

fn pictures(out: &mut String, blocks: &[ContentBlock]) {
    for block in blocks {
        if let ContentBlock::Image(image) = block
            && PICTURES.contains(&image.mime_type.as_str())
            && from_base64(&image.data).is_some()
        {
            let _ = writeln!(
                out,
                "<img alt=\"a picture\" src=\"data:{};base64,{}\">",
                image.mime_type,
                Escaped(&image.data)
            );
        }
    }
}
