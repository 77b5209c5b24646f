//! A plain HTTP client for the tests, and bodies of requests in each format.

#![allow(dead_code, clippy::unwrap_used)]

use serde_json::{Value, json};
use std::time::Duration;
use tieline_model_server::{Format, ModelServer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// No test waits longer for one answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// What every real client sends: the kind of the body, a version, and a key.
pub const HEADERS: &str =
    "content-type: application/json\r\nanthropic-version: 2023-06-01\r\nx-api-key: k\r\nx-goog-api-key: k\r\n";

pub const FORMATS: [Format; 4] = [Format::Chat, Format::Responses, Format::Messages, Format::Gemini];

/// An answer, as the bytes say.
#[derive(Debug)]
pub struct Heard {
    pub status: u16,
    pub head: String,
    /// The body, its pieces as they were sent.
    pub chunks: Vec<Vec<u8>>,
    /// The body came to its end.
    pub whole: bool,
}

impl Heard {
    pub fn bytes(&self) -> Vec<u8> {
        self.chunks.concat()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes()).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    /// The data of the events, those that are JSON.
    pub fn events(&self) -> Vec<Value> {
        let text = self.text();
        text.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            line.to_ascii_lowercase().starts_with(&format!("{name}: ")).then(|| &line[name.len() + 2..])
        })
    }
}

pub async fn send(server: &ModelServer, method: &str, path: &str, headers: &str, body: &str) -> Heard {
    let address = server.url().trim_start_matches("http://").to_owned();
    let mut stream = TcpStream::connect(&address).await.unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    // A cut connection may be an end or an error; what came before it counts.
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("an answer in time");
    taken_apart(&bytes)
}

pub fn taken_apart(bytes: &[u8]) -> Heard {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut rest = &bytes[end + 4..];
    let mut answer = Heard { status, head, chunks: Vec::new(), whole: false };
    if !answer.head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        let length = answer.header("content-length").map_or(0, |n| n.parse().unwrap());
        answer.whole = rest.len() == length;
        answer.chunks.push(rest.to_vec());
        return answer;
    }
    while let Some(line) = rest.windows(2).position(|two| two == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
        rest = &rest[line + 2..];
        if size == 0 {
            answer.whole = true;
            break;
        }
        answer.chunks.push(rest[..size.min(rest.len())].to_vec());
        rest = rest.get(size + 2..).unwrap_or_default();
    }
    answer
}

/// Where a question in this format goes.
pub fn path(format: Format, stream: bool) -> &'static str {
    match (format, stream) {
        (Format::Chat, _) => "/v1/chat/completions",
        (Format::Responses, _) => "/v1/responses",
        (Format::Messages, _) => "/v1/messages",
        (_, true) => "/v1beta/models/m:streamGenerateContent?alt=sse",
        (_, false) => "/v1beta/models/m:generateContent",
    }
}

/// A question with these tools, each with a `path`.
pub fn question(format: Format, stream: bool, prompt: &str, tools: &[&str]) -> Value {
    let schema = json!({ "type": "object", "properties": { "path": { "type": "string" } } });
    let tools: Vec<Value> = tools
        .iter()
        .map(|name| match format {
            Format::Chat => json!({ "type": "function", "function": { "name": name, "parameters": schema } }),
            Format::Responses => json!({ "type": "function", "name": name, "parameters": schema }),
            Format::Messages => json!({ "name": name, "input_schema": schema }),
            _ => json!({ "functionDeclarations": [{ "name": name, "parametersJsonSchema": schema }] }),
        })
        .collect();
    let user = json!([{ "role": "user", "content": prompt }]);
    let mut body = match format {
        Format::Chat => json!({ "model": "m", "stream": stream, "messages": user }),
        Format::Responses => json!({ "model": "m", "stream": stream, "input": user }),
        Format::Messages => json!({ "model": "m", "stream": stream, "max_tokens": 9, "messages": user }),
        _ => json!({ "contents": [{ "role": "user", "parts": [{ "text": prompt }] }] }),
    };
    if !tools.is_empty() {
        body["tools"] = json!(tools);
    }
    body
}

pub async fn ask(server: &ModelServer, format: Format, stream: bool, prompt: &str, tools: &[&str]) -> Heard {
    let body = question(format, stream, prompt, tools).to_string();
    send(server, "POST", path(format, stream), HEADERS, &body).await
}

/// The question with what the server answered, and with results for its calls.
pub fn continued(format: Format, mut body: Value, answer: &Value) -> Value {
    let (key, more) = match format {
        Format::Chat => {
            let message = answer["choices"][0]["message"].clone();
            let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
            let result = |call: &Value| json!({ "role": "tool", "tool_call_id": call["id"], "content": "R" });
            ("messages", [vec![message], calls.iter().map(result).collect()].concat())
        }
        Format::Responses => {
            let output = answer["output"].as_array().cloned().unwrap_or_default();
            let calls = output.iter().filter(|item| item["type"] == "function_call");
            let results =
                calls.map(|call| json!({ "type": "function_call_output", "call_id": call["call_id"], "output": "R" }));
            ("input", [output.clone(), results.collect()].concat())
        }
        Format::Messages => {
            let content = answer["content"].as_array().cloned().unwrap_or_default();
            let calls = content.iter().filter(|block| block["type"] == "tool_use");
            let mut results: Vec<_> =
                calls.map(|call| json!({ "type": "tool_result", "tool_use_id": call["id"], "content": "R" })).collect();
            results.push(json!({ "type": "text", "text": "be careful" }));
            (
                "messages",
                vec![json!({ "role": "assistant", "content": content }), json!({ "role": "user", "content": results })],
            )
        }
        _ => {
            let content = answer["candidates"][0]["content"].clone();
            let calls = content["parts"].as_array().cloned().unwrap_or_default();
            let calls = calls.iter().filter_map(|part| part.get("functionCall"));
            let result =
                |call: &Value| json!({ "functionResponse": { "name": call["name"], "response": { "output": "R" } } });
            let results: Vec<_> = calls.map(result).collect();
            ("contents", vec![content, json!({ "role": "user", "parts": results })])
        }
    };
    body[key].as_array_mut().unwrap().extend(more);
    body
}

/// The text in a stream's events.
pub fn said(format: Format, events: &[Value]) -> String {
    let piece = |event: &Value| -> Option<String> {
        let text = match format {
            Format::Chat => event.pointer("/choices/0/delta/content")?,
            Format::Responses => (event["type"] == "response.output_text.delta").then(|| &event["delta"])?,
            Format::Messages => event.pointer("/delta/text")?,
            _ => event.pointer("/candidates/0/content/parts/0/text")?,
        };
        text.as_str().map(str::to_owned)
    };
    events.iter().filter_map(piece).collect()
}
