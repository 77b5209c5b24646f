//! `elicitation/create` and `elicitation/complete`: forms, pages, and nobody to ask.

use crate::harness::{block_on, soon};
use crate::setup::{Log, Project, Scene};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tieline::Dialect;
use tieline::schema::{ElicitValue, FormField};
use tieline_client::elicit::{Asker, Consent, Filled, Form, Page, parse};
use tieline_client::services::Event;

pub const ALL: &[(&str, fn())] = &[
    (
        "v1_elic_05_07_v2_elic_01_forms_are_filled_in_and_checked",
        v1_elic_05_07_v2_elic_01_forms_are_filled_in_and_checked,
    ),
    ("v1_elic_06_07_11_pages_are_shown_and_never_opened", v1_elic_06_07_11_pages_are_shown_and_never_opened),
    ("v1_elic_14_decline_and_cancel_bring_no_content", v1_elic_14_decline_and_cancel_bring_no_content),
    ("nobody_to_ask_declines", nobody_to_ask_declines),
    ("forms_that_nobody_should_fill_in", forms_that_nobody_should_fill_in),
    ("typed_text_becomes_values", typed_text_becomes_values),
];

const SPEAKING: [Dialect; 2] = [Dialect::V1, Dialect::V2];

/// Answers in order, and keeps what it was shown.
#[derive(Default)]
struct Screen {
    fills: Mutex<Vec<Filled>>,
    consent: Option<Consent>,
    forms: Mutex<Vec<Form>>,
    pages: Mutex<Vec<Page>>,
    visited: Mutex<Vec<String>>,
}

impl Asker for Screen {
    fn fill<'a>(&'a self, form: &'a Form) -> tieline_client::Future<'a, Filled> {
        self.forms.lock().unwrap().push(form.clone());
        let mut fills = self.fills.lock().unwrap();
        let next = if fills.len() > 1 { fills.remove(0) } else { fills[0].clone() };
        Box::pin(std::future::ready(next))
    }

    fn visit<'a>(&'a self, page: &'a Page) -> tieline_client::Future<'a, Consent> {
        self.pages.lock().unwrap().push(page.clone());
        Box::pin(std::future::ready(self.consent.unwrap()))
    }

    fn visited(&self, id: &str) {
        self.visited.lock().unwrap().push(id.to_owned());
    }
}

fn schema() -> Value {
    json!({"type": "object", "title": "Who\u{1b}[31m?", "properties": {
        "name": {"type": "string", "title": "Your \u{202e}name", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]+$", "default": "anna"},
        "mail": {"type": "string", "format": "email"},
        "age": {"type": "integer", "minimum": 0, "maximum": 150, "default": 999},
        "size": {"type": "number", "minimum": 0.5},
        "ok": {"type": "boolean", "default": true},
        "one": {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]},
        "many": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string", "enum": ["a", "b", "c"]}}
    }, "required": ["name", "ok"]})
}

async fn ask(scene: &mut Scene, mode: Value) -> Value {
    let mut params = json!({"sessionId": "s", "message": "Please\u{7}"});
    params.as_object_mut().unwrap().extend(mode.as_object().unwrap().clone());
    scene.wire.result("elicitation/create", params).await
}

fn form() -> Value {
    json!({"mode": "form", "requestedSchema": schema()})
}

fn values(pairs: &[(&str, ElicitValue)]) -> BTreeMap<String, ElicitValue> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

fn v1_elic_05_07_v2_elic_01_forms_are_filled_in_and_checked() {
    let text = |text: &str| ElicitValue::Text(text.into());
    let choices = |all: &[&str]| ElicitValue::Choices(all.iter().map(ToString::to_string).collect());
    let good = values(&[
        ("name", text("bob")),
        ("mail", text("a@b.example")),
        ("age", ElicitValue::Integer(30)),
        ("size", ElicitValue::Number(1.5)),
        ("ok", ElicitValue::Bool(false)),
        ("one", text("g")),
        ("many", choices(&["a", "c"])),
    ]);
    let with = |name: &str, value: ElicitValue| {
        let mut all = good.clone();
        all.insert(name.into(), value);
        all
    };
    // Each of these has one problem, with this field.
    let bad = [
        ("name", with("name", text("x"))),
        ("name", with("name", text("toolong"))),
        ("name", with("name", text("Bob"))),
        ("name", with("name", ElicitValue::Integer(1))),
        ("mail", with("mail", text("nobody"))),
        ("age", with("age", ElicitValue::Integer(151))),
        ("age", with("age", text("30"))),
        ("size", with("size", ElicitValue::Number(0.4))),
        ("size", with("size", ElicitValue::Number(f64::NAN))),
        ("ok", with("ok", text("yes"))),
        ("one", with("one", text("b"))),
        ("many", with("many", choices(&[]))),
        ("many", with("many", choices(&["a", "b", "c"]))),
        ("many", with("many", choices(&["z"]))),
        ("other", with("other", text("x"))),
        ("ok", good.iter().filter(|(name, _)| *name != "ok").map(|(a, b)| (a.clone(), b.clone())).collect()),
    ];
    block_on(async {
        for dialect in SPEAKING {
            let project = Project::new();
            let screen = Arc::new(Screen::default());
            let log = Arc::new(Log::default());
            let services = project.services().asker(screen.clone()).observer(log.clone()).build();
            services.agent_is("scripted\u{1b}]0;x\u{7}");
            let mut scene = Scene::new(&project, services, dialect).await;
            for (field, wrong) in &bad {
                *screen.fills.lock().unwrap() = vec![Filled::Accept(wrong.clone()), Filled::Accept(good.clone())];
                screen.forms.lock().unwrap().clear();
                let answer = ask(&mut scene, form()).await;
                assert_eq!(answer["action"], "accept", "{dialect}: {field}");
                assert_eq!(answer["content"]["name"], "bob");
                assert_eq!(answer["content"]["many"], json!(["a", "c"]));
                let forms = screen.forms.lock().unwrap();
                assert_eq!(forms.len(), 2, "{dialect}: {field} {wrong:?}");
                let again = &forms[1];
                assert_eq!(
                    again.problems.iter().map(|problem| &*problem.field).collect::<Vec<_>>(),
                    [*field],
                    "{wrong:?}"
                );
                assert_eq!(format!("{:?}", again.filled), format!("{wrong:?}"), "what was filled in can be corrected");
            }
            let shown = screen.forms.lock().unwrap()[0].clone();
            assert_eq!((&*shown.agent, &*shown.message), ("scripted\\u{1b}]0;x\\u{7}", "Please\\u{7}"));
            assert_eq!(shown.title.as_deref(), Some("Who\\u{1b}[31m?"));
            let field = |name: &str| shown.fields.iter().find(|field| field.name == name).unwrap();
            assert_eq!(field("name").label, "Your \\u{202e}name");
            assert_eq!(field("name").default, Some(text("anna")), "V1-ELIC-07");
            assert_eq!(field("age").default, None, "a default that is not right is none");
            assert_eq!(field("one").choices, [("r".into(), "Red".into()), ("g".into(), "Green".into())]);
            assert!(field("name").required && !field("mail").required);
            // Somebody who never gets it right does not go on for ever.
            *screen.fills.lock().unwrap() = vec![Filled::Accept(BTreeMap::new())];
            assert_eq!(ask(&mut scene, form()).await["action"], "cancel");
            let events = log.0.lock().unwrap();
            assert!(matches!(events.last(), Some(Event::Elicited { action: "cancel", .. })));
        }
    });
}

fn v1_elic_06_07_11_pages_are_shown_and_never_opened() {
    block_on(async {
        for dialect in SPEAKING {
            for (consent, action) in
                [(Consent::Accept, "accept"), (Consent::Decline, "decline"), (Consent::Cancel, "cancel")]
            {
                let project = Project::new();
                let screen = Arc::new(Screen { consent: Some(consent), ..Screen::default() });
                let services = project.services().asker(screen.clone()).build();
                let mut scene = Scene::new(&project, services, dialect).await;
                let url = "https://xn--pple-43d.com/login?a=1";
                let answer = ask(&mut scene, json!({"mode": "url", "elicitationId": "e1", "url": url})).await;
                assert_eq!(answer["action"], action, "{dialect}");
                assert!(answer.get("content").is_none());
                let page = screen.pages.lock().unwrap()[0].clone();
                assert_eq!((&*page.url, &*page.host), (url, "xn--pple-43d.com"), "V1-ELIC-06");
                assert!(page.warnings[0].contains("punycode"), "V1-ELIC-07");
                // An address that nobody should open is declined without a question.
                for url in ["javascript:alert(1)", "https://a\u{202e}b/", "file:///etc/passwd"] {
                    let answer = ask(&mut scene, json!({"mode": "url", "elicitationId": "e2", "url": url})).await;
                    assert_eq!(answer["action"], "decline", "{url}");
                }
                assert_eq!(screen.pages.lock().unwrap().len(), 1);
                // Only a page that was opened can be done, and only once.
                for id in ["unknown", "e1", "e1", "e2"] {
                    scene.wire.notify("elicitation/complete", json!({"elicitationId": id})).await;
                }
                let expect = usize::from(consent == Consent::Accept);
                // What was told before this answer has been heard, or will be at once.
                ask(&mut scene, json!({"mode": "url", "elicitationId": "e3", "url": url})).await;
                let heard = || screen.visited.lock().unwrap().len() >= expect;
                tokio::task::block_in_place(|| soon("it is heard", Duration::from_secs(10), heard));
                assert_eq!(*screen.visited.lock().unwrap(), ["e1"][..expect], "V1-ELIC-11");
            }
        }
    });
}

fn v1_elic_14_decline_and_cancel_bring_no_content() {
    block_on(async {
        for dialect in SPEAKING {
            for (filled, action) in [(Filled::Decline, "decline"), (Filled::Cancel, "cancel")] {
                let project = Project::new();
                let screen = Arc::new(Screen { fills: Mutex::new(vec![filled]), ..Screen::default() });
                let mut scene = Scene::new(&project, project.services().asker(screen).build(), dialect).await;
                let answer = ask(&mut scene, form()).await;
                assert_eq!((&answer["action"], answer.get("content")), (&json!(action), None), "{dialect}");
            }
        }
    });
}

fn nobody_to_ask_declines() {
    block_on(async {
        for dialect in Dialect::ALL {
            let project = Project::new();
            let services = project.services().build();
            let mut can = tieline::ClientCapabilities::default();
            services.offer(&mut can);
            assert!(!can.elicit_form && !can.elicit_url);
            let mut scene = Scene::new(&project, services, dialect).await;
            // It was not offered, so asking for it is a mistake.
            let params = json!({"sessionId": "s", "message": "x", "mode": "form", "requestedSchema": schema()});
            assert_eq!(scene.wire.code("elicitation/create", params).await, -32602, "{dialect}");
            // Who hands it to the services all the same gets a no.
            let request = tieline::schema::ElicitRequest {
                message: "x".into(),
                scope: tieline::schema::ElicitScope::Session { session_id: "s".into(), tool_call_id: None },
                mode: tieline::schema::ElicitMode::Form(tieline::schema::FormSchema::default()),
                meta: None,
            };
            let answer = tieline::client::Handler::elicit(&scene.services, request).await.unwrap();
            assert_eq!(answer.action, tieline::schema::ElicitAction::Decline);
        }
    });
}

fn forms_that_nobody_should_fill_in() {
    let with = |title: &str, field: Value| json!({"type": "object", "title": title, "properties": {"x": field}});
    block_on(async {
        for dialect in SPEAKING {
            let project = Project::new();
            let screen = Arc::new(Screen { fills: vec![Filled::Cancel].into(), ..Screen::default() });
            let log = Arc::new(Log::default());
            let services = project.services().asker(screen.clone()).observer(log.clone()).build();
            let mut scene = Scene::new(&project, services, dialect).await;
            for (schema, expect, why) in [
                (with("Your \u{1b}password", json!({"type": "string"})), "decline", "password"),
                (with("A", json!({"type": "string", "format": "password"})), "decline", "secret"),
                (with(&"a ".repeat(40 << 10), json!({"type": "string"})), "decline", "nobody could read"),
                (with("Keep the password?", json!({"type": "boolean"})), "cancel", ""),
            ] {
                let before = log.0.lock().unwrap().len();
                let answer = ask(&mut scene, json!({"mode": "form", "requestedSchema": schema})).await;
                assert_eq!(answer, json!({"action": expect}), "{dialect}: {why}");
                let events = log.0.lock().unwrap();
                let told = events[before..].iter().find_map(|event| match event {
                    Event::Notice { text, .. } => Some(text.as_str()),
                    _ => None,
                });
                assert_eq!(told.is_some(), expect == "decline", "{events:?}");
                assert!(told.is_none_or(|text| text.contains(why) && !text.contains('\u{1b}')), "{told:?}");
            }
            assert_eq!(screen.forms.lock().unwrap().len(), 1, "only the last one is shown");
            // Our own agent has judged it, and tells which server asks.
            let fills = vec![Filled::Cancel].into();
            let services = project.services().asker(Arc::new(Screen { fills, ..Screen::default() })).ours(true).build();
            let mut scene = Scene::new(&project, services, dialect).await;
            let form = with("The MCP server `secrets` asks: which one?", json!({"type": "string"}));
            assert_eq!(
                ask(&mut scene, json!({"mode": "form", "requestedSchema": form})).await,
                json!({"action": "cancel"})
            );
        }
    });
}

fn typed_text_becomes_values() {
    let field = |json: Value| -> FormField {
        let text = json.to_string();
        tieline::schema::Decode::decode(&mut tieline::json::Reader::new(&text)).unwrap()
    };
    for (schema, typed, expect) in [
        (json!({"type": "string"}), "abc", Some("Text(\"abc\")")),
        (json!({"type": "string", "enum": ["a"]}), "b", None),
        (json!({"type": "string", "format": "date"}), "2024-02-29", Some("Text(\"2024-02-29\")")),
        (json!({"type": "string", "format": "date"}), "2023-02-29", None),
        (
            json!({"type": "string", "format": "date-time"}),
            "2024-01-01T10:00:00Z",
            Some("Text(\"2024-01-01T10:00:00Z\")"),
        ),
        (json!({"type": "string", "format": "date-time"}), "2024-01-01T25:00:00Z", None),
        (json!({"type": "string", "format": "uri"}), "not a uri", None),
        (json!({"type": "string", "format": "uri"}), "mailto:x", Some("Text(\"mailto:x\")")),
        // A pattern that is not understood here is left to the agent; one that would take for ever takes no time.
        (json!({"type": "string", "pattern": "(?=x)y"}), "z", Some("Text(\"z\")")),
        (json!({"type": "string", "pattern": "^(a+)+$"}), "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!", None),
        (json!({"type": "integer"}), " 12 ", Some("Integer(12)")),
        (json!({"type": "integer"}), "1.5", None),
        (json!({"type": "number"}), "1.5", Some("Number(1.5)")),
        (json!({"type": "number"}), "inf", None),
        (json!({"type": "boolean"}), "Yes", Some("Bool(true)")),
        (json!({"type": "boolean"}), "maybe", None),
        (
            json!({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}),
            "a, b",
            Some("Choices([\"a\", \"b\"])"),
        ),
    ] {
        let found = parse(&field(schema.clone()), typed).ok().map(|value| format!("{value:?}"));
        assert_eq!(found.as_deref(), expect, "{schema} {typed:?}");
    }
}
