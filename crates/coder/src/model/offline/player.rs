//! Plays a turn again: takes results that are there already and stops at the first call that has none.

use super::show::{failure, result_text};
use crate::model::{ToolResult, ToolSpec};
use crate::text::code;
use serde_json::Value;
use std::collections::VecDeque;

/// Why a step does not go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// A call has to be carried out first.
    Wait,
    /// It was done, but what was done did not work, such as a command; the text says how.
    Failed(String),
    /// It could not be done; the text says why.
    Undone(String),
}

/// Says and calls things, as far as the conversation has come.
///
/// What was said before a result that is there was said in an earlier answer, so it is forgotten at that result.
#[derive(Debug)]
pub struct Player<'a> {
    tools: &'a [ToolSpec],
    results: VecDeque<&'a ToolResult>,
    /// What is said now.
    pub said: String,
    /// What is wanted now.
    pub wanted: Vec<(&'static str, Value)>,
    /// What was asked for was not done.
    pub refused: bool,
}

impl<'a> Player<'a> {
    /// At the start of a turn that has these results so far.
    pub fn new(tools: &'a [ToolSpec], results: impl Iterator<Item = &'a ToolResult>) -> Self {
        Self { tools, results: results.collect(), said: String::new(), wanted: Vec::new(), refused: false }
    }

    /// Adds a paragraph.
    pub fn say(&mut self, text: &str) {
        if !self.said.is_empty() {
            self.said.push_str("\n\n");
        }
        self.said.push_str(text);
    }

    /// Uses a tool; a result that is an error ends the step.
    pub fn call(&mut self, tool: &'static str, arguments: Value) -> Result<String, Stop> {
        let (text, is_error) = self.attempt(tool, arguments)?;
        if is_error { Err(Stop::Undone(failure(&text))) } else { Ok(text) }
    }

    /// Uses a tool, whatever comes of it: its text, and whether it did not work.
    pub fn attempt(&mut self, tool: &'static str, arguments: Value) -> Result<(String, bool), Stop> {
        if let Some(result) = self.results.front() {
            if result.name != tool {
                let why = "The results so far do not fit this instruction, so I stop here. Please give it again.";
                return Err(Stop::Undone(why.to_owned()));
            }
            let done = (result_text(result), result.is_error);
            self.took();
            return Ok(done);
        }
        if !self.has(tool) {
            return Err(Stop::Undone(format!("The tool {} is not available here, so this can't be done.", code(tool))));
        }
        self.wanted.push((tool, arguments));
        Err(Stop::Wait)
    }

    /// Uses a tool beside the next call. What comes of it does not matter; a missing tool is left out.
    pub fn beside(&mut self, tool: &'static str, arguments: Value) {
        match self.results.front() {
            Some(next) if next.name == tool => self.took(),
            None if self.has(tool) => self.wanted.push((tool, arguments)),
            _ => {}
        }
    }

    /// Whether calls are open that the next answer has to wait for.
    pub fn waits(&self) -> bool {
        !self.wanted.is_empty()
    }

    fn has(&self, tool: &str) -> bool {
        self.tools.iter().any(|spec| spec.name == tool)
    }

    fn took(&mut self) {
        self.results.pop_front();
        self.said.clear();
    }
}
