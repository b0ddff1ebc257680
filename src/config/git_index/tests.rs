use proptest::prelude::*;

use super::*;

/// An index of version 2 or 3 with these paths.
fn index(version: u32, hash: usize, paths: &[&str], extensions: &[u8]) -> Vec<u8> {
    let mut bytes = b"DIRC".to_vec();
    bytes.extend(version.to_be_bytes());
    bytes.extend(u32::try_from(paths.len()).unwrap().to_be_bytes());
    let mut before = String::new();
    for path in paths {
        let start = bytes.len();
        bytes.extend(vec![1; 40 + hash]);
        bytes.extend(if version >= 3 { [0x40, 9] } else { [0, 9] });
        if version >= 3 {
            bytes.extend([0, 0]);
        }
        if version == 4 {
            let shared = before.bytes().zip(path.bytes()).take_while(|(a, b)| a == b).count();
            assert!(before.len() - shared < 128);
            bytes.push(u8::try_from(before.len() - shared).unwrap());
            bytes.extend(&path.as_bytes()[shared..]);
            bytes.push(0);
        } else {
            bytes.extend(path.as_bytes());
            let length = bytes.len() - start;
            bytes.extend(vec![0; 8 - length % 8]);
        }
        before = (*path).to_owned();
    }
    bytes.extend(extensions);
    bytes.extend(vec![7; hash]);
    bytes
}

#[test]
fn cfg_01_listed_or_not_in_every_version() {
    let paths = [".claude/settings.json", ".claude/settings.local.json", "README.md", "src/a/b.rs"];
    for hash in [20, 32] {
        for version in [2, 3, 4] {
            let bytes = index(version, hash, &paths, b"TREE\0\0\0\x02xx");
            let say = |path: &str| listing(&bytes, path);
            assert_eq!(say(".claude/settings.local.json"), Listing::Listed, "{version} {hash}");
            assert_eq!(say(".CLAUDE/Settings.Local.json"), Listing::Listed, "case makes no other file");
            assert_eq!(say(".claude/local-settings.json"), Listing::NotListed);
            assert_eq!(say("README"), Listing::NotListed, "{version} {hash}");
        }
    }
    assert_eq!(listing(&index(2, 20, &[], b""), "a"), Listing::NotListed);
}

#[test]
fn cfg_01_what_the_path_lies_in_counts() {
    let bytes = index(2, 20, &[".claude", "sub/"], b"");
    assert_eq!(listing(&bytes, ".claude/settings.local.json"), Listing::Listed, "a link or submodule");
    assert_eq!(listing(&bytes, "sub/.claude/settings.local.json"), Listing::Listed, "a collapsed directory");
    assert_eq!(listing(&bytes, ".claude2/settings.local.json"), Listing::NotListed);
}

#[test]
fn cfg_01_what_is_no_whole_index_gives_no_answer() {
    let good = index(2, 20, &["a", "b"], b"");
    for length in 0..good.len() {
        assert_eq!(listing(&good[..length], "c"), Listing::Unknown, "cut at {length}");
    }
    assert_eq!(listing(&index(2, 20, &["a"], b"link\0\0\0\0"), "c"), Listing::Unknown, "a split index");
    assert_eq!(listing(&index(2, 20, &["b", "a"], b""), "c"), Listing::Unknown, "not in order");
    assert_eq!(listing(&index(5, 20, &["a"], b""), "c"), Listing::Unknown);
    let mut many = good;
    many[8..12].copy_from_slice(&u32::MAX.to_be_bytes());
    assert_eq!(listing(&many, "c"), Listing::Unknown);
}

proptest! {
    #[test]
    fn cfg_01_random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut with_head = b"DIRC\0\0\0\x02".to_vec();
        with_head.extend(&bytes);
        listing(&bytes, "a/b");
        listing(&with_head, "a/b");
    }
}
