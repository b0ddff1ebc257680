use serde_json::json;

use super::*;
use crate::config::settings::{Combined, RuleLists};
use crate::config::tests::spec_of;
use crate::protocol::classify::Classifier;
use crate::protocol::tool::map_tools;

fn tools(list: &[Value]) -> Arc<Vec<ToolDefinition>> {
    let raws: Vec<Box<RawValue>> =
        list.iter().map(|tool| RawValue::from_string(tool.to_string()).unwrap()).collect();
    let raws: Vec<&RawValue> = raws.iter().map(|raw| &**raw).collect();
    Arc::new(map_tools("s", &raws, &Classifier::default()).0)
}

fn tool(name: &str, description: &str) -> Value {
    json!({ "name": name, "description": description, "inputSchema": { "type": "object" } })
}

fn rules(allow: &[&str]) -> Arc<Rules> {
    let rules =
        RuleLists { allow: allow.iter().map(|&rule| rule.to_owned()).collect(), ..RuleLists::default() };
    Arc::new(Rules::compile(&Combined { rules, ..Combined::default() }).0)
}

fn server() -> ServerSpec {
    spec_of(&json!({ "command": "server", "env": { "TOKEN": "very-secret" } }))
}

#[test]
fn sec_06_pins_of_a_place_survive_and_say_nothing_of_it() {
    let (state, spec, all) = (Arc::new(StateDir::in_memory()), server(), rules(&["mcp__*"]));
    let pins = Pins::new(PinMode::Ask, Arc::clone(&state));
    let (found, news) = pins.examine(&spec, &tools(&[tool("a", "one")]), &all);
    assert!(found.is_empty() && news);
    pins.write(&spec.name).unwrap();
    let later = Pins::new(PinMode::Ask, Arc::clone(&state));
    let (found, _) = later.examine(&spec, &tools(&[tool("a", "two")]), &all);
    assert_eq!(found.len(), 1);
    assert!(found[0].before.contains("one") && found[0].after.contains("two"));
    let other = spec_of(&json!({ "command": "another", "env": { "TOKEN": "very-secret" } }));
    let (found, _) = later.examine(&other, &tools(&[tool("a", "three")]), &all);
    assert!(found.is_empty(), "another program is another server");
    let rotated = spec_of(&json!({ "command": "server", "env": { "TOKEN": "rotated" } }));
    let (found, _) = later.examine(&rotated, &tools(&[tool("a", "two")]), &all);
    assert_eq!(found.len(), 1, "with other credentials it is the same");
    let name = identity::place(&spec).unwrap();
    let file = file_name(&name, &IdentityKey::read(&state).unwrap());
    assert!(!file.contains("server") && state.read(&file).is_some(), "{file}");
}

#[test]
fn sec_06_only_what_is_allowed_is_pinned() {
    let (spec, state) = (server(), Arc::new(StateDir::in_memory()));
    let pins = Pins::new(PinMode::Warn, state);
    let only_a = rules(&["mcp__test__a", "mcp__s__a", &format!("mcp__{}__a", server().name)]);
    let first = tools(&[tool("a", "one"), tool("b", "one")]);
    pins.examine(&spec, &first, &only_a);
    let pinned = |name: &str| pins.standing(&spec.name, name).pinned;
    assert_eq!((pinned("a"), pinned("b")), (true, false));
    assert!(pins.approve(&spec.name, &first[1]), "a call has passed");
    assert!(pinned("b") && !pins.approve(&spec.name, &first[1]));
    let (found, _) = pins.examine(&spec, &tools(&[tool("a", "one"), tool("b", "two")]), &only_a);
    assert_eq!(found.iter().map(|one| one.tool.as_str()).collect::<Vec<_>>(), ["b"]);
}

#[test]
fn sec_06_an_approval_of_what_is_gone_confirms_nothing() {
    let (spec, all) = (server(), rules(&["mcp__*"]));
    let pins = Pins::new(PinMode::Ask, Arc::new(StateDir::in_memory()));
    let versions = ["one", "two", "three"].map(|text| tools(&[tool("a", text)]));
    pins.examine(&spec, &versions[0], &all);
    pins.examine(&spec, &versions[1], &all);
    pins.examine(&spec, &versions[2], &all);
    assert!(!pins.approve(&spec.name, &versions[1][0]), "asked about the second, the third is there");
    let standing = pins.standing(&spec.name, "a");
    assert!(standing.changed.is_some_and(|before| before.contains("one")));
    assert!(pins.approve(&spec.name, &versions[2][0]));
    assert!(pins.standing(&spec.name, "a").changed.is_none());
}

#[test]
fn sec_06_verdicts() {
    let changed = Standing { changed: Some(Arc::from("{}")), ..Standing::default() };
    let dropped = Standing { dropped: true, ..Standing::default() };
    let verdict = |decision, rule| Verdict { decision, rule };
    let weigh = |standing: &Standing, decision, rule| {
        standing.weigh(verdict(decision, rule), || "mcp__s__a".to_owned()).decision
    };
    for (decision, expected) in [
        (Decision::Allow, Decision::Ask),
        (Decision::Ask, Decision::Ask),
        (Decision::Deny, Decision::Deny),
        (Decision::Passthrough, Decision::Passthrough),
    ] {
        assert_eq!(weigh(&changed, decision, Some("mcp__s")), expected);
        assert_eq!(weigh(&Standing::default(), decision, Some("mcp__s")), decision);
    }
    assert_eq!(weigh(&dropped, Decision::Allow, Some("mcp__s__a")), Decision::Passthrough);
    assert_eq!(weigh(&dropped, Decision::Allow, Some("mcp__s")), Decision::Allow);
}

#[test]
fn sec_06_a_file_keeps_as_many_definitions_as_fit() {
    let (state, spec, all) = (Arc::new(StateDir::in_memory()), server(), rules(&["mcp__*"]));
    let pins = Pins::new(PinMode::Warn, Arc::clone(&state));
    let text = "x".repeat(30_000);
    let many: Vec<Value> = (0..400).map(|number| tool(&format!("t{number}"), &text)).collect();
    pins.examine(&spec, &tools(&many), &all);
    pins.write(&spec.name).unwrap();
    let file = pins.file_of(identity::place(&spec).as_deref());
    assert_eq!(file.tools.len(), 400);
    let kept = file.tools.values().filter(|pin| pin.definition.is_some()).count();
    assert!((200..300).contains(&kept), "{kept}");
}

#[test]
fn sec_06_what_is_being_written_is_known_all_the_while() {
    let root = std::env::temp_dir().join(format!("mcp-switchboard-pins-{}", std::process::id()));
    let (spec, all) = (server(), rules(&["mcp__*"]));
    let pins = Pins::new(PinMode::Warn, Arc::new(StateDir::at(root.clone())));
    let definition = |round: usize| tools(&[tool("a", &format!("round {round}."))]);
    pins.examine(&spec, &definition(0), &all);
    for round in 1..100 {
        let found = std::thread::scope(|scope| {
            scope.spawn(|| pins.write(&spec.name).unwrap());
            std::thread::yield_now();
            pins.examine(&spec, &definition(round), &all).0
        });
        let before = format!("round {}.", round - 1);
        assert!(found[0].before.contains(&before), "{} in round {round}", found[0].before);
    }
    std::fs::remove_dir_all(root).unwrap();
}
