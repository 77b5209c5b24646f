//! A chat without a terminal, for tests: keys and events in, a screen out.
#![allow(dead_code, reason = "each test uses some of it")]

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tieline::schema::{MessageKind, Update};
use tieline_chat::Which;
use tieline_chat::effect::Effect;
use tieline_chat::event::{Call, Event, OpenedFacts};
use tieline_chat::state::State;
use tieline_chat::view::paint;
use tieline_client::live::{self, Asked, Conversation, Reply, State as Doing, What, When};
use tieline_client::permission::{By, Kept, Preset, Question};
use tokio::sync::oneshot::Receiver;

pub struct Chat {
    pub state: State,
    pub now: Instant,
    pub talk: Conversation,
    pub count: u64,
}

pub fn facts(talk: &Conversation) -> OpenedFacts {
    OpenedFacts {
        agent: "tieline".into(),
        cwd: "/project".into(),
        conversation: talk.clone(),
        agents: Arc::new([]),
        resumed: false,
        state: None,
        draft: String::new(),
        wake: Call(Arc::new(|| {})),
    }
}

impl Chat {
    pub fn new() -> Self {
        let now = Instant::now();
        let (mut state, effects) = State::new(Which::default(), Vec::new(), now);
        assert!(matches!(effects[..], [Effect::Open(1, _, _)]));
        let talk = Conversation::default();
        state.handle(Event::Opened(1, Box::new(facts(&talk))), now);
        let mut chat = Self { state, now, talk, count: 0 };
        chat.doing(Doing::Idle);
        chat
    }

    pub fn later(&mut self, millis: u64) -> &mut Self {
        self.now += Duration::from_millis(millis);
        self.state.handle(Event::Tick, self.now);
        self
    }

    pub fn live(&mut self, event: live::Event) -> Vec<Effect> {
        self.state.handle(Event::Live(1, Box::new(event)), self.now)
    }

    pub fn doing(&mut self, doing: Doing) {
        self.live(live::Event::State(doing));
    }

    pub fn key(&mut self, code: KeyCode) -> Vec<Effect> {
        self.chord(code, KeyModifiers::NONE)
    }

    pub fn chord(&mut self, code: KeyCode, modifiers: KeyModifiers) -> Vec<Effect> {
        // Nobody types faster.
        self.now += Duration::from_millis(20);
        self.state.handle(Event::Key(KeyEvent::new(code, modifiers)), self.now)
    }

    pub fn typed(&mut self, text: &str) {
        text.chars().for_each(|c| drop(self.key(KeyCode::Char(c))));
    }

    pub fn said(&mut self, kind: MessageKind, text: &str) {
        for event in self.talk.take(Update::text(kind, None, text), When::Turn) {
            self.live(event);
        }
    }

    pub fn ask(&mut self, question: Question) -> (u64, Receiver<Reply>) {
        self.count += 1;
        let (asked, reply) = Asked::new(self.count, None, self.now, What::Permission(Box::new(question)));
        self.live(live::Event::Asked(asked));
        self.doing(Doing::Asking);
        (self.count, reply)
    }

    /// Asks something; nobody waits for the answer.
    pub fn ask_what(&mut self, what: What) -> u64 {
        self.count += 1;
        let (asked, _) = Asked::new(self.count, None, self.now, what);
        self.live(live::Event::Asked(asked));
        self.doing(Doing::Asking);
        self.count
    }

    pub fn screen(&mut self, width: u16, height: u16) -> String {
        let (buffer, _) = self.buffer(width, height);
        let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..height).map(|y| row(y).trim_end().to_owned() + "\n").collect()
    }

    pub fn buffer(&mut self, width: u16, height: u16) -> (Buffer, Option<Position>) {
        let area = Rect::new(0, 0, width, height);
        let mut buffer = Buffer::empty(area);
        let caret = paint(&mut self.state, area, &mut buffer, self.now);
        (buffer, caret)
    }

    pub fn has_keys(&self) -> bool {
        self.state.tab().dock.since.is_some()
    }
}

pub fn question() -> Question {
    Question {
        session: "s".into(),
        method: "session/request_permission",
        title: "Run a command".into(),
        description: None,
        facts: vec!["run rm -rf build".into()],
        call: None,
        changes: Vec::new(),
        subject: None,
        options: Vec::new(),
        lasting: vec!["run rm -rf build".into()],
        always: Some(Kept::TakenBack("/home/me/learned.toml".into())),
        because: By::Preset(Preset::Ask),
        hints: Vec::new(),
        since: Instant::now(),
    }
}
