//! What can be picked from: each list with what its lines do. Text of others is made safe here.

use super::{Errand, Pick, Picker, Source, Waiting};
use crate::event::About;
use crate::keys::{Deed, KEYS};
use crate::state::For;
use crate::text::fit;
use crate::{AgentChoice, Go, Which};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tieline::schema::{ConfigCategory, ConfigKind, ConfigOption, Select, SelectOption, SelectOptions};
use tieline_client::live::{Now, Part, Queued};
use tieline_client::sanitize;
use tieline_host::roots::shown;
use tieline_host::snapshot::{Hunk, Undone, is_unclear};
use tieline_host::text::counted;

/// So much of a prompt names its turn, in columns.
const MAX_PROMPT_WORDS: usize = 40;

/// A session that is kept, as the list shows it.
#[derive(Debug, Clone, Default)]
pub struct Stored {
    /// Its id.
    pub id: String,
    /// What it is called, if anything.
    pub title: Option<String>,
    /// Its agent.
    pub agent: String,
    /// How many turns it has.
    pub turns: u64,
    /// How long ago something last happened in it.
    pub ago: String,
    /// Where it works.
    pub cwd: String,
}

/// The sessions, each with what can be done with it.
pub fn sessions(sessions: impl Iterator<Item = Stored>) -> Picker {
    let mut all = Picker::new("Sessions: go on in a new tab");
    for Stored { id, title, agent, turns, ago, cwd } in sessions {
        let title = sanitize::line(title.as_deref().unwrap_or(&id));
        let which = Which { agent: None, session: Go::On(id.clone()) };
        let delete = Picker::new(format!("Delete “{title}” for good?")).line("No, keep it", "", Pick::Nothing).line(
            "Yes, delete it",
            "and what could be taken back",
            Pick::Do(Errand::Delete(id.clone())),
        );
        let menu = Picker::new(title.clone())
            .line("Go on with it", "in a new tab", Pick::Open(which))
            .line("Rename it", "", Pick::Ask(For::Name(id.clone())))
            .line("Export it", "as Markdown, into this folder", Pick::Do(Errand::Export(id.clone())))
            .line("Delete it", "for good, with what could be taken back", Pick::Menu(Box::new(delete)));
        let turns = counted(usize::try_from(turns).unwrap_or(0), "turn");
        let more = sanitize::line(&format!("{ago} · {agent} · {turns} · {cwd}"));
        all = all.line(title, more, Pick::Menu(Box::new(menu)));
    }
    all
}

/// The agents, each for a new session.
pub fn agents(agents: Vec<AgentChoice>) -> Picker {
    let mut all = Picker::new("Agents: a new session in a new tab");
    for agent in agents {
        let (name, about) = (sanitize::line(&agent.name), sanitize::line(&agent.about));
        if agent.found {
            all = all.line(name, about, Pick::Open(Which { agent: Some(agent.name), session: Go::New }));
        } else {
            let lines = vec!["Type this in a shell, then press F4 again:".into(), String::new(), format!("  {about}")];
            let title = format!("{name} is not installed");
            all = all.line(name, format!("not installed: {about}"), Pick::Read(title, lines));
        }
    }
    all.line("another agent: type its command", "for this chat", Pick::Ask(For::Command))
}

/// A turn that changed files, as the list shows it.
#[derive(Debug, Clone, Default)]
pub struct Change {
    /// Its id.
    pub id: String,
    /// Its number and the first words of its prompt.
    pub words: String,
    /// How long ago it began, and the names of the files.
    pub more: String,
}

impl Change {
    /// One by its id. That of an undo is the turn's with something behind it.
    pub fn new(id: &str, prompt: &str, ago: &str, names: &[String]) -> Self {
        let number = id.split('~').next().unwrap_or(id);
        let kind = match id.matches("~undo").count() {
            0 if is_unclear(id) => format!("turn {number}, by the agent or somebody else"),
            0 => format!("turn {number}"),
            undos if undos % 2 == 1 => format!("the undo of turn {number}"),
            _ => format!("turn {number}, done again"),
        };
        let words = format!("{kind}: {}", fit(&sanitize::line(prompt), MAX_PROMPT_WORDS));
        Self { id: id.to_owned(), words, more: format!("{ago} · {}", names.join(", ")) }
    }
}

/// The turns that changed files, the last first.
pub fn turns(turns: impl Iterator<Item = Change>) -> Picker {
    let mut all = Picker::new("Take back the changes of which turn?");
    for Change { id, words, more } in turns {
        all = all.line(words.clone(), more, Pick::Look(Source::Files(id, words)));
    }
    all
}

/// What taking back a turn would do, all of it or one of the files, each with its diff if there is one to show.
pub fn files(
    turn: &str,
    words: &str,
    preview: &Undone,
    added: &BTreeSet<PathBuf>,
    diffs: &[Option<String>],
    cwd: &Path,
) -> Picker {
    let lines = |diff: &str, sign: char| diff.lines().skip(2).filter(|line| line.starts_with(sign)).count();
    let sum = |diff: &str| format!("+{} -{}", lines(diff, '+'), lines(diff, '-'));
    let [back, gone] = counts(&preview.restored, added);
    let refused = Some(preview.refused.len()).filter(|left| *left > 0).map(|left| format!("{left} left alone"));
    let (back, gone) = (back.map(|files| format!("puts {files} back")), gone.map(|files| format!("removes {files}")));
    let what: Vec<_> = [back, gone, refused].into_iter().flatten().collect();
    let diff: String = diffs.iter().flatten().map(String::as_str).collect();
    let mut all = Picker::new(words);
    all = all.line("Take all of it back", what.join(", "), Pick::Do(Errand::Undo(turn.to_owned(), None)));
    if !diff.is_empty() {
        let lines = diff.lines().map(sanitize::exact_line).collect();
        all = all.line("Show the diff first", "what taking it back changes", Pick::Read(words.to_owned(), lines));
    }
    for one in &preview.refused {
        all = all.line("left alone", sanitize::line(&one.to_string()), Pick::Nothing);
    }
    for (path, diff) in preview.restored.iter().zip(diffs) {
        let source = Source::Hunks(turn.to_owned(), path.to_string_lossy().into_owned());
        let sum = diff.as_deref().map_or_else(|| "no text to show".to_owned(), sum);
        let place = if added.contains(path) { "removed" } else { "this file, or places in it" };
        all = all.line(name(path, cwd), format!("{sum} · {place}"), Pick::Look(source));
    }
    all
}

/// Of files that are taken back: how many are put back, and how many go because the turn made them.
pub fn counts(restored: &[PathBuf], added: &BTreeSet<PathBuf>) -> [Option<String>; 2] {
    let gone = restored.iter().filter(|path| added.contains(*path)).count();
    [restored.len() - gone, gone].map(|count| (count > 0).then(|| counted(count, "file")))
}

/// What taking back a file would do: all of it, or one of the places.
pub fn hunks(turn: &str, path: &str, hunks: &[Hunk], cwd: &Path) -> Picker {
    let mut all = Picker::new(format!("{}: what is taken back?", name(Path::new(path), cwd)));
    all = all.line("The whole file", "", Pick::Do(Errand::Undo(turn.to_owned(), Some(path.to_owned()))));
    for (at, hunk) in hunks.iter().enumerate() {
        let (old, new) = (sanitize::exact_line(hunk.old.trim_end()), sanitize::exact_line(hunk.new.trim_end()));
        let errand = Errand::UndoHunk(turn.to_owned(), path.to_owned(), at);
        let label = format!("from line {}", hunk.new_lines.start + 1);
        all = all.line(label, format!("- {new}  + {old}"), Pick::Do(errand));
    }
    all
}

fn name(path: &Path, cwd: &Path) -> String {
    shown(path.strip_prefix(cwd).unwrap_or(path))
}

/// Everything that can be done.
pub fn palette() -> Picker {
    let others = KEYS.iter().filter(|binding| binding.deed != Deed::Palette);
    others.fold(Picker::new("What can be done"), |all, binding| {
        all.line(binding.help, binding.name, Pick::Deed(binding.deed))
    })
}

/// What was said before, the last first.
pub fn history<'a>(said: impl Iterator<Item = &'a str>) -> Picker {
    said.fold(Picker::new("Said before"), |all, said| all.line(sanitize::line(said), "", Pick::Write(said.to_owned())))
}

/// The values of an option, with and without headings.
fn values(select: &Select) -> Vec<&SelectOption> {
    match &select.options {
        SelectOptions::Flat(flat) => flat.iter().collect(),
        SelectOptions::Grouped(groups) => groups.iter().flat_map(|group| &group.options).collect(),
    }
}

/// What is chosen of an option, by its name.
pub fn chosen(option: &ConfigOption) -> Option<String> {
    let ConfigKind::Select(select) = &option.kind else { return None };
    let named = values(select).into_iter().find(|value| value.value == select.current_value);
    Some(sanitize::line(named.map_or(&select.current_value, |value| &value.name)))
}

/// The options of a session, each with its values behind it. An agent may have a command for models that it does not list.
pub fn options(About { options, commands, .. }: &About) -> Picker {
    let typed = commands.iter().any(|command| command.name == "model");
    let mut all = Picker::new("Options of this session");
    for option in options {
        let (id, name) = (&option.config_id, sanitize::line(&option.name));
        match &option.kind {
            ConfigKind::Select(select) => {
                let mut values = Picker::new(name.clone());
                for (at, value) in self::values(select).into_iter().enumerate() {
                    let label = sanitize::line(&value.name);
                    if value.value == select.current_value {
                        values.at = at;
                    }
                    let more = value.description.as_deref().map(sanitize::line).unwrap_or_default();
                    values = values.line(label, more, Pick::Set(id.clone(), value.value.as_str().into()));
                }
                if typed && option.category == Some(ConfigCategory::Model) {
                    values =
                        values.line("another: type its name", "/model PROVIDER/MODEL", Pick::Write("/model ".into()));
                }
                all = all.line(name, chosen(option).unwrap_or_default(), Pick::Menu(Box::new(values)));
            }
            ConfigKind::Boolean(on) => {
                let now = if *on { "on" } else { "off" };
                all = all.line(name, now, Pick::Set(id.clone(), (!on).into()));
            }
            ConfigKind::Other(_) => {}
        }
    }
    all
}

/// What waits, each with what can be done with it.
pub fn queue(queue: &[Queued], now: Now) -> Picker {
    let mut all = Picker::new("What waits");
    for queued in queue {
        let words = words(&queued.parts);
        let number = queued.number;
        let menu = Picker::new(fit(&words, 60))
            .line("Send it now", now.of(&queued.parts).words(), Pick::Waiting(number, Waiting::Now))
            .line("Edit it", "back into the composer", Pick::Waiting(number, Waiting::Edit))
            .line("One place up", "", Pick::Waiting(number, Waiting::Raise))
            .line("Drop it", "", Pick::Waiting(number, Waiting::Drop));
        all = all.line(words, "", Pick::Menu(Box::new(menu)));
    }
    all
}

/// A prompt in one line.
pub fn words(parts: &[Part]) -> String {
    let word = |part: &Part| match part {
        Part::Text(text) | Part::Piped(text) => sanitize::line(text.trim()),
        Part::File { path, .. } | Part::Image { path, .. } => sanitize::line(&format!("[{}]", path.display())),
        Part::Block(block) => format!("[{}]", sanitize::line(block.tag())),
    };
    parts.iter().map(word).collect::<Vec<_>>().join(" ")
}
