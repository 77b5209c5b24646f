//! MCP servers from a file like `.mcp.json`, as many tools have it.

use serde_json::{Map, Value};
use tieline_schema::{EnvVariable, HttpHeader, McpHttp, McpServer, McpStdio};

/// Reads the servers: `{"mcpServers": {NAME: {"command", "args", "env"} or {"type", "url", "headers"}}}`.
pub fn servers(text: &str) -> Result<Vec<McpServer>, String> {
    let json: Value = serde_json::from_str(text).map_err(|error| format!("this is not JSON: {error}"))?;
    let table = json.get("mcpServers").or_else(|| json.get("servers")).and_then(Value::as_object);
    let table = table.ok_or("it has no table `mcpServers`")?;
    table.iter().map(|(name, entry)| server(name, entry).map_err(|why| format!("the server `{name}` {why}"))).collect()
}

fn server(name: &str, entry: &Value) -> Result<McpServer, String> {
    let empty = Map::new();
    let pairs = |key: &str| -> Result<Vec<(String, String)>, String> {
        let table = match entry.get(key) {
            None | Some(Value::Null) => &empty,
            Some(Value::Object(table)) => table,
            Some(_) => return Err(format!("has `{key}` that is no table")),
        };
        let one = |(name, value): (&String, &Value)| match value.as_str() {
            Some(value) => Ok((name.clone(), value.to_owned())),
            None => Err(format!("has `{key}.{name}` that is no text")),
        };
        table.iter().map(one).collect()
    };
    if let Some(url) = entry.get("url").and_then(Value::as_str) {
        let headers = pairs("headers")?
            .into_iter()
            .map(|(name, value)| HttpHeader { name, value, ..Default::default() })
            .collect();
        let server = McpHttp { name: name.to_owned(), url: url.to_owned(), headers, ..Default::default() };
        let sse = entry.get("type").and_then(Value::as_str) == Some("sse");
        return Ok(if sse { McpServer::Sse(server) } else { McpServer::Http(server) });
    }
    let Some(command) = entry.get("command").and_then(Value::as_str) else {
        return Err("has neither `command` nor `url`".into());
    };
    let args = match entry.get("args") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(args)) => {
            let words: Option<Vec<String>> = args.iter().map(|arg| arg.as_str().map(str::to_owned)).collect();
            words.ok_or("has `args` that are no texts")?
        }
        Some(_) => return Err("has `args` that are no list".into()),
    };
    // Agents want an absolute path.
    let found = tieline_client::agents::find_program(command.as_ref(), None);
    let found = found.ok().and_then(|path| std::path::absolute(path).ok());
    let command = found.map_or_else(|| command.to_owned(), |path| path.to_string_lossy().into_owned());
    let env =
        pairs("env")?.into_iter().map(|(name, value)| EnvVariable { name, value, ..Default::default() }).collect();
    Ok(McpServer::Stdio(McpStdio { name: name.to_owned(), command, args, env, ..Default::default() }))
}
