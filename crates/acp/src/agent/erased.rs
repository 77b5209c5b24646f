//! An agent and its sessions behind one pointer each: the engine is compiled once, here, and not once more for every agent.

use super::{About, Agent, ClientHandle, Opened, Opening, Resuming, Session, Turn};
use crate::error::Result;
use crate::work::Work;
use std::sync::Arc;
use tieline_schema::{
    ConfigOption, ConfigValue, ContentBlock, InitializeRequest, ListRequest, ListResponse, Raw, SessionId, StopReason,
};

macro_rules! declared {
    ($( $name:ident($($arg:ident: $type:ty),*) -> $out:ty; )*) => {$(
        fn $name(&self, $($arg: $type),*) -> Work<'_, $out>;
    )*};
}

macro_rules! boxed {
    ($( $name:ident($($arg:ident: $type:ty),*) -> $out:ty; )*) => {$(
        fn $name(&self, $($arg: $type),*) -> Work<'_, $out> {
            Box::pin(Agent::$name(self, $($arg),*))
        }
    )*};
}

/// [`Agent`], whoever it is.
pub(super) trait AnyAgent: Send + Sync + 'static {
    fn about(&self) -> About;
    fn open(&self, opening: Opening) -> Work<'_, Result<Opened<dyn AnySession>>>;
    fn resume(&self, resuming: Resuming) -> Work<'_, Result<Opened<dyn AnySession>>>;
    agent_methods!(declared);
}

/// [`Session`], whoever it is.
pub(super) trait AnySession: Send + Sync + 'static {
    fn accept<'a>(&'a self, message_id: &'a str, prompt: &'a [ContentBlock]) -> Work<'a, Result<()>>;
    fn prompt(&self, turn: Turn, prompt: Vec<ContentBlock>) -> Work<'_, Result<StopReason>>;
    fn set_option(&self, id: String, value: ConfigValue) -> Work<'_, Result<Option<Vec<ConfigOption>>>>;
    fn cancel_others(&self) -> Work<'_, ()>;
    fn close(&self) -> Work<'_, ()>;
    fn leave(&self) -> Work<'_, ()>;
}

fn erase<S: Session>(opened: Opened<S>) -> Opened<dyn AnySession> {
    let Opened { session, options, commands, meta, more } = opened;
    Opened { session: session as Arc<dyn AnySession>, options, commands, meta, more }
}

impl<A: Agent> AnyAgent for A {
    fn about(&self) -> About {
        Agent::about(self)
    }

    fn open(&self, opening: Opening) -> Work<'_, Result<Opened<dyn AnySession>>> {
        let opened = Agent::open(self, opening);
        Box::pin(async move { opened.await.map(erase) })
    }

    fn resume(&self, resuming: Resuming) -> Work<'_, Result<Opened<dyn AnySession>>> {
        let opened = Agent::resume(self, resuming);
        Box::pin(async move { opened.await.map(erase) })
    }

    agent_methods!(boxed);
}

impl<S: Session> AnySession for S {
    fn accept<'a>(&'a self, message_id: &'a str, prompt: &'a [ContentBlock]) -> Work<'a, Result<()>> {
        Box::pin(Session::accept(self, message_id, prompt))
    }

    fn prompt(&self, turn: Turn, prompt: Vec<ContentBlock>) -> Work<'_, Result<StopReason>> {
        Box::pin(Session::prompt(self, turn, prompt))
    }

    fn set_option(&self, id: String, value: ConfigValue) -> Work<'_, Result<Option<Vec<ConfigOption>>>> {
        Box::pin(Session::set_option(self, id, value))
    }

    fn cancel_others(&self) -> Work<'_, ()> {
        Box::pin(Session::cancel_others(self))
    }

    fn close(&self) -> Work<'_, ()> {
        Box::pin(Session::close(self))
    }

    fn leave(&self) -> Work<'_, ()> {
        Box::pin(Session::leave(self))
    }
}
