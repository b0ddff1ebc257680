//! Any texts as permission rules: nothing panics, deny wins, and no allow rule reaches beyond its server.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mcp_switchboard::name::{build_tool_name, normalize_server_name};
use mcp_switchboard::permission::{Decision, PermissionRules, RuleSet};

fuzz_target!(|text: &str| {
    let mut lines = text.split('\n');
    let (server, tool) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let rules: Vec<String> = lines.map(str::to_owned).collect();
    let compile = |allow: &[String], deny: &[String]| {
        let rules = PermissionRules { allow: allow.to_vec(), ask: Vec::new(), deny: deny.to_vec() };
        RuleSet::compile(&rules).0
    };
    let allow = compile(&rules, &[]).decide(server, tool).decision;
    let deny = compile(&[], &rules).decide(server, tool).decision;
    assert_eq!(compile(&rules, &rules).decide(server, tool).decision, deny, "deny wins");
    // Whatever allows denies as well: a malformed rule may deny more, never less.
    if allow == Decision::Allow {
        assert_eq!(deny, Decision::Deny, "a rule allows more than it denies");
        let part = normalize_server_name(server);
        let named = |rule: &String| {
            let rest = rule.trim().strip_prefix("mcp__").unwrap_or_default();
            rest == "*" || normalize_server_name(rest.split("__").next().unwrap_or_default()) == part
        };
        assert!(rules.iter().any(named), "no rule names the server");
    }
    let own = [build_tool_name(server, tool)];
    if !normalize_server_name(server).is_empty() && !tool.is_empty() {
        assert_eq!(compile(&own, &[]).decide(server, tool).decision, Decision::Allow, "its own name");
    }
});
