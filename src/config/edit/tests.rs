use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::config::tests::temporary;

fn definition(value: &Value) -> Definition {
    value.as_object().unwrap().clone()
}

fn set(name: &str) -> Edit {
    Edit::SetServer {
        name: name.to_owned(),
        definition: definition(&json!({ "command": "x", "args": ["\"q\"", "é\n"] })),
    }
}

fn remove(name: &str) -> Edit {
    Edit::RemoveServer { name: name.to_owned(), server_file: false }
}

fn read_back(text: &str) -> Value {
    let bare = text.strip_prefix('\u{feff}').unwrap_or(text);
    let options = strict_but_commented();
    let mut root: Option<Value> = None;
    if let Ok(tree) = jsonc_parser::parse_to_ast(bare, &jsonc_parser::CollectOptions::default(), &options) {
        root = tree.value.map(|value| value_of(&value));
    }
    root.unwrap_or_else(|| panic!("cannot be read: {text}"))
}

fn value_of(value: &jsonc_parser::ast::Value<'_>) -> Value {
    use jsonc_parser::ast::Value as Ast;
    match value {
        Ast::StringLit(text) => text.value.clone().into_owned().into(),
        Ast::NumberLit(number) => serde_json::from_str(number.value).unwrap(),
        Ast::BooleanLit(boolean) => boolean.value.into(),
        Ast::NullKeyword(_) => Value::Null,
        Ast::Array(array) => array.elements.iter().map(value_of).collect(),
        Ast::Object(object) => {
            let fields = object.properties.iter();
            Value::Object(fields.map(|one| (one.name.as_str().to_owned(), value_of(&one.value))).collect())
        }
    }
}

#[test]
fn cfg_11_a_server_leaves_the_shape_of_an_editor_too() {
    let text = r#"{"servers": {"a": {"command": "x"}, "b": {}}, "mcpServers": {"a": {}}}"#;
    let everywhere = Edit::RemoveServer { name: "a".to_owned(), server_file: true };
    let edited = edit_text(text, &[], &[everywhere]).unwrap().unwrap();
    assert_eq!(read_back(&edited), json!({ "servers": { "b": {} }, "mcpServers": {} }));
    let edited = edit_text(text, &[], &[remove("a")]).unwrap().unwrap();
    assert!(read_back(&edited)["servers"]["a"].is_object(), "in settings the key is somebody else's");
}

#[test]
fn cfg_11_everything_else_stays() {
    let text = "\u{feff}// head\r\n{\r\n\t\"z\": 1, // kept\r\n\t\"mcpServers\": {\r\n\t\t/* before */ \"b\": { \"command\": \"b\" },\r\n\t},\r\n\t\"a\": [1,  2],\r\n}\r\n";
    let edited = edit_text(text, &[], &[set("new")]).unwrap().unwrap();
    for part in [
        "\u{feff}// head\r\n",
        "\"z\": 1, // kept",
        "/* before */ \"b\": { \"command\": \"b\" }",
        "\"a\": [1,  2],",
    ] {
        assert!(edited.contains(part), "{part:?} in {edited}");
    }
    let back = read_back(&edited);
    assert_eq!(back["mcpServers"]["new"], json!({ "command": "x", "args": ["\"q\"", "é\n"] }));
    assert_eq!(back.as_object().unwrap().keys().collect::<Vec<_>>(), ["z", "mcpServers", "a"]);
    let removed = edit_text(&edited, &[], &[remove("new")]).unwrap().unwrap();
    assert_eq!(read_back(&removed), read_back(text));
}

#[test]
fn cfg_11_files_that_are_missing_empty_or_wrong() {
    assert_eq!(
        read_back(&edit_text("", &[], &[set("a")]).unwrap().unwrap())["mcpServers"]["a"]["command"],
        "x"
    );
    assert!(edit_text("{}", &[], &[remove("a")]).unwrap().is_none());
    for broken in ["{", "[]", "{\"mcpServers\": []}", "{\"a\": 1} x", "nonsense"] {
        let error = edit_text(broken, &[], &[set("a")]).unwrap_err();
        assert_eq!(error.code(), ErrorCode::ConfigInvalid, "{broken}");
    }
    let under = ["projects".to_owned(), "/a \"b\"".to_owned()];
    let edited = edit_text("{\"projects\": {\"/c\": {}}}", &under, &[set("a")]).unwrap().unwrap();
    assert_eq!(read_back(&edited)["projects"]["/a \"b\""]["mcpServers"]["a"]["command"], "x");
}

#[test]
fn cfg_13_lists() {
    let list = || vec!["permissions", "allow"];
    let add = |text: &str| Edit::Add { list: list(), text: text.to_owned() };
    let once =
        edit_text("{\"permissions\": {\"deny\": [\"d\"]}}", &[], &[add("a"), add("b")]).unwrap().unwrap();
    assert_eq!(read_back(&once)["permissions"], json!({ "deny": ["d"], "allow": ["a", "b"] }));
    assert!(edit_text(&once, &[], &[add("a")]).unwrap().is_none(), "what is there is not added again");
    let remove = Edit::Remove { list: list(), text: "a".to_owned() };
    assert_eq!(
        read_back(&edit_text(&once, &[], &[remove]).unwrap().unwrap())["permissions"]["allow"],
        json!(["b"])
    );
}

#[test]
fn cfg_03_the_key_that_counts_is_the_one_that_changes() {
    let text = "{\"mcpServers\": {\"a\": {\"command\": \"1\"}, \"a\": {\"command\": \"2\"}}}";
    let edited = edit_text(text, &[], &[set("a")]).unwrap().unwrap();
    assert_eq!(read_back(&edited)["mcpServers"]["a"]["command"], "x");
    let removed = edit_text(text, &[], &[remove("a")]).unwrap().unwrap();
    assert_eq!(read_back(&removed)["mcpServers"], json!({}));
}

#[test]
fn h17_writers_at_the_same_time_lose_nothing() {
    let path = temporary("edit").join("settings.json");
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let path = &path;
            scope.spawn(move || {
                for count in 0..50 {
                    edit_file(path, &[], &[set(&format!("s{writer}-{count}"))], |_| Ok(())).unwrap();
                }
            });
        }
    });
    let back = read_back(&std::fs::read_to_string(&path).unwrap());
    assert_eq!(back["mcpServers"].as_object().unwrap().len(), 200);
    assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing else is left");
}

proptest! {
    #[test]
    fn cfg_11_any_name_and_text_survive(name in "\\PC{1,12}", text in "\\PC{0,12}") {
        let definition = definition(&json!({ "command": text, "env": { name.as_str(): text } }));
        let edit = Edit::SetServer { name: name.clone(), definition: definition.clone() };
        let before = "{ // c\n  \"mcpServers\": { \"keep\": 1 } }";
        let edited = edit_text(before, &[], &[edit]).unwrap().unwrap();
        prop_assert_eq!(&read_back(&edited)["mcpServers"][name.as_str()], &Value::Object(definition));
        prop_assert!(edited.contains("// c"));
    }

    #[test]
    fn h9_any_file_can_be_met(text in "[{}\\[\\]\",:a1 /*\n]{0,40}") {
        let _ = edit_text(&text, &[], &[set("a")]);
    }
}
