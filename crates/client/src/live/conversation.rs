//! The transcript of a live session: what was said, its tool calls and plans, what it costs; within one budget of memory whatever
//! the agent sends. Fed once; screens, the outcome of a run and the watch over the files borrow it.

use super::{Event, News, Said, When};
use crate::journal::Story;
use crate::undo::real;
use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use tieline::json::Reader;
use tieline::rpc::sync::Lock;
use tieline::schema::{
    Chunk, ContentBlock, Dialect, Message, MessageKind, Patch, Plan, Raw, ToolCallContent, ToolCallItem,
    ToolCallStatus, ToolKind, Transcript, Update, Usage, parts_bytes, to_json,
};
use tieline_host::text::{RECORD, cut};

/// The calls that are known take at most so many bytes. Those that were heard of longest ago are forgotten, but for the files
/// that they named; all of it is in the journal.
const MAX_CALLS_BYTES: usize = 16 << 20;
/// One call takes at most so many; what was added to it before is let go.
const MAX_CALL_BYTES: usize = 4 << 20;
/// What a call takes that says nothing, in bytes.
const CALL_BYTES: usize = size_of::<ToolCallItem>() + 512;
/// So many files that forgotten calls named are remembered.
const MAX_FILES: usize = 10_000;
/// So much is remembered of the title of a call that named a file, in characters.
const MAX_TITLE_CHARS: usize = 300;

/// So many plans are remembered.
const MAX_PLANS: usize = 16;
/// A longer plan is not, in bytes.
const MAX_PLAN_BYTES: usize = 64 << 10;
/// So many items are remembered in their order; the others are in the journal.
const MAX_ITEMS: usize = 100_000;
/// A call with a longer id is not among them.
const MAX_ID_BYTES: usize = 128;

/// The transcript of a session. Clones are the same.
#[derive(Debug, Clone)]
pub struct Conversation(Arc<Mutex<Known>>);

/// What stands in a conversation, in its order. What it holds is asked for one by one: nobody copies the whole.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Item {
    /// A message: who speaks, and its number among those; see [`Conversation::text`].
    Message(MessageKind, usize),
    /// A tool call: its id; see [`Conversation::call`].
    Call(Arc<str>),
}

#[derive(Debug)]
struct Known {
    /// Only plans, how full the context is, and what was spent.
    session: Transcript,
    /// The words of the user, of the agent, and its thoughts.
    said: [Said; 3],
    items: Vec<Item>,
    /// The last word about a call before the turn that runs.
    before: u64,
    dialect: Dialect,
    calls: HashMap<Arc<str>, Call>,
    /// The same by the time of the last word about them.
    ages: BTreeMap<u64, Arc<str>>,
    /// What they take.
    bytes: usize,
    now: u64,
    /// The files that forgotten calls named, each with the key of the call; and the title, if the call changes files.
    files: BTreeMap<(PathBuf, u64), Option<Arc<str>>>,
    /// A call that was at work is forgotten.
    lost_work: bool,
    /// There was a call that may be a command.
    commands: bool,
    /// The agent says that a rule allowed a command, and that its mode allowed none.
    by_rule: Option<bool>,
    keys: RandomState,
}

#[derive(Debug)]
struct Call {
    item: Arc<ToolCallItem>,
    age: u64,
    bytes: usize,
    /// What it took when that was last counted.
    counted: usize,
}

impl Default for Conversation {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Known::new(Dialect::V2))))
    }
}

impl Conversation {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.locked()
    }

    /// The dialect is known now.
    pub fn speaks(&self, dialect: Dialect) {
        self.known().dialect = dialect;
    }

    /// A turn begins: what files its calls name and what is said from now on is its own.
    pub fn begin_turn(&self) {
        let mut known = self.known();
        known.said.iter_mut().for_each(Said::begin_turn);
        known.files.clear();
        (known.before, known.commands, known.lost_work) = (known.now, false, false);
        known.by_rule = None;
    }

    /// Fills it with what the journal knows of the session.
    pub fn recall(&self, story: &Story) {
        for update in story.transcript.to_updates() {
            self.take(update, When::Late);
        }
    }

    /// Takes an update in, and gives the events that tell of it.
    pub fn take(&self, update: Update, when: When) -> Vec<Event> {
        let told = |kind, (number, news)| Event::Said { kind, number, news, when };
        match update {
            Update::Chunk(Chunk { kind, message_id, content: ContentBlock::Text(text), .. })
                if when != When::Before =>
            {
                let Some(text) = typed(kind, &text.text) else { return Vec::new() };
                vec![told(kind, self.known().say(kind, message_id.as_deref(), text.to_owned(), false))]
            }
            Update::Message(Message { kind, ref message_id, ref content, .. }) if when != When::Before => {
                let blocks = match content {
                    Patch::Keep => return Vec::new(),
                    Patch::Clear => &[],
                    Patch::Set(blocks) => &blocks[..],
                };
                let texts = blocks.iter().filter_map(ContentBlock::as_text);
                let text = texts.filter_map(|text| typed(kind, text)).collect();
                let mut events = vec![told(kind, self.known().say(kind, Some(message_id), text, true))];
                // The rest can be shown only as a placeholder.
                if kind != MessageKind::User && !blocks.iter().all(|block| matches!(block, ContentBlock::Text(_))) {
                    events.push(Event::Update { update: Box::new(update), tool: None, when });
                }
                events
            }
            // What the user sent is known.
            Update::Chunk(Chunk { kind: MessageKind::User, .. }) if when != When::Before => Vec::new(),
            Update::Chunk(_) | Update::Message(_) => {
                if when == When::Before {
                    self.take(update.clone(), When::Late);
                }
                vec![Event::Update { update: Box::new(update), tool: None, when }]
            }
            update => {
                let tool = self.apply(&update);
                vec![Event::Update { update: Box::new(update), tool, when }]
            }
        }
    }

    /// The items from a place on, at most so many; and how many there are.
    pub fn items(&self, from: usize, most: usize) -> (Vec<Item>, usize) {
        let known = self.known();
        (known.items.iter().skip(from).take(most).cloned().collect(), known.items.len())
    }

    /// Gives the text of a message in pieces.
    pub fn text(&self, kind: MessageKind, number: usize, mut give: impl FnMut(&str)) -> std::io::Result<()> {
        self.known().said[kind as usize].message(number, |piece| {
            give(piece);
            Ok(())
        })
    }

    /// What changes when an item does: how often it became another one, or for a call the time of the last word about it; and the
    /// bytes of a message. `None` if the call is forgotten.
    pub fn state(&self, item: &Item) -> Option<(u64, u64)> {
        let known = self.known();
        match item {
            Item::Message(kind, number) => known.said[*kind as usize].state(*number),
            Item::Call(id) => known.calls.get(id).map(|call| (call.age, 0)),
        }
    }

    /// Some of the text of a message: whole characters from a byte on, at most so many bytes.
    pub fn piece(&self, kind: MessageKind, number: usize, from: u64, most: usize) -> std::io::Result<String> {
        self.known().said[kind as usize].piece(number, from, most)
    }

    /// What the agent said; from now on it is empty here.
    pub(crate) fn take_said(&self) -> Said {
        std::mem::take(&mut self.known().said[MessageKind::Agent as usize])
    }

    /// The plans.
    pub fn plans(&self) -> Vec<Plan> {
        self.known().session.plans().to_vec()
    }

    /// Takes an update in. Gives the call that it changed, as it is then.
    pub fn apply(&self, update: &Update) -> Option<Arc<ToolCallItem>> {
        self.known().apply(update)
    }

    /// How full the context is, and what was spent.
    pub fn usage(&self) -> Option<Usage> {
        self.known().session.usage().cloned()
    }

    /// A tool call, if it is not forgotten.
    pub fn call(&self, id: &str) -> Option<Arc<ToolCallItem>> {
        self.known().calls.get(id).map(|call| Arc::clone(&call.item))
    }

    /// What stands for the id of a call, however long that is.
    pub fn key(&self, id: &str) -> u64 {
        self.known().keys.hash_one(id)
    }

    /// The tool calls that are not over, in the order in which they were last heard of.
    pub fn unfinished(&self) -> Vec<String> {
        let known = self.known();
        let calls = known.ages.values().filter_map(|id| known.calls.get(id));
        let calls = calls.filter(|call| !call.item.status.is_final());
        calls.map(|call| call.item.id.clone()).collect()
    }

    /// The keys of the other calls with their status, if none of them is at work. A question that names no call is asked for one of
    /// them, so that one may be.
    pub fn at_rest(&self, asked: Option<&str>) -> Option<Vec<(u64, ToolCallStatus)>> {
        let known = self.known();
        let others = known.calls.values().filter(|call| Some(&*call.item.id) != asked);
        let mut calls: Vec<_> =
            others.map(|call| (known.keys.hash_one(&*call.item.id), call.item.status.clone())).collect();
        calls.sort_by_key(|(key, _)| *key);
        let at_work = calls.iter().filter(|(_, status)| *status == ToolCallStatus::InProgress).count();
        (!known.lost_work && at_work <= usize::from(asked.is_none())).then_some(calls)
    }

    /// True if a call of this turn was a command, or may have been.
    pub fn has_commands(&self) -> bool {
        self.known().commands
    }

    /// Whether commands ran that nobody was asked about, all because of rules.
    pub fn has_commands_by_rule(&self) -> bool {
        self.known().by_rule == Some(true)
    }

    /// Each file that a call of this turn names, with the key of the call, and its title if it changes files. In no order.
    pub fn files(&self) -> Vec<(PathBuf, u64, Option<Arc<str>>)> {
        let known = self.known();
        let mut files: Vec<_> =
            known.files.iter().map(|((path, key), title)| (path.clone(), *key, title.clone())).collect();
        for call in known.calls.values().filter(|call| call.age > known.before) {
            files.extend(known.named(&call.item));
        }
        files
    }
}

impl Known {
    fn new(dialect: Dialect) -> Self {
        Self {
            session: Transcript::new(dialect),
            said: Default::default(),
            items: Vec::new(),
            before: 0,
            dialect,
            calls: HashMap::new(),
            ages: BTreeMap::new(),
            bytes: 0,
            now: 0,
            files: BTreeMap::new(),
            lost_work: false,
            commands: false,
            by_rule: None,
            keys: RandomState::new(),
        }
    }

    fn add(&mut self, item: Item) {
        if self.items.len() < MAX_ITEMS {
            self.items.push(item);
        }
    }

    /// Adds to a message, or sets the whole of it. Gives also its number.
    fn say(&mut self, kind: MessageKind, id: Option<&str>, text: String, whole: bool) -> (usize, News) {
        let said = &mut self.said[kind as usize];
        let count = said.count();
        let news = match id.filter(|_| whole) {
            Some(id) => said.set(id, text),
            None => said.append(id, text),
        };
        let number = said.last_at();
        if said.count() > count {
            self.add(Item::Message(kind, count));
        }
        (number, news)
    }

    fn apply(&mut self, update: &Update) -> Option<Arc<ToolCallItem>> {
        if matches!(update, Update::ToolCall(_) | Update::ToolCallContent(_) | Update::Plan(_)) {
            self.said.iter_mut().for_each(Said::interrupt);
        }
        let id = match update {
            Update::ToolCall(update) => &update.tool_call_id,
            Update::ToolCallContent(chunk) => &chunk.tool_call_id,
            Update::Usage(_) => {
                self.session.apply(update);
                return None;
            }
            Update::Plan(plan) => {
                let plans = self.session.plans();
                let fits = plans.len() < MAX_PLANS || plans.iter().any(|known| known.id() == plan.plan.id());
                if fits && to_json(update, Dialect::V2).len() <= MAX_PLAN_BYTES {
                    self.session.apply(update);
                }
                return None;
            }
            _ => return None,
        };
        let (name, mut call) = match self.calls.remove_entry(&**id) {
            Some((name, call)) => {
                self.ages.remove(&call.age);
                self.bytes -= call.bytes;
                (name, call)
            }
            None => {
                let (item, name) = (Arc::new(ToolCallItem::new(id.clone())), Arc::from(&**id));
                if id.len() <= MAX_ID_BYTES {
                    self.add(Item::Call(Arc::clone(&name)));
                }
                (name, Call { item, age: 0, bytes: CALL_BYTES + 2 * id.len(), counted: 0 })
            }
        };
        call.bytes += weight(update);
        // A lot of it may have been replaced meanwhile: it is counted anew now and then.
        if call.bytes > MAX_CALL_BYTES && call.bytes > 2 * call.counted {
            call.counted = CALL_BYTES + weight(&Update::ToolCall(Box::new(call.item.to_update()))) + weight(update);
            call.bytes = call.counted;
        }
        // Nobody holds on to an older state while an update is taken in, so nothing is copied.
        let item = Arc::make_mut(&mut call.item);
        match update {
            Update::ToolCall(update) => item.apply(update, self.dialect),
            Update::ToolCallContent(chunk) if call.bytes > MAX_CALL_BYTES => {
                let before = std::mem::replace(&mut item.content, vec![chunk.content.clone()]);
                let before = ToolCallItem { content: before, ..ToolCallItem::new(id.clone()) };
                self.remember(&before);
                call.bytes = CALL_BYTES + weight(update);
            }
            Update::ToolCallContent(chunk) => item.content.push(chunk.content.clone()),
            _ => {}
        }
        self.commands |= is_command(&item.kind);
        if let Some(by) = allowed_by(item).filter(|_| is_command(&item.kind)) {
            self.by_rule = Some(self.by_rule.unwrap_or(true) && !by.contains("in the mode "));
        }
        self.now += 1;
        call.age = self.now;
        let changed = Arc::clone(&call.item);
        self.bytes += call.bytes;
        self.ages.insert(call.age, Arc::clone(&name));
        self.calls.insert(name, call);
        while self.bytes > MAX_CALLS_BYTES && self.forget_oldest() {}
        Some(changed)
    }

    fn forget_oldest(&mut self) -> bool {
        let Some(call) = self.ages.pop_first().and_then(|(_, name)| self.calls.remove(&name)) else { return false };
        self.bytes -= call.bytes;
        self.lost_work |= !call.item.status.is_final();
        self.remember(&call.item);
        true
    }

    fn remember(&mut self, call: &ToolCallItem) {
        if self.files.len() < MAX_FILES {
            for (path, key, title) in self.named(call).into_iter().take(MAX_FILES - self.files.len()) {
                self.files.insert((path, key), title);
            }
        }
    }

    fn named(&self, call: &ToolCallItem) -> Vec<(PathBuf, u64, Option<Arc<str>>)> {
        let key = self.keys.hash_one(&*call.id);
        let title = call.title.as_ref().or(call.name.as_ref()).filter(|_| changes_files(call));
        let title: Option<Arc<str>> = title.map(|title| cut(title, MAX_TITLE_CHARS).into());
        paths_of(call).into_iter().map(|path| (path, key, title.clone())).collect()
    }
}

/// What was said; of the user only what was typed. That an agent is given a record of what was said before is told on its own.
fn typed(kind: MessageKind, text: &str) -> Option<&str> {
    if kind != MessageKind::User || !text.starts_with(RECORD.0) {
        return Some(text);
    }
    // Each line of the record itself begins with a mark.
    let rest = text.split_once(&format!("\n{}", RECORD.1)).map_or(text, |(_, rest)| rest.trim_start());
    Some(rest).filter(|rest| !rest.is_empty())
}

/// What an update of a call takes in memory, roughly.
fn weight(update: &Update) -> usize {
    to_json(update, Dialect::V2).len() + parts_bytes(update)
}

/// The files that a call names: where it works, what it changes, what it was given.
pub fn paths_of(call: &ToolCallItem) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        call.locations.iter().take(MAX_FILES).map(|place| PathBuf::from(&place.path)).collect();
    for content in &call.content {
        if let ToolCallContent::Diff(diff) = content {
            paths.extend(diff.paths().map(PathBuf::from));
        }
    }
    let given = call.raw_input.as_ref();
    let _ = given.is_some_and(|given| {
        each_key(given, |name, json| {
            let name = name.to_lowercase();
            if (name.contains("path") || name.contains("file"))
                && let Some(path) = json.string().ok().filter(|path| path.starts_with('/') && path.len() < 4096)
            {
                paths.push(path.as_ref().into());
            }
        })
    });
    paths.truncate(MAX_FILES);
    paths.iter().map(|path| real(path)).collect()
}

/// True if it may be a command, of which nobody knows what it changes.
pub(crate) fn is_command(kind: &ToolKind) -> bool {
    matches!(kind, ToolKind::Execute | ToolKind::Unspecified | ToolKind::Other(_))
}

fn changes_files(call: &ToolCallItem) -> bool {
    let diff = call.content.iter().any(|content| matches!(content, ToolCallContent::Diff(_)));
    diff || matches!(call.kind, ToolKind::Edit | ToolKind::Delete | ToolKind::Move)
}

/// True if the agent says that a call was not even begun.
pub fn never_ran(call: &ToolCallItem) -> bool {
    says(call, "ran") == Some(false)
}

/// What the agent says has refused a call: a preset or `rule`, say; empty if it does not say. `None` if it was not refused.
pub(crate) fn refused_by(call: &ToolCallItem) -> Option<String> {
    let by = || text_at(call.raw_output.as_ref()?, "by");
    (says(call, "refused") == Some(true)).then(|| by().unwrap_or_default())
}

/// What the agent says has allowed a call, if it asked nobody.
pub fn allowed_by(call: &ToolCallItem) -> Option<String> {
    text_at(&call.meta.as_ref()?.0, "allowedBy")
}

fn says(call: &ToolCallItem, what: &str) -> Option<bool> {
    let mut said = None;
    each_key(call.raw_output.as_ref()?, |name, json| {
        if name == what {
            said = json.bool().ok();
        }
    });
    said
}

fn text_at(raw: &Raw, what: &str) -> Option<String> {
    let mut said = None;
    each_key(raw, |name, json| {
        if name == what {
            said = json.string().ok().map(Into::into);
        }
    });
    said
}

/// Shows each key of an object with its value, without making anything of the rest: it may be huge. False if it is no object.
fn each_key(raw: &Raw, mut see: impl FnMut(&str, &mut Reader<'_>)) -> bool {
    let mut json = Reader::new(raw.get());
    let Ok(mut object) = json.object() else { return false };
    while let Ok(Some(key)) = object.key(&mut json) {
        let value = json.mark();
        see(&key, &mut json);
        json.rewind(value);
        if json.skip().is_err() {
            break;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline::schema::{Items, Location, Patch, ToolCallContentChunk, ToolCallUpdate};

    fn size(conversation: &Conversation) -> (usize, usize) {
        let known = conversation.known();
        assert_eq!(known.bytes, known.calls.values().map(|call| call.bytes).sum::<usize>());
        assert_eq!(known.calls.len(), known.ages.len());
        (known.calls.len(), known.bytes)
    }

    #[test]
    fn calls_are_forgotten_but_not_what_they_named() {
        let conversation = Conversation::default();
        for number in 0..40 {
            let mut call = ToolCallUpdate::new(number.to_string()).title(format!("Edit {number}")).kind(ToolKind::Edit);
            call.locations = Patch::Set(Items(vec![Location::new(format!("/none/{number}"), 1)]));
            call.status = Patch::Set(ToolCallStatus::Completed);
            let call = call.content(vec!["x".repeat(1 << 20).into()]);
            let seen = conversation.apply(&Update::ToolCall(Box::new(call))).unwrap();
            assert_eq!(seen.content.len(), 1);
            assert!(size(&conversation).1 <= MAX_CALLS_BYTES);
        }
        assert!(size(&conversation).0 < 16 && conversation.call("39").is_some() && conversation.call("1").is_none());
        let mut files = conversation.files();
        files.sort_by_key(|file| file.0.clone());
        assert_eq!(files.len(), 40);
        assert_eq!(files[1], ("/none/1".into(), conversation.key("1"), Some("Edit 1".into())));
        assert!(conversation.at_rest(Some("")).is_some() && conversation.unfinished().is_empty());
        // One that was at work may be at work still.
        for number in 0..40 {
            let call = ToolCallUpdate::new(format!("w{number}")).content(vec!["x".repeat(1 << 20).into()]);
            conversation.apply(&Update::ToolCall(Box::new(call)));
        }
        assert!(conversation.at_rest(Some("")).is_none() && conversation.unfinished().len() < 16);
    }

    #[test]
    fn one_call_does_not_grow_without_end() {
        let conversation = Conversation::default();
        let chunk = ToolCallContentChunk {
            tool_call_id: "a".into(),
            content: "x".repeat(1 << 18).into(),
            ..Default::default()
        };
        let most = (0..200).map(|_| {
            conversation.apply(&Update::ToolCallContent(Box::new(chunk.clone())));
            size(&conversation).1
        });
        assert!(most.max().unwrap() < MAX_CALL_BYTES + (1 << 19));
        // What is replaced does not count any more.
        for _ in 0..200 {
            let call = ToolCallUpdate::new("b").content(vec!["x".repeat(1 << 19).into()]);
            conversation.apply(&Update::ToolCall(Box::new(call)));
        }
        assert!(conversation.call("a").is_some() && size(&conversation).1 < 2 * MAX_CALL_BYTES + (1 << 20));
    }

    #[test]
    fn what_a_call_was_given_names_files() {
        let mut call = ToolCallItem::new("a".into());
        call.raw_input =
            Raw::new(r#"{"filePath":"/none/a","n":[1,{"path":"/no"}],"path":7,"x":"/no","other_file":"/none/b"}"#).ok();
        assert_eq!(paths_of(&call), [PathBuf::from("/none/a"), "/none/b".into()]);
        for (raw, never) in
            [(r#"{"x":{"ran":false},"ran":true}"#, false), (r#"{"a":1,"ran":false}"#, true), ("[false]", false)]
        {
            call.raw_output = Raw::new(raw).ok();
            assert_eq!(never_ran(&call), never, "{raw}");
        }
    }
}
