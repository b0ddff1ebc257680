use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::approve::Approvals;
use super::expand::expand_env;
use super::load::load_file;
use super::windows_command::windows_command;
use super::*;
use crate::environment::{Environment, Platform};
use crate::error::ErrorCode;

/// A directory of its own for a test, removed by the system at its leisure.
pub(crate) fn temporary(name: &str) -> PathBuf {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("switchboard-{name}-{}-{count}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    std::fs::canonicalize(path).unwrap()
}

/// The one server of a definition, as the host gives it.
pub(crate) fn spec_of(definition: &Value) -> ServerSpec {
    let layer = RawLayer::options(&json!({ "s": definition }).to_string());
    let resolution = resolve_with(&inputs(vec![layer]), &|_| None);
    ServerSpec::clone(resolution.servers.first().unwrap_or_else(|| panic!("{:?}", resolution.errors)))
}

fn environment(vars: &[(&str, &str)]) -> Environment {
    Environment {
        vars: vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        cwd: PathBuf::from("/"),
        home: None,
        platform: Platform::Unix,
    }
}

fn inputs(layers: Vec<RawLayer>) -> Inputs {
    let mut options = ResolveOptions::new(&environment(&[]), None);
    // Most of these tests are about other stages; those about approval say what was approved.
    options.approvals.all = true;
    Inputs { layers, diagnostics: Vec::new(), options }
}

fn project(text: &str) -> RawLayer {
    RawLayer::file(Scope::Project, "/p/.mcp.json", text.as_bytes().to_vec())
}

// ── case files ──────────────────────────────────────────────────────────────────────────────────────────

fn case_inputs(case: &Value) -> Inputs {
    let layers = case["layers"].as_array().unwrap().iter().map(|layer| {
        let scope: Scope = serde_json::from_value(layer["scope"].clone()).unwrap();
        let mut raw = match layer.get("options") {
            Some(servers) => RawLayer::host(scope, &servers.to_string()),
            None => {
                RawLayer::file(scope, layer["file"].as_str().unwrap(), layer["text"].as_str().unwrap().into())
            }
        };
        match layer["shape"].as_str() {
            Some("settings") => raw.shape = LayerShape::Settings,
            Some("builtin") => raw.shape = LayerShape::Builtin,
            Some(directory) => raw.shape = LayerShape::Directory(directory.into()),
            None => {}
        }
        if let Some(voice) = layer.get("voice") {
            raw.voice = serde_json::from_value(voice.clone()).unwrap();
        }
        raw.overriding = layer["overriding"] == json!(true);
        raw
    });
    let mut inputs = inputs(layers.collect());
    if let Some(vars) = case["environment"].as_object() {
        let vars = vars.iter().map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()));
        inputs.options.environment.vars = vars.collect();
    }
    if let Some(approvals) = case.get("approvals") {
        let approved = approvals["approved"].as_object().unwrap().iter();
        inputs.options.approvals = Approvals {
            rejected: serde_json::from_value(approvals["rejected"].clone()).unwrap(),
            approved: approved
                .map(|(name, seen)| (name.clone(), seen.as_object().cloned().map(Arc::new)))
                .collect(),
            all: approvals["all"] == json!(true),
            ..Approvals::default()
        };
    }
    if let Some(host) = case["host"].as_object() {
        inputs.options.host = super::settings::read(host).0;
    }
    if let Some(relays) = case.get("relays") {
        inputs.options.relays = serde_json::from_value(relays.clone()).unwrap();
    }
    if let Some(switches) = case.get("switches") {
        inputs.options.switches = serde_json::from_value(switches.clone()).unwrap();
    }
    if let Some(names) = case.get("sdkInstances") {
        inputs.options.sdk_instances = serde_json::from_value(names.clone()).unwrap();
    }
    inputs
}

/// A server in the words of the case files; secrets in clear, as the cases hold no real ones.
fn server_facts(spec: &ServerSpec) -> Value {
    let clear = |map: &BTreeMap<String, crate::secret::Secret<String>>| -> BTreeMap<String, String> {
        map.iter().map(|(name, value)| (name.clone(), value.expose().clone())).collect()
    };
    let milliseconds = |duration: Option<std::time::Duration>| duration.map(|one| one.as_millis());
    let mut facts = json!({
        "name": &*spec.name, "scope": spec.scope, "type": spec.transport.kind(), "disabled": spec.disabled,
        "connectTimeoutMs": milliseconds(spec.timeouts.connect), "toolTimeoutMs": milliseconds(spec.timeouts.tool_idle),
    });
    match &spec.transport {
        TransportSpec::Stdio(stdio) => {
            facts["command"] = json!(stdio.command);
            facts["args"] = json!(stdio.args);
            facts["cwd"] = json!(stdio.cwd);
            facts["env"] = json!(clear(&stdio.env));
        }
        TransportSpec::Http(remote) | TransportSpec::Sse(remote) | TransportSpec::WebSocket(remote) => {
            facts["url"] = json!(remote.url.expose());
            facts["headers"] = json!(clear(&remote.headers));
        }
        _ => {}
    }
    facts
}

fn fits(found: &Value, expected: &Value) -> bool {
    expected.as_object().unwrap().iter().all(|(key, value)| match key.as_str() {
        "says" => {
            let message = found["message"].as_str().unwrap();
            value.as_array().unwrap().iter().all(|word| message.contains(word.as_str().unwrap()))
        }
        _ => found.get(key) == Some(value),
    })
}

/// Every expected item has its own match; nothing is left over unless `open`.
fn assert_list(case: &str, list: &str, found: &[Value], expected: &Value, open: bool) {
    let mut rest: Vec<&Value> = found.iter().collect();
    for one in expected.as_array().unwrap() {
        let at = rest.iter().position(|item| fits(item, one));
        let at = at.unwrap_or_else(|| panic!("{case}: no {list} fits {one}; left: {rest:#?}"));
        rest.remove(at);
    }
    assert!(open || rest.is_empty(), "{case}: unexpected {list}: {rest:#?}");
}

#[test]
fn cfg_07_case_files_resolve_as_they_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("__test__/fixtures/config");
    let mut count = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let case: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let resolution = resolve(&case_inputs(&case));
        let report: Value = serde_json::from_str(&resolution.report_json()).unwrap();
        let expect = &case["expect"];
        let servers: Vec<Value> = resolution.servers.iter().map(|spec| server_facts(spec)).collect();
        assert_list(&name, "server", &servers, &expect["servers"], false);
        let open = |key: &str| expect[key] == json!(true);
        assert_list(
            &name,
            "entry",
            report["servers"].as_array().unwrap(),
            &expect["entries"],
            open("moreEntries"),
        );
        assert_list(
            &name,
            "error",
            report["errors"].as_array().unwrap(),
            &expect["errors"],
            open("moreErrors"),
        );
        assert_list(&name, "warning", report["warnings"].as_array().unwrap(), &expect["warnings"], false);
        let shown = format!("{report} {resolution:?}");
        for hidden in expect["hides"].as_array().into_iter().flatten() {
            assert!(!shown.contains(hidden.as_str().unwrap()), "{name}: {hidden} is shown");
        }
        count += 1;
    }
    assert!(count >= 12, "{count} cases");
}

// ── expansion ───────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn cfg_05_grammar() {
    let table: &[(&str, &str, &[&str])] = &[
        ("", "", &[]),
        ("plain", "plain", &[]),
        ("${A}", "one", &[]),
        ("x${A}y${A}z", "xoneyonez", &[]),
        ("${EMPTY}", "", &[]),
        ("${EMPTY:-d}", "", &[]),
        ("${NONE}", "${NONE}", &["NONE"]),
        ("${NONE}${NONE}${ALSO}", "${NONE}${NONE}${ALSO}", &["NONE", "ALSO"]),
        ("${NONE:-d}", "d", &[]),
        ("${NONE:-}", "", &[]),
        ("${NONE:-a:-b}", "a:-b", &[]),
        ("${NONE:-${A}}", "one", &[]),
        ("${A:-${NONE}}", "one", &[]),
        ("${NONE:-${ALSO}}", "${ALSO}", &["ALSO"]),
        ("${NONE:-{\"k\":{}}}", "{\"k\":{}}", &[]),
        ("${NESTED}", "${A}", &[]),
        ("$${A}", "${A}", &[]),
        ("$$${A}", "$${A}", &[]),
        ("$$", "$$", &[]),
        ("$A %A% $", "$A %A% $", &[]),
        ("${var%x}", "${var%x}", &[]),
        ("${env:A}", "${env:A}", &[]),
        ("${}", "${}", &[]),
        ("${1A}", "${1A}", &[]),
        ("${A-x}", "${A-x}", &[]),
        ("${A", "${A", &[]),
        ("${A:-", "${A:-", &[]),
        ("${open ${A}", "${open one", &[]),
        ("é${A}ü", "éoneü", &[]),
        ("}${A}}", "}one}", &[]),
    ];
    let variables = environment(&[("A", "one"), ("EMPTY", ""), ("NESTED", "${A}")]);
    for (text, value, missing) in table {
        let expanded = expand_env(text, &|name| variables.get(name).map(str::to_owned));
        assert_eq!(
            (expanded.value.as_str(), expanded.missing),
            (*value, missing.iter().map(|&m| m.to_owned()).collect::<Vec<_>>()),
            "H6: {text}"
        );
    }
    let unknown = expand_env("${var%x} ${var%x}", &|_| None);
    assert_eq!(unknown.unknown, ["${var%x}"], "H7: noted once");
}

#[test]
fn cfg_05_hostile_texts_cost_linear_time() {
    let size = 100_000;
    for piece in ["${A:-", "${", "$${", "{", "${A:-${A:-}"] {
        let text = piece.repeat(size / piece.len()) + &"}".repeat(size);
        let started = std::time::Instant::now();
        let expanded = expand_env(&text, &|_| None);
        assert!(expanded.value.len() <= text.len());
        assert!(started.elapsed() < std::time::Duration::from_secs(2), "{piece}");
    }
}

// ── parsing ─────────────────────────────────────────────────────────────────────────────────────────────

fn first_error(bytes: &[u8]) -> Diagnostic {
    let layer = RawLayer::file(Scope::User, "/f.json", bytes.to_vec());
    resolve(&inputs(vec![layer])).errors.into_iter().next().unwrap()
}

#[test]
fn cfg_03_syntax_errors_have_places() {
    let table: &[(&[u8], u32, u32)] = &[
        (b"", 1, 1),
        (b"[]", 1, 1),
        (b"{\n  \"a\": x\n}", 2, 8),
        (b"{\r\n  \"a\": 1\r\n  \"b\": 2\r\n}", 3, 3),
        ("{\"é\": 1,, }".as_bytes(), 1, 9),
        ("\u{feff}{,}".as_bytes(), 1, 2),
        (b"{\"mcpServers\": []}", 1, 16),
        (b"{\n\"a\xFF\": 1}", 2, 3),
        (b"{'mcpServers': {}}", 1, 2),
        (b"{} {}", 1, 4),
    ];
    for (bytes, line, column) in table {
        let error = first_error(bytes);
        let shown = String::from_utf8_lossy(bytes);
        assert_eq!((error.line, error.column), (Some(*line), Some(*column)), "H1: {shown:?} {error:?}");
        assert_eq!((error.code, error.file.as_deref()), ("CONFIG_INVALID", Some("/f.json")), "{shown:?}");
    }
}

#[test]
fn b_021_deep_and_long_files_are_refused_cheaply() {
    let deep = |depth: usize| {
        format!(
            "{{\"mcpServers\":{{\"a\":{}1{},\"b\":{{\"command\":\"x\"}}}}}}",
            "[".repeat(depth),
            "]".repeat(depth)
        )
    };
    let resolution = resolve(&inputs(vec![project(&deep(200))]));
    assert_eq!(resolution.servers.len(), 1, "the good entry beside a deep one stays");
    assert_eq!(resolve(&inputs(vec![project(&deep(100_000))])).errors.len(), 1);
    let many = (0..20_000).map(|n| format!("\"s{n}\":{{\"command\":\"x\"}}")).collect::<Vec<_>>().join(",");
    let started = std::time::Instant::now();
    let both = format!("{{\"servers\":{{{many}}},\"mcpServers\":{{{many}}}}}");
    assert_eq!(resolve(&inputs(vec![project(&both)])).servers.len(), 20_000);
    assert!(started.elapsed() < std::time::Duration::from_secs(20), "{:?}", started.elapsed());
    let long = format!("{{\"mcpServers\":{{\"{}\":{{\"command\":\"x\"}}}}}}", "n".repeat(5000));
    assert_eq!(resolve(&inputs(vec![project(&long)])).entries[0].fate, Fate::Invalid);
}

#[test]
fn sec_03_headers_and_variables_that_cannot_be_sent() {
    let text = json!({"mcpServers": {
        "a": {"type": "http", "url": "https://a.test", "headers": {"X": "hidden-1\r\nY: 1"}},
        "b": {"type": "http", "url": "https://a.test", "headers": {"a b": "hidden-2"}},
        "c": {"command": "x", "env": {"A=B": "hidden-3"}},
        "d": {"command": "x\u{0}y"},
    }});
    let resolution = resolve(&inputs(vec![project(&text.to_string())]));
    assert_eq!((resolution.servers.len(), resolution.errors.len()), (0, 4));
    assert!(!resolution.report_json().contains("hidden-"));
}

#[test]
fn project_files_may_not_pass_the_environment_on() {
    let text = r#"{"mcpServers":{"a":{"command":"x","inheritEnv":"all"}}}"#;
    let resolution = resolve(&inputs(vec![project(text)]));
    assert_eq!(resolution.warnings[0].code, "NOT_HONOURED_HERE");
    let options = RawLayer::options(r#"{"a":{"command":"x","inheritEnv":"all"}}"#);
    assert!(resolve(&inputs(vec![options])).warnings.is_empty(), "the host may");
}

#[test]
fn sec_03_redactor_of_a_server_knows_its_values() {
    let text = json!({"a": {"command": "x", "args": ["--token", "argument-1", "https://a.test/?key=argument-2"], "env": {"K": "${V}", "S": "abc"}}});
    let mut inputs = inputs(vec![RawLayer::options(&text.to_string())]);
    inputs.options.environment = environment(&[("V", "expanded-1")]);
    let resolution = resolve(&inputs);
    let redactor = resolution.server("a").unwrap().redactor();
    assert_eq!(
        redactor.redact("argument-1 argument-2 expanded-1 abc"),
        "[REDACTED] [REDACTED] [REDACTED] abc"
    );
    assert!(!format!("{resolution:?}").contains("expanded-1"));
}

// ── options, switches, difference ───────────────────────────────────────────────────────────────────────

#[test]
fn options_are_read_as_declared() {
    assert!(ConfigOptions::from_json(Some("false")).unwrap().is_none());
    assert!(ConfigOptions::from_json(None).unwrap().is_some());
    let options = ConfigOptions::from_json(Some(r#"{"configDir":".x","env":{"A":"1","B":null}}"#));
    let options = options.unwrap().unwrap();
    let resolve_options = ResolveOptions::new(&environment(&[("C", "3")]), Some(&options));
    assert_eq!(resolve_options.environment.vars, BTreeMap::from([("A".to_owned(), "1".to_owned())]));
    assert!(!resolve_options.approvals.all, "POL-01: nothing is approved by default");
    for wrong in
        ["true", "5", "[]", r#"{"homeDir":5}"#, "{", r#"{"configDir":"../x"}"#, r#"{"configDir":""}"#]
    {
        let error = ConfigOptions::from_json(Some(wrong)).unwrap_err();
        assert_eq!(
            (error.code(), error.facts().parameter.as_deref()),
            (ErrorCode::InvalidArgument, Some("config")),
            "{wrong}"
        );
    }
}

#[test]
fn cfg_07_a_switch_wins_over_the_definition() {
    let mut inputs =
        inputs(vec![RawLayer::options(r#"{"a":{"command":"x","disabled":true},"b":{"command":"x"}}"#)]);
    inputs.options.switches = BTreeMap::from([("a".to_owned(), true), ("b".to_owned(), false)]);
    let resolution = resolve(&inputs);
    let fates: Vec<_> = resolution.entries.iter().map(|entry| (&*entry.name, entry.fate)).collect();
    assert_eq!(fates, [("a", Fate::Active), ("b", Fate::Disabled)]);
    assert!(resolution.server("b").unwrap().disabled && !resolution.server("a").unwrap().disabled);
}

#[test]
fn h11_a_server_that_waits_for_a_login_hides_no_working_one() {
    let user = r#"{"mcpServers":{"mine":{"type":"http","url":"https://a.test/mcp"}}}"#;
    let plugin = RawLayer::host(Scope::Plugin, r#"{"plug":{"type":"http","url":"https://a.test/mcp"}}"#);
    let mut inputs = inputs(vec![RawLayer::file(Scope::User, "/u.json", user.into()), plugin]);
    let names = |inputs: &Inputs| -> Vec<String> {
        resolve(inputs).servers.iter().map(|server| server.name.to_string()).collect()
    };
    assert_eq!(names(&inputs), ["mine"]);
    inputs.options.unusable = BTreeSet::from(["mine".to_owned()]);
    assert_eq!(names(&inputs), ["mine", "plug"]);
    inputs.options.unusable.clear();
    inputs.options.switches = BTreeMap::from([("mine".to_owned(), false)]);
    assert_eq!(resolve(&inputs).server("plug").map(|server| server.disabled), Some(false), "it comes back");
}

#[test]
fn cfg_12_difference_is_about_effects() {
    let old = resolve(&inputs(vec![project(
        "{\"mcpServers\":{\"a\":{\"command\":\"x\"},\"b\":{\"command\":\"x\"},\"c\":{\"command\":\"x\"}}}",
    )]));
    let new = resolve(&inputs(vec![project(
        "\n\n{\"mcpServers\":{\"b\":{\"command\":\"x\",\"args\":[\"1\"]},\"c\":{\"command\":\"x\"},\"d\":{\"command\":\"x\"}}}",
    )]));
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let expected = Difference { added: names(&["d"]), removed: names(&["a"]), changed: names(&["b"]) };
    assert_eq!(diff(&old, &new), expected);
    assert_eq!(diff(&new, &new), Difference::default());
}

// ── schema ──────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn cfg_04_the_schema_for_editors_agrees_with_validation() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/mcp-config.schema.json");
    let schema: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let url = "https://a.test/x";
    let definitions = [
        json!({ "command": "x" }),
        json!({ "command": "x", "args": ["1"], "env": { "A": "b" }, "cwd": "/", "inheritEnv": ["A"], "start": "lazy" }),
        json!({ "type": "stdio", "command": "x", "inheritEnv": "all", "toolTimeoutMs": "30s" }),
        json!({ "type": "http", "url": url, "headers": { "A": "b" }, "headersHelper": ["x"], "oauth": false }),
        json!({ "type": "streamable-http", "url": url, "proxy": false, "tls": { "ca": ["x"] } }),
        json!({ "type": "sse", "url": url, "tools": { "include": ["a"] } }),
        json!({ "type": "ws", "url": "wss://a.test" }),
        json!({ "type": "sse-ide", "url": url, "ideName": "E", "authToken": "t" }),
        json!({ "type": "claudeai-proxy", "url": url, "id": "1" }),
        json!({ "command": 5 }),
        json!({ "command": "x", "args": "y" }),
        json!({ "command": "x", "colour": "red" }),
        json!({ "type": "http" }),
        json!({ "type": "telnet", "url": url }),
        json!({ "type": "ws-ide", "url": "ws://a.test" }),
        json!({ "type": "claudeai-proxy", "url": url }),
        json!({ "args": [] }),
        json!({ "command": "x", "start": "now" }),
        json!({ "type": "http", "url": url, "tls": { "certificate": "x" } }),
        json!({ "command": "x", "env": { "A": 1 } }),
    ];
    let mut good = 0;
    for definition in definitions {
        let resolution = resolve(&inputs(vec![RawLayer::options(&json!({ "s": definition }).to_string())]));
        let flawless = resolution.errors.is_empty() && resolution.warnings.is_empty();
        let file = json!({ "mcpServers": { "s": definition } });
        assert_eq!(validator.is_valid(&file), flawless, "{definition}: {:?}", resolution.errors);
        good += usize::from(flawless);
    }
    assert_eq!(good, 9);
}

#[test]
fn cfg_07_two_hundred_servers_in_six_scopes_resolve_fast() {
    let scopes = [Scope::Plugin, Scope::Dynamic, Scope::User, Scope::Project, Scope::Local, Scope::Managed];
    let layers = scopes.map(|scope| {
        let servers = (0..34).map(|n| {
            let definition = json!({ "command": "npx", "args": ["-y", format!("pkg-{n}"), "${A:-x}"], "env": { "K": "v" } });
            (format!("s{}", n + 10 * scope.strength() as usize), definition)
        });
        RawLayer::host(scope, &Value::Object(servers.collect()).to_string())
    });
    let mut inputs = inputs(layers.to_vec());
    let denied: Vec<Value> =
        (0..50).map(|n| json!({ "serverCommand": ["npx", "-y", format!("bad-{n}")] })).collect();
    inputs.options.host.denied = denied;
    let started = std::time::Instant::now();
    assert!(resolve(&inputs).entries.len() >= 200);
    // Far above the 20 ms of a release build: this build is not optimised and the machine may be busy.
    assert!(started.elapsed() < std::time::Duration::from_secs(3), "{:?}", started.elapsed());
}

// ── loading ─────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn h9_loading_never_blocks_and_never_fails() {
    let folder = std::env::temp_dir().join(format!("config-load-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let missing = load_file(&folder.join("missing.json"), Scope::User);
    assert!(missing.layer.is_none() && missing.diagnostic.is_none());
    let directory = load_file(&folder, Scope::User);
    assert_eq!(directory.diagnostic.unwrap().code, "CONFIG_UNREADABLE");
    let large = folder.join("large.json");
    std::fs::File::create(&large).unwrap().set_len(load::MAX_FILE_BYTES + 1).unwrap();
    assert_eq!(load_file(&large, Scope::User).diagnostic.unwrap().code, "CONFIG_INVALID");
    #[cfg(unix)]
    for special in ["/dev/zero", "/dev/tty"] {
        assert!(load_file(Path::new(special), Scope::User).layer.is_none(), "{special}");
    }
    let good = folder.join(".mcp.json");
    std::fs::write(&good, "{}").unwrap();
    assert_eq!(load_file(&good, Scope::Project).layer.unwrap().bytes.unwrap(), b"{}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn pol_03_settings_of_the_organisation_that_cannot_be_read_allow_nothing() {
    let mine = RawLayer::options(r#"{"mine":{"command":"x"}}"#);
    let managed = |bytes: Option<&str>| {
        let mut layer = RawLayer::unread(Scope::Managed, "/m/managed-settings.json");
        layer.shape = LayerShape::Settings;
        layer.bytes = bytes.map(|text| text.as_bytes().to_vec());
        resolve(&inputs(vec![layer, mine.clone()]))
    };
    for broken in [None, Some(""), Some("[]"), Some("{\"deniedMcpServers\": [")] {
        let resolution = managed(broken);
        assert_eq!(resolution.entries[0].fate, Fate::NotAllowed, "{broken:?}");
        assert!(
            resolution.errors.iter().any(|error| error.message.contains("no server may connect")),
            "{broken:?}: {:?}",
            resolution.errors
        );
    }
    assert_eq!(managed(Some("{}")).entries[0].fate, Fate::Active);
    let enterprise = RawLayer::unread(Scope::Enterprise, "/m/managed-mcp.json");
    assert_eq!(resolve(&inputs(vec![enterprise, mine])).entries[0].fate, Fate::EnterpriseExclusive);
}

#[test]
fn pol_03_a_bare_text_in_the_place_of_a_list_that_forbids_counts() {
    let said = |written: Value| super::settings::read(written.as_object().unwrap());
    let (narrow, found) = said(json!({
        "permissions": { "allow": "mcp__a", "ask": "mcp__b", "deny": "mcp__s__t" },
        "disabledMcpServers": "one", "disabledMcpjsonServers": "two", "enabledMcpServers": "three",
    }));
    assert_eq!((narrow.rules.ask, narrow.rules.deny), (vec!["mcp__b".into()], vec!["mcp__s__t".into()]));
    assert_eq!((narrow.disabled, narrow.rejected), (vec!["one".to_owned()], vec!["two".to_owned()]));
    assert!(narrow.rules.allow.is_empty() && narrow.enabled.is_empty(), "what permits has to be a list");
    assert_eq!(found.len(), 6, "{found:?}");
}

#[cfg(unix)]
#[test]
fn h9_a_pipe_in_place_of_a_file_does_not_block() {
    let path = std::env::temp_dir().join(format!("config-pipe-{}", std::process::id()));
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    let loaded = load_file(&path, Scope::User);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(loaded.diagnostic.unwrap().code, "CONFIG_UNREADABLE");
}

// ── Windows ─────────────────────────────────────────────────────────────────────────────────────────────

fn windows(command: &str, args: &[&str]) -> Result<String, ErrorCode> {
    let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
    match windows_command(command, &args) {
        Ok((command, args)) => Ok(format!("{command} {}", args.join(" "))),
        Err(error) => Err(error.code()),
    }
}

#[test]
fn cfg_06_batch_files_run_through_cmd() {
    let table: &[(&str, &[&str], &str)] = &[
        ("npx", &["-y", "@scope/pkg@1.2.3"], "cmd /c npx -y @scope/pkg@1.2.3"),
        ("NPX.CMD", &[], "cmd /c NPX.CMD"),
        ("uvx", &["a b"], r#"cmd /c uvx "a b""#),
        (
            "x.bat",
            &["&", "^", "|", "", "(", "a;b,c=d", "!"],
            r#"cmd /c x.bat "&" "^" "|" "" "(" "a;b,c=d" "!""#,
        ),
        ("x.bat.", &["a"], "cmd /c x.bat a"),
        ("npm", &["\"q\"", r"c:\a b\", r#"a\"b"#], r#"cmd /c npm """q""" "c:\a b\\" "a\\""b""#),
        ("npm", &["50%", "😀"], r#"cmd /c npm "50%" "😀""#),
        (r"C:\Program Files\x.cmd", &["a b"], r#"cmd /c C":\Program Files\x.cmd" "a b""#),
        ("./bin/x.cmd", &[], r"cmd /c .\bin\x.cmd"),
        ("node", &["a&b\n"], "node a&b\n"),
        (r"C:\node.exe", &["%PATH%"], r"C:\node.exe %PATH%"),
        ("npx-like", &["&"], "npx-like &"),
    ];
    for (command, args, line) in table {
        assert_eq!(windows(command, args).as_deref(), Ok(*line), "B5: {command} {args:?}");
    }
}

#[test]
fn cfg_06_what_quotes_cannot_hold_is_refused() {
    let table: &[(&str, &[&str])] = &[
        ("npx", &["a\nb"]),
        ("npx", &["a\rb"]),
        ("npx", &["a\u{0}b"]),
        ("npx", &["%PATH%"]),
        ("npx", &["%A", "B%"]),
        ("x.cmd", &["a\"&echo canary"]),
        ("x.cmd", &["\"^&"]),
        ("\"x.cmd", &[]),
        ("&x.cmd", &[]),
        ("x\n.cmd", &[]),
        ("x\"y z.bat", &[]),
        (" & calc & x.cmd", &[]),
    ];
    for (command, args) in table {
        assert_eq!(windows(command, args), Err(ErrorCode::UnsafeArgument), "B-013: {command:?} {args:?}");
    }
}

proptest! {
    #[test]
    fn cfg_06_no_argument_starts_a_command(args in proptest::collection::vec("[a\"&|<>^%!() \\\\]{0,6}|\\PC{0,6}", 0..4)) {
        if let Ok((_, line)) = windows_command("npx", &args) {
            let line = line.join(" ");
            let mut quoted = false;
            for c in line.chars() {
                match c {
                    '"' => quoted = !quoted,
                    '&' | '|' | '<' | '>' | '^' | '\n' | '(' | ')' => prop_assert!(quoted, "{line}"),
                    _ => {}
                }
            }
            prop_assert!(!quoted, "{}", line);
            prop_assert!(line.matches('%').count() <= 1);
        }
    }

    #[test]
    fn h9_random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let layer = RawLayer::file(Scope::User, "/f.json", bytes);
        let resolution = resolve(&inputs(vec![layer]));
        prop_assert!(serde_json::from_str::<Value>(&resolution.report_json()).is_ok());
    }

    #[test]
    fn h9_mutated_files_never_panic_and_spare_other_files(
        at in 0_usize..700, with in proptest::collection::vec(any::<u8>(), 0..4), cut in 0_usize..5,
    ) {
        let mut bytes = SAMPLE.as_bytes().to_vec();
        let at = at.min(bytes.len());
        let end = (at + cut).min(bytes.len());
        bytes.splice(at..end, with);
        let good = RawLayer::file(Scope::User, "/good.json", br#"{"mcpServers":{"good":{"command":"x"}}}"#.to_vec());
        let resolution = resolve(&inputs(vec![RawLayer::file(Scope::Project, "/f.json", bytes), good]));
        prop_assert!(resolution.server("good").is_some());
        prop_assert!(serde_json::from_str::<Value>(&resolution.report_json()).is_ok());
    }

    #[test]
    fn h9_any_definition_is_judged(definition in json_value(), name in "\\PC{0,8}") {
        let text = json!({"mcpServers": {name.as_str(): definition, "good!": {"command": "x"}}}).to_string();
        let resolution = resolve(&inputs(vec![project(&text)]));
        prop_assert!(resolution.server("good!").is_some());
        prop_assert_eq!(resolution.entries.len(), if name == "good!" { 1 } else { 2 });
    }

    #[test]
    fn cfg_05_values_are_never_looked_into(value in "[${}A:-]{0,12}", before in "[a-z]{0,5}") {
        let expanded = expand_env(&format!("{before}${{A}}"), &|name| (name == "A").then(|| value.clone()));
        prop_assert_eq!(expanded.value, format!("{before}{value}"));
        prop_assert!(expanded.missing.is_empty());
    }

    #[test]
    fn cfg_05_any_text_expands(text in "[${}A:-]{0,40}|\\PC{0,40}") {
        let expanded = expand_env(&text, &|_| None);
        if !text.contains('$') {
            prop_assert_eq!(expanded.value, text);
        }
    }
}

const SAMPLE: &str = r#"{
  // comment
  "mcpServers": {
    "a": { "command": "npx", "args": ["-y", "${A:-x}"], "env": { "K": "v" }, "toolTimeoutMs": "30s", },
    "b": { "type": "http", "url": "https://a.test/é", "headers": { "X": "1" }, "oauth": { "clientId": "c" } },
    "c": { "type": "ws-ide", "url": "ws://127.0.0.1:1", "ideName": "E", "tools": { "include": ["a*"] } },
  },
  "servers": { "d": { "url": "http://d.test" } }
}"#;

fn json_value() -> impl Strategy<Value = Value> {
    let field = prop_oneof![
        "type|command|args|env|url|headers|oauth|tls|tools|proxy|start|disabled|toolTimeoutMs|ideName|id|name|inheritEnv",
        "[a-z]{0,4}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "stdio|http|ws|sdk|sse-ide|https://a.test|all|\\PC{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((field.clone(), inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}
