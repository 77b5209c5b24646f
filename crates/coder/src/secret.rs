//! Whether a question asks for something secret: such a thing is never typed into a form, and never stands in an address.

use tieline::schema::{FormField, FormSchema};

/// Words that name a secret by themselves.
const WORDS: &str = "apikey authtoken credential credentials cvc cvv otp passcode passphrase passwd password passwords pwd secret \
    secrets token totp";
/// Words that name a secret together, next to each other.
const PAIRS: &str = "access code, access key, access keys, api key, api keys, auth code, auth key, card number, encryption key, \
    license key, pass phrase, pass word, pin code, pin number, your key, your keys, your pin, your tokens, private key, private keys, \
    recovery code, recovery codes, recovery key, recovery phrase, security code, seed phrase, signing key, ssh key, ssh keys, \
    time code, verification code";

/// The words of a text in lower case; `apiKey`, `API_KEY` and "API key" have the same ones.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for letter in text.chars() {
        let new = !letter.is_alphanumeric() || (letter.is_uppercase() && before.is_lowercase());
        if new && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if let (true, Some(word)) = (letter.is_alphanumeric(), words.last_mut()) {
            word.extend(letter.to_lowercase());
        }
        before = letter;
    }
    words
}

/// Whether a text names a secret.
pub fn is_named_in(text: &str) -> bool {
    let words = words(text);
    let pair = |pair: &[String]| PAIRS.split(", ").any(|known| known == pair.join(" "));
    words.iter().any(|word| WORDS.split(' ').any(|known| known == word)) || words.windows(2).any(pair)
}

/// Whether a form asks for a secret: a field for free text is about one. A choice between given words tells nothing new.
pub fn is_asked_by(message: &str, form: &FormSchema) -> bool {
    let free = |field: &FormField| match field {
        FormField::Text(text) => text.choices.is_none() && text.titled_choices.is_none(),
        FormField::Number(_) | FormField::Integer(_) | FormField::Other(_) => true,
        FormField::Boolean(_) | FormField::Choices(_) => false,
    };
    let about = |(name, field): &(String, FormField)| {
        let (title, description) = match field {
            FormField::Text(field) => (&field.title, &field.description),
            FormField::Number(field) => (&field.title, &field.description),
            FormField::Integer(field) => (&field.title, &field.description),
            _ => (&None, &None),
        };
        is_named_in(name) || [title, description].into_iter().flatten().any(|text| is_named_in(text))
    };
    let mut fields = form.properties.iter().filter(|(_, field)| free(field)).peekable();
    let heading = [&form.title, &form.description].into_iter().flatten();
    let heading = fields.peek().is_some() && heading.map(String::as_str).chain([message]).any(is_named_in);
    heading || fields.any(about)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline::schema::from_json;

    #[test]
    fn secrets_by_name() {
        for text in [
            "What is your password?",
            "Please paste the API key for the registry",
            "apiKey",
            "GITHUB_TOKEN",
            "Enter the one-time code from your phone",
            "your PIN",
            "The SSH-key's passphrase",
            "access_key",
            "db.passwd",
        ] {
            assert!(is_named_in(text), "{text}");
        }
        for text in [
            "Which colour?",
            "How many tokens should the context hold?",
            "Which key opens the menu?",
            "Should I tokenize it? Which tokenizer?",
            "Spinning or pinning?",
            "",
        ] {
            assert!(!is_named_in(text), "{text}");
        }
    }

    #[test]
    fn secrets_in_forms() {
        let check = |message: &str, fields: &str, expect: bool| {
            let form = from_json(&format!(r#"{{"type": "object", "properties": {{{fields}}}}}"#)).unwrap();
            assert_eq!(is_asked_by(message, &form), expect, "{message} {fields}");
        };
        check("Who are you?", r#""name": {"type": "string"}"#, false);
        check("Who are you?", r#""name": {"type": "string"}, "pw": {"type": "string", "title": "Password"}"#, true);
        check("Who are you?", r#""api_key": {"type": "string"}"#, true);
        check("Who are you?", r#""x": {"type": "integer", "description": "Your PIN"}"#, true);
        check("Your password, please", r#""x": {"type": "string"}"#, true);
        check("How is the password kept?", r#""x": {"type": "string", "enum": ["hashed", "plain"]}"#, false);
        check("Keep the password?", r#""x": {"type": "boolean"}"#, false);
    }
}
