//! Whether a question asks for something secret: such a thing is never typed into a form, and never stands in an address.

use crate::rules::hidden;
use std::collections::HashSet;
use std::sync::LazyLock;
use tieline_schema::{FormField, FormSchema};

/// Words that name a secret by themselves.
const WORDS: &str = "apikey authtoken credential credentials cvc cvv otp passcode passphrase passwd password passwords pwd secret \
    secrets token totp contraseña contrasenya clave clau senha palavra-passe parola parolă пароль пин токен секрет şifre heslo hasło \
    geslo lozinka jelszó salasana lösenord passord adgangskode wachtwoord parool parole slaptažodis kennwort geheimnis geheim \
    geheimzahl jeton segredo secreto segreto authenticator bearer iban mnemonic passkey ssn credenziali zugangscode zugangsdaten гасло \
    лозинка zaporka salasõna lykilorð contrasinal parol cyfrinair fjalëkalimi pasahitza nenosiri";
/// Words that name a secret together, next to each other.
const PAIRS: &str = "access code, access key, access keys, api key, api keys, auth code, auth key, card number, encryption key, \
    license key, pass phrase, pass word, pin code, pin number, your key, your keys, your pin, your tokens, private key, private keys, \
    recovery code, recovery codes, recovery key, recovery phrase, security code, seed phrase, signing key, ssh key, ssh keys, \
    time code, verification code, de passe, clé api, clé privée, clave privada, chiave privata, mật khẩu, kata sandi, ключ api, kod pin, \
    2fa code, mfa code, digit code, login code, pass key, your pass, gh pat, github pat, access pat, auth cookie, session cookie, \
    your cookie, your cookies, session id, sessionid cookie, recovery words, backup code, backup codes, seed words, ssh private, \
    id ed25519, id rsa, id ecdsa, social security, security number, private pem";
/// What names a secret wherever it stands, also without the blanks between its letters or in a longer word.
const STEMS: &str = "password passwort kennwort passphrase passcode motdepasse contraseña wachtwoord credential 密码 密碼 口令 令牌 密钥 密鑰 \
    私钥 验证码 驗證碼 パスワード 暗証番号 秘密鍵 トークン 비밀번호 암호 토큰 пароль κωδικόςπρόσβασης סיסמה סיסמא كلمةالمرور كلمةالسر पासवर्ड รหัสผ่าน \
    palavrapasse chiavediaccesso رمزعبور پاسورڈ পাসওয়ার্ড գաղտնաբառ პაროლი құпиясөз нууцүг";
/// Letters that look like plain ones, or stand for them.
const LOOK_ALIKES: [(char, &str); 25] = [
    ('a', "@4àáâãäåāăąǎаαɑᴀᴬᵃₐ"),
    ('b', "ᴮᵇ"),
    ('c', "çćčсϲᴄᶜ"),
    ('d', "ďđԁᴅᴰᵈ"),
    ('e', "3èéêëēėęěеєεᴇᴱᵉₑ"),
    ('f', "ᶠ"),
    ('g', "ğɡɢᴳᵍ"),
    ('h', "һʜᴴʰₕ"),
    ('i', "1ìíîïīıіιɪᴵⁱᵢ"),
    ('j', "јᴊᴶʲⱼ"),
    ('k', "кκᴋᴷᵏₖ"),
    ('l', "łľĺʟᴸˡₗ"),
    ('m', "мᴍᴹᵐₘ"),
    ('n', "ñńňոɴᴺⁿₙ"),
    ('o', "0òóôõöøōőоοօᴏᴼᵒₒ"),
    ('p', "рρᴘᴾᵖₚ"),
    ('r', "ʀгɾᴿʳᵣ"),
    ('s', "5$śšşșѕꜱˢₛ"),
    ('t', "ţťțтτᴛᵀᵗₜ"),
    ('u', "ùúûüūůűυսᴜᵁᵘᵤ"),
    ('v', "νᴠⱽᵛᵥ"),
    ('w', "ѡԝωᴡᵂʷ"),
    ('x', "хχˣₓ"),
    ('y', "ýÿуʏʸ"),
    ('z', "žźżᴢᶻ"),
];

/// A letter as the plain one that it looks like; nothing for marks that combine and what can't be seen.
fn plain(letter: char) -> Option<char> {
    let code = u32::from(letter);
    match code {
        0x300..=0x36f => None,
        // Wide letters, those in circles and squares, bold, italic and others of mathematics.
        0xff01..=0xff5e => char::from_u32(code - 0xfee0),
        0x24b6..=0x24e9 => char::from_u32(u32::from('a') + (code - 0x24b6) % 26),
        0x1f110..=0x1f189 if (code - 0x1f110) % 32 < 26 => char::from_u32(u32::from('a') + (code - 0x1f110) % 32),
        0x1d400..=0x1d6a3 => char::from_u32(u32::from('a') + (code - 0x1d400) % 26),
        _ if hidden(letter) && !letter.is_whitespace() && !letter.is_control() => None,
        _ => {
            let same = LOOK_ALIKES.iter().find(|(_, others)| others.contains(letter));
            Some(same.map_or(letter, |(plain, _)| *plain))
        }
    }
}

/// The words of a text in plain lower case; `apiKey`, `API_KEY` and "API key" have the same ones. Letters with blanks between
/// them are one word.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for letter in text.chars() {
        let new = letter.is_uppercase() && before.is_lowercase();
        before = letter;
        for letter in letter.to_lowercase().filter_map(plain).flat_map(char::to_lowercase) {
            let (letter, part) = (letter, letter.is_alphanumeric());
            if (new || !part) && words.last().is_some_and(|word| !word.is_empty()) {
                words.push(String::new());
            }
            if let (true, Some(word)) = (part, words.last_mut()) {
                word.push(letter);
            }
        }
    }
    words
}

/// The lists in the same plain letters: words, pairs, stems. Made once, because a form may have many texts.
static KNOWN: LazyLock<(HashSet<String>, HashSet<String>, Vec<String>)> = LazyLock::new(|| {
    let squeezed = |text: &str| words(text).concat();
    (
        WORDS.split_whitespace().map(squeezed).collect(),
        PAIRS.split(", ").map(squeezed).collect(),
        STEMS.split_whitespace().map(squeezed).collect(),
    )
});

/// Whether a text names a secret.
pub fn is_named_in(text: &str) -> bool {
    let (known, pairs, stems) = &*KNOWN;
    let words = words(text);
    let spaced = words.chunk_by(|one, next| one.chars().count() < 3 && next.chars().count() < 3).map(<[_]>::concat);
    let whole = words.concat();
    // A pin can be many things; a PIN is one.
    let capitals = |word: &str| {
        word.chars().all(char::is_uppercase) && ["pin", "tan", "pat"].contains(&&*self::words(word).concat())
    };
    // A file of settings that has little else in it.
    let settings = text.split_whitespace().any(|word| {
        let word = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '.').to_ascii_lowercase();
        word.rsplit('/').next().is_some_and(|name| name == ".env" || name.starts_with(".env."))
    });
    ["pin", "pass", "cookie", "cookies"].contains(&&*whole)
        || settings
        || text.split(|letter: char| !letter.is_alphanumeric()).any(capitals)
        || words.iter().cloned().chain(spaced).any(|word| known.contains(&word))
        || words.windows(2).any(|pair| pairs.contains(&pair.concat()))
        || stems.iter().any(|stem| whole.contains(stem))
}

/// The text with which a form asks for a secret: a field for free text is about one. A choice between given words tells
/// nothing new.
pub fn asked_by(message: &str, form: &FormSchema) -> Option<String> {
    let free = |field: &FormField| match field {
        // A list of no choices is none.
        FormField::Text(text) => {
            let choices = text.titled_choices.as_ref().map(Vec::len).or(text.choices.as_ref().map(Vec::len));
            choices.unwrap_or_default() == 0
        }
        FormField::Number(_) | FormField::Integer(_) | FormField::Other(_) => true,
        FormField::Boolean(_) | FormField::Choices(_) => false,
    };
    let mut shown: Vec<&str> = vec![message];
    shown.extend([&form.title, &form.description].into_iter().flatten().map(String::as_str));
    let (heading, mut others) = (shown.len(), Vec::new());
    // A word may be cut into the names, or the titles, of several fields.
    let (mut names, mut titles) = (String::new(), String::new());
    for (name, field) in form.properties.iter().filter(|(_, field)| free(field)) {
        let (title, description) = match field {
            FormField::Text(field) => {
                others.extend(field.format.as_ref().map(ToString::to_string));
                others.extend(field.default.clone());
                (&field.title, &field.description)
            }
            FormField::Number(field) => (&field.title, &field.description),
            FormField::Integer(field) => (&field.title, &field.description),
            FormField::Other(field) => {
                // All of it: it is not known what a client shows.
                let whole = field.raw.parse().map(|whole: serde_json::Value| whole.to_string());
                others.extend(whole.ok());
                (&None, &None)
            }
            FormField::Boolean(_) | FormField::Choices(_) => (&None, &None),
        };
        others.push(name.clone());
        names += name;
        titles += title.as_ref().unwrap_or(name);
        shown.push(title.as_ref().unwrap_or(name));
        shown.extend(description.as_deref());
    }
    if shown.len() == heading {
        return None;
    }
    // A word may begin in one text and end in the next one.
    others.extend(shown.windows(2).map(<[_]>::concat));
    others.extend([names, titles]);
    shown.into_iter().map(str::to_owned).chain(others).find(|text| is_named_in(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline_schema::from_json;

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
            "Your p a s s w o r d, please",
            "P-A-S-S-W-O-R-D",
            "pas sword",
            "pass\u{200b}wo\u{2060}rd",
            "p\u{301}assword",
            "pаsswоrd",
            "ｐａｓｓｗｏｒｄ",
            "ᴾᴬˢˢword",
            "ₚₐₛₛʷᵒʳᵈ",
            "𝐩𝐚𝐬𝐬𝐰𝐨𝐫𝐝",
            "p4ssw0rd",
            "t o k e n",
            "Ihr Passwort für den Server",
            "Votre mot de passe",
            "Tu contraseña",
            "Введите пароль",
            "请输入您的密码",
            "パスワードを入力してください",
            "비밀번호",
            "pass\u{ad}word",
            "ⓟⓐⓢⓢⓦⓞⓡⓓ",
            "🅿🅰🆂🆂🆆🅾🆁🅳",
            "ᴘᴀꜱꜱᴡᴏʀᴅ",
            "Datenbankkennwort",
            "PIN",
            "pin",
            "Enter PIN:",
            "РІN",
        ] {
            assert!(is_named_in(text), "{text}");
        }
        for text in [
            "Which colour?",
            "How many tokens should the context hold?",
            "Which key opens the menu?",
            "Should I tokenize it? Which tokenizer?",
            "Spinning or pinning?",
            "Which pin is the lamp on?",
            "Is it a go or a no-go? I am on it.",
            "Wie heißt die Datei?",
            "Какой цвет?",
            "Should the tests pass first?",
            "A tan or a blue one?",
            "Which cookie banner?",
            "Which environment (env)?",
            "Who may pass, Pat?",
            "",
        ] {
            assert!(!is_named_in(text), "{text}");
        }
    }

    #[test]
    fn secrets_by_other_names() {
        for text in [
            "pass",
            "2FA code",
            "The 6-digit code",
            "Code of your authenticator",
            "passkey",
            "GH_PAT",
            "bearer",
            "Cookie",
            "your session id",
            "mnemonic",
            "The recovery words",
            "ssh private",
            "~/.ssh/id_ed25519",
            "Paste your .env here",
            "social security number",
            "IBAN",
            "palavra-passe",
            "Le credenziali",
            "chiave di accesso",
            "Zugangscode",
            "TAN",
            "гасло",
            "лозинка",
            "zaporka",
            "salasõna",
            "lykilorð",
            "contrasinal",
            "رمز عبور",
            "پاس ورڈ",
            "পাসওয়ার্ড",
            "գաղտնաբառ",
            "პაროლი",
            "құпия сөз",
            "parol",
            "нууц үг",
            "cyfrinair",
            "fjalëkalimi",
            "pasahitza",
            "nenosiri",
        ] {
            assert!(is_named_in(text), "{text}");
        }
    }

    #[test]
    fn secrets_in_forms() {
        let check = |message: &str, fields: &str, expect: bool| {
            let form = from_json(&format!(r#"{{"type": "object", "properties": {{{fields}}}}}"#)).unwrap();
            assert_eq!(asked_by(message, &form).is_some(), expect, "{message} {fields}");
        };
        check("Who are you?", r#""name": {"type": "string"}"#, false);
        check("Who are you?", r#""name": {"type": "string"}, "pw": {"type": "string", "title": "Password"}"#, true);
        check("Who are you?", r#""api_key": {"type": "string"}"#, true);
        check("Who are you?", r#""x": {"type": "integer", "description": "Your PIN"}"#, true);
        check("Your password, please", r#""x": {"type": "string"}"#, true);
        check("Who are you?", r#""x": {"type": "string", "format": "password"}"#, true);
        check("Who are you?", r#""x": {"type": "string", "default": "your password"}"#, true);
        check("Who are you?", r#""x": {"type": "password"}"#, true);
        check("Who are you?", r#""x": {"type": "line", "title": "\u0050assword"}"#, true);
        check("Your pass", r#""word": {"type": "string"}"#, true);
        check(
            "Who?",
            r#""pa": {"type": "string", "title": "A"}, "ss": {"type": "string"}, "word": {"type": "string"}"#,
            true,
        );
        check(
            "Who?",
            r#""a": {"type": "string", "title": "pa", "description": "1"}, "b": {"type": "string", "title": "ssword"}"#,
            true,
        );
        check("Your password?", r#""x": {"type": "string", "enum": []}"#, true);
        check("Your password?", r#""x": {"type": "string", "enum": ["a"], "oneOf": []}"#, true);
        check("How is the password kept?", r#""x": {"type": "string", "enum": ["hashed", "plain"]}"#, false);
        check("Keep the password?", r#""x": {"type": "boolean"}"#, false);
    }
}
