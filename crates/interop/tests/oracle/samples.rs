//! Rich samples of everything that the model can say, each in the form of one dialect.

use Keeps::{All, Here, NotInV1, NotInV2};
use tieline::Dialect::{self, V1, V2};

/// Where a sample survives the way there and back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// In every dialect that has the method.
    All,
    /// Version 1 can only say a part of it.
    NotInV1,
    /// Current v2 says it in another way.
    NotInV2,
    /// It is only meant for the dialect it is written in.
    Here,
}

/// Method, the dialect of the text, params, where it survives.
pub type Call = (&'static str, Dialect, &'static str, Keeps);

pub const CALLS: &[Call] = &[
    (
        "initialize",
        V1,
        r#"{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":true,"writeTextFile":true,"_meta":{"f":1}},"terminal":true,
            "auth":{"terminal":true},"elicitation":{"form":{},"url":{}},"session":{"configOptions":{"boolean":{}},"notices":{},"compaction":{}},
            "_meta":{"k":1}},"clientInfo":{"name":"c","version":"1","title":"C","_meta":{"i":1}},"_meta":{"x":[1,{}]}}"#,
        Here,
    ),
    (
        "initialize",
        V2,
        r#"{"protocolVersion":2,"info":{"name":"c","version":"1","title":"C"},"capabilities":{"auth":{"terminal":{}},
            "elicitation":{"form":{},"url":{},"_meta":{"e":1}},"_meta":{"k":1}},"_meta":{"x":1}}"#,
        Here,
    ),
    ("auth/login", V2, r#"{"methodId":"m","_meta":{"a":1}}"#, All),
    ("auth/logout", V2, r#"{"_meta":{"a":1}}"#, All),
    (
        "session/new",
        V2,
        r#"{"cwd":"/w","additionalDirectories":["/x","/y"],"mcpServers":[
            {"type":"stdio","name":"s","command":"/bin/s","args":["-v"],"env":[{"name":"K","value":"v","_meta":{"e":1}}],"_meta":{"m":1}},
            {"type":"http","name":"h","url":"https://h","headers":[{"name":"A","value":"b"}]}],"_meta":{"a":1}}"#,
        All,
    ),
    ("session/new", V1, r#"{"cwd":"/w","mcpServers":[{"type":"sse","name":"e","url":"https://e","headers":[]}]}"#, All),
    ("session/new", V2, r#"{"cwd":"/w","mcpServers":[{"type":"_tunnel","name":"t","port":[7]}]}"#, NotInV1),
    (
        "session/resume",
        V2,
        r#"{"sessionId":"s","cwd":"/w","additionalDirectories":["/x"],"mcpServers":[{"type":"stdio","name":"s","command":"/bin/s","args":[],"env":[]}],"replayFrom":{"type":"start"},"_meta":{"a":1}}"#,
        All,
    ),
    (
        "session/resume",
        V2,
        r#"{"sessionId":"s","cwd":"C:\\w","mcpServers":[{"type":"http","name":"h","url":"https://h","headers":[]}]}"#,
        All,
    ),
    ("session/list", V2, r#"{"cwd":"/w","cursor":"","_meta":{"a":1}}"#, All),
    ("session/close", V2, r#"{"sessionId":"s","_meta":{"a":1}}"#, All),
    ("session/delete", V2, r#"{"sessionId":"s","_meta":{"a":1}}"#, All),
    ("session/cancel", V2, r#"{"sessionId":"s","_meta":{"a":1}}"#, All),
    ("session/set_mode", V1, r#"{"sessionId":"s","modeId":"m","_meta":{"a":1}}"#, All),
    (
        "session/set_config_option",
        V2,
        r#"{"sessionId":"s","configId":"c","type":"id","value":"v","_meta":{"a":1}}"#,
        All,
    ),
    ("session/set_config_option", V2, r#"{"sessionId":"s","configId":"c","type":"boolean","value":true}"#, All),
    ("session/set_config_option", V2, r#"{"sessionId":"s","configId":"c","type":"_slider","value":7}"#, Here),
    (
        "session/prompt",
        V2,
        r#"{"sessionId":"s","prompt":[
            {"type":"text","text":"größer 🦀","annotations":{"audience":["user","assistant"],"priority":0.5,"lastModified":"2026-11-01T00:00:00Z","_meta":{"n":1}},"_meta":{"t":1}},
            {"type":"image","data":"AA==","mimeType":"image/png","uri":"file:///i.png","annotations":{"audience":["user"]}},
            {"type":"audio","data":"AA==","mimeType":"audio/wav","_meta":{"a":1}},
            {"type":"resource_link","uri":"file:///a","name":"a","mimeType":"text/plain","title":"A","description":"d","size":3},
            {"type":"resource","resource":{"uri":"file:///b","text":"x","mimeType":"text/plain","_meta":{"r":1}},"annotations":{"priority":0.25}},
            {"type":"resource","resource":{"uri":"file:///c","blob":"AA==","mimeType":"image/gif"}}],"_meta":{"a":1}}"#,
        All,
    ),
    (
        "session/prompt",
        V2,
        r#"{"sessionId":"s","prompt":[{"type":"resource_link","uri":"file:///a","name":"a",
            "icons":[{"src":"https://x/i.png","mimeType":"image/png","sizes":["48x48"],"theme":"dark"}]}]}"#,
        NotInV1,
    ),
    ("session/prompt", V2, r#"{"sessionId":"s","prompt":[{"type":"_chart","points":[1,{"x":null}]}]}"#, Here),
    ("tool_call/cancel", V2, r#"{"sessionId":"s","toolCallId":"t","_meta":{"a":1}}"#, All),
    ("terminal/cancel", V2, r#"{"sessionId":"s","terminalId":"t","_meta":{"a":1}}"#, All),
    (
        "session/request_permission",
        V2,
        r#"{"sessionId":"s","title":"Read x","subject":{"type":"tool_call","toolCall":{"toolCallId":"t","title":"Read x","kind":"read","status":"in_progress",
            "rawInput":{"a":[1,null]}}},"options":[
            {"optionId":"a","name":"A","kind":"allow_once"},{"optionId":"b","name":"B","kind":"allow_always"},
            {"optionId":"c","name":"C","kind":"reject_once"},{"optionId":"d","name":"D","kind":"reject_always","_meta":{"o":1}}],"_meta":{"a":1}}"#,
        All,
    ),
    (
        "session/request_permission",
        V2,
        r#"{"sessionId":"s","title":"Really?","description":"It writes.","subject":{"type":"command","command":"ls -l","cwd":"/w",
            "toolCallId":"t","terminalId":"m","_meta":{"s":1}},"options":[{"optionId":"a","name":"A","kind":"_maybe"}]}"#,
        NotInV1,
    ),
    (
        "session/request_permission",
        V2,
        r#"{"sessionId":"s","title":"Go on?","options":[{"optionId":"a","name":"A","kind":"allow_once"}]}"#,
        NotInV1,
    ),
    (
        "session/request_permission",
        V2,
        r#"{"sessionId":"s","title":"Odd","subject":{"type":"_moon","phase":{"of":1}},"options":[{"optionId":"a","name":"A","kind":"allow_once"}]}"#,
        NotInV1,
    ),
    (
        "session/request_permission",
        V2,
        r#"{"sessionId":"s","title":"Odd","subject":{"type":"tool_call","toolCall":{"toolCallId":"t","title":"Odd","content":[
            {"type":"content","content":{"type":"_chart","x":1}},{"type":"_table","rows":[]},{"type":"content","content":{"type":"text","text":"x"}}]}},
            "options":[{"optionId":"a","name":"A","kind":"allow_once"}]}"#,
        NotInV1,
    ),
    ("fs/read_text_file", V1, r#"{"sessionId":"s","path":"/a","line":1,"limit":2,"_meta":{"a":1}}"#, All),
    ("fs/write_text_file", V1, r#"{"sessionId":"s","path":"/a","content":"x\n","_meta":{"a":1}}"#, All),
    (
        "terminal/create",
        V1,
        r#"{"sessionId":"s","command":"ls","args":["-l"],"env":[{"name":"K","value":"v"}],"cwd":"/w","outputByteLimit":4096,"_meta":{"a":1}}"#,
        All,
    ),
    ("terminal/output", V1, r#"{"sessionId":"s","terminalId":"t","_meta":{"a":1}}"#, All),
    ("terminal/wait_for_exit", V1, r#"{"sessionId":"s","terminalId":"t","_meta":{"a":1}}"#, All),
    ("terminal/kill", V1, r#"{"sessionId":"s","terminalId":"t","_meta":{"a":1}}"#, All),
    ("terminal/release", V1, r#"{"sessionId":"s","terminalId":"t","_meta":{"a":1}}"#, All),
    (
        "elicitation/create",
        V2,
        r#"{"mode":"form","sessionId":"s","toolCallId":"t","message":"m","requestedSchema":{"type":"object","title":"T","description":"D","properties":{
            "a":{"type":"string","title":"A","description":"d","minLength":1,"maxLength":9,"pattern":"^a","format":"email","default":"a@b"},
            "b":{"type":"string","enum":["x","y"],"default":"x"},
            "c":{"type":"string","oneOf":[{"const":"x","title":"X","description":"d"}]},
            "d":{"type":"number","title":"N","minimum":0.5,"maximum":9.5,"default":1.5},
            "e":{"type":"integer","description":"d","minimum":-1,"maximum":9,"default":1},
            "f":{"type":"boolean","title":"B","default":true},
            "g":{"type":"array","title":"L","minItems":1,"maxItems":2,"items":{"type":"string","enum":["x","y"]},"default":["x"]},
            "h":{"type":"array","items":{"anyOf":[{"const":"x","title":"X"}]}}},"required":["a","b"]},"_meta":{"a":1}}"#,
        All,
    ),
    (
        "elicitation/create",
        V2,
        r#"{"mode":"url","requestId":7,"message":"m","elicitationId":"e","url":"https://x","_meta":{"a":1}}"#,
        All,
    ),
    (
        "elicitation/create",
        V2,
        r#"{"mode":"form","requestId":"seven","message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"string","format":"_odd"}}}}"#,
        NotInV1,
    ),
    ("elicitation/create", V2, r#"{"mode":"_voice","sessionId":"s","message":"m","pitch":[1,2]}"#, Here),
    ("elicitation/complete", V2, r#"{"elicitationId":"e","_meta":{"a":1}}"#, All),
];

/// The dialect of the text, an update, where it survives.
pub type Told = (Dialect, &'static str, Keeps);

pub const UPDATES: &[Told] = &[
    (
        V2,
        r#"{"sessionUpdate":"user_message_chunk","messageId":"u","content":{"type":"text","text":"x"},"_meta":{"a":1}}"#,
        All,
    ),
    (
        V2,
        r#"{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"image","data":"AA==","mimeType":"image/png"}}"#,
        All,
    ),
    (V2, r#"{"sessionUpdate":"agent_thought_chunk","messageId":"t","content":{"type":"text","text":"x"}}"#, All),
    (V1, r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"without an id"}}"#, Here),
    (
        V2,
        r#"{"sessionUpdate":"user_message","messageId":"u","content":[{"type":"text","text":"x"},{"type":"_chart","x":1}],"_meta":{"a":1}}"#,
        Here,
    ),
    (V2, r#"{"sessionUpdate":"agent_message","messageId":"m","content":null,"_meta":null}"#, Here),
    (V2, r#"{"sessionUpdate":"agent_message","messageId":"m"}"#, Here),
    (V2, r#"{"sessionUpdate":"agent_thought","messageId":"t","content":[]}"#, Here),
    (
        V1,
        r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":"T","name":"n","kind":"switch_mode","status":"in_progress","content":[
            {"type":"content","content":{"type":"text","text":"x"}},{"type":"terminal","terminalId":"t","_meta":{"m":1}}],
            "locations":[{"path":"/a","line":1,"_meta":{"l":1}},{"path":"/b"}],"rawInput":{"a":[1,2.5,null]},"rawOutput":"done","_meta":{"a":1}}"#,
        All,
    ),
    (V1, r#"{"sessionUpdate":"tool_call","toolCallId":"d","title":"T","kind":"other","status":"pending"}"#, All),
    (
        V1,
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed","content":[
            {"type":"diff","path":"/f","oldText":"a\nb\n","newText":"a\nc\n","_meta":{"d":1}},{"type":"diff","path":"/g","newText":"x"}]}"#,
        NotInV2,
    ),
    (
        V2,
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"e","title":"T","name":"n","kind":"_odd","status":"paused","content":[
            {"type":"diff","changes":[{"operation":"modify","path":"/a","fileType":"text","mimeType":"text/plain"},{"operation":"add","path":"/b"},
                {"operation":"delete","path":"/c","fileType":"binary"},{"operation":"move","oldPath":"/d","path":"/e"},
                {"operation":"copy","oldPath":"/e","path":"/f","fileType":"symlink","_meta":{"c":1}},{"operation":"_swap","with":["/g"]}],
                "patch":{"format":"git_patch","text":"diff --git /a /a\n--- /a\n+++ /a\n@@ -1 +1 @@\n-x\n+y\n"},"_meta":{"d":1}},
            {"type":"_table","rows":[[1,null]]},{"type":"terminal","terminalId":"t"},{"type":"content","content":{"type":"_chart","x":1}}],
            "capabilities":{"cancel":{"_meta":{"n":1}}},"_meta":{"a":1}}"#,
        NotInV1,
    ),
    (V2, r#"{"sessionUpdate":"tool_call_update","toolCallId":"e","status":"cancelled"}"#, NotInV1),
    (
        V2,
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"e","title":null,"name":null,"kind":null,"status":null,"content":null,"locations":null,
            "rawInput":null,"rawOutput":null,"capabilities":null,"_meta":null}"#,
        NotInV1,
    ),
    (
        V2,
        r#"{"sessionUpdate":"tool_call_content_chunk","toolCallId":"e","content":{"type":"content","content":{"type":"text","text":"x"}},"_meta":{"a":1}}"#,
        Here,
    ),
    (
        V2,
        r#"{"sessionUpdate":"plan_update","plan":{"type":"items","planId":"main","entries":[{"content":"x","priority":"high","status":"completed"},
            {"content":"y","priority":"medium","status":"in_progress","_meta":{"e":1}},{"content":"z","priority":"low","status":"pending"}]},"_meta":{"a":1}}"#,
        All,
    ),
    (
        V2,
        r#"{"sessionUpdate":"plan_update","plan":{"type":"items","planId":"other","entries":[{"content":"x","priority":"_p","status":"cancelled"}],"_meta":{"p":1}}}"#,
        NotInV1,
    ),
    (V2, r#"{"sessionUpdate":"plan_update","plan":{"type":"_tree","planId":"p","root":{"a":[1]}}}"#, Here),
    (
        V2,
        r#"{"sessionUpdate":"available_commands_update","availableCommands":[{"type":"command","name":"n","description":"d","input":{"type":"text","hint":"h","_meta":{"i":1}},"_meta":{"c":1}},
            {"type":"command","name":"o","description":"e"}],"_meta":{"a":1}}"#,
        All,
    ),
    (
        V2,
        r#"{"sessionUpdate":"available_commands_update","availableCommands":[{"type":"_macro","name":"m","description":"d","keys":[1]},
            {"type":"command","name":"i","description":"d","input":{"type":"_file","glob":"*"}}]}"#,
        NotInV1,
    ),
    (
        V2,
        r#"{"sessionUpdate":"config_option_update","configOptions":[
            {"configId":"m","name":"M","description":"d","category":"mode","type":"select","currentValue":"a","options":[{"value":"a","name":"A","description":"x","_meta":{"v":1}},{"value":"b","name":"B"}],"_meta":{"o":1}},
            {"configId":"g","name":"G","category":"_c","type":"select","currentValue":"a","options":[{"groupId":"x","name":"X","options":[{"value":"a","name":"A"}],"_meta":{"g":1}}]},
            {"configId":"b","name":"B","category":"model_config","type":"boolean","currentValue":true}],"_meta":{"a":1}}"#,
        All,
    ),
    (
        V2,
        r#"{"sessionUpdate":"config_option_update","configOptions":[{"configId":"s","name":"S","type":"_slider","max":9}]}"#,
        NotInV1,
    ),
    (V1, r#"{"sessionUpdate":"current_mode_update","currentModeId":"b","_meta":{"a":1}}"#, Here),
    (
        V2,
        r#"{"sessionUpdate":"session_info_update","title":"T","updatedAt":"2026-11-01T00:00:00Z","_meta":{"a":1}}"#,
        All,
    ),
    (V2, r#"{"sessionUpdate":"session_info_update","title":null,"updatedAt":null}"#, All),
    (
        V2,
        r#"{"sessionUpdate":"usage_update","used":1,"size":18446744073709551615,"cost":{"amount":0.25,"currency":"USD","_meta":{"c":1}},"_meta":{"a":1}}"#,
        All,
    ),
    (V2, r#"{"sessionUpdate":"usage_update","used":0,"size":2,"cost":null}"#, NotInV1),
    (
        V2,
        r#"{"sessionUpdate":"state_update","state":"running","background":[{"type":"terminal","terminalId":"t"},{"type":"tool_call","toolCallId":"c","_meta":{"b":1}},{"type":"_cron","at":1}],"_meta":{"a":1}}"#,
        Here,
    ),
    (V2, r#"{"sessionUpdate":"state_update","state":"requires_action","background":[]}"#, Here),
    (V2, r#"{"sessionUpdate":"state_update","state":"idle"}"#, Here),
    (V2, r#"{"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn"}"#, Here),
    (V2, r#"{"sessionUpdate":"state_update","state":"idle","stopReason":"max_tokens"}"#, Here),
    (V2, r#"{"sessionUpdate":"state_update","state":"idle","stopReason":"max_turn_requests"}"#, Here),
    (V2, r#"{"sessionUpdate":"state_update","state":"idle","stopReason":"refusal"}"#, Here),
    (V2, r#"{"sessionUpdate":"state_update","state":"idle","stopReason":"cancelled"}"#, Here),
    (V2, r#"{"sessionUpdate":"state_update","state":"idle","stopReason":"_budget"}"#, Here),
    (
        V2,
        r#"{"sessionUpdate":"state_update","state":"idle","stopReason":"error","error":{"code":-32603,"message":"m","data":{"a":[1]}},"_meta":{"a":1}}"#,
        Here,
    ),
    (V2, r#"{"sessionUpdate":"state_update","state":"_dreaming","deep":true}"#, Here),
    (
        V2,
        r#"{"sessionUpdate":"terminal_update","terminalId":"t","command":"ls","cwd":"/w","output":{"data":"aGkK","_meta":{"o":1}},"exitStatus":{"exitCode":0,"signal":"SIGTERM","_meta":{"x":1}},
            "size":{"cols":80,"rows":24,"_meta":{"s":1}},"capabilities":{"cancel":{}},"_meta":{"a":1}}"#,
        Here,
    ),
    (
        V2,
        r#"{"sessionUpdate":"terminal_update","terminalId":"t","command":null,"cwd":null,"output":null,"exitStatus":{},"size":null,"capabilities":null,"_meta":null}"#,
        Here,
    ),
    (V2, r#"{"sessionUpdate":"terminal_output_chunk","terminalId":"t","data":"w6Q=","_meta":{"a":1}}"#, Here),
    (V2, r#"{"sessionUpdate":"notice","severity":"warning","title":"t","description":"d","_meta":{"a":1}}"#, All),
    (V2, r#"{"sessionUpdate":"notice","severity":"_odd","title":"t"}"#, All),
    (
        V2,
        r#"{"sessionUpdate":"compaction_update","compactionId":"c","status":"completed","summary":[{"type":"text","text":"x"}],"_meta":{"a":1}}"#,
        All,
    ),
    (V2, r#"{"sessionUpdate":"compaction_update","compactionId":"c","status":"_odd","error":"e"}"#, All),
    (
        V2,
        r#"{"sessionUpdate":"compaction_update","compactionId":"c","status":"failed","summary":[{"type":"_chart","x":1},{"type":"text","text":"x"}]}"#,
        Here,
    ),
    (
        V2,
        r#"{"sessionUpdate":"compaction_summary_chunk","compactionId":"c","content":{"type":"text","text":"x"},"_meta":{"a":1}}"#,
        All,
    ),
    (V2, r#"{"sessionUpdate":"_future","a":[1,{"b":"ä"}]}"#, Here),
];
