//! What a key of the table or a line of the palette does.

use super::{For, Over, Reading, State};
use crate::effect::Effect;
use crate::keys::{self, Deed};
use crate::pick::{self, Pick, Picker, Source};
use crate::rows::Detail;
use crate::{Go, Which};
use std::time::Instant;
use tieline_client::live::State as Doing;
use tieline_host::text::counted;

/// The question that is none any more once the agent has stopped.
pub(super) const ASKED_TO_STOP: &str = "The agent was asked to stop and did not yet";

impl State {
    pub(super) fn show(&mut self, at: usize) {
        if at < self.tabs.len() {
            self.at = at;
        }
    }

    pub(super) fn look(&mut self, title: &str, source: Source) {
        self.over = Some(Over::Pick(Picker::looking(title)));
        self.want(Effect::Look(self.tab().id, source));
    }

    /// Does what a key or the palette asks for.
    pub(super) fn deed(&mut self, deed: Deed, now: Instant) {
        let count = self.tabs.len();
        let tab = &mut self.tabs[self.at];
        let id = tab.id;
        match deed {
            Deed::Palette => self.over = Some(Over::Pick(pick::palette())),
            Deed::Help => self.over = Some(Over::Read(Reading::new("Keys", help()))),
            Deed::History => self.over = Some(Over::Pick(pick::history(tab.composer.said_before()))),
            Deed::Sessions => self.look("Sessions", Source::Sessions),
            Deed::Agents => self.look("Agents", Source::Agents),
            Deed::Undo => self.look("Take changes back", Source::Turns),
            Deed::Traffic => self.want(Effect::Look(id, Source::Traffic)),
            Deed::Options if tab.about.options.is_empty() => self.say("the agent offers nothing to choose", now),
            Deed::Options => self.over = Some(Over::Pick(pick::options(&tab.about))),
            Deed::Queue | Deed::SendNow if tab.queue.is_empty() => self.say("nothing waits", now),
            Deed::Queue => self.over = Some(Over::Pick(pick::queue(&tab.queue, tab.about.now))),
            Deed::SendNow => {
                (tab.reason, tab.sends) = (false, tab.runs());
                let effect = if tab.runs() { Effect::SendNow(id, tab.queue[0].number) } else { Effect::Revive(id) };
                self.want(effect);
            }
            Deed::Cancel => self.cancel(now),
            Deed::Kill => {
                tab.killed = true;
                self.want(Effect::Kill(id));
            }
            Deed::Revive => self.want(Effect::Revive(id)),
            Deed::Detail => {
                self.detail = match self.detail {
                    Detail::Brief => Detail::Normal,
                    Detail::Normal => Detail::Full,
                    Detail::Full => Detail::Brief,
                };
                self.say(format!("detail: {:?}", self.detail).to_lowercase(), now);
            }
            Deed::Open => tab.list.toggle(),
            Deed::ItemUp => tab.list.pick(false),
            Deed::ItemDown => tab.list.pick(true),
            Deed::Copy => match tab.list.source(&tab.talk) {
                Some(text) => self.want(Effect::Copy(text)),
                None => self.say("there is nothing to copy", now),
            },
            Deed::PageUp => tab.list.page(-1),
            Deed::PageDown => tab.list.page(1),
            Deed::Top => tab.list.to_top(),
            Deed::End => tab.list.to_end(),
            Deed::Search => self.over = Some(Over::Line(For::Search, String::new())),
            Deed::NewTab => {
                let agent = Some(tab.agent.clone()).filter(|agent| !agent.is_empty());
                self.open(Which { agent, session: Go::New }, Vec::new(), now);
            }
            Deed::NextTab => self.at = (self.at + 1) % count,
            Deed::PreviousTab => self.at = (self.at + count - 1) % count,
            Deed::CloseTab => self.close_tab(now),
            Deed::Mouse => {
                self.mouse = !self.mouse;
                let words = if self.mouse {
                    "the mouse scrolls and selects here"
                } else {
                    "the mouse is the terminal's: select and paste as usual"
                };
                self.say(words, now);
                self.want(Effect::Mouse(self.mouse));
            }
            Deed::Print => self.want(Effect::Print(id)),
            Deed::Redraw => self.want(Effect::Redraw),
            Deed::Suspend => self.want(Effect::Suspend),
            Deed::Quit => self.leave(now),
        }
    }

    /// Ctrl+D: leaves at once where nothing runs; else when it is pressed again, and says before what that does.
    fn leave(&mut self, now: Instant) {
        match self.leaves_behind().filter(|_| self.leaving.is_none()) {
            None => self.want(Effect::Quit),
            Some(what) => {
                self.leaving = Some(now);
                self.say(format!("Ctrl+D again {what} and leaves"), now);
            }
        }
    }

    /// What leaving does to what goes on, if something does.
    pub(super) fn leaves_behind(&self) -> Option<String> {
        let turns = self.tabs.iter().filter(|tab| tab.runs()).count();
        let waits: usize = self.tabs.iter().map(|tab| tab.queue.len()).sum();
        let turns = match turns {
            0 => None,
            1 => Some("stops the turn".to_owned()),
            turns => Some(format!("stops {turns} turns")),
        };
        let shells: usize = self.tabs.iter().map(|tab| tab.shells).sum();
        let shells = (shells > 0).then(|| format!("stops {} of your own", counted(shells, "line")));
        let waits = (waits > 0).then(|| format!("keeps {} in the queue", counted(waits, "prompt")));
        let parts: Vec<_> = turns.into_iter().chain(shells).chain(waits).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// A turn that runs in it is stopped: that needs a second time, too.
    fn close_tab(&mut self, now: Instant) {
        if self.tabs.len() == 1 {
            return self.leave(now);
        }
        if self.tab().runs() && self.leaving.is_none() {
            self.leaving = Some(now);
            return self.say("a turn runs here: close the tab again to stop it", now);
        }
        self.leaving = None;
        let tab = self.tabs.remove(self.at);
        self.at = self.at.min(self.tabs.len() - 1);
        self.want(Effect::Close(tab.id));
    }

    /// The ladder: first the agent is asked to stop; whoever asks again may kill it, and decides that.
    fn cancel(&mut self, now: Instant) {
        let tab = self.tab_mut();
        tab.reason = false;
        let id = tab.id;
        match tab.state {
            Doing::Running | Doing::Asking => self.want(Effect::Cancel(id)),
            Doing::Cancelling => {
                let killed = "its process and all that it started; the session can be taken up again";
                let menu = Picker::new(ASKED_TO_STOP)
                    .line("Wait on", "it may be putting something in order", Pick::Nothing)
                    .line("Kill it", killed, Pick::Deed(Deed::Kill));
                self.over = Some(Over::Pick(menu));
            }
            _ if !tab.list.follows() => tab.list.to_end(),
            _ if tab.shells > 0 => self.want(Effect::StopShell(id)),
            _ if tab.composer.is_empty() => self.say("nothing runs; Ctrl+D leaves", now),
            _ => self.say("nothing runs", now),
        }
    }
}

fn help() -> Vec<String> {
    let line = |(key, help): (&str, &str)| format!("  {key:<18} {help}");
    let keys = keys::KEYS.iter().filter(|binding| !binding.name.is_empty());
    let mut lines = vec!["What is typed".to_owned()];
    lines.extend(keys::TYPED.iter().copied().map(line));
    lines.extend([String::new(), "Keys".to_owned()]);
    lines.extend(keys.map(|binding| line((binding.name, binding.help))));
    lines.extend([String::new(), "A question of the agent".to_owned()]);
    lines.extend(keys::ANSWERS.iter().copied().map(line));
    lines
}
