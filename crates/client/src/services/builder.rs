//! How services are put together.

use super::grants::Grants;
use super::person::Person;
use super::{Inner, Observer, Services};
use crate::elicit::{Asker, Elicitor};
use crate::files::{Outside, Unsaved};
use crate::permission::{Decider, Engine, Headless, Preset};
use crate::terminal::{Settings, Terminals};
use std::sync::{Arc, Mutex};
use tieline::ClientCapabilities;
use tieline_host::files::{Files, Limits};
use tieline_host::roots::Roots;
use tieline_host::rules::Config;
use tokio::sync::Semaphore;

/// Services to be. See [`Services::builder`].
#[must_use]
pub struct Builder {
    files: Files,
    offers: ClientCapabilities,
    engine: Engine,
    outside: Outside,
    ours: bool,
    decider: Arc<dyn Decider>,
    asker: Option<Arc<dyn Asker>>,
    observers: Vec<Arc<dyn Observer>>,
    unsaved: Option<Arc<dyn Unsaved>>,
    terminals: Settings,
}

impl Builder {
    pub(super) fn new(roots: Roots) -> Self {
        Self {
            files: Files::new(roots),
            offers: ClientCapabilities {
                fs_read: true,
                fs_write: true,
                terminal: true,
                notices: true,
                ..Default::default()
            },
            engine: Engine::new(Preset::default(), Config::default()),
            outside: Outside::default(),
            ours: false,
            decider: Arc::new(Headless::default()),
            asker: None,
            observers: Vec::new(),
            unsaved: None,
            terminals: Settings::default(),
        }
    }

    /// Whether files are read and written for the agent.
    pub fn files(mut self, on: bool) -> Self {
        (self.offers.fs_read, self.offers.fs_write) = (on, on);
        self
    }

    /// Whether files are written for the agent.
    pub fn writing(mut self, on: bool) -> Self {
        self.offers.fs_write = on;
        self
    }

    /// Whether commands are run for the agent.
    pub fn terminals(mut self, on: bool) -> Self {
        self.offers.terminal = on;
        self
    }

    /// How terminals are made.
    pub fn terminal_settings(mut self, settings: Settings) -> Self {
        self.terminals = settings;
        self
    }

    /// Whether the agent's own login can be run on the user's terminal.
    pub fn terminal_login(mut self, on: bool) -> Self {
        self.offers.terminal_auth = on;
        self
    }

    /// Who decides by rules and presets; [`Preset::AllowReads`] without rules unless said.
    pub fn engine(mut self, engine: Engine) -> Self {
        self.engine = engine;
        self
    }

    /// What to do about files outside the roots; they are refused unless said.
    pub fn outside(mut self, outside: Outside) -> Self {
        self.outside = outside;
        self
    }

    /// Whether the agent is our own, which hides from its commands what a rule denies, and asks for no secrets in forms.
    pub fn ours(mut self, on: bool) -> Self {
        self.ours = on;
        self
    }

    /// Who decides what the rules leave open; [`Headless`], which refuses, unless said.
    pub fn decider(mut self, decider: Arc<dyn Decider>) -> Self {
        self.decider = decider;
        self
    }

    /// Who shows forms and pages. Without one they are not offered, and declined.
    pub fn asker(mut self, asker: Arc<dyn Asker>) -> Self {
        self.asker = Some(asker);
        self
    }

    /// One more who hears of what is done.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.push(observer);
        self
    }

    /// Where text is that is not saved yet.
    pub fn unsaved(mut self, unsaved: Arc<dyn Unsaved>) -> Self {
        self.unsaved = Some(unsaved);
        self
    }

    /// How much is read and written at most.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.files = self.files.with_limits(limits);
        self
    }

    /// The services.
    pub fn build(self) -> Services {
        let asks = self.asker.is_some();
        let offers = ClientCapabilities { elicit_form: asks, elicit_url: asks, ..self.offers };
        Services {
            inner: Arc::new(Inner {
                files: self.files,
                sessions: Mutex::default(),
                offers,
                engine: self.engine,
                grants: Grants::default(),
                room: Arc::new(Semaphore::new(super::MAX_UNREAD_KIB as usize)),
                outside: self.outside,
                ours: self.ours,
                person: Person::new(self.decider, Elicitor::new(self.asker)),
                observers: self.observers,
                unsaved: self.unsaved,
                terminals: Arc::new(Terminals::new(self.terminals)),
                agent: Mutex::new("the agent".into()),
            }),
            watching: None,
        }
    }
}
