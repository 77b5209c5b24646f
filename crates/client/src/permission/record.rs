//! What was decided, by whom, when, about what: for the journal.

use super::{NOBODY, Preset};
use crate::agents::join_line;
use crate::sanitize;
use serde::Serialize;
use std::fmt;
use std::time::SystemTime;
use tieline::schema::SessionId;
use tieline_host::files::Hash;
use tieline_host::later;
use tieline_host::rules::{Because, LEAVES_MODE, Learned, Verdict};

/// Who decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "who", content = "what")]
pub enum By {
    /// A rule, or several that each cover a part; as they are written, with `allow`, `ask` or `deny` before them.
    Rule(String),
    /// No rule; the preset.
    #[serde(rename = "policy")]
    Preset(Preset),
    /// Rules hold commands back, and this one is not clear enough to tell whether they apply.
    Unclear(String),
    /// Nothing was asked: the path is outside the roots.
    Roots,
    /// The [`Decider`](super::Decider) of this name.
    Decider(String),
    /// The same change was allowed before in this turn, with the tool call that it belongs to; its title.
    Before(String),
    /// The turn was cancelled, or the agent withdrew the question.
    Cancel,
}

impl By {
    /// Who stands behind a verdict of the engine.
    pub(crate) fn of(verdict: &Verdict) -> Self {
        match &verdict.because {
            Because::Rules(rules) => {
                let word = verdict.decision.word();
                By::Rule(rules.iter().map(|rule| format!("{word} {rule}")).collect::<Vec<_>>().join("; "))
            }
            Because::Unclear(why) => Self::Unclear((*why).to_owned()),
            Because::Preset(preset) => Self::Preset(*preset),
            Because::Default => Self::Preset(Preset::default()),
        }
    }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(rule) => write!(f, "rule: {rule}"),
            Self::Preset(preset) => write!(f, "preset {preset}"),
            Self::Unclear(why) => write!(f, "it can't be checked against the rules: {why}"),
            Self::Roots => f.write_str("outside the workspace"),
            Self::Decider(name) => f.write_str(name),
            Self::Before(title) => write!(f, "allowed with \"{title}\""),
            Self::Cancel => f.write_str("the question was withdrawn, or its turn cancelled"),
        }
    }
}

/// What helps against a refusal by a preset, of this name, or by a rule.
pub(crate) fn way_out(by: &str) -> String {
    match by.parse() {
        Ok(Preset::Plan) => "the mode plan edits no file; --mode edit, or another, leaves it".to_owned(),
        Ok(preset) => format!("{preset} refuses it: leave that flag out, or see `default` in `tieline config show`"),
        Err(_) if by == "roots" => "it is outside the project; --add-dir DIR adds a folder".to_owned(),
        Err(_) => "a rule forbids it: of --deny, or one that `tieline config permissions list` shows".to_owned(),
    }
}

/// How long an answer holds, where it is kept, and how it is taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "until", content = "file")]
pub enum Kept {
    /// Until this run ends; it is stored nowhere.
    RunEnds,
    /// The agent was told that it is for always, and keeps it in its own way; here it holds until this run ends.
    ByAgent,
    /// Until it is taken back; in this file, for the folder that the session works in.
    TakenBack(String),
}

impl Kept {
    /// What becomes of an answer for always.
    pub(crate) fn always(place: &Learned) -> Self {
        Self::TakenBack(sanitize::exact_line(&place.file().to_string_lossy()))
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RunEnds => f.write_str("until this run ends"),
            Self::ByAgent => f.write_str("the agent keeps it as it says, tieline until this run ends"),
            Self::TakenBack(_) => {
                f.write_str("in this folder; `tieline config permissions list` shows it, and how to take it back")
            }
        }
    }
}

/// What came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ruling {
    /// It was allowed.
    Allowed,
    /// It was refused.
    Refused,
    /// The question was answered with `cancelled`, because the turn was, or the agent withdrew it.
    Cancelled,
}

impl Ruling {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Refused => "refused",
            Self::Cancelled => "cancelled",
        }
    }
}

/// One decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Record {
    /// The session, by the agent's id.
    pub session: String,
    /// The method that asked.
    pub method: &'static str,
    /// What was asked, perhaps in the agent's own words, in one line that is safe to show.
    pub title: String,
    /// The tool call that it is about.
    pub call: Option<String>,
    /// What it was about, one line each, safe to show.
    pub facts: Vec<String>,
    /// The SHA-256 of the request as it came.
    #[serde(serialize_with = "as_text")]
    pub digest: Hash,
    /// What came out.
    pub ruling: Ruling,
    /// Who decided.
    pub by: By,
    /// The option that was picked.
    pub option: Option<String>,
    /// Something to know about it, in words.
    pub note: Option<String>,
    /// Why a rule that seems to allow it does not, in words.
    pub hint: Option<String>,
    /// The rules that would have allowed it; only for what nobody could be asked about.
    pub wanted: Vec<String>,
    /// Rules that were added because the answer lasts.
    pub learned: Vec<String>,
    /// How long they hold.
    pub kept: Option<Kept>,
    /// Nobody could be asked, and the run should end for it.
    pub nobody: bool,
    /// Why no flag can allow it: the agent offers no option for that.
    pub no_way: Option<&'static str>,
    /// When.
    #[serde(serialize_with = "as_seconds")]
    pub at: SystemTime,
}

impl Record {
    /// What to type to have what was refused; `None` if a person said no.
    pub fn way(&self) -> Option<String> {
        match &self.by {
            _ if self.no_way.is_some() => self.no_way.map(str::to_owned),
            By::Decider(name) if name == NOBODY => {
                let edits = |rule: &String| {
                    let path = ["write ", "delete "].iter().find_map(|verb| rule.strip_prefix(verb));
                    path.is_some_and(|path| !path.starts_with('/') && !later::is_on_the_way_to(path))
                };
                let flags: Vec<String> =
                    self.wanted.iter().map(|rule| format!("--allow {}", join_line(&[rule]))).collect();
                Some(match &flags[..] {
                    [] => "--allow-all".to_owned(),
                    flags if self.wanted.iter().all(edits) => format!("--allow-edits or {}", flags.join(" ")),
                    flags => flags.join(" "),
                })
            }
            By::Preset(preset) => Some(way_out(preset.name())),
            By::Rule(_) => Some(way_out("rule")),
            By::Roots => Some(way_out("roots")),
            By::Unclear(why) if why == LEAVES_MODE => Some("--mode with the one that is wanted".to_owned()),
            By::Unclear(_) => Some("--allow-all".to_owned()),
            By::Decider(_) | By::Before(_) | By::Cancel => None,
        }
    }

    /// A question that nobody has answered yet.
    pub(crate) fn new(
        session: &SessionId,
        method: &'static str,
        title: &str,
        facts: Vec<String>,
        digest: Hash,
    ) -> Self {
        Self {
            session: session.as_str().to_owned(),
            method,
            title: sanitize::line(&sanitize::exact_line(title)),
            call: None,
            facts,
            digest,
            ruling: Ruling::Cancelled,
            by: By::Cancel,
            option: None,
            note: None,
            hint: None,
            wanted: Vec::new(),
            learned: Vec::new(),
            kept: None,
            nobody: false,
            no_way: None,
            at: SystemTime::now(),
        }
    }
}

fn as_text<S: serde::Serializer>(hash: &Hash, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(hash)
}

/// Seconds since 1970.
fn as_seconds<S: serde::Serializer>(time: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64())
}
