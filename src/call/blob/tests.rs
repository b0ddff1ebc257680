use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use proptest::prelude::*;

use super::*;

/// A directory of its own that goes with the test.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        Self(std::env::temp_dir().join(format!("mcp-blob-{}", unique_mark())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn res_01_names_come_from_uri_and_media_type() {
    for (uri, mime, name) in [
        ("file:///a/report.pdf", Some("application/pdf"), "report.pdf"),
        ("file:///a/report", Some("application/pdf; charset=x"), "report.pdf"),
        ("file:///a/photo.JPEG", Some("image/jpeg"), "photo.jpeg"),
        ("https://h/x.exe?a=/b.pdf#/c", Some("application/pdf"), "x.pdf"),
        ("x://h/data.csv", None, "data.csv"),
        ("x://h/data", Some("application/x-own"), "data.bin"),
        ("urn:isbn:123", Some("text/plain"), "123.txt"),
        ("", None, "resource.bin"),
        ("///", Some("image/png"), "resource.png"),
        ("file:///a%20b%2Fc%c3%bc.txt", None, "c.txt"),
        ("file:///..", None, "resource.bin"),
        ("file:///%2e%2e%2f%2e%2e%2fetc%2fpasswd", None, "passwd.bin"),
        ("file:///x%00.pdf", Some("application/pdf"), "x.pdf"),
        (r"file:///C:\Windows\x.txt", None, "x.txt"),
        ("file:///CON", None, "_CON.bin"),
        ("file:///nul.txt", None, "_nul.txt"),
        ("file:///com1.tar.gz", None, "_com1.tar.gz"),
        ("file:///.bashrc", None, "bashrc.bin"),
        ("file:///a.txt. . .", None, "a.txt"),
        ("file:///a.b/../", None, "resource.bin"),
        ("data:image/png;base64,AAAA", Some("image/png"), "png_base64_AAAA.png"),
    ] {
        assert_eq!(file_name(uri, mime), name, "{uri}");
    }
    let long = file_name(&format!("file:///{}.txt", "n".repeat(4096)), None);
    assert!(long.len() <= NAME_LIMIT && split_extension(&long).1 == ".txt", "{long}");
}

proptest! {
    #[test]
    fn res_01_no_name_leaves_the_directory(uri in ".{0,200}", mime in prop::option::of(".{0,30}")) {
        let name = file_name(&uri, mime.as_deref());
        prop_assert!(!name.is_empty() && name.len() <= NAME_LIMIT);
        prop_assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_')), "{name}");
        prop_assert!(!name.starts_with('.') && !name.ends_with('.'));
        prop_assert!(!is_reserved_on_windows(&name));
    }

    #[test]
    fn base64_of_every_dialect(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let standard = STANDARD.encode(&bytes);
        let broken = standard.as_bytes().chunks(7).map(String::from_utf8_lossy).collect::<Vec<_>>().join("\r\n");
        for text in [standard.clone(), standard.trim_end_matches('=').to_owned(), URL_SAFE_NO_PAD.encode(&bytes), broken] {
            prop_assert_eq!(&decode_base64(&text).unwrap(), &bytes, "{}", text);
        }
    }

    #[test]
    fn no_base64_panics(text in ".{0,60}") {
        if let Err(error) = decode_base64(&text) {
            prop_assert_eq!(error.code(), ErrorCode::ResultInvalid);
        }
    }
}

#[test]
fn res_01_nothing_is_overwritten() {
    let scratch = Scratch::new();
    let mut paths = HashSet::new();
    for round in 0..COUNTED_NAMES + 8 {
        let uri = if round % 2 == 0 { "file:///Report.pdf" } else { "file:///report.pdf" };
        let saved = save(&scratch.0, Some(uri), None, &round.to_le_bytes()).unwrap();
        assert_eq!(Path::new(&saved.path).parent(), Some(scratch.0.as_path()));
        assert_eq!(std::fs::read(&saved.path).unwrap(), round.to_le_bytes());
        assert!(paths.insert(saved.path));
    }
}

#[cfg(unix)]
#[test]
fn res_01_only_the_owner_may_read_and_links_are_not_followed() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new();
    let saved = save(&scratch.0.join("deep"), Some("file:///a.bin"), None, b"x").unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(Path::new(&saved.path)), mode(&scratch.0.join("deep"))), (0o600, 0o700));
    let victim = scratch.0.join("victim");
    std::os::unix::fs::symlink(&victim, scratch.0.join("deep/b.bin")).unwrap();
    let saved = save(&scratch.0.join("deep"), Some("file:///b.bin"), None, b"x").unwrap();
    assert!(!victim.exists() && saved.path.ends_with("b-1.bin"), "{}", saved.path);
}

#[test]
fn a_directory_that_cannot_be_made_is_an_error() {
    let scratch = Scratch::new();
    std::fs::write(&scratch.0, b"a file").unwrap();
    let error = save(&scratch.0, None, None, b"x").unwrap_err();
    assert_eq!(error.code(), ErrorCode::Internal);
    std::fs::remove_file(&scratch.0).unwrap();
}
