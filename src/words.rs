//! The words of a line by the quoting rules people know from shells, and by nothing else of a shell.

/// Words of a line: `'…'` is literal, in `"…"` a backslash makes `"` and `\` literal, elsewhere any character. `None`
/// where a quote stays open.
pub fn split(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next()? {
                        '\'' => break,
                        inside => word.push(inside),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next()? {
                        '"' => break,
                        '\\' => {
                            word.push(characters.next_if(|next| matches!(next, '"' | '\\')).unwrap_or('\\'));
                        }
                        inside => word.push(inside),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(characters.next().unwrap_or('\\')),
            _ if character.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oau_04_quotes_and_nothing_else() {
        for (line, expected) in [
            ("a  b\tc", Some(vec!["a", "b", "c"])),
            ("'a b' \"c d\"e", Some(vec!["a b", "c de"])),
            (r#""a\"b\\c\d" e\ f"#, Some(vec![r#"a"b\c\d"#, "e f"])),
            (
                "a; rm -rf $HOME `x` | y > z",
                Some(vec!["a;", "rm", "-rf", "$HOME", "`x`", "|", "y", ">", "z"]),
            ),
            ("'' \"\"", Some(vec!["", ""])),
            ("  ", Some(vec![])),
            ("'open", None),
            ("\"open\\\"", None),
        ] {
            let words: Option<Vec<String>> =
                expected.map(|words| words.into_iter().map(str::to_owned).collect());
            assert_eq!(split(line), words, "{line}");
        }
    }
}
