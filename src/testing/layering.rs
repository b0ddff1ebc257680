//! The rank table of `ARCHITECTURE.md`, held against the `use crate::…` lines of every file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

type Edges = BTreeMap<String, BTreeSet<String>>;

struct Ranks {
    rank: BTreeMap<String, u32>,
    may_use: Edges,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Reads `| rank | module | may use |` rows.
fn documented() -> Ranks {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let mut ranks = Ranks { rank: BTreeMap::new(), may_use: BTreeMap::new() };
    for line in text.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, rank, module, uses, _] = cells[..] else { continue };
        let Ok(rank) = rank.parse() else { continue };
        ranks.rank.insert(module.to_owned(), rank);
        let uses = uses.split(',').map(str::trim).filter(|name| !name.is_empty());
        ranks.may_use.insert(module.to_owned(), uses.map(str::to_owned).collect());
    }
    ranks
}

fn rust_files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The crate modules that each module names, tests included.
fn actual() -> Edges {
    let source = root().join("src");
    let mut files = Vec::new();
    rust_files(&source, &mut files);
    let mut edges = Edges::new();
    for file in files {
        let relative = file.strip_prefix(&source).unwrap();
        let module = relative.iter().next().unwrap().to_string_lossy().trim_end_matches(".rs").to_owned();
        if module == "lib" || module == "testing" {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let used = edges.entry(module.clone()).or_default();
        for rest in text.split("crate::").skip(1) {
            // `use crate::{a, b}` is not written here: rustfmt keeps one module a line.
            let name: String = rest.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
            if !name.is_empty() && name != module && name != "testing" {
                used.insert(name);
            }
        }
    }
    edges
}

#[test]
fn modules_use_only_what_the_table_allows() {
    let documented = documented();
    let actual = actual();
    assert!(actual.len() > 15, "the files were not found: {actual:?}");
    let mut wrong = Vec::new();
    for (module, uses) in &actual {
        let Some(allowed) = documented.may_use.get(module) else {
            wrong.push(format!("{module} is not in the table"));
            continue;
        };
        wrong.extend(uses.difference(allowed).map(|used| format!("{module} uses {used}")));
    }
    assert!(wrong.is_empty(), "ARCHITECTURE.md does not allow:\n{}", wrong.join("\n"));
}

#[test]
fn the_table_has_no_upward_edge_and_no_module_that_is_gone() {
    let documented = documented();
    let actual = actual();
    for (module, uses) in &documented.may_use {
        assert!(actual.contains_key(module), "{module} is in the table but not in src/");
        for used in uses {
            let (own, other) = (documented.rank[module], documented.rank[used]);
            assert!(other < own, "{module} (rank {own}) may not use {used} (rank {other})");
        }
    }
}
