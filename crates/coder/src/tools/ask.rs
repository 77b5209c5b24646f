//! `ask`: a question to the user, where the client can show one.

use super::{Output, Prepared, Tool, ToolContext, ToolError, Type, argument, ready};
use serde_json::{Value, json};
use std::sync::Arc;
use tieline::ToolKind;
use tieline::schema::{ElicitAction, ElicitMode, ElicitValue, FormField, FormSchema, TextField};
use tieline_host::secret;

/// What the model is told when it asks for a secret.
const SECRET: &str = "Passwords, keys, tokens and other secrets are never asked for in a form: they would go through this \
                      conversation. Tell the user in your answer where to put the secret, such as a variable of the \
                      environment or a file, and work with its name only. If you ask about a secret but not for it, give \
                      `options` to choose from.";

pub const ASK: Tool = Tool::new(
    "ask",
    ToolKind::Unspecified,
    "Asks the user a question, with `options` to choose from or for free text. Only if you can't go on without. Never for passwords, \
     keys or other secrets.",
    &[("question", Type::Text, ""), ("options?", Type::List(&Type::Text), "")],
    |input, ctx| ready(prepare(&input, ctx)),
);

fn prepare(input: &Value, ctx: Arc<ToolContext>) -> Result<Prepared, ToolError> {
    let question: String = argument(input, "question")?;
    let options = argument::<Option<Vec<String>>>(input, "options")?.unwrap_or_default();
    if !ctx.turn.client().capabilities().elicit_form {
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
    if secret::asked_by(&question, &form).is_some() {
        return Err(SECRET.into());
    }
    let title = format!("Ask: {}", crate::history::cut(&question, 80));
    Ok(Prepared::new(title, move |_| async move {
        let answer = ctx.turn.client().elicit(question, ElicitMode::Form(form)).await?;
        let values = match answer.action {
            ElicitAction::Accept(values) => values,
            ElicitAction::Decline => return Err("The user did not want to answer.".into()),
            _ => return Err("The user left the question unanswered.".into()),
        };
        match values.get("answer") {
            // Clients may send what was not to choose.
            Some(ElicitValue::Text(text)) if !options.is_empty() && !options.contains(text) => {
                Err("The answer is none of the options.".into())
            }
            Some(ElicitValue::Text(text)) => Ok(Output::text(text.clone()).raw(json!({ "answer": text }))),
            _ => Err("The answer is empty.".into()),
        }
    }))
}
