//! `tieline-model-server`: the scripted model server as a program.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program talks to its user")]

use serde_json::json;
use std::fs::OpenOptions;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Mutex;
use tieline_model_server::{ModelServer, Recorded, Script, builtin, builtins};

const USAGE: &str = "\
Usage: tieline-model-server [--script NAME|FILE] [--port N] [--folder DIR] [--key KEY] [--log FILE] [--compatible]

Answers model requests on 127.0.0.1 as a script says: OpenAI chat completions and responses, Anthropic messages, Gemini.
The first line it prints is its address.

  --script NAME|FILE  a script that ships inside, or a TOML file; without it: directives
  --port N            the port; without it: any free one
  --folder DIR        where relative paths in tool calls start; some agents want absolute paths
  --key KEY           serve only requests with this key
  --log FILE          append each request to this file, one JSON object per line, keys left out
  --compatible        take fields and headers that the providers refuse, as most servers of others do; without it as strict as they are
";

/// Headers that carry keys.
const SECRET: [&str; 5] = ["authorization", "x-api-key", "x-goog-api-key", "api-key", "cookie"];

#[derive(Default)]
struct Options {
    script: Option<String>,
    port: u16,
    folder: Option<String>,
    key: Option<String>,
    log: Option<String>,
    compatible: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let options = match options(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            let scripts: Vec<_> = builtins().map(|(name, about)| format!("  {name:<12}{about}")).collect();
            // Who reads only its beginning is served as well.
            let _ = writeln!(std::io::stdout(), "{USAGE}\nScripts that ship inside:\n{}", scripts.join("\n"));
            return ExitCode::SUCCESS;
        }
        Err(error) => return failed(&format!("{error}\n\n{USAGE}"), 2),
    };
    match run(options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error, 1),
    }
}

fn failed(error: &str, code: u8) -> ExitCode {
    eprintln!("tieline-model-server: {error}");
    ExitCode::from(code)
}

/// `None` if help is wanted.
fn options(mut words: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
    let mut options = Options::default();
    while let Some(word) = words.next() {
        if word == "--help" || word == "-h" {
            return Ok(None);
        }
        let mut value = || words.next().ok_or_else(|| format!("`{word}` needs a value"));
        match word.as_str() {
            "--compatible" => options.compatible = true,
            "--script" => options.script = Some(value()?),
            "--folder" => options.folder = Some(value()?),
            "--key" => options.key = Some(value()?),
            "--log" => options.log = Some(value()?),
            "--port" => {
                let text = value()?;
                options.port =
                    text.parse().map_err(|_| format!("`{text}` is no port: give a number from 0 to 65535"))?;
            }
            _ => return Err(format!("`{word}` is not an option")),
        }
    }
    Ok(Some(options))
}

async fn run(options: Options) -> Result<(), String> {
    let mut script = script(options.script.as_deref().unwrap_or("directives"))?;
    if let Some(folder) = options.folder {
        script = script.folder(folder);
    }
    if let Some(key) = options.key {
        script = script.key(key);
    }
    if options.compatible {
        script = script.compatible();
    }
    let started = match options.log {
        None => ModelServer::start_on(options.port, script).await,
        Some(path) => {
            let file = OpenOptions::new().create(true).append(true).open(&path).map_err(|e| format!("{path}: {e}"))?;
            let file = Mutex::new(file);
            ModelServer::start_logged(options.port, script, move |recorded| {
                if let Ok(mut file) = file.lock() {
                    // A log that cannot be written must not stop the answers.
                    let _ = writeln!(file, "{}", line(recorded));
                }
            })
            .await
        }
    };
    let server = started.map_err(|error| format!("cannot listen on 127.0.0.1:{}: {error}", options.port))?;
    println!("{}", server.url());
    tokio::signal::ctrl_c().await.map_err(|error| error.to_string())
}

fn script(name: &str) -> Result<Script, String> {
    if let Some(script) = builtin(name) {
        return Ok(script);
    }
    let names = builtins().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
    let text = std::fs::read_to_string(name)
        .map_err(|error| format!("{name}: {error}; give a TOML file or one of: {names}"))?;
    tieline_model_server::script(name, &text).map_err(|error| error.to_string())
}

fn line(recorded: &Recorded) -> serde_json::Value {
    let shown = |(name, value): &(String, String)| {
        json!([name, if SECRET.contains(&name.as_str()) { "…" } else { value.as_str() }])
    };
    // A key can also stand in the query.
    let path = recorded.path.split_once("key=").map_or(recorded.path.as_str(), |(before, _)| before);
    json!({
        "format": format!("{:?}", recorded.format), "path": path,
        "headers": recorded.headers.iter().map(shown).collect::<Vec<_>>(), "body": recorded.body,
    })
}
