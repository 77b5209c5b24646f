//! Gemini: calls and responses in turns of equal size, calls with the proof of the thought behind them.

use super::{Checked, Refusal, is_name};
use crate::server::Recorded;
use crate::talk::{list, string};
use crate::wire::signature;
use serde_json::Value;

const FIELDS: &str =
    "cachedContent contents generationConfig safetySettings serviceTier store systemInstruction toolConfig tools";
const CONFIG: &str = "candidateCount enableEnhancedCivicAnswers frequencyPenalty imageConfig logprobs maxOutputTokens \
                      mediaResolution presencePenalty responseJsonSchema responseLogprobs responseMimeType responseModalities \
                      responseSchema seed speechConfig stopSequences temperature thinkingConfig topK topP";
const THINKING: &str = "includeThoughts thinkingBudget thinkingLevel";
const TOOL: &str = "codeExecution computerUse fileSearch functionDeclarations googleMaps googleSearch googleSearchRetrieval \
                    mcpServers urlContext";
const DECLARATION: &str = "behavior description name parameters parametersJsonSchema response responseJsonSchema";
const PART: &str = "codeExecutionResult executableCode fileData functionCall functionResponse inlineData mediaResolution \
                    partMetadata text thought thoughtSignature toolCall toolResponse videoMetadata";
/// A part has one of these.
const DATA: &str =
    "codeExecutionResult executableCode fileData functionCall functionResponse inlineData text toolCall toolResponse";
const CALL: &str = "args id name partialArgs willContinue";
const RESPONSE: &str = "id name parts response scheduling willContinue";
/// What stands in for the signature of a call that another model made.
const NOT_OURS: [&str; 2] = ["skip_thought_signature_validator", "context_engineering_is_the_way_to_go"];

pub(super) fn headers(request: &Recorded) -> Checked {
    let query = request.path.split_once('?').map_or("", |(_, query)| query);
    let in_query = query.split('&').any(|pair| pair.starts_with("key="));
    if in_query || request.header("x-goog-api-key").is_some() || request.header("authorization").is_some() {
        return Ok(());
    }
    Err(Refusal::status(
        403,
        "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or other form of \
         API consumer identity to call this API.",
    ))
}

/// Names are taken in two ways of writing.
fn camel(name: &str) -> String {
    let mut out = String::new();
    let mut up = false;
    for c in name.chars() {
        match c {
            '_' => up = true,
            c if up => {
                out.extend(c.to_uppercase());
                up = false;
            }
            c => out.push(c),
        }
    }
    out
}

fn fields(place: &str, value: &Value, known: &str) -> Checked {
    for key in value.as_object().into_iter().flatten().map(|(key, _)| key) {
        if !known.split(' ').any(|known| *known == camel(key)) {
            let at = if place.is_empty() { String::new() } else { format!(" at '{place}'") };
            return Err(Refusal::from(format!(
                "Invalid JSON payload received. Unknown name \"{key}\"{at}: Cannot find field."
            )));
        }
    }
    Ok(())
}

pub(super) fn check(body: &Value, model: &str) -> Checked {
    fields("", body, FIELDS)?;
    let config = &body["generationConfig"];
    fields("generation_config", config, CONFIG)?;
    let thinking = &config["thinkingConfig"];
    fields("generation_config.thinking_config", thinking, THINKING)?;
    if thinking.get("thinkingLevel").is_some() && thinking.get("thinkingBudget").is_some() {
        return Err("You can only set only one of thinking budget and thinking level.".into());
    }
    if thinking.get("thinkingLevel").is_some() && model.starts_with("gemini-2") {
        return Err("Thinking level is not supported for this model.".into());
    }
    declared(body)?;
    let contents = list(body, "contents");
    if contents.is_empty() {
        return Err("* GenerateContentRequest.contents: contents is not specified\n".into());
    }
    let instruction = &body["systemInstruction"];
    if instruction.is_object() && list(instruction, "parts").is_empty() {
        return Err("* GenerateContentRequest.system_instruction.parts: contents.parts must not be empty.\n".into());
    }
    for (at, content) in contents.iter().enumerate() {
        self::content(at, content)?;
    }
    order(contents)?;
    let older = ["gemini-1", "gemini-2"].iter().any(|start| model.starts_with(start));
    if older { Ok(()) } else { signatures(contents) }
}

fn declared(body: &Value) -> Checked {
    let mut names = Vec::new();
    for (t, tool) in list(body, "tools").iter().enumerate() {
        fields(&format!("tools[{t}]"), tool, TOOL)?;
        for (d, one) in list(tool, "functionDeclarations").iter().enumerate() {
            let place = format!("tools[{t}].function_declarations[{d}]");
            fields(&place, one, DECLARATION)?;
            let name = string(one, "name");
            let start = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
            if !start || !is_name(&name, "_.:-", 64) {
                return Err(Refusal::from(format!(
                    "* GenerateContentRequest.{place}.name: Invalid function name. Must start with a letter or an underscore. \
                     Must be alphanumeric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a \
                     maximum length of 64.\n"
                )));
            }
            if names.contains(&name) {
                return Err(Refusal::from(format!("Duplicate function declaration found: {name}")));
            }
            names.push(name);
        }
    }
    Ok(())
}

fn content(at: usize, content: &Value) -> Checked {
    let place = format!("contents[{at}]");
    fields(&place, content, "parts role")?;
    let role = content["role"].as_str().unwrap_or("user");
    if !matches!(role, "user" | "model" | "function") {
        return Err("Please use a valid role: user, model.".into());
    }
    let parts = list(content, "parts");
    if parts.is_empty() {
        return Err(Refusal::from(format!(
            "* GenerateContentRequest.{place}.parts: contents.parts must not be empty.\n"
        )));
    }
    for (p, part) in parts.iter().enumerate() {
        let place = format!("{place}.parts[{p}]");
        fields(&place, part, PART)?;
        fields(&format!("{place}.function_call"), &part["functionCall"], CALL)?;
        fields(&format!("{place}.function_response"), &part["functionResponse"], RESPONSE)?;
        // An empty text is one only as the place of a signature.
        let unsigned = part.get("thoughtSignature").is_none();
        let holds = |key: &&str| match &part[*key] {
            Value::Null => false,
            Value::String(text) => !text.is_empty() || !unsigned,
            _ => true,
        };
        let empty = !DATA.split(' ').any(|key| holds(&key));
        if empty {
            return Err(Refusal::from(format!(
                "* GenerateContentRequest.{place}.data: required oneof field 'data' must have one initialized field\n"
            )));
        }
        for (key, wire, body) in
            [("functionCall", "function_call", "args"), ("functionResponse", "function_response", "response")]
        {
            let Some(said) = part.get(key) else { continue };
            if string(said, "name").is_empty() {
                return Err(Refusal::from(format!(
                    "* GenerateContentRequest.{place}.{wire}.name: Name cannot be empty.\n"
                )));
            }
            let left_out = key == "functionCall" && said[body].is_null();
            if !said[body].is_object() && !left_out {
                return Err(Refusal::from(format!(
                    "Invalid value at '{place}.{wire}.{body}' (type.googleapis.com/google.protobuf.Struct), {}",
                    said[body]
                )));
            }
        }
    }
    Ok(())
}

/// The names of the calls, or of the responses, in a turn.
fn names(content: &Value, key: &str) -> Vec<String> {
    list(content, "parts").iter().filter_map(|part| part.get(key)).map(|said| string(said, "name")).collect()
}

fn order(contents: &[Value]) -> Checked {
    let mut turns: Vec<(bool, Vec<String>, Vec<String>)> = Vec::new();
    for content in contents {
        let model = content["role"] == "model";
        let (calls, answers) = (names(content, "functionCall"), names(content, "functionResponse"));
        match turns.last_mut() {
            Some(last) if last.0 == model => {
                last.1.extend(calls);
                last.2.extend(answers);
            }
            _ => turns.push((model, calls, answers)),
        }
    }
    for (at, (model, calls, answers)) in turns.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| &turns[at]);
        if !calls.is_empty() && (!model || before.is_none()) {
            return Err(
                "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
                    .into(),
            );
        }
        let mut wanted = before.map(|(_, calls, _)| calls.clone()).unwrap_or_default();
        if !answers.is_empty() && wanted.is_empty() {
            return Err(
                "Please ensure that function response turn comes immediately after a function call turn.".into()
            );
        }
        let mut given = answers.clone();
        wanted.sort();
        given.sort();
        if wanted != given {
            return Err(
                "Please ensure that the number of function response parts is equal to the number of function call parts of the \
                 function call turn."
                    .into(),
            );
        }
    }
    if turns.last().is_some_and(|(model, ..)| *model) {
        return Err("Please ensure that multiturn requests ends with a user role or a function response.".into());
    }
    Ok(())
}

/// In the turn that goes on, the first call of each step carries its signature.
fn signatures(contents: &[Value]) -> Checked {
    let is_user = |content: &Value| content["role"] != "model" && names(content, "functionResponse").is_empty();
    let start = contents.iter().rposition(is_user).unwrap_or(0);
    for (at, content) in contents.iter().enumerate() {
        let mut calls = list(content, "parts").iter().filter(|part| part.get("functionCall").is_some());
        let Some(first) = calls.next() else { continue };
        let name = string(&first["functionCall"], "name");
        match first["thoughtSignature"].as_str() {
            None if at > start => {
                return Err(Refusal::from(format!(
                    "Function call is missing a thought_signature in functionCall parts. This is required for tools to work \
                     correctly, and missing thought_signature may lead to degraded model performance. Additional data, function \
                     call `default_api:{name}` , position {}.",
                    at + 1
                )));
            }
            Some(proof) if !NOT_OURS.contains(&proof) && proof != signature(&name) => {
                return Err("Corrupted thought signature.".into());
            }
            _ => {}
        }
    }
    Ok(())
}
