//! An agent with a plan, a tool that asks for permission, a mode and a command.
//!
//! It writes the text of the prompt into `note.txt` in the session's folder, if the user allows it.

use std::path::PathBuf;
use std::sync::Mutex;
use tieline::agent::{About, Agent, Opened, Opening, Session, Turn};
use tieline::schema::ConfigCategory;
use tieline::{
    Command, ConfigOption, ConfigValue, ContentBlock, Diff, Error, PlanEntry, PlanStatus, Result, StopReason,
    ToolCallContent, ToolKind, agent,
};

struct Notes;

struct Notebook {
    folder: PathBuf,
    mode: Mutex<String>,
}

impl Agent for Notes {
    type Session = Notebook;

    fn about(&self) -> About {
        About::new("notes", env!("CARGO_PKG_VERSION")).remember()
    }

    async fn open(&self, opening: Opening) -> Result<Opened<Notebook>> {
        let notebook = Notebook { folder: opening.cwd.into(), mode: Mutex::new("ask".into()) };
        Ok(Opened::new(notebook).options(vec![mode_option()]).commands(vec![Command::new("show", "Shows the note.")]))
    }
}

fn mode_option() -> ConfigOption {
    let choices = [("ask", "Ask before writing"), ("auto", "Write without asking")];
    ConfigOption::select("mode", "Mode", "ask", choices).category(ConfigCategory::Mode)
}

impl Session for Notebook {
    async fn prompt(&self, turn: Turn, prompt: Vec<ContentBlock>) -> Result<StopReason> {
        let text: String = prompt.iter().filter_map(ContentBlock::as_text).collect();
        let path = self.folder.join("note.txt");
        let old = std::fs::read_to_string(&path).ok();
        if text.trim() == "/show" {
            turn.say(old.unwrap_or_else(|| "There is no note yet.".into())).await?;
            return Ok(StopReason::EndTurn);
        }
        turn.plan(vec![PlanEntry::new("Write the note", PlanStatus::InProgress)]).await?;
        let shown = path.display().to_string();
        let diff = Diff::of(&*shown, old, text.clone());
        let tool = turn
            .tool(format!("Write {shown}"))
            .kind(ToolKind::Edit)
            .at(shown, None)
            .content(vec![ToolCallContent::Diff(diff)])
            .start()
            .await?;
        let must_ask = *self.mode.lock().unwrap_or_else(std::sync::PoisonError::into_inner) == "ask";
        if must_ask && !tool.ask(Vec::new()).await?.is_allowed() {
            tool.fail("The user said no.").await?;
            turn.say("I left the note alone.").await?;
            return Ok(StopReason::EndTurn);
        }
        tool.running().await?;
        match std::fs::write(&path, &text) {
            Ok(()) => tool.complete().await?,
            Err(error) => tool.fail(error.to_string()).await?,
        }
        turn.plan(vec![PlanEntry::new("Write the note", PlanStatus::Completed)]).await?;
        turn.say("Noted.").await?;
        Ok(StopReason::EndTurn)
    }

    async fn set_option(&self, id: String, value: ConfigValue) -> Result<Option<Vec<ConfigOption>>> {
        match (&*id, value) {
            ("mode", ConfigValue::Id(mode)) => {
                *self.mode.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = mode;
                Ok(None)
            }
            _ => Err(Error::invalid_params("no such option")),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    agent::serve_stdio(Notes).await
}
