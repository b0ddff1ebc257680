//! Any bytes as a configuration file: nothing panics, and an entry of another file is never lost.
#![no_main]

use std::collections::BTreeMap;
use std::path::PathBuf;

use libfuzzer_sys::fuzz_target;
use mcp_switchboard::config::{Inputs, LayerShape, RawLayer, ResolveOptions, Scope, resolve};
use mcp_switchboard::environment::{Environment, Platform};

fuzz_target!(|data: &[u8]| {
    let Some((&choice, bytes)) = data.split_first() else { return };
    let vars = BTreeMap::from([("A".to_owned(), "one".to_owned())]);
    let environment =
        Environment { vars: vars.into_iter().collect(), cwd: PathBuf::from("/"), home: None, platform: Platform::Unix };
    let mut options = ResolveOptions::new(&environment, None);
    options.approvals.all = choice & 1 == 0;
    let scope = Scope::ALL[usize::from(choice >> 1) % 4 + 3];
    let mut strange = RawLayer::file(scope, "/strange.json", bytes.to_vec());
    if choice & 0x80 != 0 {
        strange.shape = LayerShape::Settings;
    }
    let good = RawLayer::options(r#"{"good":{"command":"x"}}"#);
    let resolution = resolve(&Inputs { layers: vec![good, strange], diagnostics: Vec::new(), options });
    assert!(resolution.entries.iter().any(|entry| &*entry.name == "good"), "the good entry has no line");
    let report: serde_json::Value =
        serde_json::from_str(&resolution.report_json()).expect("the report is JSON");
    assert!(report["servers"].is_array());
    // The same inputs give the same outcome, whatever they are.
    for server in &resolution.servers {
        assert!(resolution.server(&server.name).is_some(), "servers are in the order of names");
    }
});
