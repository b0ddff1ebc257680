use serde_json::{Value, json};

use super::*;
use crate::config::settings;
use crate::config::verdict::is_server_allowed;

#[expect(clippy::needless_pass_by_value, reason = "literals read better without a reference")]
fn allowed(name: &str, definition: Value, policy: Value) -> bool {
    let (said, _) = settings::read(policy.as_object().unwrap());
    is_server_allowed(name, definition.as_object().unwrap(), &said).allowed
}

fn allows_url(pattern: &str, url: &str) -> bool {
    allowed(
        "s",
        json!({ "type": "http", "url": url }),
        json!({ "allowedMcpServers": [{ "serverUrl": pattern }] }),
    )
}

fn denies_url(pattern: &str, url: &str) -> bool {
    !allowed(
        "s",
        json!({ "type": "http", "url": url }),
        json!({ "deniedMcpServers": [{ "serverUrl": pattern }] }),
    )
}

#[test]
fn pol_05_wildcards() {
    let table = [
        ("https://*.example.com/*", "https://api.example.com/x", true),
        ("https://*.example.com/*", "https://a.b.example.com/x/y", true),
        ("https://*.example.com/*", "https://example.com/x", false),
        ("https://example.com/*", "https://example.com/x/y?z", true),
        ("https://example.com/*", "https://sub.example.com/x", false),
        ("https://mcp.company.com:*/*", "https://mcp.company.com:8443/x", true),
        ("https://mcp.company.com:*/*", "https://mcp.company.com/x", true),
        ("https://mcp.company.com/*", "https://mcp.company.com:8443/x", false),
        ("https://a.test:8443/*", "https://a.test:8443/", true),
        ("https://a.test/api/*/x", "https://a.test/api/1/2/x", true),
        ("https://a.test/exact", "https://a.test/exact", true),
        ("https://a.test/exact", "https://a.test/exact/more", false),
        ("https://a.test/", "https://a.test", true),
        ("https://a.test", "https://a.test/x", false),
        ("http://a.test/*", "https://a.test/x", false),
        ("*://a.test:*/*", "http://a.test/x", true),
        ("http://localhost:*/*", "http://localhost:3000/mcp", true),
        ("https://a.test/x?key=1", "https://a.test/x?key=2", false),
        ("https://a.test/x?key=*", "https://a.test/x?key=2", true),
        ("*", "https://anything.test/x", true),
        // B-031
        ("https://*.corp.test/*", "https://corp.test.evil.test/", false),
        ("https://*.corp.test/*", "https://evilcorp.test/", false),
        ("https://*.corp.test/*", "https://corp.test/", false),
        // B-037
        ("https://ok.test/pub/*", "https://ok.test/pub/%2e%2e/admin", false),
        ("https://ok.test/pub/*", "https://ok.test/pub/../admin", false),
        ("https://ok.test/pub/*", "https://ok.test/pub/..%2Fadmin", true),
        ("https://ok.test/%61dmin", "https://ok.test/admin", true),
        ("https://bücher.test/*", "https://xn--bcher-kva.test/x", true),
        ("https://ok.test/*", "https://ok.test@127.0.0.1:1/", false),
        ("https://ok.test/*", "https://ok.test../x", false),
    ];
    for (pattern, url, expected) in table {
        assert_eq!(allows_url(pattern, url), expected, "{pattern} on {url}");
    }
}

#[test]
fn pol_05_a_denied_host_has_no_other_spelling() {
    let spellings = [
        "https://bad.test/x",
        "HTTPS://BAD.test:443/x",
        "https://bad.test./x",
        "https:\\\\bad.test\\x",
        "https:bad.test",
        "https:///bad.test",
        "https://bad%2Etest/",
        "https://ｂad.test/",
        "https://bad。test/",
        "https://b\u{ad}ad.test/",
    ];
    for url in spellings {
        assert!(denies_url("https://bad.test/*", url), "B-032, B-033, B-035, B-037, B-038: {url}");
        assert!(denies_url("HTTPS://BAD.TEST", url), "a deny entry without a path is the host: {url}");
    }
    assert!(
        !denies_url("https://bad.test/*", "https://bad.test:8443/x"),
        "B-033: another port is not covered"
    );
    assert!(denies_url("https://bad.test:*/*", "https://bad.test:8443/x"));
    for url in [
        "http://0x7f.1:1/",
        "http://2130706433:1/",
        "http://0177.0.0.1:1/",
        "http://127.1:1/",
        "http://①②⑦.0.0.1:1/",
        "http://[::ffff:127.0.0.1]:1/",
        "http://[::ffff:7f00:1]:1/",
    ] {
        assert!(denies_url("http://127.0.0.1:*/*", url), "B-040: {url}");
    }
    for url in ["http://[::1]:80/x", "http://[0:0:0:0:0:0:0:1]/x"] {
        assert!(denies_url("http://[::1]/*", url), "{url}");
    }
    assert!(!allowed(
        "s",
        json!({ "type": "ws", "url": "wss://bad.test/x" }),
        json!({ "deniedMcpServers": [{ "serverUrl": "https://bad.test/*" }] })
    ));
}

#[test]
fn pol_06_everything_but_in_process_servers() {
    let policy = json!({ "deniedMcpServers": ["*"] });
    let remote = json!("http://127.0.0.1:1/");
    let table = [
        (json!({ "type": "sdk", "name": "s" }), true),
        (json!({ "command": "x" }), false),
        (json!({ "type": "sse-ide", "url": remote, "ideName": "E" }), false),
        (json!({ "type": "ws-ide", "url": "ws://127.0.0.1:1/", "ideName": "E" }), false),
        (json!({ "type": "claudeai-proxy", "url": remote, "id": "1" }), false),
    ];
    for (definition, expected) in table {
        assert_eq!(allowed("s", definition.clone(), policy.clone()), expected, "{definition}");
    }
}

#[test]
fn b_027_truth_table_of_the_allow_list() {
    let stdio = || json!({ "command": "npx", "args": ["-y", "good"] });
    let http = || json!({ "type": "http", "url": "https://a.test/x" });
    let name = json!({ "serverName": "s" });
    let command = |words: Value| json!({ "serverCommand": words });
    let good = command(json!(["npx", "-y", "good"]));
    let bad = command(json!(["npx", "-y", "other"]));
    let url = |pattern: &str| json!({ "serverUrl": pattern });
    let table = [
        (json!([]), false, false),
        (json!([name]), true, true),
        (json!([good]), true, false),
        (json!([bad]), false, false),
        (json!([name, bad]), false, true),
        (json!([name, good]), true, true),
        (json!([url("https://a.test/*")]), false, true),
        (json!([url("https://b.test/*")]), false, false),
        (json!([name, url("https://b.test/*")]), true, false),
        (json!([name, bad, url("https://a.test/*")]), false, true),
        (json!([good, url("https://b.test/*")]), true, false),
    ];
    for (list, local, remote) in table {
        let policy = json!({ "allowedMcpServers": list });
        assert_eq!(allowed("s", stdio(), policy.clone()), local, "local: {list}");
        assert_eq!(allowed("s", http(), policy.clone()), remote, "remote: {list}");
        let denied = json!({ "allowedMcpServers": list, "deniedMcpServers": [{ "serverName": "s" }] });
        assert!(!allowed("s", stdio(), denied.clone()) && !allowed("s", http(), denied), "deny wins: {list}");
    }
    assert!(allowed("s", stdio(), json!({})), "no list allows everything");
}

#[test]
fn pol_03_names() {
    let denies = |pattern: &str, name: &str| {
        !allowed(name, json!({ "command": "x" }), json!({ "deniedMcpServers": [pattern] }))
    };
    for name in ["github", "GitHub", "github-enterprise", "ｇithub", "git\u{200b}hub"] {
        assert!(denies("github*", name), "{name}");
    }
    assert!(denies("my_server", "My Server") && denies("My Server", "my_server"));
    assert!(!denies("github", "github-enterprise") && !denies("github*", "forgithub"));
    let allows = |pattern: &str, name: &str| {
        allowed(name, json!({ "command": "x" }), json!({ "allowedMcpServers": [{ "serverName": pattern }] }))
    };
    assert!(
        allows("github*", "github-x") && !allows("github*", "GitHub"),
        "B-057: allow is letter for letter"
    );
}

#[test]
fn pol_03_malformed_entries_never_widen() {
    let entries = [
        json!(5),
        json!(null),
        json!(""),
        json!({}),
        json!({ "serverName": 5 }),
        json!({ "serverCommand": "x" }),
        json!({ "serverCommand": [] }),
        json!({ "serverCommand": ["x", 5] }),
        json!({ "serverUrl": "not a url" }),
        json!({ "serverUrl": "https://user@a.test/*" }),
        json!({ "serverName": "s", "serverUrl": "https://a.test/*" }),
        json!({ "servername": "s" }),
    ];
    for entry in entries {
        let (policy, found) = Policy::compile(Some(std::slice::from_ref(&entry)), &[]);
        assert_eq!(found.len(), 1, "reported: {entry}");
        assert!(policy.allowed.as_ref().unwrap().rules.len() == 1);
        let lone = json!({ "allowedMcpServers": [entry] });
        assert!(!allowed("s", json!({ "command": "x" }), lone), "matches nothing: {entry}");
        let beside = json!({ "deniedMcpServers": [entry, "t"] });
        assert!(!allowed("t", json!({ "command": "x" }), beside), "the others hold: {entry}");
    }
    let both = json!({ "deniedMcpServers": [{ "serverName": "s", "serverUrl": "https://a.test/*" }] });
    assert!(!allowed("s", json!({ "command": "x" }), both), "what is clear of a deny entry holds");
    for list in [json!("s"), json!({ "serverName": "s" }), json!(true)] {
        assert!(!allowed("s", json!({ "command": "x" }), json!({ "allowedMcpServers": list })), "{list}");
    }
    assert!(!allowed("s", json!({ "command": "x" }), json!({ "deniedMcpServers": "s" })));
}

#[test]
fn b_010_allow_is_the_whole_command() {
    let policy = || json!({ "allowedMcpServers": [{ "serverCommand": ["npx", "-y", "good"] }] });
    for args in
        [json!(["-y"]), json!(["-y", "good", "x"]), json!(["-c", "touch canary"]), json!(["-y", "Good"])]
    {
        assert!(!allowed("s", json!({ "command": "npx", "args": args }), policy()), "{args}");
    }
    for command in ["/usr/bin/npx", "NPX", "./npx"] {
        assert!(!allowed("s", json!({ "command": command, "args": ["-y", "good"] }), policy()), "{command}");
    }
    assert!(allowed("s", json!({ "command": "npx", "args": ["-y", "good"] }), policy()));
}

/// Whether `npx -y evil` is seen in a command.
fn denied(command: &str, args: &[&str]) -> bool {
    let policy = json!({ "deniedMcpServers": [{ "serverCommand": ["npx", "-y", "evil"] }] });
    !allowed("s", json!({ "command": command, "args": args }), policy)
}

/// A command that wraps more than can be looked through is refused.
#[test]
fn pol_04_padding_hides_no_denied_command() {
    let fillers: Vec<String> = (0..300).map(|number| format!("f{number}")).collect();
    let padded = format!("{}; npx -y evil", fillers.join("; "));
    let nested = format!("{}npx -y evil", "eval ".repeat(20));
    for text in [&*padded, &*nested] {
        assert!(denied("sh", &["-c", text]), "{text}");
    }
    assert!(denied("env", &[&["A=1"; 80][..], &["npx", "-y", "evil"]].concat()));
}

#[test]
fn pol_04_a_denied_command_is_seen_through_wrappers() {
    let table: &[(&str, &[&str])] = &[
        ("npx", &["-y", "evil"]),
        ("/usr/local/bin/npx", &["-y", "evil"]),
        ("C:\\tools\\NPX.CMD", &["-y", "evil"]),
        ("./npx", &["-y", "evil"]),
        ("env", &["X=1", "npx", "-y", "evil"]),
        ("/usr/bin/env", &["-i", "npx", "-y", "evil"]),
        ("env", &["-u", "HOME", "A=b", "npx", "-y", "evil"]),
        ("env", &["-S", "npx -y evil"]),
        ("env", &["-SX=1 npx", "-y", "evil"]),
        ("sh", &["-c", "npx -y evil"]),
        ("bash", &["-lc", "cd /; X=1 'npx' -y \"evil\""]),
        ("/bin/bash", &["-e", "-c", "exec npx -y evil"]),
        ("sh", &["-c", "true && (npx -y evil)"]),
        ("sh", &["-c", "echo $(npx -y evil)"]),
        ("cmd", &["/c", "npx", "-y", "evil"]),
        ("cmd.exe", &["/d", "/s", "/c", "npx -y evil"]),
        ("CMD", &["/C", "npx.cmd", "-y", "evil"]),
        ("powershell", &["-NoProfile", "-Command", "npx -y evil"]),
        ("nohup", &["npx", "-y", "evil"]),
        ("timeout", &["10", "npx", "-y", "evil"]),
        ("env", &["sh", "-c", "env A=1 sh -c 'npx -y evil'"]),
        ("sh", &["-c", "npx -y evil 2>/dev/null"]),
        ("sh", &["-c", "exec npx -y evil 2>&1"]),
        ("sh", &["-c", ">log npx &>>log -y evil <in"]),
        ("sh", &["-c", "echo \"$(npx -y evil)\""]),
        ("sh", &["-c", "echo \"a `npx -y evil` b\""]),
        ("sh", &["-c", "echo \"$( (true); npx -y evil )\""]),
        ("sh", &["-c", "cat <(npx -y evil)"]),
        ("sh", &["-c", "eval npx -y evil"]),
        ("sh", &["-c", "eval 'npx -y' evil"]),
        ("sh", &["-c", "if true; then npx -y evil; fi"]),
        ("sh", &["-c", "while ! X=1 npx -y evil; do :; done"]),
        ("sh", &["-c", "! npx -y evil"]),
        ("sh", &["-c", "npx \\\n -y evil # quietly"]),
        ("sh", &["-c", "n\\\npx -y $'evil'"]),
        ("cmd", &["/cnpx", "-y", "evil"]),
        ("cmd", &["/d/cnpx -y evil"]),
        ("cmd", &["/c", "@n^px", "-y", "evil"]),
        ("cmd", &["/c", "C:\\tools\\npx.cmd -y evil 2>nul"]),
        ("powershell", &["-Comm", "n`px -y evil"]),
        ("powershell", &["npx", "-y", "evil"]),
    ];
    for (command, args) in table {
        assert!(denied(command, args), "{command} {args:?}");
    }
    for (command, args) in [
        ("npx", ["-y", "good"]),
        ("npm", ["-y", "evil"]),
        ("sh", ["-c", "echo npx -y evil"]),
        ("sh", ["-c", "echo '$(npx -y evil)'"]),
    ] {
        assert!(!denied(command, &args), "{command} {args:?}");
    }
}

#[test]
fn pol_04_a_denied_command_is_seen_through_links_and_variables() {
    let (policy, _) = Policy::compile(None, &[json!({ "serverCommand": ["/opt/evil"] })]);
    let lookup =
        |command: &str| (command == "harmless" || command == "/opt/evil").then(|| "/opt/evil".to_owned());
    let subject = |argv: &[&str], raw: &[&str]| {
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        Subject {
            name: "s",
            exempt: false,
            command: Some((words(argv), words(raw))),
            urls: vec![],
            remote: false,
        }
    };
    assert_ne!(policy.decide(&subject(&["harmless"], &["harmless"]), &lookup), Verdict::Allowed(None));
    assert_eq!(policy.decide(&subject(&["harmless"], &["harmless"]), &no_lookup), Verdict::Allowed(None));
    let (policy, _) = Policy::compile(None, &[json!({ "serverCommand": ["${TOOL}", "x"] })]);
    assert_ne!(
        policy.decide(&subject(&["real", "x"], &["${TOOL}", "x"]), &no_lookup),
        Verdict::Allowed(None)
    );
}

#[test]
fn pol_04_hostile_commands_cost_little() {
    let policy = json!({ "deniedMcpServers": [{ "serverCommand": ["npx", "-y", "evil"] }] });
    let deep = "sh -c ".repeat(5_000);
    let args: Vec<String> = (0..2_000).map(|_| "env".to_owned()).collect();
    let started = std::time::Instant::now();
    allowed("s", json!({ "command": "sh", "args": ["-c", deep] }), policy.clone());
    allowed("s", json!({ "command": "timeout", "args": args }), policy);
    assert!(started.elapsed() < std::time::Duration::from_secs(5), "{:?}", started.elapsed());
}

#[test]
fn h14_the_gate_follows_the_policy_in_force() {
    let gate = Gate::new(vec!["https://relay.test/?u={url}".to_owned()], "");
    assert!(gate.check_url("s", "https://a.test/x").is_ok());
    let (policy, _) = Policy::compile(None, &[json!({ "serverUrl": "https://b.test/*" })]);
    gate.replace(std::sync::Arc::new(policy));
    let error = gate.check_url("s", "https://b.test/x").unwrap_err();
    assert_eq!(error.code(), crate::error::ErrorCode::PolicyDenied, "B-042: a redirect into what is denied");
    assert!(error.facts().rule.as_deref().unwrap().contains("b.test"));
    assert!(gate.clone().check_url("s", "https://b.test/x").is_err(), "clones share the policy");
}
