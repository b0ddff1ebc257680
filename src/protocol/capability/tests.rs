use serde_json::{Value, json};

use super::*;

fn capabilities(text: &str) -> ServerCapabilities {
    ServerCapabilities::read(text, ProtocolVersion::V2025_11_25)
}

#[test]
fn pro_05_each_method_names_its_capability() {
    use ServerCapability as C;
    for (method, needed) in [
        ("tools/list", Some(C::Tools)),
        ("tools/call", Some(C::Tools)),
        ("prompts/get", Some(C::Prompts)),
        ("resources/list", Some(C::Resources)),
        ("resources/templates/list", Some(C::Resources)),
        ("resources/read", Some(C::Resources)),
        ("resources/subscribe", Some(C::ResourcesSubscribe)),
        ("resources/unsubscribe", Some(C::ResourcesSubscribe)),
        ("logging/setLevel", Some(C::Logging)),
        ("completion/complete", Some(C::Completions)),
        ("tasks/get", Some(C::Tasks)),
        ("tasks/cancel", Some(C::TasksCancel)),
        ("tasks/list", Some(C::TasksList)),
        ("ping", None),
        ("initialize", None),
        ("server/discover", None),
        ("subscriptions/listen", None),
        ("example.org/own", None),
        ("toolsx/list", None),
    ] {
        assert_eq!(required_capability(method), needed, "{method}");
        let refused = check(method, &ServerCapabilities::default());
        assert_eq!(refused.is_err(), needed.is_some(), "{method}");
        if let Err(error) = refused {
            assert_eq!(error.code(), ErrorCode::CapabilityMissing);
            assert!(error.message().contains(method));
        }
    }
}

#[test]
fn pro_05_subscribing_needs_its_own_flag() {
    for (text, allowed) in [
        (r#"{"resources":{}}"#, false),
        (r#"{"resources":{"subscribe":false}}"#, false),
        (r#"{"resources":{"subscribe":true}}"#, true),
        (r#"{"resources":null}"#, false),
        (r#"{"Resources":{"subscribe":true}}"#, false),
    ] {
        assert_eq!(check("resources/subscribe", &capabilities(text)).is_ok(), allowed, "{text}");
    }
}

#[test]
fn comp_01_the_oldest_version_is_tried() {
    let oldest = ServerCapabilities::read("{}", ProtocolVersion::V2024_11_05);
    assert!(check("completion/complete", &oldest).is_ok());
    assert!(check("completion/complete", &capabilities("{}")).is_err());
    assert!(check("completion/complete", &capabilities(r#"{"completions":{}}"#)).is_ok());
}

#[test]
fn tasks_are_declared_in_either_era() {
    let legacy = capabilities(r#"{"tasks":{"requests":{"tools":{"call":{}}}}}"#);
    assert!(legacy.tasks && legacy.tasks_tool_calls);
    let modern = capabilities(r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#);
    assert!(modern.tasks && !modern.tasks_tool_calls);
}

#[test]
fn pro_02_introduction_is_read_and_cleaned() {
    let raw = RawValue::from_string(
        r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"x":9007199254740993},
           "serverInfo":{"name":"a\u200bb","version":"1"},"instructions":"be\u202e kind"}"#
            .to_owned(),
    )
    .unwrap();
    let read = read_introduction(&raw).unwrap();
    assert_eq!(read.protocol_version, "2025-06-18");
    assert!(read.capabilities.tools && read.capabilities.tools_list_changed && !read.capabilities.prompts);
    assert!(read.capabilities_text.contains("9007199254740993"), "B-112");
    assert_eq!(read.server_name.as_deref(), Some("ab"));
    assert_eq!(read.instructions.as_deref(), Some("be kind"));
}

#[test]
fn introduction_without_version_is_invalid_and_odd_members_are_not() {
    for (text, fine) in [
        ("5", false),
        ("{}", false),
        (r#"{"protocolVersion":5}"#, false),
        (r#"{"protocolVersion":"2025-11-25","capabilities":[],"serverInfo":7,"instructions":null}"#, true),
    ] {
        let read = read_introduction(&RawValue::from_string(text.to_owned()).unwrap());
        match read {
            Ok(read) => {
                assert!(fine, "{text}");
                assert_eq!((&*read.capabilities_text, read.server_name), ("{}", None));
            }
            Err(error) => assert!(!fine && error.code() == ErrorCode::MessageInvalid, "{text}"),
        }
    }
}

#[test]
fn j12_instructions_are_cut_with_a_marker() {
    let long = json!({"protocolVersion": "2025-11-25", "instructions": "é".repeat(50_000)}).to_string();
    let read = read_introduction(&RawValue::from_string(long).unwrap()).unwrap();
    let text = read.instructions.unwrap();
    assert!(text.len() < DESCRIPTION_LIMIT + 16 && text.ends_with("… [cut]"));
}

/// mcp:ELI-01 mcp:ELI-02 mcp:SAMP-01
#[test]
fn pro_04_initialize_declares_what_is_served() {
    let identity = ClientIdentity { name: "a \"b\"".into(), version: "1".into(), title: None };
    let none = initialize_params(ProtocolVersion::V2025_11_25, ClientFeatures::default(), &identity);
    assert_eq!(
        serde_json::from_str::<Value>(&none).unwrap(),
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a \"b\"", "version": "1"}})
    );
    let all = ClientFeatures {
        roots: true,
        elicitation_form: true,
        elicitation_url: true,
        sampling: true,
        sampling_tools: true,
        tasks: false,
        apps: false,
    };
    assert_eq!(
        serde_json::from_str::<Value>(&all.to_json(Era::Legacy)).unwrap(),
        json!({"roots": {"listChanged": true}, "elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}})
    );
    assert_eq!(
        serde_json::from_str::<Value>(&all.to_json(Era::Modern)).unwrap()["roots"],
        json!({}),
        "the modern era has no list_changed for roots"
    );
    let apps = ClientFeatures { apps: true, ..ClientFeatures::default() };
    for era in [Era::Legacy, Era::Modern] {
        assert_eq!(
            serde_json::from_str::<Value>(&apps.to_json(era)).unwrap(),
            json!({"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}}),
            "mcp:APP-01"
        );
    }
    let url = ClientFeatures { elicitation_url: true, ..ClientFeatures::default() };
    assert_eq!(url.to_json(Era::Legacy), r#"{"elicitation":{"url":{}}}"#);
}
