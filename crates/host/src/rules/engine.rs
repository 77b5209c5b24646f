//! The one engine that decides: presets, rules, what was learned, and what a client handed over to hold back.

use super::links::Links;
use super::{
    Action, BadConfig, Because, CommandLine, Config, Decision, Learned, Location, Preset, Rule, Rules, Topic, Verdict,
};
use crate::roots::Roots;
use crate::sandbox::{self, Guarded, Kept, Level, Policy};
use serde::{Deserialize, Serialize};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tieline_rpc::sync::Lock as _;

/// The rules that are built in. They take a while to make, so they are made once.
static PROTECTED: LazyLock<Config> = LazyLock::new(Config::protected);

/// So many words of a command are looked at for names of files.
const MAX_WORDS: usize = 1000;

/// For so long it is remembered which files of a folder are denied by another name: many may be read one after the other.
const NAMES_HOLD: Duration = Duration::from_secs(5);

/// So many sets of roots are remembered with their links.
const MAX_LINKED: usize = 4;

/// So many files of a folder that is deleted or moved are looked at; more are asked for.
const MAX_WITH_FOLDER: usize = 2000;

/// Why nobody but a person allows another mode.
pub const LEAVES_MODE: &str = "it would leave the mode that was chosen for this run";

/// Tells of a path what no command may do to it.
pub type Says = Box<dyn Fn(&Path) -> Option<Kept> + Send + Sync>;

/// What the configuration says about permission.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Settings {
    /// What happens where no rule says anything.
    pub default: Option<Preset>,
    /// The rules, each with its origin.
    #[serde(flatten)]
    pub rules: Config,
    /// What was decided for always.
    #[serde(skip)]
    pub learned: Option<Learned>,
    /// What the person should know: a file that was moved, say.
    #[serde(skip)]
    pub notes: Vec<String>,
}

/// What whoever starts an agent adds to hold it back. There is no word in it that allows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// It works no more freely than any of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub presets: Vec<Preset>,
    /// What is asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ask: Vec<Rule>,
    /// What never happens.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<Rule>,
}

impl Limits {
    /// The variable in which they are handed over, as JSON.
    pub const VARIABLE: &str = "TIELINE_LIMITS";

    /// What was handed over to this process. What can't be read is an error: it was meant to hold something back.
    pub fn handed_over() -> Result<Self, String> {
        match std::env::var(Self::VARIABLE) {
            Ok(text) if text.is_empty() => Ok(Self::default()),
            Ok(text) => {
                let mut limits: Self = serde_json::from_str(&text)
                    .map_err(|error| format!("{} can't be read: {error}", Self::VARIABLE))?;
                for rule in limits.ask.iter_mut().chain(&mut limits.deny) {
                    *rule = rule.clone().from("the client");
                }
                Ok(limits)
            }
            Err(std::env::VarError::NotPresent) => Ok(Self::default()),
            Err(error) => Err(format!("{} can't be read: {error}", Self::VARIABLE)),
        }
    }

    /// With what holds back of these rules, and a preset.
    #[must_use]
    pub fn and(mut self, rules: &Config, preset: Option<Preset>) -> Self {
        self.presets.extend(preset);
        self.ask.extend(rules.ask.iter().cloned());
        self.deny.extend(rules.deny.iter().cloned());
        self
    }

    /// As it is handed over.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// What is about to happen, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// What happens.
    pub actions: &'a [Action],
    /// Paths that it has to do with, though it does not say how.
    pub mentioned: &'a [Location],
    /// What is given to something that is judged by itself, such as a tool of a server: rules can hold it back, but nobody has to allow
    /// it, and a yes that lasts does not keep it.
    pub given: &'a [Action],
    /// Whether that is all of it. If not: what the rest is about, if at least that is known.
    pub unclear: Option<Option<Topic>>,
    /// Its commands run where nothing keeps them from files that a rule denies.
    pub unmasked: bool,
    /// It asks for another mode.
    pub switches_mode: bool,
}

impl<'a> Subject<'a> {
    /// Actions that are fully known.
    pub fn of(actions: &'a [Action]) -> Self {
        Self { actions, mentioned: &[], given: &[], unclear: None, unmasked: false, switches_mode: false }
    }
}

/// How long a decision holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// As long as the engine: until the run or the session ends.
    Run,
    /// For always: it is stored.
    Always,
}

/// Decides by rules, presets and what was learned. Deny wins over everything, a learned allow wins over a rule that asks.
#[derive(Debug)]
pub struct Engine {
    /// Built in, of the configuration, and handed over.
    rules: Arc<Rules>,
    limits: Vec<Preset>,
    store: Option<Learned>,
    /// What runs by itself later, and secrets, are asked for.
    protects: bool,
    /// A rule that is not built in holds back something about files.
    holds_files: bool,
    /// Somebody chose the mode: only a person switches it.
    keeps_mode: bool,
    now: Mutex<Now>,
}

#[derive(Debug, Default)]
struct Now {
    preset: Preset,
    /// Decided for this run.
    run: Config,
    /// Decided for always.
    stored: Config,
    mark: super::learned::Mark,
    /// Both together, ready to decide.
    learned: Rules,
    /// Below which folders, when and by which rules it was looked at, and what was found.
    names: Option<(Arc<[PathBuf]>, Instant, u64, Guarded)>,
    /// The links below these folders, and when they were looked for.
    links: Vec<(Arc<[PathBuf]>, Instant, Arc<Links>)>,
    /// All that were ever found.
    seen: Links,
}

impl Now {
    fn ready(&mut self) {
        self.learned = Rules::new(self.run.clone().and(self.stored.clone()));
        self.links.clear();
    }
}

impl Engine {
    /// A preset and the rules of the configuration. Unless everything is allowed, the rules that protect what runs by
    /// itself later (version control, editor and shell settings) and keys come on top.
    pub fn new(preset: Preset, rules: Config) -> Self {
        let protects = preset != Preset::AllowAll;
        let holds_files = holds_files(&rules);
        let rules = if protects { rules.and(PROTECTED.clone()) } else { rules };
        let now = Now { preset, ..Now::default() };
        let (rules, now) = (Arc::new(Rules::new(rules)), Mutex::new(now));
        Self { rules, limits: Vec::new(), store: None, protects, holds_files, keeps_mode: false, now }
    }

    /// The same where a mode was chosen: what it refuses no preset allows by leaving it.
    #[must_use]
    pub fn keeping_mode(self, keeps_mode: bool) -> Self {
        Self { keeps_mode, ..self }
    }

    /// The engine for what the configuration says, held back by what was handed over.
    pub fn load(preset: Preset, settings: &Settings, limits: &Limits) -> Result<Self, BadConfig> {
        let held = Config { allow: Vec::new(), ask: limits.ask.clone(), deny: limits.deny.clone() };
        let mut engine = Self::new(preset, settings.rules.clone().and(held));
        engine.limits.clone_from(&limits.presets);
        if let Some(store) = &settings.learned {
            let mut now = engine.now();
            now.mark = store.mark();
            now.stored = store.load()?;
            now.ready();
        }
        engine.store.clone_from(&settings.learned);
        Ok(engine)
    }

    /// As it is now. What was taken back elsewhere counts no more.
    fn now(&self) -> MutexGuard<'_, Now> {
        let mut now = self.now.locked();
        if let Some(store) = &self.store {
            let mark = store.mark();
            if mark != now.mark {
                now.mark = mark;
                // What can't be read any more allows nothing any more.
                now.stored = store.load().unwrap_or_else(|_| std::mem::take(&mut now.stored).without_allow());
                now.ready();
            }
        }
        now
    }

    /// The preset that is on.
    pub fn preset(&self) -> Preset {
        self.now().preset
    }

    /// Switches the preset. What was handed over still holds.
    pub fn set_preset(&self, preset: Preset) {
        self.now().preset = preset;
    }

    /// The rules, but for those that were learned.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// All rules that forbid, also those that were learned.
    pub fn denials(&self) -> Vec<Rule> {
        let now = self.now();
        self.rules.config().deny.iter().chain(&now.learned.config().deny).cloned().collect()
    }

    /// Whether a rule forbids it, whatever the preset says.
    pub fn rules_deny(&self, action: &Action) -> bool {
        let mut now = self.now();
        let action = self.by_all_names(action, &mut now);
        let denies = |rules: &Config| rules.deny.iter().any(|rule| rule.holds(&action));
        denies(self.rules.config()) || denies(now.learned.config())
    }

    /// An action with all names of its files, if a rule holds back something about files.
    fn by_all_names(&self, action: &Action, now: &mut Now) -> Action {
        let Some(place) = action.places().next().filter(|_| self.holds_files || holds_files(now.learned.config()))
        else {
            return action.clone();
        };
        let links = self.links(place.bases(), now);
        action.by_names(|place| links.names(place.absolute()))
    }

    /// The links below these folders.
    fn links(&self, bases: &Arc<[PathBuf]>, now: &mut Now) -> Arc<Links> {
        now.links.retain(|(.., when, _)| when.elapsed() < NAMES_HOLD);
        if let Some((.., links)) = now.links.iter().find(|(known, ..)| known == bases) {
            return Arc::clone(links);
        }
        let (own, learned) = (self.rules.config(), now.learned.config());
        let rules = own.deny.iter().chain(&own.ask).chain(&learned.deny).chain(&learned.ask);
        let mut links = Links::find(bases, rules);
        links.remember(&mut now.seen);
        let links = Arc::new(links);
        now.links.truncate(MAX_LINKED - 1);
        now.links.insert(0, (Arc::clone(bases), Instant::now(), Arc::clone(&links)));
        links
    }

    /// What no command may do to a file below these folders, by whichever of its names a rule denies it; with the version of that, and
    /// the most that it may be. `None` if no rule denies anything about files.
    pub fn keeper(&self, roots: &[PathBuf]) -> Option<(u64, Option<Kept>, Says)> {
        let real = roots.iter().filter_map(|root| root.canonicalize().ok());
        let mut bases: Vec<PathBuf> = real.chain(roots.iter().cloned()).collect();
        bases.dedup();
        self.keeper_of(&bases.into(), &mut self.now())
    }

    fn keeper_of(&self, bases: &Arc<[PathBuf]>, now: &mut Now) -> Option<(u64, Option<Kept>, Says)> {
        let deny = self.rules.config().deny.iter().chain(&now.learned.config().deny);
        let deny: Vec<Rule> = deny.filter(|rule| rule.topic() == Topic::Files).cloned().collect();
        if deny.is_empty() {
            return None;
        }
        let links = self.links(bases, now);
        let mut version = DefaultHasher::new();
        for rule in &deny {
            rule.text().hash(&mut version);
        }
        (bases, &links).hash(&mut version);
        let most = deny.iter().filter(|rule| rule.reaches(bases)).filter_map(Rule::keeps).min();
        let bases = Arc::clone(bases);
        let says = move |path: &Path| {
            let place = Location::outside(path.to_owned()).below(Arc::clone(&bases)).called(links.names(path));
            let elsewhere = Action::Move { from: place.clone(), to: place.clone() };
            let deeds = [
                (Action::Read(place.clone()), Kept::Hidden),
                (Action::Write(place.clone()), Kept::ReadOnly),
                (Action::Delete(place), Kept::InPlace),
                (elsewhere, Kept::InPlace),
            ];
            let mut deeds = deeds.into_iter();
            deeds.find(|(action, _)| deny.iter().any(|rule| rule.holds(action))).map(|(_, kept)| kept)
        };
        Some((version.finish(), most, Box::new(says)))
    }

    /// What a command names of the workspace although a rule forbids to read it, and that rule. In the sandbox it is hidden.
    pub fn unseen(&self, command: &CommandLine, roots: &Roots) -> Vec<(String, Rule)> {
        let mut unseen: Vec<(String, Rule)> = Vec::new();
        for (name, place) in named(command, roots) {
            if let Verdict { decision: Decision::Deny, because: Because::Rules(rules) } =
                self.decide(&Action::Read(place))
                && unseen.iter().all(|(known, _)| known != name)
            {
                unseen.extend(rules.into_iter().next().map(|rule| (name.to_owned(), rule)));
            }
        }
        unseen
    }

    /// What a command names of the workspace although a rule forbids to read, change or delete it.
    pub fn untouchable(&self, command: &CommandLine, roots: &Roots) -> Vec<Location> {
        let deeds: [fn(Location) -> Action; 3] = [Action::Read, Action::Write, Action::Delete];
        let is_denied = |place: &Location| deeds.iter().any(|deed| self.rules_deny(&deed(place.clone())));
        named(command, roots).map(|(_, place)| place).filter(is_denied).collect()
    }

    /// What was decided for always, and where that is kept.
    pub fn stored(&self) -> (Config, Option<&Learned>) {
        (self.now().stored.clone(), self.store.as_ref())
    }

    /// The presets that count, the strictest for an action first.
    fn strictest(&self, preset: Preset, of: impl Fn(Preset) -> Decision) -> (Decision, Preset) {
        let own = (of(preset), preset);
        let all = self.limits.iter().map(|limit| (of(*limit), *limit));
        all.fold(own, |strictest, one| if one.0 > strictest.0 { one } else { strictest })
    }

    /// Decides about one action.
    pub fn decide(&self, action: &Action) -> Verdict {
        self.decide_now(action, &mut self.now())
    }

    /// What the rules say, and what no pattern can: which files git would run, which are secrets, and which have another name.
    fn ruled(&self, action: &Action, default: Decision, now: &mut Now) -> Verdict {
        let action = &self.by_all_names(action, now);
        let verdict = self.rules.decide_or(action, default);
        if verdict.decision != Decision::Allow {
            return verdict;
        }
        let (read, changed) = match action {
            Action::Read(path) => (Some(path), [None, None]),
            Action::Write(path) | Action::Delete(path) => (None, [Some(path), None]),
            Action::Move { from, to } => (Some(from), [Some(from), Some(to)]),
            _ => return verdict,
        };
        let any = |runs: fn(&Path) -> bool| changed.into_iter().flatten().any(|path| runs(path.absolute()));
        let (decision, why) = match read {
            Some(path) if self.kept_by_another_name(path, now) == Some(Kept::Hidden) => {
                (Decision::Deny, "because a rule forbids to read the same file by another name")
            }
            _ if changed.into_iter().flatten().any(|path| self.kept_by_another_name(path, now).is_some()) => {
                (Decision::Deny, "because a rule forbids to change the same file by another name")
            }
            Some(path)
                if self.protects
                    && (sandbox::secrets::is_secret(path.absolute())
                        || changed[0].is_some() && sandbox::secrets::is_around_secret(path.absolute())) =>
            {
                (Decision::Ask, "built in: it protects keys, tokens and histories")
            }
            // What is only written can't be run; what is moved may be.
            _ if self.protects
                && (changed.into_iter().flatten().any(|path| sandbox::named::runs(path.absolute(), path.root()))
                    || changed[1].is_some_and(|to| sandbox::named::is_searched(to.absolute()))) =>
            {
                (Decision::Ask, "built in: it is started by itself, or by a program that is meant to do something else")
            }
            _ if self.protects && any(sandbox::git::runs) => {
                (Decision::Ask, "built in: git runs it by itself, or what it says")
            }
            _ if self.protects && any(sandbox::around::leads_to) => {
                (Decision::Ask, "built in: a setting of the home that runs by itself leads to it")
            }
            _ => return verdict,
        };
        let because =
            Rule::narrowest(action).map_or(Because::Unclear(why), |rule| Because::Rules(vec![rule.from(why)]));
        Verdict { decision, because }
    }

    /// What a rule forbids to do to a file by another name that is no link, below the same roots.
    fn kept_by_another_name(&self, path: &Location, now: &mut Now) -> Option<Kept> {
        let several = || fs::symlink_metadata(path.absolute()).is_ok_and(|facts| facts.is_file() && facts.nlink() > 1);
        if !path.is_inside() || !several() {
            return None;
        }
        // Who can't look allows nothing.
        self.looked(path, now).map_or(Some(Kept::Hidden), |found| found?.keeps(path.absolute()))
    }

    /// Whether a folder has something in it that a rule forbids to read, as far as that can be told.
    fn hides_below(&self, folder: &Location, now: &mut Now) -> bool {
        let is_folder = fs::metadata(folder.absolute()).is_ok_and(|facts| facts.is_dir());
        if is_folder && !folder.is_inside() {
            let mut denied = self.rules.config().deny.iter().chain(&now.learned.config().deny);
            return denied.any(|rule| rule.topic() == Topic::Files);
        }
        let looked = if is_folder { self.looked(folder, now) } else { Ok(None) };
        let hides = |found: &Guarded| !found.is_whole() || found.hides_below(folder.absolute());
        looked.map_or(true, |found| found.is_some_and(hides))
    }

    /// What rules keep from commands below the roots of a file, as it was found lately; `None` if there are no such rules. Fails if it can't
    /// be looked at.
    fn looked<'n>(&self, path: &Location, now: &'n mut Now) -> Result<Option<&'n Guarded>, ()> {
        let below = path.relative().map_or(0, |below| below.components().count());
        let root = path.absolute().ancestors().nth(below).map(Path::to_owned);
        let bases = if path.bases().is_empty() { root.into_iter().collect() } else { Arc::clone(path.bases()) };
        let Some((version, most, says)) = self.keeper_of(&bases, now) else { return Ok(None) };
        let fresh = |names: &(Arc<[PathBuf]>, Instant, u64, Guarded)| {
            names.0 == bases && names.1.elapsed() < NAMES_HOLD && names.2 == version
        };
        if !now.names.as_ref().is_some_and(fresh) {
            let policy = Policy::new(Level::Off, &*bases).map_err(drop)?;
            let guarded = policy.deny(version, most, says).guarded();
            now.names = Some((bases, Instant::now(), version, guarded));
        }
        Ok(now.names.as_ref().map(|(.., names)| names))
    }

    fn decide_now(&self, action: &Action, now: &mut Now) -> Verdict {
        let (default, by_default) = self.strictest(now.preset, |preset| preset.default_for(action));
        let by_preset = |decision, preset| Verdict { decision, because: Because::Preset(preset) };
        let mut verdict = self.ruled(action, default, now);
        if verdict.because == Because::Default {
            verdict.because = Because::Preset(by_default);
        }
        // An edit begins with a look: whom a rule allows to change a file may read it, where only a preset would ask.
        if let (Action::Read(path), Decision::Ask, Because::Preset(_)) = (action, verdict.decision, &verdict.because) {
            let change = self.rules.decide_or(&Action::Write(path.clone()), Decision::Ask);
            verdict = if change.decision == Decision::Allow { change } else { verdict };
        }
        let named = self.by_all_names(action, now);
        let said = now.learned.decide_or(&named, verdict.decision);
        let counts = match said.decision {
            Decision::Deny => verdict.decision < Decision::Deny,
            // Whoever said `always` is not asked again, and has loosened what a preset refuses unless a rule allows it.
            Decision::Allow => verdict.decision == Decision::Ask || matches!(verdict.because, Because::Preset(_)),
            Decision::Ask => false,
        };
        if counts && matches!(said.because, Because::Rules(_)) {
            verdict = said;
        }
        let (least, preset) = self.strictest(now.preset, |preset| preset.at_least(action));
        if verdict.decision < least || (least == Decision::Deny && !matches!(verdict.because, Because::Rules(_))) {
            return by_preset(least, preset);
        }
        // A rule that asks holds back; only one that allows loosens what the preset refuses.
        if default == Decision::Deny && verdict.decision == Decision::Ask && !self.rules.allows(action) {
            return by_preset(default, by_default);
        }
        verdict
    }

    /// Judges what is about to happen: the strictest of what its parts get.
    pub fn judge(&self, subject: Subject<'_>) -> Verdict {
        let mut now = self.now();
        let mut verdict = Verdict { decision: Decision::Allow, because: Because::Preset(now.preset) };
        let mut stricter = |one: Verdict| {
            let says_more = one.decision == verdict.decision && matches!(verdict.because, Because::Preset(_));
            if one.decision > verdict.decision || says_more {
                verdict = one;
            }
        };
        let (actions, exposed) = self.exposed(subject, &now);
        let mut taken: Vec<Location> = Vec::new();
        for action in &actions {
            stricter(self.decide_now(action, &mut now));
            let with_it =
                if self.has_file_rules(&now) { action.takes_along(MAX_WITH_FOLDER) } else { Some(Vec::new()) };
            if with_it.is_none() {
                let why = "not all that is in the folder could be looked at, and a rule may hold back some of it";
                stricter(Verdict { decision: Decision::Ask, because: Because::Unclear(why) });
            }
            taken.extend(with_it.into_iter().flatten());
            // Who reads a whole folder by itself is kept from nothing in it.
            if let Action::Read(folder) = action
                && subject.unmasked
                && self.hides_below(folder, &mut now)
            {
                let why = "it reads a folder with something in it that a rule denies, and nothing keeps it from that";
                stricter(Verdict { decision: Decision::Ask, because: Because::Unclear(why) });
            }
        }
        let mentioned = subject.mentioned.iter().map(|path| (path, true));
        for (path, is_named) in mentioned.chain(taken.iter().map(|path| (path, false))) {
            // Only told in passing: rules can hold it back, but nothing follows from it otherwise.
            let moved = Action::Move { from: path.clone(), to: path.clone() };
            for deed in [Action::Read(path.clone()), Action::Write(path.clone()), Action::Delete(path.clone()), moved] {
                let ruled = if is_named {
                    self.ruled(&deed, Decision::Allow, &mut now)
                } else {
                    // What is in a folder keeps its other names, but for links.
                    self.rules.decide_or(&self.by_all_names(&deed, &mut now), Decision::Allow)
                };
                for one in [ruled, now.learned.decide_or(&deed, Decision::Allow)] {
                    if one.decision > Decision::Allow {
                        stricter(one);
                    }
                }
            }
        }
        for action in subject.given {
            for one in [self.ruled(action, Decision::Allow, &mut now), now.learned.decide_or(action, Decision::Allow)] {
                if one.decision > Decision::Allow {
                    stricter(one);
                }
            }
        }
        // Whoever said `always` is not asked again, even if something is mentioned that a rule asks about.
        let learned = now.learned.clone();
        let always = |action: &Action| learned.decide_or(action, Decision::Ask);
        if verdict.decision == Decision::Ask
            && !actions.is_empty()
            && actions.iter().all(|action| {
                let free = self.decide_now(action, &mut now).decision == Decision::Allow;
                free && always(action).decision == Decision::Allow
            })
        {
            verdict = always(&actions[0]);
        }
        if let Some(topic) = subject.unclear {
            let (otherwise, preset) = self.strictest(now.preset, Preset::otherwise);
            // What can't be told may be just what a rule forbids.
            let about =
                |rule: &&Rule| topic.is_none_or(|topic| topic == rule.topic() || exposed && topic == Topic::Commands);
            let held = self.rules.config().deny.iter().find(about);
            let (least, because) = match held {
                Some(_) if otherwise < Decision::Ask => {
                    (Decision::Ask, Because::Unclear("it does not say what exactly it would do"))
                }
                _ => (otherwise, Because::Preset(preset)),
            };
            if least > verdict.decision {
                verdict = Verdict { decision: least, because };
            }
        }
        if subject.switches_mode && self.keeps_mode && verdict.decision < Decision::Ask {
            verdict = Verdict { decision: Decision::Ask, because: Because::Unclear(LEAVES_MODE) };
        }
        if let (Decision::Deny, preset) = self.strictest(now.preset, Preset::otherwise)
            && verdict.decision < Decision::Deny
        {
            verdict = Verdict { decision: Decision::Deny, because: Because::Preset(preset) };
        }
        verdict
    }

    /// Whether a rule holds back something about files.
    fn has_file_rules(&self, now: &Now) -> bool {
        holds_files(self.rules.config()) || holds_files(now.learned.config())
    }

    /// What happens, with its commands marked if nothing keeps them from files that a rule denies, and whether that is so.
    fn exposed(&self, subject: Subject<'_>, now: &Now) -> (Vec<Action>, bool) {
        let mut denied = self.rules.config().deny.iter().chain(&now.learned.config().deny);
        let exposed = subject.unmasked && denied.any(|rule| rule.topic() == Topic::Files);
        let mark = |action: &Action| match action.clone() {
            Action::Execute { command, confined } if exposed => {
                Action::Execute { command: command.exposed(), confined }
            }
            action => action,
        };
        (subject.actions.iter().map(mark).collect(), exposed)
    }

    /// The rules that say what is about to happen and as little else as possible; none if no rules can.
    pub fn narrowest(subject: Subject<'_>) -> Vec<Rule> {
        let rules: Option<Vec<Rule>> = subject.actions.iter().map(Rule::narrowest).collect();
        rules.filter(|_| subject.unclear.is_none()).unwrap_or_default()
    }

    /// Makes a decision last. What can't be stored holds for the run at least, and the error says why.
    pub fn learn(&self, keep: Keep, decision: Decision, rules: &[Rule]) -> Result<(), BadConfig> {
        let add = |config: &mut Config| {
            for rule in rules {
                config.add(decision, rule.clone());
            }
        };
        let stored = match (&self.store, keep) {
            (_, Keep::Run) => Ok(false),
            (Some(store), Keep::Always) => store.change(add).map(|_| true),
            (None, Keep::Always) => Err(BadConfig::new("there is no place to keep it: no configuration folder")),
        };
        // What was stored is read again now.
        let mut now = self.now();
        if !matches!(stored, Ok(true)) {
            add(&mut now.run);
            now.ready();
        }
        stored.map(drop)
    }

    /// Whether all of these were allowed for this run.
    pub fn is_answered(&self, rules: &[Rule]) -> bool {
        let now = self.now();
        !rules.is_empty() && rules.iter().all(|rule| now.run.allow.contains(rule))
    }

    /// Takes back what was decided for always.
    pub fn forget(&self, decision: Decision, rule: &Rule) -> Result<(), BadConfig> {
        let Some(store) = &self.store else { return Ok(()) };
        let removed = store.change(|config| {
            config.remove(decision, rule);
        });
        removed.map(drop)
    }

    /// The rules that would allow it if they were in the configuration; none if that takes more than rules.
    pub fn missing(&self, subject: Subject<'_>) -> Vec<Rule> {
        // Nobody types more of them.
        if subject.actions.len() > 10 {
            return Vec::new();
        }
        let rules = Self::narrowest(subject);
        let mut config = self.rules.config().clone();
        for rule in &rules {
            config.add(Decision::Allow, rule.clone());
        }
        let now = Now { preset: self.preset(), ..Now::default() };
        let with = Self {
            rules: Arc::new(Rules::new(config)),
            limits: self.limits.clone(),
            store: None,
            protects: self.protects,
            holds_files: self.holds_files,
            keeps_mode: self.keeps_mode,
            now: Mutex::new(now),
        };
        // A rule on the command line is an answer, too.
        let _ = with.learn(Keep::Run, Decision::Allow, &rules);
        if with.judge(subject).decision == Decision::Allow { rules } else { Vec::new() }
    }

    /// Why a rule that seems to allow a command does not: that rule, and the reason.
    pub fn wonder(&self, subject: Subject<'_>) -> Option<(&Rule, String)> {
        let (actions, _) = self.exposed(subject, &self.now());
        actions.iter().find_map(|action| self.rules.seems_allowed(action))
    }
}

/// Whether a rule holds back something about files.
fn holds_files(rules: &Config) -> bool {
    rules.deny.iter().chain(&rules.ask).any(|rule| rule.topic() == Topic::Files)
}

/// The words of a command that may be names of files, and where these are.
fn named<'c>(command: &'c CommandLine, roots: &Roots) -> impl Iterator<Item = (&'c str, Location)> {
    let words = command.words().iter().flatten().take(MAX_WORDS);
    // `--file=.env` names a file, too.
    let names = words.flat_map(|word| word.text.split('=')).filter(|name| !name.is_empty());
    let folder = command.folder().map_or(Path::new(""), Location::absolute);
    names.filter_map(move |name| Some((name, roots.resolve(folder.join(name)).ok()?.location())))
}
