//! Tool calls become rows: heads, places, diffs, terminals, calls within calls; plans and what is spent.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};
use tieline::schema::{
    Change, Diff, DiffPatch, FileChange, Items, Location, Operation, Patch, Raw, Terminal, ToolCallContent,
    ToolCallStatus, ToolCallUpdate, ToolKind, Update,
};
use tieline_chat::rows::{Cache, Detail, Look, Row, wrap};
use tieline_client::live::{Conversation, Item, When};

fn look(width: u16, detail: Detail) -> Look {
    Look { width, detail, open: false, side_by_side: false, now: Instant::now() }
}

fn shown(row: &Row) -> String {
    row.spans.iter().map(|span| &*span.content).collect::<String>().trim_end().to_owned()
}

fn call(talk: &Conversation, update: ToolCallUpdate) -> Item {
    let item = Item::Call(update.tool_call_id.as_str().into());
    talk.take(Update::ToolCall(Box::new(update)), When::Turn);
    item
}

fn page(cache: &mut Cache, talk: &Conversation, item: &Item, look: &Look) -> Vec<String> {
    let count = cache.count(talk, item, look);
    let rows = cache.rows(talk, item, look, 0..count);
    assert_eq!(rows.len(), count);
    for row in &rows {
        assert!(wrap::width(&shown(row)) <= usize::from(look.width), "{:?}", shown(row));
        assert!(!shown(row).contains(char::is_control), "{:?}", shown(row));
    }
    rows.iter().map(shown).collect()
}

fn content(content: Vec<ToolCallContent>) -> ToolCallUpdate {
    ToolCallUpdate::new("c").title("Edit it").kind(ToolKind::Edit).status(ToolCallStatus::Completed).content(content)
}

fn rows_of(given: Vec<ToolCallContent>, look: &Look) -> Vec<String> {
    let talk = Conversation::default();
    let item = call(&talk, content(given));
    page(&mut Cache::default(), &talk, &item, look)
}

#[test]
fn complaint_15_three_levels_and_the_names_of_files_always() {
    let talk = Conversation::default();
    let mut update = ToolCallUpdate::new("c").title("Read it").kind(ToolKind::Read).status(ToolCallStatus::InProgress);
    update.locations = Patch::Set(Items(vec![Location {
        path: "/p/a.rs".into(),
        line: std::num::NonZeroU32::new(7),
        ..Location::default()
    }]));
    update.content = Patch::Set(Items(vec!["line\n".repeat(20).into()]));
    let item = call(&talk, update);
    let mut cache = Cache::default();
    let brief = page(&mut cache, &talk, &item, &look(40, Detail::Brief));
    assert_eq!(brief, ["● read Read it", "    /p/a.rs:7"]);
    let normal = page(&mut cache, &talk, &item, &look(40, Detail::Normal));
    assert_eq!(normal.len(), 2 + 12 + 1);
    assert_eq!((&*normal[2], &*normal[14]), ("  │ line", "  │ … 8 more"));
    assert_eq!(page(&mut cache, &talk, &item, &look(40, Detail::Full)).len(), 2 + 20);
    let open = Look { open: true, ..look(40, Detail::Brief) };
    assert_eq!(page(&mut cache, &talk, &item, &open).len(), 2 + 20);
    assert_eq!(cache.text(&talk, &item, &open, 2..4), "line\nline");
    // It is over: the same row says so.
    call(&talk, ToolCallUpdate::new("c").status(ToolCallStatus::Failed));
    assert_eq!(page(&mut cache, &talk, &item, &look(40, Detail::Brief))[0], "✗ read Read it  failed");
}

#[test]
fn a_call_has_an_age_until_it_is_over() {
    let (talk, mut cache, begin) = (Conversation::default(), Cache::default(), Instant::now());
    let item = call(&talk, ToolCallUpdate::new("c").title("Sleep").status(ToolCallStatus::InProgress));
    cache.heard(&talk.call("c").unwrap(), begin);
    let at = |seconds| Look { now: begin + Duration::from_secs(seconds), ..look(40, Detail::Brief) };
    assert_eq!(page(&mut cache, &talk, &item, &at(65)), ["● tool Sleep  1m 5s"]);
    call(&talk, ToolCallUpdate::new("c").status(ToolCallStatus::Completed));
    cache.heard(&talk.call("c").unwrap(), begin + Duration::from_secs(70));
    assert_eq!(page(&mut cache, &talk, &item, &at(500)), ["✓ tool Sleep  1m 10s"]);
}

#[test]
fn calls_within_calls_are_moved_in() {
    let talk = Conversation::default();
    call(&talk, ToolCallUpdate::new("outer").title("Task"));
    let within = |id: &str, parent: &str| {
        let mut update = ToolCallUpdate::new(id).title("Inner");
        let meta = format!("{{\"claudeCode\":{{\"parentToolUseId\":\"{parent}\"}}}}");
        update.meta = Patch::Set(tieline::schema::Meta(Raw::new(meta).unwrap()));
        update
    };
    let one = call(&talk, within("one", "outer"));
    let two = call(&talk, within("two", "one"));
    let circle = call(&talk, within("circle", "circle"));
    let mut cache = Cache::default();
    let look = look(40, Detail::Brief);
    assert_eq!(page(&mut cache, &talk, &one, &look), ["  ○ tool Inner  waits"]);
    assert_eq!(page(&mut cache, &talk, &two, &look), ["    ○ tool Inner  waits"]);
    assert_eq!(page(&mut cache, &talk, &circle, &look), ["○ tool Inner  waits"]);
}

fn numbered(lines: std::ops::Range<usize>, end: impl Fn(usize) -> &'static str) -> String {
    lines.map(|n| format!("line {n}{}\n", end(n))).collect::<Vec<_>>().concat()
}

#[test]
fn diffs_of_two_texts() {
    let old = numbered(1..21, |_| "");
    let new = old.replace("line 10\n", "line ten\n").replace("line 20\n", "");
    let diff = ToolCallContent::Diff(Diff::of("/p/a.txt", Some(old), new));
    let rows = rows_of(vec![diff.clone()], &look(60, Detail::Full));
    let expected = [
        "✓ edit Edit it",
        "  │ /p/a.txt  +1 -2",
        "  │  7   line 7",
        "  │  8   line 8",
        "  │  9   line 9",
        "  │ 10 - line 10",
        "  │ 10 + line ten",
        "  │ 11   line 11",
        "  │ 12   line 12",
        "  │ 13   line 13",
        "  │ ⋯",
        "  │ 16   line 17",
        "  │ 17   line 18",
        "  │ 18   line 19",
        "  │ 20 - line 20",
    ];
    // The numbers of lines that stay are those of the new text.
    assert_eq!(rows[..11], expected[..11]);
    assert_eq!(rows.last().unwrap(), expected.last().unwrap());
    // Side by side where there is room.
    let beside = Look { side_by_side: true, ..look(100, Detail::Full) };
    let rows = rows_of(vec![diff.clone()], &beside);
    let row = rows.iter().find(|row| row.contains("line ten")).unwrap();
    assert!(row.contains("10 - line 10 ") && row.contains(" │ 10 + line ten"), "{row}");
    let narrow = Look { side_by_side: true, ..look(60, Detail::Full) };
    assert_eq!(rows_of(vec![diff], &narrow)[5], "  │ 10 - line 10");
    let new_file = ToolCallContent::Diff(Diff::of("/p/new", None, "x\n"));
    assert_eq!(rows_of(vec![new_file], &look(60, Detail::Full))[1..], ["  │ new file /p/new  +1 -0", "  │ 1 + x"]);
}

#[test]
fn words_that_changed_are_marked() {
    let talk = Conversation::default();
    let item = call(
        &talk,
        content(vec![ToolCallContent::Diff(Diff::of("/a", Some("let one = 1;\n".into()), "let two = 1;\n"))]),
    );
    let rows = Cache::default().rows(&talk, &item, &look(60, Detail::Full), 0..10);
    let marked: Vec<&str> = rows
        .iter()
        .flat_map(|row| &row.spans)
        .filter(|span| span.style.add_modifier.contains(ratatui::style::Modifier::UNDERLINED))
        .map(|span| &*span.content)
        .collect();
    assert_eq!(marked, ["one", "two"]);
}

#[test]
fn both_sides_of_a_long_change_are_seen_within_the_rows_there_are() {
    let [old, new] = ["old", "new"].map(|word| (0..30).map(|at| format!("{word} {at}")).collect::<Vec<_>>().join("\n"));
    let diff = ToolCallContent::Diff(Diff::of("/p/a.txt", Some(old), new));
    let rows = rows_of(vec![diff.clone()], &look(60, Detail::Normal));
    assert!(rows.len() <= 14, "{rows:#?}");
    let has = |end: &str| rows.iter().any(|row| row.ends_with(end));
    assert!(has("- old 0") && has("⋯ 25 more") && has("+ new 0") && has("+ new 4"), "{rows:#?}");
    let rows = rows_of(vec![diff], &look(60, Detail::Full));
    assert!(rows.iter().any(|row| row.ends_with("- old 29")) && rows.len() > 60, "{rows:#?}");
}

#[test]
fn diffs_from_patches() {
    let patch = "diff --git a b\n--- /p/a.txt\n+++ /p/a.txt\n@@ -1,3 +1,3 @@ fn x\n one\n--- two\n+++ 2\n three\n@@ -9 +9 @@\n-nine\n+9\n\\ No newline at end of file\n";
    let moved = Change::File(FileChange {
        operation: Operation::Move,
        old_path: Some("/x".into()),
        path: "/y".into(),
        ..FileChange::default()
    });
    let diff = Diff {
        changes: vec![moved],
        patch: Some(DiffPatch { text: patch.into(), ..DiffPatch::default() }),
        ..Diff::default()
    };
    let rows = rows_of(vec![ToolCallContent::Diff(diff)], &look(60, Detail::Full));
    let expected = [
        "✓ edit Edit it",
        "  │ /p/a.txt",
        "  │ 1   one",
        "  │ 2 - -- two",
        "  │ 2 + ++ 2",
        "  │ 3   three",
        "  │ ⋯",
        "  │ 9 - nine",
        "  │ 9 + 9",
        "  │ moved /x → /y",
    ];
    assert_eq!(rows, expected);
    for broken in ["@@", "@@ -x +y @@\n+a", "@@ -1,99999999999999999999 +1 @@\n-a", "@@ -1,5 +1,5 @@\n", "+++ ", "é"] {
        let diff = Diff { patch: Some(DiffPatch { text: broken.into(), ..DiffPatch::default() }), ..Diff::default() };
        rows_of(vec![ToolCallContent::Diff(diff)], &look(60, Detail::Full));
    }
}

#[test]
fn a_new_file_has_nothing_beside_it_and_says_that_it_is_new() {
    let of = |mode: &str| {
        let text =
            format!("diff --git a b\nnew file mode {mode}\n--- /dev/null\n+++ /p/a.txt\n@@ -0,0 +1 @@\n+hello\n");
        let diff = Diff { patch: Some(DiffPatch { text, ..DiffPatch::default() }), ..Diff::default() };
        rows_of(vec![ToolCallContent::Diff(diff)], &Look { side_by_side: true, ..look(120, Detail::Full) })
    };
    assert_eq!(of("100644"), ["✓ edit Edit it", "  │ new file /p/a.txt", "  │ 1 + hello"]);
    assert_eq!(of("100755"), ["✓ edit Edit it", "  │ new file mode 100755", "  │ /p/a.txt", "  │ 1 + hello"]);
}

#[test]
fn hostile_calls_are_harmless_at_any_width() {
    let evil = "\u{1b}[2J\u{202e}allow\r\n· we say so\u{7}";
    let mut update = content(vec![
        evil.into(),
        ToolCallContent::Diff(Diff::of(evil, Some(evil.into()), format!("{evil}x"))),
        ToolCallContent::Terminal(Terminal { terminal_id: evil.into(), ..Terminal::default() }),
    ]);
    update.title = Patch::Set(evil.into());
    update.kind = Patch::Set(ToolKind::Other(evil.into()));
    update.locations = Patch::Set(Items(vec![Location { path: evil.into(), ..Location::default() }]));
    let talk = Conversation::default();
    let item = call(&talk, update);
    for width in [8, 10, 20, 40, 80] {
        for detail in [Detail::Brief, Detail::Normal, Detail::Full] {
            for row in page(&mut Cache::default(), &talk, &item, &look(width, detail)).iter().skip(1) {
                assert!(!row.starts_with('·') && !row.contains('\u{202e}'), "{row:?}");
                assert!(row.is_empty() || row.starts_with("  "), "{row:?}");
            }
        }
    }
}

#[test]
fn terminals_go_through_an_emulator() {
    let talk = Conversation::default();
    let item = call(
        &talk,
        content(vec![ToolCallContent::Terminal(Terminal { terminal_id: "t".into(), ..Terminal::default() })]),
    );
    let (mut cache, full) = (Cache::default(), look(40, Detail::Full));
    assert_eq!(page(&mut cache, &talk, &item, &full)[1], "    no output");
    // In pieces, with lines of a pipe, a bar that overwrites itself, colours.
    for piece in ["10 %\r50", " %\r100 %\n", "\u{1b}[31mred\u{1b}[0m plain\n", "日本\r", "\nend"] {
        cache.screens.feed("t", piece.as_bytes());
    }
    assert_eq!(page(&mut cache, &talk, &item, &full)[1..], ["  │ 100 %", "  │ red plain", "  │ 日本", "  │ end"]);
    let rows = cache.rows(&talk, &item, &full, 0..10);
    assert!(
        rows[2]
            .spans
            .iter()
            .any(|span| span.content == "red" && span.style.fg == Some(ratatui::style::Color::Indexed(1))),
        "{:?}",
        rows[2]
    );
    // A long line is one line when it is copied; what scrolled away is still there.
    cache.screens.set("t", format!("{}\n{}", "x".repeat(300), "y\n".repeat(100)).as_bytes());
    let rows = page(&mut cache, &talk, &item, &full);
    assert_eq!(rows.len(), 1 + 300_usize.div_ceil(36) + 100);
    assert_eq!(cache.text(&talk, &item, &full, 1..10), "x".repeat(300));
    let normal = page(&mut cache, &talk, &item, &look(40, Detail::Normal));
    assert_eq!((normal.len(), &*normal[13]), (14, "  │ y"), "the last rows of a terminal matter");
}

#[test]
fn complaint_10_ten_thousand_lines_of_a_diff_are_laid_out_once() {
    let old = numbered(0..10_000, |_| "");
    let new = numbered(0..10_000, |n| if n % 3 == 0 { " changed" } else { "" });
    let talk = Conversation::default();
    let item = call(&talk, content(vec![ToolCallContent::Diff(Diff::of("/p/a.txt", Some(old), new))]));
    let (mut cache, full) = (Cache::default(), look(80, Detail::Full));
    let count = cache.count(&talk, &item, &full);
    assert!(count > 13_000, "{count}");
    assert_eq!(cache.rows(&talk, &item, &full, 9_000..9_040).len(), 40);
    assert_eq!(page(&mut cache, &talk, &item, &look(80, Detail::Normal)).len(), 1 + 12 + 1);
}

#[test]
fn a_patch_may_say_any_number() {
    let talk = Conversation::default();
    let last = usize::MAX;
    let text = format!("--- a/x\n+++ b/x\n@@ -{last},2 +{last},2 @@\n same\n-old\n+new\n");
    let diff = Diff { patch: Some(DiffPatch { text, ..DiffPatch::default() }), ..Diff::default() };
    let call = ToolCallUpdate::new("c").content(vec![ToolCallContent::Diff(diff)]);
    talk.take(Update::ToolCall(Box::new(call)), When::Turn);
    let rows = page(&mut Cache::default(), &talk, &Item::Call("c".into()), &look(80, Detail::Full));
    assert!(rows.last().is_some_and(|row| row.ends_with("+ new")), "{rows:?}");
}
