//! Changes of files: one model for old and new text (version 1, seed-era v2) and for change lists with a patch (v2).

use crate::macros::{fields, open_enum, record};
use crate::patch;
use crate::{Decode, Encode, Items, Meta, Record, ToolCallContent, Unknown, Writer, union};
use tieline_json::{Error, Reader};

/// Changes of files. Holds what came, or what it was made of; writing makes the form that the dialect wants.
///
/// Older dialects can show one text file per diff. A v2 diff of several files becomes several diffs there, rebuilt from
/// the hunks of the patch; what has no such form (moved, copied, binary, without a patch) becomes a line of text.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Diff {
    /// One text file, before and after.
    pub texts: Option<DiffTexts>,
    /// The changed files. May stay empty when `texts` says it all.
    pub changes: Vec<Change>,
    /// The same as a patch. May stay out when `texts` says it all.
    pub patch: Option<DiffPatch>,
    /// Extensions (`_meta`).
    pub meta: Option<Meta>,
}

/// One text file, before and after.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DiffTexts {
    /// An absolute path.
    pub path: String,
    /// The text before; `None` if the file is new.
    pub old: Option<String>,
    /// The text after.
    pub new: String,
}

/// What happened to one file.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// A known operation.
    File(FileChange),
    /// An operation we don't know, kept as it came.
    Other(Unknown),
}

record! {
    /// A known operation on one file.
    FileChange {
        /// What was done.
        operation: Operation => "operation", required;
        /// For moved and copied files: the absolute path before.
        old_path: Option<String> => "oldPath", strict;
        /// The absolute path.
        path: String => "path", required;
        /// What the file is made of.
        file_type: Option<FileType> => "fileType", lenient;
        /// Its media type.
        mime_type: Option<String> => "mimeType", lenient;
    }
}

open_enum! {
    /// What was done to a file.
    Operation, default Modify {
        /// It is new.
        Add = "add";
        /// It is gone.
        Delete = "delete";
        /// Its contents changed.
        Modify = "modify";
        /// It has another path.
        Move = "move";
        /// It was copied.
        Copy = "copy";
    }
}

open_enum! {
    /// What a file is made of.
    FileType, default Text, open {
        /// Text.
        Text = "text";
        /// Bytes.
        Binary = "binary";
        /// It is a directory.
        Directory = "directory";
        /// It is a symbolic link.
        Symlink = "symlink";
    }
}

record! {
    /// A patch and its format.
    DiffPatch {
        /// Its format.
        format: PatchFormat => "format", required;
        /// The patch itself.
        text: String => "text", required;
    }
}

open_enum! {
    /// The format of a patch.
    PatchFormat, default Git, open {
        /// As `git diff` writes it, with absolute paths and no prefixes.
        Git = "git_patch";
    }
}

impl Diff {
    /// A diff of one text file; without `old` the file is new.
    pub fn of(path: impl Into<String>, old: Option<String>, new: impl Into<String>) -> Self {
        Self { texts: Some(DiffTexts { path: path.into(), old, new: new.into() }), ..Self::default() }
    }

    /// The diff of a text file that is deleted.
    pub fn deleted(path: impl Into<String>, old: impl Into<String>) -> Self {
        let path = path.into();
        let texts = DiffTexts { path: path.clone(), old: Some(old.into()), new: String::new() };
        let (operation, file_type) = (Operation::Delete, Some(FileType::Text));
        let change = FileChange { operation, path, file_type, ..FileChange::default() };
        Self { texts: Some(texts), changes: vec![Change::File(change)], ..Self::default() }
    }

    /// The diff of a file that is moved and stays as it is.
    pub fn moved(from: impl Into<String>, to: impl Into<String>) -> Self {
        let (old_path, path) = (Some(from.into()), to.into());
        let change = FileChange { operation: Operation::Move, old_path, path, ..FileChange::default() };
        Self { changes: vec![Change::File(change)], ..Self::default() }
    }

    /// The old and new text, if the diff holds them.
    pub fn texts(&self) -> Option<&DiffTexts> {
        self.texts.as_ref()
    }

    /// The paths that are changed, in order.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let texts = self.texts.as_ref().filter(|_| self.changes.is_empty());
        let changed = self.changes.iter().filter_map(|change| match change {
            Change::File(file) => Some(file.path.as_str()),
            Change::Other(_) => None,
        });
        texts.map(|texts| texts.path.as_str()).into_iter().chain(changed)
    }

    /// What an older dialect can be told: one diff with texts per file, and lines of text for the rest.
    pub fn lower(&self) -> Vec<ToolCallContent> {
        if self.texts.is_some() {
            return vec![ToolCallContent::Diff(self.clone())];
        }
        let git = self.patch.as_ref().filter(|patch| patch.format == PatchFormat::Git);
        let sections = git.map(|patch| patch::parse(&patch.text)).unwrap_or_default();
        let mut items = Vec::new();
        for change in &self.changes {
            let Change::File(file) = change else {
                items.push("Changed files in a way this client does not know.".into());
                continue;
            };
            let section = sections.iter().find(|section| section.path == file.path && !section.binary);
            let moved = matches!(file.operation, Operation::Move | Operation::Copy);
            let texts = section.filter(|section| !moved || section.hunks).map(|section| DiffTexts {
                path: file.path.clone(),
                old: (file.operation != Operation::Add).then(|| section.old.clone()),
                new: section.new.clone(),
            });
            if moved || texts.is_none() {
                items.push(describe(file).into());
            }
            let diff = texts.map(|texts| Diff { texts: Some(texts), meta: self.meta.clone(), ..Diff::default() });
            items.extend(diff.map(ToolCallContent::Diff));
        }
        items
    }

    /// What an older dialect can be told, when it must be one item.
    pub fn summary(&self) -> ToolCallContent {
        let mut items = self.lower();
        if items.len() == 1 {
            return items.swap_remove(0);
        }
        let lines = self.changes.iter().map(|change| match change {
            Change::File(file) => describe(file),
            Change::Other(other) => format!("Changed ({})", other.tag),
        });
        lines.collect::<Vec<_>>().join("\n").into()
    }

    /// The change list, made of the texts if need be.
    pub fn changes(&self) -> Vec<Change> {
        match &self.texts {
            Some(texts) if self.changes.is_empty() => vec![Change::File(FileChange {
                operation: if texts.old.is_none() { Operation::Add } else { Operation::Modify },
                path: texts.path.clone(),
                file_type: Some(FileType::Text),
                ..FileChange::default()
            })],
            _ => self.changes.clone(),
        }
    }

    /// The patch, made of the texts if need be; `None` if nothing changed or nothing is known.
    pub fn patch(&self) -> Option<DiffPatch> {
        if self.patch.is_some() {
            return self.patch.clone();
        }
        let texts = self.texts.as_ref()?;
        let gone = matches!(&self.changes[..], [Change::File(file)] if file.operation == Operation::Delete);
        let text = patch::write(&texts.path, texts.old.as_deref(), (!gone).then_some(&texts.new))?;
        Some(DiffPatch { format: PatchFormat::Git, text, ..Default::default() })
    }

    pub(crate) fn encode_texts(&self, texts: &DiffTexts, out: &mut Writer<'_>) {
        out.key("{\"type\":\"diff\",");
        out.field("\"path\":", &texts.path);
        out.field("\"oldText\":", &texts.old);
        out.field("\"newText\":", &texts.new);
        out.field("\"_meta\":", &self.meta);
        out.close();
    }
}

fn describe(file: &FileChange) -> String {
    let FileChange { path, old_path, .. } = file;
    let kind = match &file.file_type {
        Some(FileType::Text) | None => String::new(),
        Some(other) => format!(" ({other})"),
    };
    match (&file.operation, old_path) {
        (Operation::Add, _) => format!("Added {path}{kind}"),
        (Operation::Delete, _) => format!("Deleted {path}{kind}"),
        (Operation::Move, Some(old)) => format!("Moved {old} to {path}{kind}"),
        (Operation::Copy, Some(old)) => format!("Copied {old} to {path}{kind}"),
        _ => format!("Modified {path}{kind}"),
    }
}

impl Decode for Diff {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        fields!(json {
            "path" => path, strict;
            "oldText" => old, lenient;
            "newText" => new, strict;
            "changes" => changes, strict;
            "patch" => patch, lenient;
            "_meta" => meta, lenient;
        });
        let texts = match (path, new) {
            (Some(path), Some(new)) => Some(DiffTexts { path, old, new }),
            (None, Some(_)) if changes.is_none() => return Err(Error::missing("path")),
            (Some(_), None) if changes.is_none() => return Err(Error::missing("newText")),
            (None, None) if changes.is_none() => return Err(Error::missing("changes")),
            _ => None,
        };
        let changes = changes.map(|items: Items<Change>| items.0).unwrap_or_default();
        Ok(Self { texts, changes, patch, meta })
    }
}

/// Current v2 only; the older forms depend on the place and are written by [`ToolCallContent`].
impl Record for Diff {
    fn encode_fields(&self, out: &mut Writer<'_>) {
        out.field("\"changes\":", &self.changes());
        out.field("\"patch\":", &self.patch());
        out.field("\"_meta\":", &self.meta);
    }
}

impl Encode for Diff {
    fn encode(&self, out: &mut Writer<'_>) {
        out.object(self);
    }
}

impl Decode for Change {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        let tag = union::tag(json, "operation")?.ok_or_else(|| Error::missing("operation"))?;
        if let Operation::Other(_) = Operation::from(&*tag) {
            return Unknown::keep(&tag, json).map(Self::Other);
        }
        let file = FileChange::decode(json)?;
        if matches!(file.operation, Operation::Move | Operation::Copy) && file.old_path.is_none() {
            return Err(Error::missing("oldPath"));
        }
        Ok(Self::File(file))
    }
}

impl Encode for Change {
    fn encode(&self, out: &mut Writer<'_>) {
        match self {
            Self::File(file) => file.encode(out),
            Self::Other(unknown) => unknown.encode(out),
        }
    }
}
