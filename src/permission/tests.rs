use proptest::prelude::*;

use super::*;
use crate::name::normalize_name;

fn strings(items: &[&str]) -> Vec<String> {
    items.iter().map(|&item| item.to_owned()).collect()
}

fn rules(allow: &[&str], ask: &[&str], deny: &[&str]) -> RuleSet {
    compiled(allow, ask, deny).0
}

fn compiled(allow: &[&str], ask: &[&str], deny: &[&str]) -> (RuleSet, Vec<crate::diagnostic::Diagnostic>) {
    let rules = PermissionRules { allow: strings(allow), ask: strings(ask), deny: strings(deny) };
    RuleSet::compile(&rules)
}

fn covers(rule: &str, server: &str, tool: &str) -> bool {
    rules(&[rule], &[], &[]).decide(server, tool).decision == Decision::Allow
}

#[test]
fn pol_07_grammar() {
    let table: &[(&str, &str, &str, bool)] = &[
        ("mcp__*", "any", "thing", true),
        ("mcp__a", "a", "t", true),
        ("mcp__a__*", "a", "t", true),
        ("mcp__a__t", "a", "t", true),
        ("mcp__a__t", "a", "t2", false),
        ("mcp__a__t", "a", "T", false),
        ("mcp__github__get_*", "github", "get_issue", true),
        ("mcp__github__get_*", "github", "get_", true),
        ("mcp__github__get_*", "github", "forget_x", false),
        ("mcp__github__*_x", "github", "get_x", true),
        ("mcp__github__*_x", "github", "get_y", false),
        ("mcp__github__a*b*c", "github", "a1b2c", true),
        ("mcp__github__a*b*c", "github", "ac", false),
        ("mcp__github__ab*ba", "github", "aba", false),
        // I8: neither a prefix of a name nor a substring of it
        ("mcp__a", "a-b", "t", false),
        ("mcp__a", "a_b", "t", false),
        ("mcp__a", "ab", "t", false),
        ("mcp__a__*", "a-b", "t", false),
        ("mcp__a-b", "a", "t", false),
        // B-050: the server ends at the first __
        ("mcp__a__*", "a__b", "c", false),
        ("mcp__a__b__c", "a", "b__c", true),
        ("mcp__a_b", "a__b", "c", true),
        // names of servers and tools are normalised, rules too
        ("mcp__My_Server__read_file", "My Server", "read.file", true),
        ("mcp__My Server__read.file", "My Server", "read.file", true),
        // NAM-06: rules for built-in tools never cover MCP tools
        ("Write", "a", "Write", false),
        ("a__t", "a", "t", false),
        // I9
        ("mcp__a__constructor", "a", "constructor", true),
        ("mcp__a____proto__", "a", "__proto__", true),
    ];
    for (rule, server, tool, expected) in table {
        assert_eq!(covers(rule, server, tool), *expected, "{rule} on ({server}, {tool})");
    }
}

#[test]
fn b_055_deny_before_ask_before_allow_at_any_specificity() {
    let texts = ["mcp__*", "mcp__a", "mcp__a__*", "mcp__a__t*", "mcp__a__t"];
    for one in texts {
        for other in texts {
            assert_eq!(rules(&[one], &[other], &[]).decide("a", "t").decision, Decision::Ask);
            assert_eq!(rules(&[one], &[], &[other]).decide("a", "t").decision, Decision::Deny);
            assert_eq!(rules(&[], &[one], &[other]).decide("a", "t").decision, Decision::Deny);
            let verdict = rules(&[one], &[one], &[other]);
            assert_eq!(verdict.decide("a", "t").rule, Some(other));
        }
    }
    assert_eq!(rules(&[], &[], &[]).decide("a", "t").decision, Decision::Passthrough);
    assert_eq!(rules(&["mcp__b"], &[], &[]).decide("a", "t").rule, None);
}

#[test]
fn r3_malformed_rules_never_widen_access() {
    let malformed = [
        "mcp__",
        "mcp__*__t",
        "mcp__a*",
        "mcp__a*__t",
        "mcp__a__",
        "mcp__a__t(x)",
        "MCP__a",
        "*",
        "mcp____t",
        "mcp__a(",
    ];
    for rule in malformed {
        let (allow, found) = compiled(&[rule], &[], &[]);
        assert_eq!(allow.decide("a", "t").decision, Decision::Passthrough, "allow {rule}");
        assert_eq!(found.len(), 1, "{rule} is reported");
        assert_eq!(found[0].code, "PERMISSION_RULE_INVALID");
        let (deny, found) = compiled(&["mcp__*"], &[], &[rule]);
        assert_eq!(deny.decide("a", "t").decision, Decision::Deny, "deny {rule}");
        assert_eq!(found[0].pointer.as_deref(), Some("/permissions/deny/0"));
        let (ask, _) = compiled(&["mcp__*"], &[rule], &[]);
        assert_eq!(ask.decide("a", "t").decision, Decision::Ask, "ask {rule}");
    }
    let (deny, _) = compiled(&["mcp__*"], &[], &["mcp__git*__delete_*", "mcp__ok__t"]);
    assert_eq!(deny.decide("github", "delete_repo").decision, Decision::Deny);
    assert_eq!(deny.decide("github", "read").decision, Decision::Allow, "what the rule names stays apart");
    assert_eq!(deny.decide("ok", "t").decision, Decision::Deny, "good rules beside it hold");
    assert!(
        compiled(&["Write", "Bash(rm:*)"], &[], &["Read"]).1.is_empty(),
        "rules about others are no mistake"
    );
}

#[test]
fn i8_unknown_servers_are_told() {
    let set = rules(&["mcp__a__t"], &["mcp__*"], &["mcp__gone"]);
    let found = set.unknown_servers(["a", "b c"]);
    assert_eq!(found.len(), 1);
    assert!(found[0].message.contains("\"gone\""));
}

#[test]
fn pol_07_full_names() {
    let set = rules(&["mcp__a__t", "Write"], &[], &[]);
    assert_eq!(decide_full_name(&set, "mcp__a__t").decision, Decision::Allow);
    assert_eq!(decide_full_name(&set, "mcp__a__u").decision, Decision::Passthrough);
    assert_eq!(decide_full_name(&set, "Write").decision, Decision::Passthrough);
}

#[test]
fn pol_07_five_hundred_rules_decide_fast() {
    let allow: Vec<String> = (0..250).map(|n| format!("mcp__s__tool_{n}_*")).collect();
    let ask: Vec<String> = (0..125).map(|n| format!("mcp__s__x*{n}*y")).collect();
    let deny: Vec<String> = (0..125).map(|n| format!("mcp__s{n}__*_z")).collect();
    let (set, found) = RuleSet::compile(&PermissionRules { allow, ask, deny });
    assert!(found.is_empty());
    let started = std::time::Instant::now();
    for _ in 0..1000 {
        assert_eq!(set.decide("s", "tool_249_read").decision, Decision::Allow);
    }
    // Far above the limit of a release build: this build is not optimised and the machine may be busy.
    assert!(started.elapsed() < std::time::Duration::from_secs(5), "{:?}", started.elapsed());
}

#[test]
fn pol_08_answers() {
    let deny = |text: &str| matches!(read_answer(text), Answer::Deny { .. });
    let table = [
        "",
        "null",
        "true",
        "\"allow\"",
        "{}",
        "[]",
        r#"{"behavior":"maybe"}"#,
        r#"{"behavior":["allow"]}"#,
        r#"{"behavior":"Allow"}"#,
        r#"{"behavior":"allow","remember":"always"}"#,
        r#"{"behavior":"allow","updatedInput":5}"#,
        r#"{"behavior":"allow","updatedInput":[]}"#,
        r#"{"behavior":"deny","message":"no"}"#,
        r#"{"behavior":"allow""#,
    ];
    for text in table {
        assert!(deny(text), "{text}");
    }
    match read_answer(
        r#"{"behavior":"allow","updatedInput":{"b":1e400,"a":36893488147419103233},"remember":"session"}"#,
    ) {
        Answer::Allow { updated_input, remember } => {
            assert_eq!(updated_input.unwrap().get(), r#"{"b":1e400,"a":36893488147419103233}"#);
            assert_eq!(remember, Some(Remember::Session));
        }
        Answer::Deny { .. } => panic!("a good answer"),
    }
    match read_answer(r#"{"behavior":"deny","message":"no","interrupt":true}"#) {
        Answer::Deny { message, interrupt } => {
            assert_eq!((message.as_deref(), interrupt), (Some("no"), true));
        }
        Answer::Allow { .. } => panic!("a refusal"),
    }
}

#[test]
fn memory_keeps_pairs_apart_and_forgets() {
    let mut memory = Memory::default();
    assert!(
        memory.remember("a", "t", true)
            && memory.remember("a", "t", false)
            && memory.remember("a__t", "", true)
    );
    assert_eq!(
        (memory.recall("a", "t"), memory.recall("a__t", ""), memory.recall("a", "")),
        (Some(false), Some(true), None)
    );
    assert_eq!(memory.len(), 2);
    memory.forget("a", "t");
    memory.forget("a", "t");
    memory.forget_server("a__t");
    assert!(memory.is_empty());
}

proptest! {
    #[test]
    fn i8_a_rule_covers_its_server_only(rule_server in "[a-z][a-z_-]{0,6}[a-z]", server in "[a-z][a-z_-]{0,6}[a-z]", tool in "[a-z_]{1,8}") {
        let same = crate::name::normalize_server_name(&rule_server) == crate::name::normalize_server_name(&server);
        let written = crate::name::normalize_server_name(&rule_server);
        for rule in [format!("mcp__{written}"), format!("mcp__{written}__*"), format!("mcp__{written}__{tool}")] {
            prop_assert_eq!(covers(&rule, &server, &tool), same, "{}", rule);
        }
    }

    #[test]
    fn pol_07_wildcards_agree_with_a_plain_matcher(pattern in "[ab*]{1,6}", tool in "[ab]{0,8}") {
        fn plain(pattern: &[u8], text: &[u8]) -> bool {
            match pattern.split_first() {
                None => text.is_empty(),
                Some((b'*', rest)) => (0..=text.len()).any(|at| plain(rest, &text[at..])),
                Some((byte, rest)) => text.first() == Some(byte) && plain(rest, &text[1..]),
            }
        }
        prop_assert_eq!(covers(&format!("mcp__s__{pattern}"), "s", &tool), plain(pattern.as_bytes(), tool.as_bytes()));
    }

    #[test]
    fn pol_07_any_text_compiles(texts in proptest::collection::vec("\\PC{0,12}|mcp__[a*_()]{0,10}", 0..8), server in "\\PC{0,6}", tool in "\\PC{0,6}") {
        let all = PermissionRules { allow: texts.clone(), ask: texts.clone(), deny: texts.clone() };
        let (set, _) = RuleSet::compile(&all);
        let denied = set.decide(&server, &tool).decision;
        // Whatever an allow rule covers, the same text as a deny rule covers too.
        let (allow, _) = RuleSet::compile(&PermissionRules { allow: texts, ..PermissionRules::default() });
        if allow.decide(&server, &tool).decision == Decision::Allow {
            prop_assert_eq!(denied, Decision::Deny);
        }
        prop_assert!(normalize_name(&tool).len() <= tool.len());
    }
}
