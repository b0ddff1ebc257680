use super::*;

fn import(format: Format, root: &Value) -> (Value, Vec<String>) {
    let imported = import_value(root, format);
    (Value::Object(imported.servers), imported.warnings.into_iter().map(|warning| warning.message).collect())
}

#[test]
fn cfg_15_h19_every_product() {
    let table = [
        (
            Format::ClaudeDesktop,
            json!({ "mcpServers": { "a": { "command": "x", "args": ["${A}"], "env": { "K": "v" } } } }),
            json!({ "a": { "command": "x", "args": ["${A}"], "env": { "K": "v" } } }),
        ),
        (
            Format::Cursor,
            json!({ "mcpServers": { "a": { "url": "https://a.test", "headers": { "X": "Bearer ${env:T}" } } } }),
            json!({ "a": { "url": "https://a.test", "headers": { "X": "Bearer ${T}" }, "type": "http" } }),
        ),
        (
            Format::Windsurf,
            json!({ "mcpServers": { "a": { "serverUrl": "https://a.test/${env:ID}" } } }),
            json!({ "a": { "url": "https://a.test/${ID}", "type": "http" } }),
        ),
        (
            Format::Zed,
            json!({ "context_servers": { "a": { "source": "custom", "command": { "path": "x", "args": ["1"] } }, "b": { "command": "y", "enabled": false } } }),
            json!({ "a": { "command": "x", "args": ["1"] }, "b": { "command": "y", "disabled": true } }),
        ),
        (
            Format::Gemini,
            json!({ "mcpServers": { "a": { "httpUrl": "https://a.test", "timeout": 5000, "includeTools": ["t"] }, "b": { "url": "https://b.test" } } }),
            json!({ "a": { "url": "https://a.test", "type": "http", "requestTimeoutMs": 5000, "tools": { "include": ["t"] } }, "b": { "url": "https://b.test", "type": "sse" } }),
        ),
        (
            Format::OpenCode,
            json!({ "mcp": { "a": { "type": "local", "command": ["x", "1"], "environment": { "K": "{env:V}" }, "enabled": true }, "b": { "type": "remote", "url": "https://b.test" } } }),
            json!({ "a": { "type": "stdio", "command": "x", "args": ["1"], "env": { "K": "${V}" }, "disabled": false }, "b": { "type": "http", "url": "https://b.test" } }),
        ),
    ];
    for (format, root, expected) in table {
        let (servers, warnings) = import(format, &root);
        assert_eq!(servers, expected, "{format:?}");
        assert!(warnings.is_empty(), "{format:?}: {warnings:?}");
    }
}

#[test]
fn cfg_15_inputs_and_losses_are_told() {
    let root = json!({ "inputs": [], "servers": { "a": { "type": "stdio", "command": "x", "env": { "K": "${input:api-key}" }, "envFile": ".env" }, "b": 5 } });
    let (servers, warnings) = import(Format::VsCode, &root);
    assert_eq!(
        servers,
        json!({ "a": { "type": "stdio", "command": "x", "env": { "K": "${INPUT_API_KEY}" } } })
    );
    assert_eq!(warnings.len(), 3);
    assert!(warnings[0].contains("INPUT_API_KEY") && warnings[1].contains("envFile"), "{warnings:?}");
}

#[test]
fn cfg_15_codex_is_toml_and_auto_tells_formats_apart() {
    let folder = crate::config::tests::temporary("import");
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let codex = write(
        "config.toml",
        "model = \"x\"\n[mcp_servers.a]\ncommand = \"x\"\nargs = [\"1\"]\nstartup_timeout_sec = 2.5\nenv = { K = \"v\" }\n\
         [mcp_servers.b]\nurl = \"https://b.test\"\nbearer_token_env_var = \"T\"\nenabled = false\n",
    );
    let imported = import_file(&codex, "auto").unwrap();
    assert_eq!(
        Value::Object(imported.servers),
        json!({
            "a": { "command": "x", "args": ["1"], "connectTimeoutMs": 2500, "env": { "K": "v" } },
            "b": { "url": "https://b.test", "headers": { "Authorization": "Bearer ${T}" }, "disabled": true, "type": "http" },
        })
    );
    let broken = write("broken.toml", "a = 1\nsecret-pw = ");
    let error = import_file(&broken, "codex").unwrap_err();
    assert_eq!(error.code(), ErrorCode::ConfigInvalid);
    assert!(
        error.message().contains("line 2") && !error.message().contains("secret-pw"),
        "{}",
        error.message()
    );
    for (text, server) in [
        ("// c\n{ \"servers\": { \"v\": { \"command\": \"x\" }, }, }", "v"),
        ("{ \"mcp\": { \"servers\": { \"w\": { \"command\": \"x\" } } } }", "w"),
        ("{ \"context_servers\": { \"z\": { \"command\": \"x\" } } }", "z"),
        ("{ \"mcp\": { \"o\": { \"type\": \"local\", \"command\": [\"x\"] } } }", "o"),
    ] {
        let imported = import_file(&write("any.json", text), "auto").unwrap();
        assert!(imported.servers.contains_key(server), "{text}");
    }
    let before = std::fs::read_dir(&folder).unwrap().count();
    assert_eq!(before, 3, "nothing was written");
    assert_eq!(import_file(&folder.join("none"), "auto").unwrap_err().code(), ErrorCode::ConfigUnreadable);
    assert_eq!(import_file(&codex, "emacs").unwrap_err().code(), ErrorCode::InvalidArgument);
}
