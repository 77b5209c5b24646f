//! The language of journeys: lines of text become steps.

use std::collections::BTreeMap;

/// A screen: columns and rows.
pub type Size = (u16, u16);

/// A step and the line it stands in.
#[derive(Debug, Clone)]
pub struct Step {
    pub line: usize,
    pub what: What,
}

/// Where a text is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Where {
    Out,
    Err,
    File(String),
    /// What the model server was sent since the last command.
    Request,
    /// The bytes that came to the terminal since its command began.
    Terminal,
}

#[derive(Debug, Clone)]
pub enum What {
    /// Writes a file: a root (`project`, `home`, `config`, `state`), a path in it, and the text.
    File(&'static str, String, String),
    /// Starts the model server with a script that ships inside, or with this one.
    Models(String, String),
    /// A second model server, which nothing may reach.
    Trap,
    Env(String, String),
    /// Runs a command line to its end; the exit code that it must have.
    Run(String, i32),
    /// Runs it and keeps what it said under a name.
    Keep(String, String),
    /// Starts it under a name.
    Start(String, String),
    /// Waits for the end of one that was started.
    Wait(String, i32),
    Signal(String, String),
    /// Waits until one that was started has said something.
    Until(String, String),
    /// What comes from standard input in the next command.
    Input(String),
    /// Something must be found, or must not.
    Has(Where, String, bool),
    /// Something must be exactly this.
    Is(Where, String),
    /// A file or folder must be there, or must not.
    Exists(String, bool),
    /// So many requests reached the model server since the last command.
    Requests(usize),
    /// Starts a command line in a terminal of this size.
    Terminal(Size, String),
    /// Waits until the screen shows something.
    See(String),
    /// The screen does not show it now.
    Unseen(String),
    /// No row of the screen begins with it.
    NoRow(String),
    Type(String),
    /// So many of these lines, as a terminal sends a paste that it does not mark.
    Pour(usize, String),
    /// Pasted, as a terminal says it; `⏎` ends a line.
    Paste(String),
    Press(String),
    /// It has left the top of the main screen.
    Scrolled(String),
    /// Everything on the other screen was drawn in whole frames, and not too often.
    Steady,
    Resize(Size),
    /// Waits until the command in the terminal has ended.
    End(i32),
}

/// One journey of a file.
#[derive(Debug, Clone)]
pub struct Journey {
    pub name: String,
    each: Vec<(String, Vec<String>)>,
    steps: Vec<Step>,
}

/// A journey with a value for each of its variables.
#[derive(Debug, Clone)]
pub struct Case {
    pub name: String,
    pub values: BTreeMap<String, String>,
    pub steps: Vec<Step>,
}

impl Case {
    pub fn name(&self, group: &str) -> String {
        let values: Vec<_> = self.values.values().map(String::as_str).collect();
        let values = if values.is_empty() { String::new() } else { format!(" [{}]", values.join(" ")) };
        format!("{group}: {}{values}", self.name)
    }
}

impl Journey {
    /// Every combination of what it is run for.
    pub fn cases(&self) -> Vec<Case> {
        let mut all = vec![BTreeMap::new()];
        for (name, values) in &self.each {
            let mut more = Vec::new();
            for value in values {
                for case in &all {
                    let mut case: BTreeMap<_, _> = case.clone();
                    case.insert(name.clone(), value.clone());
                    more.push(case);
                }
            }
            all = more;
        }
        let case = |values| Case { name: self.name.clone(), values, steps: self.steps.clone() };
        all.into_iter().map(case).collect()
    }
}

/// Reads the journeys of a file. An error starts with the number of its line.
pub fn parse(group: &str, text: &str) -> Result<Vec<Journey>, String> {
    let mut journeys = Vec::new();
    let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line)).peekable();
    while let Some((number, line)) = lines.next() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix("== ") {
            journeys.push(Journey { name: name.trim().into(), each: Vec::new(), steps: Vec::new() });
            continue;
        }
        let journey: &mut Journey =
            journeys.last_mut().ok_or_else(|| format!("{number}: a journey begins with `== its name`"))?;
        let mut block = Vec::new();
        while let Some((_, line)) = lines.next_if(|(_, line)| line.starts_with("    ") || line.is_empty()) {
            block.push(line.get(4..).unwrap_or_default());
        }
        // Empty lines behind a block stand between the steps.
        while block.last() == Some(&"") {
            block.pop();
        }
        let block = block.iter().fold(String::new(), |text, line| text + line + "\n");
        step(journey, number, line.trim_end(), block).map_err(|why| format!("{number}: {why}"))?;
    }
    if journeys.is_empty() { Err(format!("1: {group} has no journey")) } else { Ok(journeys) }
}

#[allow(clippy::too_many_lines, reason = "one arm for each word")]
fn step(journey: &mut Journey, number: usize, line: &str, block: String) -> Result<(), String> {
    let two = |text: &str, at: &str| -> Result<(String, String), String> {
        let (first, second) = text.split_once(at).ok_or_else(|| format!("`{at}` is missing in `{line}`"))?;
        Ok((first.trim().into(), second.trim().into()))
    };
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let rest = rest.trim();
    let text = |rest: &str| if rest.is_empty() { block.trim_end().to_owned() } else { rest.to_owned() };
    let what = match word {
        "each" => {
            let (name, values) = two(rest, ":")?;
            journey.each.push((name, values.split_whitespace().map(str::to_owned).collect()));
            return Ok(());
        }
        "exit" => {
            let code = rest.parse().map_err(|_| format!("`{rest}` is no exit code"))?;
            return match journey.steps.last_mut().map(|step| &mut step.what) {
                Some(What::Run(_, expected) | What::Wait(_, expected) | What::End(expected)) => {
                    *expected = code;
                    Ok(())
                }
                _ => Err("`exit` stands directly behind the command, `wait` or `end`".into()),
            };
        }
        "file" | "project" => What::File("project", rest.into(), block),
        "home" => What::File("home", rest.into(), block),
        "config" => What::File("config", rest.into(), block),
        "state" => What::File("state", rest.into(), block),
        "models" => What::Models(rest.into(), block),
        "trap" => What::Trap,
        "env" => {
            let (name, value) = two(rest, "=")?;
            What::Env(name, value)
        }
        "$" => What::Run(rest.into(), 0),
        "keep" => {
            let (name, command) = two(rest, "$")?;
            What::Keep(name, command)
        }
        "start" => {
            let (name, command) = two(rest, "$")?;
            What::Start(name, command)
        }
        "wait" => What::Wait(rest.into(), 0),
        "signal" => {
            let (name, signal) = two(rest, " ")?;
            What::Signal(name, signal)
        }
        "until" => {
            let (name, text) = two(rest, ":")?;
            What::Until(name, text)
        }
        "input" => What::Input(block),
        "out:" => What::Has(Where::Out, text(rest), true),
        "err:" => What::Has(Where::Err, text(rest), true),
        "request:" => What::Has(Where::Request, text(rest), true),
        "wrote:" => What::Has(Where::Terminal, escaped(rest), true),
        "steady" => What::Steady,
        "requests:" => What::Requests(rest.parse().map_err(|_| format!("`{rest}` is no number"))?),
        "no" => {
            let (place, rest) = rest.split_once(' ').ok_or("`no` what?")?;
            match place {
                "out:" => What::Has(Where::Out, text(rest.trim()), false),
                "err:" => What::Has(Where::Err, text(rest.trim()), false),
                "request:" => What::Has(Where::Request, text(rest.trim()), false),
                "wrote:" => What::Has(Where::Terminal, escaped(rest.trim()), false),
                "file" => What::Exists(rest.trim().into(), false),
                "has" => {
                    let (path, text) = two(rest, ":")?;
                    What::Has(Where::File(path), text, false)
                }
                "row:" => What::NoRow(text(rest)),
                other => return Err(format!("`no {other}` is unknown")),
            }
        }
        "out-is" => What::Is(Where::Out, block),
        "err-is" => What::Is(Where::Err, block),
        "is" => What::Is(Where::File(rest.into()), block),
        "has" => {
            let (path, text) = two(rest, ":")?;
            What::Has(Where::File(path), text, true)
        }
        "there" => What::Exists(rest.into(), true),
        "terminal" => {
            let (size, command) = two(rest, "$")?;
            What::Terminal(self::size(&size)?, command)
        }
        "see:" => What::See(text(rest)),
        "unseen:" => What::Unseen(text(rest)),
        "type:" => What::Type(rest.into()),
        "paste:" => What::Paste(rest.replace('⏎', "\r")),
        "pour" => {
            let (count, line) = two(rest, ":")?;
            What::Pour(count.parse().map_err(|_| format!("`{count}` is no number"))?, line)
        }
        "scrolled:" => What::Scrolled(rest.into()),
        "press:" => What::Press(rest.into()),
        "resize:" => What::Resize(size(rest)?),
        "end" => What::End(0),
        other => return Err(format!("`{other}` is no step; README.md lists them")),
    };
    journey.steps.push(Step { line: number, what });
    Ok(())
}

/// `\\e` stands for the character that begins what drives a terminal.
fn escaped(text: &str) -> String {
    text.replace("\\e", "\x1b")
}

fn size(text: &str) -> Result<Size, String> {
    let parsed = text.split_once('x').and_then(|(columns, rows)| Some((columns.parse().ok()?, rows.parse().ok()?)));
    parsed.ok_or_else(|| format!("`{text}` is no size like 80x24"))
}
