//! Plays a turn again: takes results that are there already and stops at the first call that has none.

use super::show::{failure, result_text};
use super::turn::Turn;
use super::words::code;
use crate::model::{ToolResult, ToolSpec};
use serde_json::Value;
use std::collections::VecDeque;

/// Why a step does not go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// A call has to be carried out first.
    Wait,
    /// It did not work; the text says why.
    Failed(String),
    /// The results so far are not those of this interpreter.
    Lost,
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// What the tool told.
    pub text: String,
    /// It did not work.
    pub is_error: bool,
}

/// Says and calls things, as far as the conversation has come.
///
/// What was said before a result that is there was said in an earlier answer, so it is forgotten at that result.
#[derive(Debug)]
pub struct Player<'a> {
    tools: &'a [ToolSpec],
    results: VecDeque<&'a ToolResult>,
    said: String,
    wanted: Vec<(&'static str, Value)>,
    last_output: Option<String>,
}

impl<'a> Player<'a> {
    /// At the start of `turn`.
    pub fn new(tools: &'a [ToolSpec], turn: &Turn<'a>) -> Self {
        Self {
            tools,
            results: turn.results.iter().copied().collect(),
            said: String::new(),
            wanted: Vec::new(),
            last_output: turn.last_output.clone(),
        }
    }

    /// Adds a paragraph.
    pub fn say(&mut self, text: &str) {
        if !self.said.is_empty() {
            self.said.push_str("\n\n");
        }
        self.said.push_str(text);
    }

    /// Whether a tool may be used.
    pub fn has(&self, tool: &str) -> bool {
        self.tools.iter().any(|spec| spec.name == tool)
    }

    /// What the last command printed.
    pub fn last_output(&self) -> Option<&str> {
        self.last_output.as_deref()
    }

    /// Uses a tool; a result that is an error ends the step.
    pub fn call(&mut self, tool: &'static str, arguments: Value) -> Result<String, Stop> {
        let answer = self.attempt(tool, arguments)?;
        if answer.is_error { Err(Stop::Failed(failure(&answer.text))) } else { Ok(answer.text) }
    }

    /// Uses a tool, whatever comes of it.
    pub fn attempt(&mut self, tool: &'static str, arguments: Value) -> Result<Answer, Stop> {
        if let Some(next) = self.results.front() {
            if next.name != tool {
                return Err(Stop::Lost);
            }
            if let Some(result) = self.take() {
                return Ok(result);
            }
        }
        if !self.has(tool) {
            let text = format!("The tool {} is not available here, so this can't be done.", code(tool));
            return Err(Stop::Failed(text));
        }
        self.wanted.push((tool, arguments));
        Err(Stop::Wait)
    }

    /// Uses a tool beside the next call. What comes of it does not matter; a missing tool is left out.
    pub fn beside(&mut self, tool: &'static str, arguments: Value) {
        match self.results.front() {
            Some(next) if next.name == tool => {
                self.take();
            }
            None if self.has(tool) => self.wanted.push((tool, arguments)),
            _ => {}
        }
    }

    /// Whether calls are open that the next answer has to wait for.
    pub fn waits(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// What is said and wanted now.
    pub fn finish(self) -> (String, Vec<(&'static str, Value)>) {
        (self.said, self.wanted)
    }

    fn take(&mut self) -> Option<Answer> {
        let result = self.results.pop_front()?;
        self.said.clear();
        let text = result_text(result);
        if result.name == "run" {
            self.last_output = Some(text.clone());
        }
        Some(Answer { text, is_error: result.is_error })
    }
}
