//! `ask`: a question to the user, where the client can show one.

use super::{Boxed, Output, Prepared, Tool, ToolContext, arguments, object};
use crate::secret;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use tieline::ToolKind;
use tieline::schema::{ElicitAction, ElicitMode, ElicitValue, FormField, FormSchema, TextField};

/// What the model is told when it asks for a secret.
const SECRET: &str = "Passwords, keys, tokens and other secrets are never asked for in a form: they would go through this \
                      conversation. Tell the user in your answer where to put the secret, such as a variable of the \
                      environment or a file, and work with its name only. If you ask about a secret but not for it, give \
                      `options` to choose from.";

pub struct Ask;

#[derive(Deserialize)]
struct Input {
    question: String,
    #[serde(default)]
    options: Vec<String>,
}

impl Tool for Ask {
    fn name(&self) -> &'static str {
        "ask"
    }

    fn description(&self) -> &'static str {
        "Asks the user a question, with `options` to choose from or for free text. Only if you can't go on without. \
         Never for passwords, keys or other secrets."
    }

    fn schema(&self) -> Value {
        let options = json!({ "type": "array", "items": { "type": "string" } });
        object(&[("question", "string".into(), ""), ("options?", options, "")])
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Unspecified
    }

    fn prepare(&self, input: Value, ctx: Arc<ToolContext>) -> Boxed<Result<Prepared, String>> {
        Box::pin(async move {
            let Input { question, options } = arguments(input)?;
            if !ctx.reporter.turn.client().capabilities().elicit_form {
                return Err("The user can't be asked in this client. Say your question as your answer instead.".into());
            }
            let choices = (!options.is_empty()).then(|| options.clone());
            let field = TextField { title: Some("Answer".into()), choices, ..TextField::default() };
            let form = FormSchema {
                properties: vec![("answer".into(), FormField::Text(field))],
                required: vec!["answer".into()],
                ..FormSchema::default()
            };
            // What is typed into a form goes through the client and to the model's provider.
            if secret::is_asked_by(&question, &form) {
                return Err(SECRET.into());
            }
            let title = format!("Ask: {}", crate::history::cut(&question, 80));
            Ok(Prepared::new(title, move |_| async move {
                match ctx.reporter.turn.client().elicit(question, ElicitMode::Form(form)).await {
                    Ok(answer) => match answer.action {
                        ElicitAction::Accept(values) => match values.get("answer") {
                            // Clients may send what was not to choose.
                            Some(ElicitValue::Text(text)) if !options.is_empty() && !options.contains(text) => {
                                Output::error("The answer is none of the options.")
                            }
                            Some(ElicitValue::Text(text)) => Output::text(text.clone()).raw(json!({ "answer": text })),
                            _ => Output::error("The answer is empty."),
                        },
                        ElicitAction::Decline => Output::error("The user did not want to answer."),
                        _ => Output::error("The user left the question unanswered."),
                    },
                    Err(error) => Output::error(error.to_string()),
                }
            }))
        })
    }
}
