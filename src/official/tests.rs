use std::collections::BTreeMap;

use super::Officials;
use super::package::{Kind, Package, of_command};

fn package(line: &str) -> Option<(Kind, String)> {
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let found = of_command(&words[0], &words[1..], &BTreeMap::new());
    found.map(|Package { kind, name }| (kind, name))
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of commands")]
fn sec_05_which_package_a_command_runs() {
    use Kind::{Npm, Nuget, Oci, Pypi};
    for (line, expected) in [
        ("npx -y @scope/server@1.2.3 --flag", Some((Npm, "@scope/server"))),
        ("/usr/bin/npx --yes server@latest", Some((Npm, "server"))),
        ("npx.cmd server", Some((Npm, "server"))),
        ("cmd /c npx -y server", Some((Npm, "server"))),
        ("cmd.exe /d /s /c npx -y server", Some((Npm, "server"))),
        ("env A=b C=d npx server", Some((Npm, "server"))),
        ("npx -p @scope/tools -y server", Some((Npm, "@scope/tools"))),
        ("npx --package=@scope/tools server", Some((Npm, "@scope/tools"))),
        ("npx -p one -p two server", None),
        ("npx -c server", None),
        ("npx --registry=https://evil.test server", None),
        ("npx --@scope:registry=https://evil.test @scope/server", None),
        ("npx --userconfig ./evil.npmrc -y server", None),
        ("npx --userconf=./evil.npmrc -y server", None),
        ("npx --globalconfig ./evil.npmrc server", None),
        ("npx --node-options=--require=./evil.js server", None),
        ("env npm_config_registry=https://evil.test npx -y server", None),
        ("env A=b npm_config_@scope:registry=https://evil.test npx -y @scope/server", None),
        ("env npm_config_loglevel=silent npx -y server", Some((Npm, "server"))),
        ("npx ./server", None),
        ("npx github:me/server", None),
        ("npx server@npm:other", None),
        ("npx https://a.test/x.tgz", None),
        ("npx", None),
        ("bunx --bun server", Some((Npm, "server"))),
        ("bun x server", Some((Npm, "server"))),
        ("bun run server", None),
        ("pnpm dlx server@1", Some((Npm, "server"))),
        ("yarn dlx server", Some((Npm, "server"))),
        ("npm exec -- server", Some((Npm, "server"))),
        ("npm exec -y -- server", Some((Npm, "server"))),
        ("uvx My_Server.x@1.0", Some((Pypi, "my-server-x"))),
        ("uvx --from server[extra]==1.0 other", Some((Pypi, "server"))),
        ("uvx --python 3.12 server", Some((Pypi, "server"))),
        ("uvx --index-url https://evil.test server", None),
        ("uvx --from git+https://a.test/x server", None),
        ("uv tool run server", Some((Pypi, "server"))),
        ("uv run server", None),
        ("pipx run --spec server>=1 other", Some((Pypi, "server"))),
        ("pipx run server", Some((Pypi, "server"))),
        ("dnx Some.Server --yes", Some((Nuget, "some.server"))),
        ("docker run -i --rm mcp/server:1.0", Some((Oci, "docker.io/mcp/server"))),
        (
            "docker run -it -e A -v /a:/b --name x ghcr.io/me/Server@sha256:0",
            Some((Oci, "ghcr.io/me/server")),
        ),
        ("docker container run --env=A=b server", Some((Oci, "docker.io/library/server"))),
        ("podman run --rm index.docker.io/mcp/server", Some((Oci, "docker.io/mcp/server"))),
        ("docker run host:5000/a/b:1", Some((Oci, "host:5000/a/b"))),
        ("docker -H tcp://a run x", None),
        ("docker exec x", None),
        ("node server.js", None),
    ] {
        let expected = expected.map(|(kind, name)| (kind, name.to_owned()));
        assert_eq!(package(line), expected, "{line}");
    }
    for name in [
        "npm_config_registry",
        "NPM_CONFIG_REGISTRY",
        "npm_config_@scope:registry",
        "npm_config_globalconfig",
        "UV_INDEX_URL",
        "PIP_EXTRA_INDEX_URL",
    ] {
        let env = BTreeMap::from([(name.to_owned(), "https://evil.test".to_owned())]);
        assert_eq!(of_command("npx", &["server".to_owned()], &env), None, "{name}");
    }
}

fn officials(entry: &serde_json::Value) -> Officials {
    Officials::read([entry.to_string().as_str(), "no JSON", "7"])
}

fn covers(officials: &Officials, definition: &serde_json::Value) -> bool {
    officials.covers(definition.as_object().unwrap())
}

#[test]
fn sec_05_addresses_and_their_gaps() {
    let officials = officials(&serde_json::json!({ "remotes": [
        { "url": "https://a.test/mcp" },
        { "url": "https://{tenant}.b.test/v1/{name}/mcp/" },
        { "url": "https://c.test/{path}" },
        { "url": "https://q.test/mcp?v=2" },
        { "url": "https://{any}/mcp" },
        { "url": "https://{any}.test/mcp" },
        { "url": "http://{any}.d.test/mcp" },
        { "url": 7 },
    ]}));
    for (url, expected) in [
        ("https://a.test/mcp", true),
        ("https://A.test:443/mcp/", true),
        ("https://a.test./mcp?key=x#y", true),
        ("http://a.test/mcp", false),
        ("https://a.test/mcp2", false),
        ("https://a.test.evil.test/mcp", false),
        ("https://me.b.test/v1/x.y/mcp", true),
        ("https://a.b.b.test/v1/x/mcp", false),
        ("https://evil.test/.b.test/v1/x/mcp", false),
        ("https://evil.test?.b.test/v1/x/mcp", false),
        ("https://me.b.test/v1/x/y/mcp", false),
        ("https://me.b.test/v1//mcp", false),
        ("https://c.test/x", true),
        ("https://c.test/x/y", false),
        ("https://q.test/mcp?v=2", true),
        ("https://q.test/mcp?v=3", false),
        ("https://evil.test/mcp", false),
        ("https://x.d.test/mcp", false),
        ("file:///a", false),
        ("nothing", false),
    ] {
        assert_eq!(covers(&officials, &serde_json::json!({ "type": "http", "url": url })), expected, "{url}");
    }
    assert!(covers(&officials, &serde_json::json!({ "url": "https://a.test/mcp" })));
    assert!(!covers(&officials, &serde_json::json!({ "type": "sse-ide", "url": "https://a.test/mcp" })));
}

#[test]
fn sec_05_entries_in_both_forms_and_deleted_ones() {
    let deleted = serde_json::json!({ "io.modelcontextprotocol.registry/official": { "status": "deleted" } });
    let npm = |name: &str| serde_json::json!({ "packages": [{ "registryType": "npm", "identifier": name }] });
    let runs = |officials: &Officials, name: &str| {
        covers(officials, &serde_json::json!({ "command": "npx", "args": ["-y", name] }))
    };
    assert!(runs(&officials(&npm("plain")), "plain"));
    assert!(runs(&officials(&serde_json::json!({ "server": npm("inner") })), "inner"));
    assert!(!runs(&officials(&serde_json::json!({ "server": npm("gone"), "_meta": deleted })), "gone"));
    assert!(!runs(&officials(&npm("plain")), "other"));
    let image = officials(&serde_json::json!({ "packages": [
        { "registryType": "oci", "registryBaseUrl": "https://ghcr.io/", "identifier": "me/one", "version": "1" },
        { "registryType": "oci", "identifier": "docker.io/me/two:1.0" },
        { "registryType": "mcpb", "identifier": "https://a.test/x.mcpb" },
        { "registryType": "npm" },
    ]}));
    for (name, expected) in [("ghcr.io/me/one", true), ("me/one", false), ("me/two:2.0", true)] {
        let definition = serde_json::json!({ "command": "docker", "args": ["run", "-i", name] });
        assert_eq!(covers(&image, &definition), expected, "{name}");
    }
    let env =
        serde_json::json!({ "command": "npx", "args": ["plain"], "env": { "npm_config_registry": "x" } });
    assert!(!covers(&officials(&npm("plain")), &env));
}
