//! Which characters are invisible, which belong to emoji, and which scripts need joiners.
//!
//! Owns: classes of single characters. Does not own: what a character's neighbours make of it.

use icu_properties::props::{
    CanonicalCombiningClass, DefaultIgnorableCodePoint, Emoji, EmojiComponent, EmojiModifier,
    EmojiModifierBase, GeneralCategory, GeneralCategoryGroup, Script,
};
use icu_properties::{CodePointMapData, CodePointSetData};

/// Whether an ASCII byte stays in strict mode: printable, tab or newline.
pub(super) fn is_plain_ascii(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | b' '..=b'~')
}

/// Whether strict mode removes the character (SEC-01).
pub(super) fn is_removed_strictly(character: char) -> bool {
    if let Some(byte) = u8::try_from(character).ok().filter(u8::is_ascii) {
        return !is_plain_ascii(byte);
    }
    if is_in_plain_block(character) {
        return false;
    }
    is_control_or_unassigned(character) || is_default_ignorable(character) || is_blank_symbol(character)
}

/// Whether invisible mode removes the character unless its neighbours need it (SEC-02).
pub(super) fn is_invisible(character: char) -> bool {
    if character.is_ascii() || is_in_plain_block(character) {
        return false;
    }
    match category(character) {
        GeneralCategory::PrivateUse => true,
        GeneralCategory::Format => !is_visible_format(character),
        // A letter newer than the tables shows at least a box; a noncharacter never is text.
        GeneralCategory::Unassigned => is_noncharacter(character) || is_default_ignorable(character),
        _ => is_default_ignorable(character),
    }
}

/// Blocks without any removed character, so that most text needs no table.
pub(super) fn is_in_plain_block(character: char) -> bool {
    matches!(u32::from(character),
        0x00AE..=0x034E // Latin
        | 0x0400..=0x052F // Cyrillic
        | 0x3041..=0x3096 // Hiragana
        | 0x30A0..=0x30FF // Katakana
        | 0x4E00..=0x9FFF // ideographs
        | 0xAC00..=0xD7A3) // Hangul syllables
}

fn category(character: char) -> GeneralCategory {
    CodePointMapData::<GeneralCategory>::new().get(character)
}

/// Cc, Cf, Co, Cn (a `char` is never Cs).
fn is_control_or_unassigned(character: char) -> bool {
    GeneralCategoryGroup::Other.contains(category(character))
}

fn is_default_ignorable(character: char) -> bool {
    CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(character)
}

/// Symbols whose glyph is blank although no property says so: braille blank, null notehead.
fn is_blank_symbol(character: char) -> bool {
    matches!(character, '\u{2800}' | '\u{1D159}')
}

fn is_noncharacter(character: char) -> bool {
    let code = u32::from(character);
    code & 0xFFFE == 0xFFFE || (0xFDD0..=0xFDEF).contains(&code)
}

/// Signs of category Cf that are written around digits and letters, such as the end of an ayah.
fn is_visible_format(character: char) -> bool {
    matches!(
        character,
        '\u{0600}'
            ..='\u{0605}'
                | '\u{06DD}'
                | '\u{070F}'
                | '\u{0890}'
                | '\u{0891}'
                | '\u{08E2}'
                | '\u{110BD}'
                | '\u{110CD}'
    )
}

/// Whether the character is an emoji of its own, one that a selector or a joiner may follow.
pub(super) fn is_emoji(character: char) -> bool {
    // Hair styles are components, yet joined like emoji.
    let is_hair = matches!(character, '\u{1F9B0}'..='\u{1F9B3}');
    CodePointSetData::new::<Emoji>().contains(character)
        && (is_hair || !CodePointSetData::new::<EmojiComponent>().contains(character))
}

/// Whether the character is a skin tone.
pub(super) fn is_emoji_modifier(character: char) -> bool {
    CodePointSetData::new::<EmojiModifier>().contains(character)
}

/// Whether the character is an emoji that takes a skin tone.
pub(super) fn is_emoji_modifier_base(character: char) -> bool {
    CodePointSetData::new::<EmojiModifierBase>().contains(character)
}

/// Whether the character starts a keycap sequence.
pub(super) fn is_keycap_base(character: char) -> bool {
    matches!(character, '0'..='9' | '#' | '*')
}

/// Whether the character is a visible letter or a mark on one.
pub(super) fn is_letter_or_mark(character: char) -> bool {
    let group = GeneralCategoryGroup::Letter.union(GeneralCategoryGroup::Mark);
    group.contains(category(character)) && !is_default_ignorable(character)
}

/// Whether the character suppresses a vowel: what stands behind it decides on the shape of a cluster.
pub(super) fn is_virama(character: char) -> bool {
    CodePointMapData::<CanonicalCombiningClass>::new().get(character) == CanonicalCombiningClass::Virama
}

/// The script of a letter or mark; marks of several scripts are [`Script::Inherited`].
pub(super) fn script(character: char) -> Script {
    CodePointMapData::<Script>::new().get(character)
}

/// Whether words of the script are spelled with ZWJ or ZWNJ.
pub(super) fn needs_joiners(script: Script) -> bool {
    is_cursive(script) || is_conjunct_forming(script)
}

fn is_cursive(script: Script) -> bool {
    [
        Script::Arabic,
        Script::Syriac,
        Script::Mongolian,
        Script::Nko,
        Script::Mandaic,
        Script::PhagsPa,
        Script::Manichaean,
        Script::PsalterPahlavi,
        Script::Adlam,
        Script::HanifiRohingya,
        Script::Sogdian,
        Script::Chorasmian,
        Script::OldUyghur,
    ]
    .contains(&script)
}

fn is_conjunct_forming(script: Script) -> bool {
    [
        Script::Devanagari,
        Script::Bengali,
        Script::Gurmukhi,
        Script::Gujarati,
        Script::Oriya,
        Script::Tamil,
        Script::Telugu,
        Script::Kannada,
        Script::Malayalam,
        Script::Sinhala,
        Script::Khmer,
        Script::Myanmar,
        Script::Tibetan,
        Script::Balinese,
        Script::Javanese,
        Script::Sundanese,
        Script::SylotiNagri,
        Script::MeeteiMayek,
        Script::Chakma,
        Script::Newa,
        Script::Tirhuta,
        Script::Sharada,
        Script::Grantha,
        Script::Brahmi,
        Script::Kaithi,
        Script::Khojki,
        Script::Khudawadi,
        Script::Modi,
        Script::Nandinagari,
        Script::Siddham,
        Script::Takri,
    ]
    .contains(&script)
}
