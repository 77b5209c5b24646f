//! Prompts as editors send them: the words that the person typed now, without wrapping, and not those of before again.
//!
//! `CodeCompanion` puts rules and files into blocks of text of their own, and sends a prompt that was cancelled again before
//! the next one. avante wraps every prompt, and sends older ones again with it, the newest first.

use tieline::ContentBlock;
use tieline_host::text::RECORD;

/// How avante wraps prompts, old ones and the one of now.
const PROMPT: (&str, &str) = ("<previous_user_message>", "</previous_user_message>");
/// How it wraps answers, when it tells a lost session again.
const ANSWER: (&str, &str) = ("<previous_assistant_message>", "</previous_assistant_message>");
/// How it wraps code that is selected.
const CODE: (&str, &str) = ("<selected_code>", "</selected_code>");
/// The remark that it puts behind all of them.
const REMARK: (&str, &str) = ("<system_context>", "</system_context>");
/// In that remark, if the oldest comes first; otherwise the newest does.
const TOLD_AGAIN: &str = "previous ACP session";
/// How `CodeCompanion` shows the text of a file,
const RULES: (&str, &str) = ("Sharing `", "\n---");
/// and how it mentions one.
const MENTION: &str = "Sharing the following file as context: ";

/// A prompt as it is meant. `told` if the session had prompts before; `cancelled` are the words of those that were cancelled
/// since the last one that came to its end.
pub fn clean(prompt: Vec<ContentBlock>, told: bool, cancelled: &[String]) -> Vec<ContentBlock> {
    let mut prompt = prompt;
    if prompt.iter().any(|block| is_in(block, PROMPT)) {
        prompt = unwrap(prompt, told);
    }
    let again = |at: usize, prompt: &[ContentBlock]| {
        let text = |at: usize| prompt.get(at).and_then(ContentBlock::as_text);
        let old = text(at).is_some_and(|text| cancelled.iter().any(|old| old == text.trim()));
        // Words with more behind them; those around a mention are one prompt.
        old && text(at + 1).is_some()
    };
    let old: Vec<bool> = (0..prompt.len()).map(|at| again(at, &prompt)).collect();
    let mut old = old.into_iter();
    prompt.retain(|_| !old.next().unwrap_or(false));
    prompt
}

/// True if a block of text is something that the editor adds, and nobody typed.
pub fn is_added(block: &ContentBlock) -> bool {
    [PROMPT, ANSWER, CODE, REMARK, RULES, RECORD].iter().any(|marks| is_in(block, *marks))
        || block.as_text().is_some_and(|text| text.starts_with(MENTION))
}

/// The first block with words of the person.
pub fn first(prompt: &[ContentBlock]) -> Option<usize> {
    prompt.iter().position(|block| typed(block).is_some())
}

/// All words of the person, on one line for each block.
pub fn words(prompt: &[ContentBlock]) -> String {
    let words: Vec<&str> = prompt.iter().filter_map(typed).map(str::trim).collect();
    words.join("\n")
}

fn typed(block: &ContentBlock) -> Option<&str> {
    block.as_text().filter(|text| !text.trim().is_empty() && !is_added(block))
}

fn is_in(block: &ContentBlock, marks: (&str, &str)) -> bool {
    inside(block, marks).is_some()
}

fn inside<'t>(block: &'t ContentBlock, (start, end): (&str, &str)) -> Option<&'t str> {
    block.as_text()?.trim().strip_prefix(start)?.strip_suffix(end)
}

/// Takes the wrapping off the newest of avante's messages and puts it last. The older ones are left out if the session was
/// told them; a session that begins with them has them as they come. The remark is for nobody.
fn unwrap(mut prompt: Vec<ContentBlock>, told: bool) -> Vec<ContentBlock> {
    let wrapped = |block: &ContentBlock| is_in(block, PROMPT);
    let oldest_first = prompt
        .iter()
        .any(|block| is_in(block, ANSWER) || inside(block, REMARK).is_some_and(|text| text.contains(TOLD_AGAIN)));
    let newest = if oldest_first { prompt.iter().rposition(wrapped) } else { prompt.iter().position(wrapped) };
    let newest = newest.map(|at| prompt.remove(at));
    let words = newest.as_ref().and_then(|block| inside(block, PROMPT)).map(ContentBlock::from);
    prompt.retain(|block| !is_in(block, REMARK) && (oldest_first || !told || !wrapped(block)));
    prompt.extend(words);
    prompt
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline::schema::ResourceLink;

    /// A prompt, whether there were others before, those that were cancelled, the words of now, what the model is told.
    type Row<'r> = (Vec<ContentBlock>, bool, &'r [&'r str], &'r str, Vec<ContentBlock>);

    #[test]
    fn what_the_person_typed_and_what_the_model_is_told() {
        let link = || ContentBlock::from(ResourceLink { uri: "file:///a".into(), ..ResourceLink::default() });
        let wrapped = |text: &str| ContentBlock::from(format!("{}{text}{}", PROMPT.0, PROMPT.1));
        let answer = || ContentBlock::from(format!("{}yes{}", ANSWER.0, ANSWER.1));
        let remark = |words: &str| ContentBlock::from(format!("{}Continuing from {words}{}", REMARK.0, REMARK.1));
        let newest_first = || remark("previous session with 2 recent user messages");
        let text = |text: &str| ContentBlock::from(text);
        let rules = || text("Sharing `AGENTS.md`:\n\n---\n# Rules\n/undo\n\n---");
        let file = || text("Sharing the following file as context: /p/a.rs");
        let code = || text("<selected_code>\n<path>a</path>\n<snippet>/undo</snippet>\n</selected_code>");
        let rows: Vec<Row<'_>> = vec![
            (vec![text("fix it")], true, &[], "fix it", vec![text("fix it")]),
            (vec![], true, &[], "", vec![]),
            (vec![link()], true, &[], "", vec![link()]),
            (
                vec![text("see "), link(), text(" now")],
                true,
                &["see"],
                "see\nnow",
                vec![text("see "), link(), text(" now")],
            ),
            (vec![text("/help"), text("more")], true, &[], "/help\nmore", vec![text("/help"), text("more")]),
            // CodeCompanion: rules and files, and prompts that were cancelled.
            (
                vec![rules(), file(), text("/write a b")],
                false,
                &[],
                "/write a b",
                vec![rules(), file(), text("/write a b")],
            ),
            (vec![text("/run x"), text("/read y")], true, &["/run x"], "/read y", vec![text("/read y")]),
            (vec![text("a"), text("b"), text("c")], true, &["a", "b"], "c", vec![text("c")]),
            (vec![text("again")], true, &["again"], "again", vec![text("again")]),
            (vec![text("again"), text("again")], true, &["again"], "again", vec![text("again")]),
            (vec![text("one"), text("two")], true, &["two"], "one\ntwo", vec![text("one"), text("two")]),
            // avante: the newest first, older ones only where they are news.
            (vec![link(), code(), wrapped("go"), newest_first()], false, &[], "go", vec![link(), code(), text("go")]),
            (vec![wrapped("new"), wrapped("old"), newest_first()], true, &[], "new", vec![text("new")]),
            (
                vec![wrapped("new"), wrapped("old"), newest_first()],
                false,
                &[],
                "new",
                vec![wrapped("old"), text("new")],
            ),
            // A lost session told again: the oldest first.
            (
                vec![wrapped("old"), answer(), wrapped("new"), remark("previous ACP session")],
                true,
                &[],
                "new",
                vec![wrapped("old"), answer(), text("new")],
            ),
            (vec![wrapped(""), newest_first()], true, &[], "", vec![text("")]),
        ];
        for (prompt, told, cancelled, expect, cleaned) in rows {
            let cancelled: Vec<String> = cancelled.iter().map(ToString::to_string).collect();
            let got = clean(prompt.clone(), told, &cancelled);
            assert_eq!(words(&got), expect, "{prompt:?}");
            assert_eq!(got, cleaned, "{prompt:?}");
            let first = first(&got).and_then(|at| got[at].as_text()).unwrap_or_default();
            assert_eq!(first.trim(), expect.lines().next().unwrap_or_default(), "{prompt:?}");
        }
    }
}
