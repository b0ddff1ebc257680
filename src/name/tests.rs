use proptest::prelude::*;

use super::*;

fn server(name: &str, strength: u8) -> NamedServer<'_> {
    NamedServer { name, strength }
}

fn names_of(wire_names: &[&str], limit: usize) -> Vec<String> {
    item_names("mcp__s__", "s", wire_names, limit).names.into_iter().flatten().collect()
}

#[test]
fn nam_01_builds_full_names() {
    for (server, tool, full) in [
        ("github", "create_issue", "mcp__github__create_issue"),
        ("my_server", "search", "mcp__my_server__search"),
        ("my-srv", "a.b", "mcp__my-srv__a_b"),
        ("my__srv", "tool", "mcp__my_srv__tool"),
        ("my____srv", "a__b", "mcp__my_srv__a__b"),
        ("My Server!", "GET:/x", "mcp__My_Server__GET__x"),
        ("a._.b", "my tool", "mcp__a_b__my_tool"),
        ("srv_", "_t", "mcp__srv___t"),
        ("__proto__", "__proto__", "mcp___proto____proto__"),
        ("s", "constructor", "mcp__s__constructor"),
        ("s", "日本", "mcp__s____"),
    ] {
        assert_eq!(build_tool_name(server, tool), full, "NAM-01, J2, H12, I9: {server:?} {tool:?}");
    }
}

#[test]
fn nam_01_names_without_usable_characters_get_a_hash() {
    let (one, other) = (normalize_server_name("日本"), normalize_server_name("中国"));
    assert_ne!(one, other);
    for part in [one, other, normalize_server_name(""), normalize_server_name("___")] {
        assert!(part.len() == 8 && part.bytes().all(|b| b.is_ascii_hexdigit()), "{part}");
    }
}

#[test]
fn nam_02_splits_at_first_double_underscore() {
    for (full, parts) in [
        ("mcp__my_server__search", Some(("my_server", "search"))),
        ("mcp__my__special__tool", Some(("my", "special__tool"))),
        ("mcp__server__name__with__dupes", Some(("server", "name__with__dupes"))),
        ("mcp__a___t", Some(("a", "_t"))),
        ("mcp__a__", None),
        ("mcp____t", None),
        ("mcp__a_b", None),
        ("mcp__", None),
        ("MCP__a__b", None),
        ("Write", None),
        ("", None),
        ("xmcp__a__b", None),
    ] {
        assert_eq!(parse_tool_name(full), parts, "NAM-02: {full}");
    }
}

#[test]
fn nam_04_stronger_then_lesser_name_keeps_the_plain_part() {
    let result = server_prefixes(&[server("a b", 1), server("a.b", 3), server("a/b", 3), server("other", 0)]);
    assert_eq!(result.parts[1], "a_b");
    assert_eq!(result.parts[3], "other");
    for index in [0, 2] {
        assert!(result.parts[index].starts_with("a_b_") && result.parts[index].len() == 12, "{result:?}");
    }
    let pairs: Vec<_> = result.collisions.iter().map(|c| (c.first.as_str(), c.other.as_str())).collect();
    assert_eq!(pairs, [("a.b", "a/b"), ("a.b", "a b")]);
    assert!(result.collisions[0].message().contains(r#""a.b" and "a/b" both become "a_b""#));
}

#[test]
fn nam_04_a_suffixed_server_never_takes_a_plain_name() {
    let alone = server_prefixes(&[server("a b", 1), server("a.b", 1)]);
    let taken = alone.parts[1].clone();
    let result = server_prefixes(&[server("a b", 9), server("a.b", 8), server(&taken, 0)]);
    assert_eq!(result.parts[2], taken, "the server that is really called so keeps its name");
    assert_ne!(result.parts[1], taken);
    assert_eq!(result.collisions.len(), 1);
}

#[test]
fn nam_04_suffixes_are_the_same_in_every_release() {
    let result = server_prefixes(&[server("a b", 1), server("a.b", 1)]);
    assert_eq!(result.parts, ["a_b", "a_b_bd516c11"], "a changed hash renames tools under stored rules");
    assert_eq!(names_of(&["a b", "a.b"], 64), ["mcp__s__a_b", "mcp__s__a_b_7a70df94"]);
}

#[test]
fn nam_04_items_that_normalise_alike_stay_apart() {
    let result = item_names("mcp__s__", "s", &["日本", "a.b", "a b", "中国", "a_b"], 64);
    assert_eq!(result.names[2].as_deref(), Some("mcp__s__a_b"), "first by wire name");
    assert_eq!(result.names[3].as_deref(), Some("mcp__s____"));
    assert_eq!(result.collisions.len(), 3, "J2, J3: each is reported: {:?}", result.collisions);
    assert!(result.collisions.iter().any(|c| c.first == "a b" && c.other == "a.b"));
    assert!(result.duplicates.is_empty());
}

#[test]
fn nam_04_same_wire_name_twice_is_reported() {
    let result = item_names("mcp__s__", "s", &["x", "y", "x", "x"], 64);
    assert_eq!(result.duplicates, [2, 3]);
    assert_eq!(
        result.names,
        [Some("mcp__s__x".to_owned()), Some("mcp__s__y".to_owned()), None, None],
        "the first stays"
    );
    assert!(result.collisions.is_empty(), "one name twice is no collision of two names");
}

#[test]
fn nam_04_an_item_cannot_take_the_suffixed_name_of_another() {
    let suffixed = names_of(&["a b", "a.b"], 64).remove(1);
    let wire = suffixed.strip_prefix("mcp__s__").unwrap();
    let names = names_of(&["a b", "a.b", wire], 64);
    assert_eq!(names[2], suffixed);
    assert_ne!(names[1], suffixed);
}

#[test]
fn nam_05_long_names_are_cut_and_hashed() {
    let long = "x".repeat(200);
    let longer = "x".repeat(201);
    let names = names_of(&[&long, &longer, "short"], 64);
    assert_eq!(names[0].len(), 64, "H12: 200 characters");
    assert!(names[0].starts_with("mcp__s__xxxx"));
    assert_ne!(names[0], names[1]);
    assert_eq!(names[2], "mcp__s__short");
    let exact = "x".repeat(56);
    assert_eq!(names_of(&[&exact], 64), [format!("mcp__s__{exact}")], "64 characters are within 64");
}

#[test]
fn nam_05_a_long_server_part_is_cut_too() {
    let server = "s".repeat(300);
    let prefix = item_prefix(&normalize_server_name(&server));
    for limit in [0, 24, 25, 26, 40, 64, 128] {
        let names = item_names(&prefix, &server, &["read", "write"], limit).names;
        for name in names.iter().flatten() {
            assert!(name.len() <= limit.max(SHORTEST_LIMIT), "{name} over {limit}");
            assert!(parse_tool_name(name).is_some(), "{name} still parses");
        }
        assert_ne!(names[0], names[1]);
    }
}

#[test]
fn nam_05_a_prefix_that_leaves_room_for_a_hash_alone_stays_whole() {
    let server = "s".repeat(48);
    let prefix = item_prefix(&server);
    let name = item_names(&prefix, &server, &["a_long_tool_name"], 64).names.remove(0).unwrap();
    assert!(name.starts_with(&prefix) && name.len() == prefix.len() + 8, "{name}");
}

#[test]
fn nam_06_items_without_prefix_keep_their_own_name() {
    let result = item_names("", "sdk", &["Write", "__proto__", ""], 64);
    assert_eq!(result.names[0].as_deref(), Some("Write"));
    assert_eq!(result.names[1].as_deref(), Some("__proto__"), "I9");
    assert_eq!(result.names[2].as_ref().map(String::len), Some(8), "an empty name gets a hash");
}

#[test]
fn near_misses_are_found_nearest_first() {
    let names = ["search", "serach", "fetch", "mcp__github__search", "Search"];
    assert_eq!(
        near_misses("search", names.into_iter(), 10),
        ["Search", "mcp__github__search", "search", "serach"]
    );
    assert_eq!(near_misses("searhc", names.into_iter(), 1), ["Search"]);
    assert!(near_misses("write", names.into_iter(), 10).is_empty());
    assert!(near_misses("", names.into_iter(), 10).is_empty());
}

#[test]
fn near_misses_are_bounded() {
    let long = "x".repeat(257);
    assert!(near_misses(&long, [long.as_str()].into_iter(), 10).is_empty());
    assert!(near_misses("x", std::iter::repeat_n("y", 5_000).chain(["x"]), 10).iter().all(|n| n != "x"));
}

proptest! {
    #[test]
    fn nam_02_parse_undoes_build(server in ".{0,40}|[_a.]{0,8}", tool in ".{1,40}|[_a.]{1,8}") {
        let full = build_tool_name(&server, &tool);
        let (server_part, tool_part) = (normalize_server_name(&server), normalize_name(&tool));
        prop_assert_eq!(parse_tool_name(&full), Some((server_part.as_str(), tool_part.as_str())));
        prop_assert_eq!(normalize_server_name(&server_part), server_part);
    }

    #[test]
    fn nam_04_server_parts_are_unique_and_parse(names in prop::collection::btree_set("[a._ ]{0,5}|.{0,8}", 0..12), strengths in prop::collection::vec(0u8..3, 12)) {
        let servers: Vec<_> = names.iter().zip(&strengths).map(|(n, &s)| server(n, s)).collect();
        let result = server_prefixes(&servers);
        let unique: HashSet<_> = result.parts.iter().collect();
        prop_assert_eq!(unique.len(), servers.len());
        for part in &result.parts {
            let full = item_prefix(part) + "t";
            prop_assert_eq!(parse_tool_name(&full), Some((part.as_str(), "t")));
        }
        let mut turned = servers.clone();
        turned.reverse();
        let mut parts = server_prefixes(&turned).parts;
        parts.reverse();
        prop_assert_eq!(parts, result.parts, "arrival decides nothing");
    }

    #[test]
    fn nam_05_item_names_are_unique_short_and_stable(
        wires in prop::collection::vec("[a._ ]{0,4}|.{0,90}", 0..16),
        server in "[a-z_]{1,80}",
        limit in 0usize..100,
    ) {
        let prefix = item_prefix(&normalize_server_name(&server));
        let wires: Vec<&str> = wires.iter().map(String::as_str).collect();
        let result = item_names(&prefix, &server, &wires, limit);
        let given: Vec<_> = result.names.iter().flatten().collect();
        prop_assert_eq!(given.iter().collect::<HashSet<_>>().len(), given.len());
        prop_assert_eq!(given.len(), wires.iter().collect::<HashSet<_>>().len());
        prop_assert_eq!(given.len() + result.duplicates.len(), wires.len());
        for name in &given {
            prop_assert!(name.len() <= limit.max(SHORTEST_LIMIT));
            prop_assert!(parse_tool_name(name).is_some());
        }
        let mut turned = wires.clone();
        turned.reverse();
        let other = item_names(&prefix, &server, &turned, limit);
        for (index, wire) in wires.iter().enumerate() {
            let Some(name) = &result.names[index] else { continue };
            let place = turned.iter().position(|w| w == wire).unwrap();
            prop_assert_eq!(other.names[place].as_ref(), Some(name));
        }
    }
}
