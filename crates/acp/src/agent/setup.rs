//! How sessions come and go: opened, taken up again, listed, closed, deleted.

use super::attach;
use super::dispatcher::{Inner, live_info};
use super::erased::AnySession;
use super::live_session::{LiveSession, Place};
use super::memory::Memory;
use super::negotiated::Negotiated;
use super::session_handle::SessionHandle;
use super::session_writer::SessionWriter;
use super::{Opened, Opening, Resuming};
use crate::error::{Error, Result};
use crate::meta;
use crate::request::reaches_server;
use crate::wire;
use std::pin::pin;
use std::sync::Arc;
use tieline_rpc::{Cancel, Responder};
use tieline_schema::{
    CommandsUpdate, Dialect, ListRequest, ListResponse, LoadAnswer, McpServer, NewSessionRequest, Replay,
    ResumeRequest, SessionId, SessionInfo, SessionSetup, State, is_absolute,
};
use tokio::sync::watch;

/// A session that is ready to be answered.
struct Ready {
    writer: Arc<SessionWriter>,
    opened: Opened<dyn AnySession>,
    place: Place,
    /// It is open already and stays so.
    live: Option<Arc<LiveSession>>,
}

/// A session that is being taken up: it can be given up before it is open.
#[derive(Clone)]
pub(super) struct Loading {
    id: SessionId,
    cancel: Cancel,
    over: watch::Receiver<()>,
}

/// Takes a session off the list of those that are being taken up.
pub(super) struct LoadingGuard {
    dispatcher: Arc<Inner>,
    over: watch::Sender<()>,
}

impl Drop for LoadingGuard {
    fn drop(&mut self) {
        let mine = self.over.subscribe();
        self.dispatcher.state().loading.retain(|loading| !loading.over.same_channel(&mine));
    }
}

impl Inner {
    /// Takes note, on the reader, that a session is being taken up.
    pub(super) fn begin_loading(self: &Arc<Self>, id: &SessionId, cancel: &Cancel) -> LoadingGuard {
        let (over, receiver) = watch::channel(());
        self.state().loading.push(Loading { id: id.clone(), cancel: cancel.clone(), over: receiver });
        LoadingGuard { dispatcher: Arc::clone(self), over }
    }

    /// Gives up taking up a session, and waits for the end of it. False if nobody was at it.
    async fn stop_loading(&self, id: &SessionId) -> bool {
        let loading: Vec<Loading> = self.state().loading.iter().filter(|one| one.id == *id).cloned().collect();
        let found = !loading.is_empty();
        for one in &loading {
            one.cancel.cancel();
        }
        for mut one in loading {
            // The sender says nothing; it goes.
            let _ = one.over.changed().await;
        }
        found
    }

    /// The part of opening and resuming that is checked before the agent hears of it.
    fn check_setup(
        &self,
        cwd: &str,
        roots: &[String],
        servers: Option<Vec<McpServer>>,
        dialect: Dialect,
    ) -> Result<Vec<McpServer>> {
        let can = &self.about().capabilities;
        if let Some(path) = std::iter::once(cwd).chain(roots.iter().map(String::as_str)).find(|path| !is_absolute(path))
        {
            return Err(Error::invalid_params(format!("`{path}` is not an absolute path")));
        }
        if !roots.is_empty() && !can.additional_directories {
            return Err(Error::invalid_params("additionalDirectories is not offered by this agent"));
        }
        let servers = match servers {
            None if dialect != Dialect::V2 => return Err(Error::invalid_params("missing field `mcpServers`")),
            servers => servers.unwrap_or_default(),
        };
        for server in &servers {
            let always = matches!(server, McpServer::Stdio(_)) && dialect == Dialect::V1;
            if !always && !reaches_server(can, server) {
                return Err(Error::invalid_params(format!("this agent takes no `{}` MCP servers", server.kind())));
            }
        }
        Ok(servers)
    }

    /// Opens a session and answers.
    pub(super) async fn open(self: Arc<Self>, request: NewSessionRequest, responder: Responder) {
        let opening = pin!(self.opened_by_agent(request));
        match self.unless_withdrawn(&responder, opening).await {
            Ok(ready) => self.ready(ready, true, responder),
            Err(error) => Box::pin(self.refuse(error, responder)).await,
        }
    }

    async fn refuse(&self, error: Error, responder: Responder) {
        responder.fail(&self.to_wire(&error)).await;
    }

    /// Takes up a session and answers.
    pub(super) async fn resume(self: Arc<Self>, request: ResumeRequest, responder: Responder, loading: LoadingGuard) {
        let resumed = Box::pin(self.resumed(request, responder.cancel())).await;
        match resumed {
            Ok(ready) => self.ready(ready, false, responder),
            Err(error) => Box::pin(self.refuse(error, responder)).await,
        }
        drop(loading);
    }

    fn writer(&self, id: Option<SessionId>, negotiated: &Arc<Negotiated>) -> Arc<SessionWriter> {
        SessionWriter::new(id, self.peer.clone(), Arc::clone(negotiated), self.memory().is_some())
    }

    async fn opened_by_agent(&self, request: NewSessionRequest) -> Result<Ready> {
        let negotiated = self.settle()?;
        let NewSessionRequest { cwd, additional_directories, mcp_servers, meta, .. } = request;
        let mcp_servers = self.check_setup(&cwd, &additional_directories, mcp_servers, negotiated.dialect)?;
        let place = Place { cwd: cwd.clone(), additional_directories: additional_directories.clone() };
        let writer = self.writer(None, negotiated);
        writer.hold();
        let session = SessionHandle::new(Arc::clone(&writer));
        let opened = self.agent.open(Opening { session, cwd, additional_directories, mcp_servers, meta }).await?;
        Ok(Ready { writer, opened, place, live: None })
    }

    /// The session is known from now on; the answer goes out, then what was kept back, then its commands.
    fn ready(&self, ready: Ready, new: bool, responder: Responder) {
        let Ready { writer, opened, place, live } = ready;
        let dialect = writer.dialect();
        let Opened { session, options, commands, meta, more } = opened;
        // The answer is written first: then options and commands need no copy to stay.
        let (config_options, hidden) = writer.shown(options);
        let setup = SessionSetup {
            session_id: new.then(|| writer.id().clone()),
            config_options,
            commands,
            meta: meta.or_else(meta::taken),
            ..SessionSetup::default()
        };
        let answer = if new || dialect == Dialect::V2 {
            wire::encode(&setup, dialect)
        } else {
            wire::encode(&LoadAnswer(&setup), dialect)
        };
        let answer = if let Some(more) = more { attach::joined(more.get(), &answer) } else { answer };
        let SessionSetup { config_options, commands, .. } = setup;
        writer.set_up(hidden.unwrap_or(config_options), commands.clone());
        if let Some(memory) = self.memory() {
            memory.opened(&writer, place.clone());
        }
        match live {
            Some(live) => *live.place() = place,
            None => {
                let live = LiveSession::new(Arc::clone(&writer), session, place, &self.settings);
                self.state().sessions.insert(writer.id().clone(), live);
            }
        }
        writer.hold();
        writer.release(|| responder.reply_now(|out| out.extend_from_slice(&answer)));
        if dialect != Dialect::V2 && !commands.is_empty() {
            let update = CommandsUpdate { commands, ..Default::default() }.into();
            let _ = writer.put(&mut writer.lock(), update, None);
        }
    }

    async fn resumed(&self, request: ResumeRequest, cancel: &Cancel) -> Result<Ready> {
        let negotiated = self.settle()?;
        let ResumeRequest { session_id: id, cwd, additional_directories, mcp_servers, replay, meta, .. } = request;
        let (replay, servers) = match replay {
            // `session/resume` never required the list of servers.
            Replay::None => (false, mcp_servers.or(Some(Vec::new()))),
            Replay::Start => (true, mcp_servers),
            Replay::Unknown(unknown) => {
                return Err(Error::invalid_params(format!("replayFrom: `{}` is not known here", unknown.tag)));
            }
        };
        let mcp_servers = self.check_setup(&cwd, &additional_directories, servers, negotiated.dialect)?;
        let place = Place { cwd: cwd.clone(), additional_directories: additional_directories.clone() };
        let resuming = |writer: &Arc<SessionWriter>| {
            let session = SessionHandle::new(Arc::clone(writer));
            Resuming { session, cwd, additional_directories, mcp_servers, replay, meta }
        };
        let live = self.state().sessions.get(&id).cloned();
        if live.as_ref().is_some_and(|live| live.is_running()) {
            return Err(Error::invalid_request("turn_in_progress"));
        }
        let ready = if let Some(memory) = self.memory() {
            let ready = self.remembered(memory, id, live, place, resuming, negotiated).await?;
            // What the agent said while opening belongs behind the replay.
            let said = ready.writer.unhold();
            if replay {
                ready.writer.send_replay(ready.writer.replay()).await?;
            }
            ready.writer.hold_again(said);
            ready
        } else {
            if let Some(live) = live {
                live.leave().await;
                live.writer.close();
            }
            let writer = self.writer(Some(id), negotiated);
            writer.set_replaying(replay);
            // A long conversation may not be wanted any more before all of it is told.
            let opened = tokio::select! {
                biased;
                () = cancel.cancelled() => Err(Error::Cancelled),
                opened = self.agent.resume(resuming(&writer)) => opened,
            };
            let opened = opened.inspect_err(|_| writer.close())?;
            writer.set_replaying(false);
            Ready { writer, opened, place, live: None }
        };
        // Current v2 wants the present state before the answer.
        ready.writer.state_now(State::default());
        Ok(ready)
    }

    /// Takes up a session that the engine itself remembers.
    async fn remembered(
        &self,
        memory: &Memory,
        id: SessionId,
        live: Option<Arc<LiveSession>>,
        place: Place,
        resuming: impl FnOnce(&Arc<SessionWriter>) -> Resuming,
        negotiated: &Arc<Negotiated>,
    ) -> Result<Ready> {
        if let Some(live) = live {
            // Still open: it stays as it is, only what the client was told is forgotten.
            let writer = Arc::clone(&live.writer);
            let (options, commands) = writer.restart();
            let opened = Opened { session: Arc::clone(&live.session), options, commands, meta: None, more: None };
            return Ok(Ready { writer, opened, place, live: Some(live) });
        }
        let writer = self.writer(Some(id.clone()), negotiated);
        let remembered = memory.take_up(&id, &writer)?;
        writer.hold();
        let mut opened = self.agent.open(resuming(&writer).into()).await.inspect_err(|_| writer.close())?;
        writer.restore(remembered.history);
        if !remembered.options.is_empty() {
            opened.options = remembered.options;
        }
        Ok(Ready { writer, opened, place, live: None })
    }

    pub(super) async fn list(&self, request: ListRequest) -> Result<ListResponse> {
        if let Some(list) = self.agent.list(request.clone()).await? {
            return Ok(list);
        }
        let start: usize = match &request.cursor {
            None => 0,
            Some(cursor) => cursor.parse().map_err(|_| Error::invalid_params("unknown cursor"))?,
        };
        let mut sessions: Vec<SessionInfo> = match self.memory() {
            Some(memory) => memory.sessions(),
            None => self.live_sessions().iter().map(|live| live_info(live)).collect(),
        };
        sessions.retain(|info| request.cwd.as_ref().is_none_or(|cwd| *cwd == info.cwd));
        sessions.sort_unstable_by(|a, b| a.session_id.cmp(&b.session_id));
        let page = self.settings.sessions_per_page;
        let end = start.checked_add(page).ok_or_else(|| Error::invalid_params("unknown cursor"))?;
        let next_cursor = (sessions.len() > end).then(|| end.to_string());
        let sessions = sessions.into_iter().skip(start).take(page).collect();
        Ok(ListResponse { sessions, next_cursor, ..Default::default() })
    }

    pub(super) async fn close(&self, id: &SessionId, dialect: Dialect) -> Result<()> {
        let given_up = self.stop_loading(id).await;
        let live = match self.live(id) {
            // Current v2: closing what is not open succeeds.
            Err(_) if given_up || dialect == Dialect::V2 => return Ok(()),
            live => live?,
        };
        live.close().await;
        self.state().sessions.remove(id);
        self.let_go(&live);
        Ok(())
    }

    pub(super) async fn delete(&self, id: SessionId) -> Result<()> {
        self.stop_loading(&id).await;
        if let Ok(live) = self.live(&id) {
            live.close().await;
            live.writer.close();
            self.state().sessions.remove(&id);
        }
        if let Some(memory) = self.memory() {
            if memory.is_open(&id) {
                return Err(Error::invalid_request("open_elsewhere"));
            }
            memory.forget(&id);
        }
        self.agent.delete(id).await
    }
}
