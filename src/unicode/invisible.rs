//! One round of SEC-02: removes invisible characters but for those that their neighbours need.
//!
//! Whether a character stays depends on what was kept before it and on a character after it that always
//! stays. So one round is enough: a second one sees the same neighbours.

use icu_properties::props::Script;

use super::classes;

const ZERO_WIDTH_NON_JOINER: char = '\u{200C}';
const ZERO_WIDTH_JOINER: char = '\u{200D}';
const TEXT_SELECTOR: char = '\u{FE0E}';
const EMOJI_SELECTOR: char = '\u{FE0F}';
const KEYCAP: char = '\u{20E3}';
const BLACK_FLAG: char = '\u{1F3F4}';

/// Marks looked back over for the letter they stand on.
const MOST_MARKS: usize = 8;

/// Tags behind a black flag that make a flag in general use: England, Scotland, Wales.
const FLAG_TAGS: [&str; 3] = [
    "\u{E0067}\u{E0062}\u{E0065}\u{E006E}\u{E0067}\u{E007F}",
    "\u{E0067}\u{E0062}\u{E0073}\u{E0063}\u{E0074}\u{E007F}",
    "\u{E0067}\u{E0062}\u{E0077}\u{E006C}\u{E0073}\u{E007F}",
];

/// The text without invisible characters; `None` if it has none that must go.
pub(super) fn round(text: &str) -> Option<String> {
    let mut cleaned: Option<String> = None;
    let mut kept_until = 0;
    for (index, character) in text.char_indices() {
        let before = cleaned.as_deref().unwrap_or(&text[..index]);
        let mut stays = index < kept_until || !classes::is_invisible(character);
        if !stays {
            let after = &text[index + character.len_utf8()..];
            if let Some(tags) = flag_tags(before, &text[index..]) {
                kept_until = index + tags.len();
                stays = true;
            } else {
                stays = is_needed(before, character, after);
            }
        }
        match &mut cleaned {
            Some(output) if stays => output.push(character),
            None if !stays => cleaned = Some(text[..index].to_owned()),
            _ => {}
        }
    }
    cleaned
}

/// The tags at the start of `rest` if they complete the flag before them.
fn flag_tags(before: &str, rest: &str) -> Option<&'static str> {
    if !before.ends_with(BLACK_FLAG) {
        return None;
    }
    FLAG_TAGS.into_iter().find(|tags| rest.starts_with(tags))
}

fn is_needed(before: &str, character: char, after: &str) -> bool {
    let (Some(last), next) = (before.chars().next_back(), after.chars().next()) else { return false };
    match character {
        TEXT_SELECTOR => classes::is_emoji(last),
        EMOJI_SELECTOR => classes::is_emoji(last) || (classes::is_keycap_base(last) && next == Some(KEYCAP)),
        ZERO_WIDTH_JOINER => {
            (ends_with_emoji(before) && next.is_some_and(classes::is_emoji)) || joins_letters(before, next)
        }
        ZERO_WIDTH_NON_JOINER => joins_letters(before, next),
        // Mongolian letters have up to five shapes, chosen by the selector behind them.
        '\u{180B}'..='\u{180D}' | '\u{180F}' => is_mongolian(last),
        '\u{180E}' => is_mongolian(last) && next.is_some_and(is_mongolian),
        _ => false,
    }
}

/// Whether the text ends with an emoji, with its selector or skin tone if it has one.
fn ends_with_emoji(before: &str) -> bool {
    let mut back = before.chars().rev();
    let (Some(last), previous) = (back.next(), back.next()) else { return false };
    match previous {
        Some(base) if last == EMOJI_SELECTOR => classes::is_emoji(base),
        Some(base) if classes::is_emoji_modifier(last) => classes::is_emoji_modifier_base(base),
        _ => classes::is_emoji(last),
    }
}

/// Whether a joiner here stands between letters of one script that needs joiners, or behind a virama, where
/// it decides on the shape of the cluster even at the end of a word.
fn joins_letters(before: &str, next: Option<char>) -> bool {
    let Some((last, script)) = last_letter(before) else { return false };
    if !classes::needs_joiners(script) {
        return false;
    }
    let continues = |character| {
        let other = classes::script(character);
        classes::is_letter_or_mark(character) && (other == script || other == Script::Inherited)
    };
    classes::is_virama(last) || next.is_some_and(continues)
}

/// The last character if it is a letter or mark, and the script of the letter.
fn last_letter(before: &str) -> Option<(char, Script)> {
    let last = before.chars().next_back()?;
    let letter = before
        .chars()
        .rev()
        .take(MOST_MARKS)
        .take_while(|&character| classes::is_letter_or_mark(character))
        .map(classes::script)
        .find(|&script| script != Script::Inherited)?;
    Some((last, letter))
}

fn is_mongolian(character: char) -> bool {
    classes::is_letter_or_mark(character) && classes::script(character) == Script::Mongolian
}
