//! Asking the user before something is done.

use self::question::Question;
use crate::fnv;
use crate::macros::{fields, open_enum, record, tagged};
use crate::{
    Decode, Dialect, Encode, Meta, Patch, SessionId, ToolCallContent, ToolCallUpdate, ToolKind, Writer, data_field,
    to_json,
};
use tieline_json::{Error, Raw, Reader, write_str};

/// Asks the user to allow something (`session/request_permission`).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PermissionRequest {
    /// Which session.
    pub session_id: SessionId,
    /// The question.
    pub title: String,
    /// More about it.
    pub description: Option<String>,
    /// What it is about.
    pub subject: Option<PermissionSubject>,
    /// What the user can answer.
    pub options: Vec<PermissionOption>,
    /// Extensions (`_meta`).
    pub meta: Option<Meta>,
}

tagged! {
    /// What a permission is about.
    PermissionSubject by "type" {
        /// A tool call. Applied like an update before the question is shown.
        ToolCall(ToolCallSubject) = "tool_call";
        /// A command that the agent wants to run itself.
        Command(CommandSubject) = "command";
    }
}

record! {
    /// A tool call that needs permission.
    ToolCallSubject {
        /// The call.
        tool_call: ToolCallUpdate => "toolCall", required;
    }
}

record! {
    /// A command that needs permission.
    CommandSubject {
        /// The command line.
        command: String => "command", required;
        /// Where it would run (an absolute path).
        cwd: String => "cwd", required;
        /// The tool call it belongs to.
        tool_call_id: Option<String> => "toolCallId", lenient;
        /// The terminal it would run in.
        terminal_id: Option<String> => "terminalId", lenient;
    }
    local {
        /// What was told of that call before; a client fills it in.
        call: Option<Box<ToolCallUpdate>>;
    }
    others others but "type"
}

record! {
    /// One possible answer.
    PermissionOption {
        /// Names the answer.
        option_id: String => "optionId", required;
        /// The label.
        name: String => "name", required;
        /// What it means, for icons and shortcuts.
        kind: PermissionOptionKind => "kind", required;
    }
}

open_enum! {
    /// What an answer means. Version 1 is told of an unknown meaning as a rejection, never as an approval.
    PermissionOptionKind, default RejectOnce {
        /// Yes, this time.
        AllowOnce = "allow_once";
        /// Yes, from now on.
        AllowAlways = "allow_always";
        /// No, this time.
        RejectOnce = "reject_once";
        /// No, from now on.
        RejectAlways = "reject_always";
    }
}

impl PermissionOptionKind {
    /// True for the two kinds that approve.
    pub fn allows(&self) -> bool {
        matches!(self, Self::AllowOnce | Self::AllowAlways)
    }
}

/// The question when an older dialect brings none.
const DEFAULT_TITLE: &str = "Permission required";

/// Where the question of current v2 goes in the older dialects, inside `_meta`.
const META_KEY: &str = "tieline.permission";

mod question {
    crate::macros::record! {
        /// The question of current v2, as it travels in the older dialects.
        Question {
            /// The question.
            title: String => "title", required;
            /// More about it.
            description: Option<String> => "description", lenient;
        }
    }
}

fn title_of(call: &ToolCallUpdate) -> &str {
    call.title.set().map(String::as_str).filter(|title| !title.is_empty()).unwrap_or(DEFAULT_TITLE)
}

/// The extensions without the question, which has its own fields now. Nothing if nothing else is left.
fn without_question(meta: Meta) -> Option<Meta> {
    if !meta.0.get().contains(META_KEY) {
        return Some(meta);
    }
    let mut json = Reader::new(meta.0.get());
    let mut text = Vec::new();
    let mut read = || -> Result<(), Error> {
        let mut object = json.object()?;
        while let Some(key) = object.key(&mut json)? {
            let value = json.keep()?;
            if &*key != META_KEY {
                text.push(if text.is_empty() { b'{' } else { b',' });
                write_str(&mut text, &key);
                text.push(b':');
                text.extend_from_slice(value.get().as_bytes());
            }
        }
        Ok(())
    };
    if read().is_err() {
        return Some(meta);
    }
    if text.is_empty() {
        return None;
    }
    text.push(b'}');
    String::from_utf8(text).ok().and_then(|text| Raw::new(text).ok()).map(Meta)
}

impl Decode for PermissionRequest {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        fields!(json {
            "sessionId" => session_id, strict;
            "title" => title, strict;
            "description" => description, lenient;
            "subject" => subject, strict;
            "toolCall" => call, strict;
            "options" => options, strict;
            "_meta" => meta, lenient;
        });
        let (call, mut meta): (Option<ToolCallUpdate>, Option<Meta>) = (call, meta);
        let mut description: Option<String> = description;
        if let (None, Some(call)) = (&title, &call) {
            let question: Option<Question> = meta.as_ref().and_then(|meta| data_field(&meta.0, META_KEY));
            let question = question.unwrap_or_else(|| Question { title: title_of(call).into(), ..Question::default() });
            title = Some(question.title);
            description = description.or(question.description);
            meta = meta.and_then(without_question);
        }
        let from_call = |tool_call| PermissionSubject::ToolCall(ToolCallSubject { tool_call, ..Default::default() });
        Ok(Self {
            session_id: session_id.ok_or_else(|| Error::missing("sessionId"))?,
            title: title.ok_or_else(|| Error::missing("title"))?,
            description,
            subject: subject.flatten().or(call.map(from_call)),
            options: options.ok_or_else(|| Error::missing("options"))?,
            meta,
        })
    }
}

impl Encode for PermissionRequest {
    fn encode(&self, out: &mut Writer<'_>) {
        out.open();
        out.field("\"sessionId\":", &self.session_id);
        if out.dialect == Dialect::V2 {
            out.field("\"title\":", &self.title);
            out.field("\"description\":", &self.description);
            out.field("\"subject\":", &self.subject);
            out.field("\"options\":", &self.options);
            out.field("\"_meta\":", &self.meta);
        } else {
            let call = self.tool_call();
            out.field("\"toolCall\":", &call);
            out.field("\"options\":", &self.options);
            if self.description.is_none() && title_of(&call) == self.title {
                out.field("\"_meta\":", &self.meta);
            } else {
                out.field("\"_meta\":", &self.meta_with_question(out.dialect));
            }
        }
        out.close();
    }
}

impl PermissionRequest {
    /// The tool call that the older dialects are told of. One is made up if the subject is something else; its id is that
    /// of the call the command belongs to, or else always the same for the same question.
    pub fn tool_call(&self) -> ToolCallUpdate {
        let (id, text, raw) = match &self.subject {
            Some(PermissionSubject::ToolCall(subject)) => {
                let mut call = subject.tool_call.clone();
                if call.title.set().is_none_or(String::is_empty) && !call.title.is_keep() {
                    call.title = Patch::Set(self.title.clone());
                }
                return call;
            }
            Some(PermissionSubject::Command(subject)) => {
                let bare = CommandSubject { tool_call_id: None, terminal_id: None, meta: None, ..subject.clone() };
                let text = format!("$ {}\n(in {})", subject.command, subject.cwd);
                (subject.tool_call_id.clone(), Some(text), Raw::new(to_json(&bare, Dialect::V2)).ok())
            }
            Some(PermissionSubject::Other(unknown)) => (None, self.description.clone(), Some(unknown.raw.clone())),
            None => (None, self.description.clone(), None),
        };
        let id = id.unwrap_or_else(|| self.made_up_id());
        let mut call =
            ToolCallUpdate::new(id).title(&*self.title).content(text.into_iter().map(ToolCallContent::from).collect());
        if let Some(PermissionSubject::Command(_)) = &self.subject {
            call.kind = Patch::Set(ToolKind::Execute);
        }
        call.raw_input = raw.map_or(Patch::Keep, Patch::Set);
        call
    }

    /// A 64-bit FNV-1a hash of what is asked.
    fn made_up_id(&self) -> String {
        let subject = self.subject.as_ref().map(|subject| to_json(subject, Dialect::V2)).unwrap_or_default();
        let parts = [self.session_id.as_str(), &self.title, &subject];
        let hash = parts.iter().fold(fnv::EMPTY, |hash, part| fnv::add(fnv::add(hash, part.as_bytes()), &[0]));
        format!("permission-{hash:016x}")
    }

    /// The extensions, with the question among them.
    fn meta_with_question(&self, dialect: Dialect) -> Option<Meta> {
        let old = self.meta.as_ref().map_or("{}", |meta| meta.0.get().trim());
        let inner = old.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or_default().trim();
        let comma = if inner.is_empty() { "" } else { "," };
        let question =
            Question { title: self.title.clone(), description: self.description.clone(), ..Default::default() };
        let text = format!("{{{inner}{comma}\"{META_KEY}\":{}}}", to_json(&question, dialect));
        Raw::new(text).ok().map(Meta)
    }
}

record! {
    /// What the user answered.
    PermissionResponse {
        /// The answer.
        outcome: PermissionOutcome => "outcome", required;
    }
}

tagged! {
    /// What the user answered. Only a known option of an approving kind is an approval; an answer we don't know never is, and the
    /// older dialects are told `cancelled`.
    PermissionOutcome by "outcome", older "{\"outcome\":\"cancelled\"}" {
        /// One of the options.
        Selected(SelectedOutcome) = "selected";
        /// The question was withdrawn, or the turn cancelled.
        Cancelled(CancelledOutcome) = "cancelled";
    }
}

record! {
    /// The user chose an option.
    SelectedOutcome {
        /// Which option.
        option_id: String => "optionId", required;
    }
}

record! {
    /// The user did not answer.
    CancelledOutcome {}
}

impl PermissionOutcome {
    /// The user chose this option.
    pub fn selected(option_id: impl Into<String>) -> Self {
        Self::Selected(SelectedOutcome { option_id: option_id.into(), ..Default::default() })
    }

    /// The question was withdrawn.
    pub fn cancelled() -> Self {
        Self::default()
    }

    /// The option that was chosen, if it is one of `options`.
    pub fn chosen<'o>(&self, options: &'o [PermissionOption]) -> Option<&'o PermissionOption> {
        match self {
            Self::Selected(selected) => options.iter().find(|option| option.option_id == selected.option_id),
            _ => None,
        }
    }
}

impl Default for PermissionOutcome {
    fn default() -> Self {
        Self::Cancelled(CancelledOutcome::default())
    }
}
