use serde_json::{Value, json};

use super::frontmatter::read;
use super::*;

const TEXT: &str = "---\nname: pdf\ndescription: Fills forms\n---\nBody\n";

fn digest(text: &str) -> String {
    Sha256::digest(text).iter().fold("sha256:".to_owned(), |out, byte| out + &format!("{byte:02x}"))
}

fn entry(resources: &Value) -> Value {
    json!({
        "uri": "skill://acme/pdf/SKILL.md",
        "frontmatter": { "name": "pdf", "description": "Fills forms" },
        "resources": resources,
    })
}

fn file(path: &str, text: &str) -> Value {
    json!({ "uri": format!("skill://acme/pdf/{path}"), "digest": digest(text), "size": text.len() })
}

fn mapped(entries: &[Value]) -> (Vec<SkillDefinition>, Vec<Diagnostic>) {
    let raws: Vec<Box<RawValue>> =
        entries.iter().map(|entry| RawValue::from_string(entry.to_string()).unwrap()).collect();
    map_skills("srv", &raws.iter().map(|raw| &**raw).collect::<Vec<_>>())
}

fn skill(resources: &Value) -> SkillDefinition {
    let (mut skills, found) = mapped(&[entry(resources)]);
    assert!(found.is_empty(), "{found:?}");
    skills.remove(0)
}

/// mcp:SKILL-03 mcp:SKILL-19
#[test]
fn skill_03_public_shape() {
    let one = skill(&json!([file("SKILL.md", TEXT), file("references/FORMS.md", "x")]));
    let seen: Value = serde_json::from_str(&format!("{{{}}}", one.body)).unwrap();
    assert_eq!(seen["name"], "pdf");
    assert_eq!(seen["description"], "Fills forms");
    assert_eq!((&seen["server"], &seen["uri"]), (&json!("srv"), &json!("skill://acme/pdf/SKILL.md")));
    assert_eq!((&seen["dynamic"], &seen["bytes"]), (&json!(false), &json!(TEXT.len() + 1)));
    assert_eq!(one.paths().map(|(path, _)| path).collect::<Vec<_>>(), ["SKILL.md", "references/FORMS.md"]);
    let dynamic = skill(&json!("dynamic"));
    let seen: Value = serde_json::from_str(&format!("{{{}}}", dynamic.body)).unwrap();
    assert_eq!((&seen["dynamic"], seen.get("fingerprint")), (&json!(true), None), "mcp:SKILL-19");
}

/// mcp:SKILL-19
#[test]
fn skill_19_the_fingerprint_is_that_of_the_files() {
    let print = |resources: &Value| {
        let body = format!("{{{}}}", skill(resources).body);
        serde_json::from_str::<Value>(&body).unwrap()["fingerprint"].clone()
    };
    let (a, b, other) = (file("SKILL.md", TEXT), file("b", "b"), file("b", "c"));
    assert_eq!(print(&json!([a, b])), print(&json!([b, a])));
    assert_ne!(print(&json!([a, b])), print(&json!([a, other])));
    assert_ne!(print(&json!([a, b])), print(&json!([a])));
}

/// mcp:SKILL-03 mcp:SKILL-08 mcp:SKILL-11
#[test]
fn skill_03_08_11_entries_that_must_not_be_loaded() {
    let good = file("SKILL.md", TEXT);
    let with = |name: &str, value: Value| {
        let mut changed = entry(&json!([good]));
        changed[name] = value;
        changed
    };
    let resource = |name: &str, value: Value| {
        let mut changed = good.clone();
        changed[name] = value;
        entry(&json!([changed]))
    };
    let broken = [
        json!(7),
        with("uri", json!("skill://acme/pdf/skill.md")),
        with("uri", json!("skill://SKILL.md")),
        with("uri", json!("pdf/SKILL.md")),
        with("uri", json!("skill://acme/pdf/SKILL.md?x")),
        with("uri", json!("skill://acme/p df/SKILL.md")),
        with("uri", json!("skill://acme/other/SKILL.md")),
        with("frontmatter", json!([])),
        with("frontmatter", json!({ "description": "d" })),
        with("frontmatter", json!({ "name": "pdf" })),
        with("frontmatter", json!({ "name": "pdf\u{200b}", "description": "d" })),
        with("resources", Value::Null),
        with("resources", json!("static")),
        with("resources", json!({})),
        with("resources", json!([])),
        with("resources", json!([file("references/FORMS.md", "x")])),
        with("resources", json!([good, good])),
        with("resources", json!([good, { "uri": "skill://acme/x", "digest": digest(""), "size": 0 }])),
        resource("digest", json!(digest(TEXT).to_uppercase())),
        resource("digest", json!(digest(TEXT)[7..])),
        resource("digest", json!("sha256:00")),
        resource("digest", json!("sha512:00")),
        resource("size", json!(-1)),
        resource("size", json!("49")),
        resource("size", json!(1.5)),
    ];
    for one in &broken {
        let (skills, found) = mapped(std::slice::from_ref(one));
        assert!(skills.is_empty(), "{one}");
        assert!(matches!(found[0].code, "SKILL_INVALID" | "SKILL_QUARANTINED"), "{one}: {}", found[0].code);
    }
    let mut missing = entry(&Value::Null);
    missing.as_object_mut().unwrap().remove("resources");
    assert!(mapped(&[missing]).0.is_empty());
    let (skills, found) = mapped(&[entry(&json!([good])), json!(7), entry(&json!("dynamic"))]);
    assert_eq!(skills.len(), 1, "the others stay");
    assert_eq!(found.iter().map(|one| one.code).collect::<Vec<_>>(), ["SKILL_INVALID", "SKILL_DUPLICATE"]);
}

/// mcp:SKILL-22
#[test]
fn skill_22_nothing_leads_out_of_a_skill() {
    let good = file("SKILL.md", TEXT);
    for path in ["../other/x", "a/%2E%2e/%2e./x", "a%2Fb", "/etc/x", "a//x", "", "C:/x"] {
        assert!(mapped(&[entry(&json!([good, file(path, "x")]))]).0.is_empty(), "{path}");
    }
    assert_eq!(mapped(&[entry(&json!([good, file("a..b/.x", "x")]))]).0.len(), 1);
    let above = json!({
        "uri": "skill://acme/pdf/../SKILL.md",
        "frontmatter": { "name": "..", "description": "d" },
        "resources": "dynamic",
    });
    assert!(mapped(&[above]).0.is_empty());
}

/// mcp:SKILL-08
#[test]
fn skill_08_as_much_as_has_to_be_supported_and_no_more() {
    let of =
        |count: usize, size: u64| {
            let mut files = vec![file("SKILL.md", TEXT)];
            files.extend((1..count).map(
                |n| json!({ "uri": format!("skill://acme/pdf/{n}"), "digest": digest(""), "size": size }),
            ));
            mapped(&[entry(&json!(files))])
        };
    assert!(matches!(of(512, 0).0[0].files, SkillFiles::Listed(_)));
    let most = MOST_BYTES - TEXT.len() as u64;
    assert!(matches!(of(2, most).0[0].files, SkillFiles::Listed(_)));
    for (skills, found) in [of(513, 0), of(2, most + 1), of(512, u64::MAX)] {
        let refusal = skills[0].find("SKILL.md").unwrap_err();
        assert_eq!((refusal.reason, found[0].code), ("limit", "SKILL_TOO_LARGE"));
        assert!(refusal.message.contains("at most"), "{}", refusal.message);
    }
}

/// mcp:SKILL-10 mcp:SKILL-22
#[test]
fn skill_10_22_references_stand_for_listed_files_only() {
    let one = skill(&json!([
        file("SKILL.md", TEXT),
        file("references/FORMS.md", "x"),
        file("a%20b.md", "x"),
        file("Q&A.md", "x"),
        file("nested/SKILL.md", "x"),
    ]));
    for (reference, path) in [
        ("references/FORMS.md", "references/FORMS.md"),
        ("./references/FORMS.md", "references/FORMS.md"),
        ("references/../references/FORMS.md#fields", "references/FORMS.md"),
        ("skill://acme/pdf/references/FORMS.md", "references/FORMS.md"),
        ("../pdf/SKILL.md", "SKILL.md"),
        ("a b.md", "a%20b.md"),
        ("Q%26A.md", "Q&A.md"),
        ("nested/SKILL.md", "nested/SKILL.md"),
    ] {
        let (uri, listed) = one.find(reference).unwrap_or_else(|error| panic!("{reference}: {error:?}"));
        assert_eq!(uri, format!("skill://acme/pdf/{path}"), "{reference}");
        assert!(listed.is_some());
    }
    for reference in [
        "",
        "FORMS.md",
        "other.md",
        "../other/SKILL.md",
        "/references/FORMS.md",
        "references%2FFORMS.md",
        "references/FORMS.md?x",
        "file:///etc/passwd",
        "skill://evil/pdf/references/FORMS.md",
        "https://acme/pdf/SKILL.md",
        "//evil/pdf/SKILL.md",
        "\u{0}",
    ] {
        assert_eq!(one.find(reference).unwrap_err().reason, "unlisted", "{reference}");
    }
}

#[test]
fn skill_10_a_dynamic_skill_stays_within_its_directory() {
    let one = skill(&json!("dynamic"));
    let found = |reference: &str| one.find(reference).map(|(uri, _)| uri).ok();
    assert_eq!(found("made/now.md#x").as_deref(), Some("skill://acme/pdf/made/now.md"));
    assert_eq!(found("skill://acme/pdf/x").as_deref(), Some("skill://acme/pdf/x"));
    for reference in [
        "../other/x",
        "%2e%2e/other/x",
        "skill://acme/pdfs/x",
        "a%2f..%2f..%2fx",
        "a%5cb",
        "x?y",
        "file:///x",
    ] {
        assert_eq!(found(reference), None, "{reference}");
    }
}

#[test]
fn skill_09_size_and_digest() {
    let one = skill(&json!([file("SKILL.md", TEXT)]));
    let (_, listed) = one.find("SKILL.md").unwrap();
    let listed = listed.unwrap();
    assert_eq!(listed.verify(TEXT.as_bytes()), Ok(()));
    assert_eq!(listed.verify(TEXT.replace("Body", "Evil").as_bytes()).unwrap_err().reason, "digest");
    assert_eq!(listed.verify(format!("{TEXT} ").as_bytes()).unwrap_err().reason, "size");
}

#[test]
fn skill_09_answers_hold_the_one_file() {
    let uri = "skill://acme/pdf/SKILL.md";
    let answer = |contents: Value| json!({ "contents": contents }).to_string();
    let text = answer(json!([{ "uri": uri, "text": "a\nb" }]));
    assert_eq!(content_of(&text, uri), Ok(FileContent::Text("a\nb".into())));
    let blob = answer(json!([{ "uri": uri, "blob": "YQ==" }]));
    assert_eq!(content_of(&blob, uri), Ok(FileContent::Blob("YQ==".into())));
    for broken in [
        json!([]),
        json!({}),
        json!([{ "uri": uri }]),
        json!([{ "uri": "skill://acme/pdf/other", "text": "a" }]),
        json!([{ "text": "a" }]),
        json!([{ "uri": uri, "text": "a", "blob": "YQ==" }]),
        json!([{ "uri": uri, "text": "a" }, { "uri": uri, "text": "b" }]),
    ] {
        assert_eq!(content_of(&answer(broken.clone()), uri).unwrap_err().reason, "answer", "{broken}");
    }
    let surrogate = format!(r#"{{"contents":[{{"uri":"{uri}","text":"\ud800"}}]}}"#);
    assert_eq!(content_of(&surrogate, uri).unwrap_err().reason, "answer");
}

#[test]
fn skill_11_frontmatter_field_by_field() {
    let file = "\u{feff}---\r\nname: pdf\r\nn: 1.0\r\nok: yes\r\nlist: [a, 2, {b: null}]\r\nlong: >-\r\n  one\r\n  two\r\n---\r\nBody";
    let found = read(file).unwrap();
    let entry =
        json!({ "long": "one two", "name": "pdf", "n": 1, "ok": "yes", "list": ["a", 2.0, { "b": null }] });
    assert_eq!(differences(&entry, &found), Vec::<String>::new());
    for (field, value) in [
        ("name", json!("pdf ")),
        ("n", json!("1.0")),
        ("ok", json!(true)),
        ("list", json!(["a", { "b": null }, 2])),
        ("long", json!("one\ntwo")),
        ("hooks", json!({})),
        ("description", json!(null)),
    ] {
        let mut other = entry.clone();
        other[field] = value;
        assert_eq!(differences(&other, &found), [field]);
    }
    let mut less = entry;
    less.as_object_mut().unwrap().remove("ok");
    assert_eq!(differences(&less, &found), ["ok"], "a field more in the file");
    let big = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let (one, other) = (big(r#"{"n":9007199254740993}"#), big(r#"{"n":9007199254740992}"#));
    assert_eq!(differences(&one, &other), ["n"]);
}

#[test]
fn skill_11_what_has_no_frontmatter_to_compare() {
    let long = format!("---\na: {}\n---\n", "x".repeat(70_000));
    let deep = format!("---\na: {}\n---\n", "[".repeat(5_000));
    let mut bomb = "---\na0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..10 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(",");
        bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    bomb.push_str("---\n");
    for broken in [
        "",
        "name: pdf\n",
        "---\nname: pdf\n",
        "--- \n- a\n---\n",
        "---\n---\n",
        "---\na: 1\na: 2\n---\n",
        "---\na: b: c\n---\n",
        "---\n? [a]\n: b\n---\n",
        "---\na: .nan\n---\n",
        &long,
        &deep,
        &bomb,
    ] {
        assert!(read(broken).is_err(), "{broken:.40}");
    }
    assert_eq!(
        read("---\na: &x [1]\nb: *x\n---").unwrap(),
        json!({ "a": [1], "b": [1] }),
        "a few aliases are fine"
    );
}
