//! What people decided for always, folder by folder, in one file that is written by us.

use super::{BadConfig, Config, Decision, Rule};
use crate::whole::{lock, write_whole};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The file in the user's configuration folder.
const FILE: &str = "learned.toml";
/// The lock on the file is waited for no longer.
const LOCK_TIMEOUT: Duration = Duration::from_millis(500);
/// The largest file that is read, in bytes.
const MAX_BYTES: u64 = 4 << 20;

/// What was learned in one folder, and where it is kept.
#[derive(Clone, Debug)]
pub struct Learned {
    file: PathBuf,
    folder: String,
}

/// What the file holds for one folder.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(default)]
    allow: Vec<toml::Spanned<String>>,
    #[serde(default)]
    ask: Vec<toml::Spanned<String>>,
    #[serde(default)]
    deny: Vec<toml::Spanned<String>>,
}

/// A mark of the file as it is now: it changes with the file.
pub(super) type Mark = Option<(SystemTime, u64)>;

impl Learned {
    /// What was learned in a working directory, kept in the user's configuration folder.
    pub fn new(config_folder: &Path, cwd: &Path) -> Self {
        let folder = fs::canonicalize(cwd).unwrap_or_else(|_| cwd.to_owned());
        Self { file: config_folder.join(FILE), folder: folder.to_string_lossy().into_owned() }
    }

    /// The same for another working directory.
    #[must_use]
    pub fn elsewhere(&self, cwd: &Path) -> Self {
        Self::new(self.file.parent().unwrap_or(Path::new("")), cwd)
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The folder.
    pub fn folder(&self) -> &str {
        &self.folder
    }

    /// Reads what was learned here. A file that is not there has nothing.
    pub fn load(&self) -> Result<Config, BadConfig> {
        Ok(self.all()?.remove(&self.folder).unwrap_or_default())
    }

    /// Everything that was learned, by folder.
    pub fn all(&self) -> Result<BTreeMap<String, Config>, BadConfig> {
        let bad = |why: &dyn std::fmt::Display| BadConfig::new(format!("{}: {why}", self.file.display()));
        let text = match fs::metadata(&self.file) {
            Ok(found) if !found.is_file() || found.len() > MAX_BYTES => {
                return Err(bad(&"it is no file, or longer than 4 MiB"));
            }
            Ok(_) => fs::read_to_string(&self.file).map_err(|error| bad(&error))?,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => String::new(),
            Err(error) => return Err(bad(&error)),
        };
        let line = |at: usize| text.get(..at).unwrap_or_default().matches('\n').count() + 1;
        let entries: BTreeMap<String, Entry> = toml::from_str(&text).map_err(|error| {
            bad(&format!("line {}: {}", error.span().map_or(0, |span| line(span.start)), error.message()))
        })?;
        let mut all = BTreeMap::new();
        for (folder, entry) in entries {
            let mut config = Config::default();
            let lists = [(Decision::Allow, entry.allow), (Decision::Ask, entry.ask), (Decision::Deny, entry.deny)];
            for (decision, rules) in lists {
                for rule in rules {
                    let line = line(rule.span().start);
                    let rule: Rule = rule.get_ref().parse().map_err(|error| bad(&format!("line {line}: {error}")))?;
                    config.add(decision, rule.from(format!("{}:{line}", self.file.display())));
                }
            }
            all.insert(folder, config);
        }
        Ok(all)
    }

    /// Changes what was learned here, as it is in the file now: others add theirs. Gives what is there then.
    pub fn change(&self, change: impl FnOnce(&mut Config)) -> Result<Config, BadConfig> {
        let failed = |error: io::Error| BadConfig::new(format!("{}: {error}", self.file.display()));
        let _lock = lock(&self.file.with_extension("lock"), LOCK_TIMEOUT).map_err(failed)?;
        let mut all = self.all()?;
        change(all.entry(self.folder.clone()).or_default());
        all.retain(|_, config| config.iter().next().is_some());
        let text = |rules: &[Rule]| rules.iter().map(|rule| rule.text().to_owned()).collect::<Vec<_>>();
        let plain: BTreeMap<&str, BTreeMap<&str, Vec<String>>> = all
            .iter()
            .map(|(folder, config)| {
                let lists = [("allow", text(&config.allow)), ("ask", text(&config.ask)), ("deny", text(&config.deny))];
                (&**folder, lists.into_iter().filter(|(_, rules)| !rules.is_empty()).collect())
            })
            .collect();
        let text = toml::to_string_pretty(&plain).map_err(|error| BadConfig::new(error.to_string()))?;
        let head = "# What was decided for always. `tieline config permissions` lists it and takes it back.\n\n";
        write_whole(&self.file, format!("{head}{text}").as_bytes()).map_err(failed)?;
        self.load()
    }

    pub(super) fn mark(&self) -> Mark {
        let found = fs::metadata(&self.file).ok()?;
        Some((found.modified().ok()?, found.len()))
    }
}
