//! What may happen: what was learned, and what older versions kept in files of their own, which is moved here once.

use super::file::{self, Leaf};
use super::trust::Trusted;
use super::{Error, Origin, Shown, Sources};
use crate::files::{Expect, Files, Hash, Write};
use crate::roots::{self, Roots, shown};
use crate::rules::{Config, Decision, Learned, Rule, Settings};
use crate::whole::write_whole;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml_edit::{Array, DocumentMut, Item, Table, Value};

/// Rules of older versions: the user's own and a project's.
const OLD: &str = "rules.toml";

/// Adds what was learned in this folder; shown like any other value.
pub(super) fn learned(sources: &Sources, settings: &mut Settings, shown: &mut Vec<Shown>) -> Result<(), Error> {
    let Some(place) = sources.learned() else { return Ok(()) };
    let all = place.load().map_err(|error| Error::new(error.to_string()))?;
    for (decision, rule) in all.iter() {
        let line = rule.origin().and_then(|origin| origin.rsplit_once(':')?.1.parse().ok()).unwrap_or(0);
        let key = format!("permissions.learned.{}", decision.word());
        let origin = Origin::File(place.file().to_owned(), line);
        shown.push(Shown { key, value: vec![rule.text()].into(), origin });
    }
    settings.learned = Some(place);
    Ok(())
}

/// Moves what older versions kept elsewhere. What can't be moved counts all the same. Gives those rules, and what to tell.
pub(super) fn move_old(sources: &Sources) -> Result<(Config, Vec<String>), Error> {
    let mut mover = Mover::default();
    if let Some(folder) = &sources.folder {
        mover.of_user(sources, folder)?;
        mover.of_folder(sources, folder)?;
    }
    if !sources.cwd.as_os_str().is_empty() {
        mover.of_project(sources);
    }
    Ok((mover.rules, mover.notes))
}

#[derive(Default)]
struct Mover {
    /// Rules that could not be moved.
    rules: Config,
    notes: Vec<String>,
}

impl Mover {
    fn done(&mut self, from: &Path, to: &Path) {
        self.notes.push(format!("the rules of {} were moved to {}", shown(from), shown(to)));
    }

    /// They count from where they are.
    fn stay(&mut self, from: &Path, rules: Config, why: &dyn std::fmt::Display) {
        let mut named = Config::default();
        for (decision, rule) in rules.iter() {
            named.add(decision, rule.clone().from(shown(from)));
        }
        self.rules = std::mem::take(&mut self.rules).and(named);
        self.notes.push(format!("the rules of {} count, but they were not moved to config.toml: {why}", shown(from)));
    }

    /// `rules.toml` beside the user's configuration.
    fn of_user(&mut self, sources: &Sources, folder: &Path) -> Result<(), Error> {
        let old = folder.join(OLD);
        let Some(rules) = read(&old)? else { return Ok(()) };
        let Some(new) = sources.user.as_ref().filter(|_| !sources.named) else {
            self.stay(&old, rules, &"TIELINE_CONFIG names another file");
            return Ok(());
        };
        let text = file::load(new)?.unwrap_or_default();
        let moved = with_rules(&text, &rules).and_then(|text| {
            write_whole(new, text.as_bytes()).map_err(|error| error.to_string())?;
            put_away(&old)
        });
        match moved {
            Ok(()) => self.done(&old, new),
            Err(why) => self.stay(&old, rules, &why),
        }
        Ok(())
    }

    /// What was decided for always in this folder.
    fn of_folder(&mut self, sources: &Sources, folder: &Path) -> Result<(), Error> {
        let (Some(place), cwd) = (sources.learned(), &sources.cwd) else { return Ok(()) };
        let hash = Hash::of(cwd.as_os_str().as_encoded_bytes()).to_string();
        let name = cwd.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let old = folder.join("rules").join(format!("{name}-{}.toml", &hash[..12]));
        let Some(rules) = read(&old)? else { return Ok(()) };
        let add = |config: &mut Config| {
            for (decision, rule) in rules.iter() {
                config.add(decision, rule.clone());
            }
        };
        match place.change(add).map_err(|error| error.to_string()).and_then(|_| put_away(&old)) {
            Ok(()) => self.done(&old, place.file()),
            Err(why) => self.stay(&old, rules.clone(), &why),
        }
        Ok(())
    }

    /// `.tieline/rules.toml` of the folder, which could only hold back. Links lead nowhere else, nothing waits.
    fn of_project(&mut self, sources: &Sources) {
        let Ok(roots) = Roots::new(&sources.cwd, [] as [&Path; 0]) else { return };
        let files = Files::new(roots);
        let (old, new) = (sources.cwd.join(".tieline").join(OLD), sources.cwd.join(".tieline/config.toml"));
        let text = |name: &str| match files.roots().resolve(name).and_then(|at| files.read_text(&at)) {
            Ok(text) => Ok(Some(text.text)),
            // A folder that is not there yet has no rules.
            Err(roots::Error::NotFound(_) | roots::Error::NotDirectory(_)) => Ok(None),
            Err(error) => Err(error.to_string()),
        };
        let name = ".tieline/rules.toml";
        let read = text(name).and_then(|said| match said {
            Some(said) => Config::parse(&said).map(Some).map_err(|error| format!("{}: {error}", shown(&old))),
            None => Ok(None),
        });
        let rules = match read {
            Ok(Some(rules)) => rules,
            Ok(None) => return,
            // Whoever made the folder must not stop every run in it.
            Err(why) => return self.notes.push(format!("{why}; nothing in this file counts")),
        };
        let left: Vec<String> = rules
            .iter()
            .filter(|(decision, _)| *decision == Decision::Allow)
            .map(|(_, rule)| rule.to_string())
            .collect();
        if !left.is_empty() {
            // In a line of its own: the rest is moved, these are not.
            let left = left.join(", ");
            self.notes.push(format!("{} allows, which a project can't, and that was left out: {left}", shown(&old)));
        }
        let rules = rules.without_allow();
        let elsewhere = sources.project.as_ref().is_some_and(|project| *project != sources.cwd);
        if elsewhere || sources.home.as_ref() == Some(&sources.cwd) {
            return self.stay(&old, rules, &"the configuration of this project is in a folder above");
        }
        let write = || -> Result<(), String> {
            let before = text(".tieline/config.toml")?;
            let after = with_rules(before.as_deref().unwrap_or_default(), &rules)?;
            let resolve = |name: &str| files.roots().resolve(name).map_err(|error| error.to_string());
            let how = Write::expecting(Expect::Any);
            files
                .write(&resolve(".tieline/config.toml")?, after.as_bytes(), &how)
                .map_err(|error| error.to_string())?;
            // Only what holds back was added, so what was trusted still is.
            if let (Some(place), Some(before)) = (&sources.trusted, before) {
                let mut trusted = Trusted::load(Some(place));
                if trusted.has(&new, &before) {
                    trusted.add(&new, &after);
                    trusted.save(place).map_err(|error| error.to_string())?;
                }
            }
            files.delete(&resolve(name)?, Expect::Any).map_err(|error| error.to_string())
        };
        match write() {
            Ok(()) => self.done(&old, &new),
            Err(why) => self.stay(&old, rules, &why),
        }
    }
}

/// Rules of a file; `None` if it is not there.
fn read(path: &Path) -> Result<Option<Config>, Error> {
    let Some(text) = file::load(path)? else { return Ok(None) };
    Config::parse(&text).map(Some).map_err(|error| Error::new(format!("{}: {error}", shown(path))))
}

/// Keeps a file that counts no more under another name.
fn put_away(path: &Path) -> Result<(), String> {
    let mut name = path.as_os_str().to_owned();
    name.push(".moved");
    std::fs::rename(path, PathBuf::from(name)).map_err(|error| error.to_string())
}

/// A configuration with these rules as well.
fn with_rules(text: &str, rules: &Config) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| error.message().to_owned())?;
    let section = document.entry("permissions").or_insert_with(|| Item::Table(Table::new()));
    let section = section.as_table_like_mut().ok_or("`permissions` is no table")?;
    for (decision, rule) in rules.iter() {
        let list = section.entry(decision.word()).or_insert_with(|| Item::Value(Value::Array(Array::new())));
        let list = list.as_array_mut().ok_or("a list of rules is no list")?;
        if !list.iter().any(|known| known.as_str() == Some(rule.text())) {
            list.push(rule.text());
        }
    }
    Ok(document.to_string())
}

/// Where each rule of each list was written, in the order of the lists.
#[derive(Default)]
pub(super) struct Origins(BTreeMap<String, Vec<String>>);

impl Origins {
    pub(super) fn add(&mut self, leaf: &Leaf) {
        let (Origin::File(path, _), [section, list]) = (&leaf.origin, &leaf.path[..]) else { return };
        if section == "permissions" {
            let lines = leaf.lines.iter().map(|line| Origin::File(path.clone(), *line).to_string());
            self.0.entry(list.clone()).or_default().extend(lines);
        }
    }

    pub(super) fn put(self, rules: &mut Config) {
        for (list, rules) in [("allow", &mut rules.allow), ("ask", &mut rules.ask), ("deny", &mut rules.deny)] {
            let origins = self.0.get(list).into_iter().flatten();
            for (rule, origin) in rules.iter_mut().zip(origins) {
                *rule = Rule::clone(rule).from(origin.as_str());
            }
        }
    }
}

impl Sources {
    /// Where it is kept what was decided for always in this folder.
    pub fn learned(&self) -> Option<Learned> {
        let folder = self.folder.as_ref().filter(|_| !self.cwd.as_os_str().is_empty())?;
        Some(Learned::new(folder, &self.cwd))
    }
}
