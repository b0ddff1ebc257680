use std::collections::BTreeMap;
use std::path::PathBuf;

use super::*;
use crate::environment::Platform;
use crate::secret::SafeUrl;

fn environment(vars: &[(&str, &str)]) -> Environment {
    Environment {
        vars: vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        cwd: PathBuf::from("/"),
        home: None,
        platform: Platform::Unix,
    }
}

fn chosen(url: &str, vars: &[(&str, &str)]) -> Option<String> {
    let url = Url::parse(url).unwrap();
    proxy_for(&url, &ProxyChoice::Inherited, &environment(vars)).unwrap().map(|target| target.origin())
}

#[test]
fn prx_01_variables_by_scheme() {
    type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], Option<&'a str>);
    let cases: &[Case<'_>] = &[
        ("http://a.example/", &[], None),
        ("http://a.example/", &[("HTTP_PROXY", "http://p:1")], Some("http://p:1")),
        ("ws://a.example/", &[("HTTP_PROXY", "http://p:1")], Some("http://p:1")),
        ("https://a.example/", &[("HTTP_PROXY", "http://p:1")], None),
        ("https://a.example/", &[("HTTPS_PROXY", "http://p:1")], Some("http://p:1")),
        ("wss://a.example/", &[("https_proxy", "p:3128")], Some("http://p:3128")),
        ("wss://a.example/", &[("ALL_PROXY", "https://p")], Some("https://p:443")),
        ("http://a.example/", &[("all_proxy", "http://p")], Some("http://p:80")),
        (
            "http://a.example/",
            &[("http_proxy", "http://low:1"), ("HTTP_PROXY", "http://up:1")],
            Some("http://low:1"),
        ),
        (
            "http://a.example/",
            &[("HTTP_PROXY", "http://p:1"), ("ALL_PROXY", "http://q:1")],
            Some("http://p:1"),
        ),
        ("http://a.example/", &[("HTTP_PROXY", "  ")], None),
        ("http://a.example/", &[("HTTP_PROXY", "http://p:1"), ("REQUEST_METHOD", "GET")], None),
        ("http://a.example/", &[("HTTP_PROXY", "http://[::1]:8080")], Some("http://[::1]:8080")),
    ];
    for (url, vars, expected) in cases {
        assert_eq!(chosen(url, vars).as_deref(), *expected, "{url} {vars:?}");
    }
}

#[test]
fn prx_01_loopback_goes_straight_unless_asked() {
    for url in [
        "http://localhost:1/",
        "http://x.localhost/",
        "http://127.9.9.9/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
    ] {
        assert_eq!(chosen(url, &[("ALL_PROXY", "http://p:1")]), None, "{url}");
        let asked = ProxyChoice::Url(SafeUrl::new("http://p:1"));
        let target = proxy_for(&Url::parse(url).unwrap(), &asked, &environment(&[])).unwrap();
        assert_eq!(target.unwrap().origin(), "http://p:1", "{url}");
    }
    let off = proxy_for(
        &Url::parse("http://a.example").unwrap(),
        &ProxyChoice::Off,
        &environment(&[("ALL_PROXY", "http://p:1")]),
    );
    assert_eq!(off.unwrap(), None);
}

#[test]
fn prx_01_no_proxy_table() {
    let cases = [
        ("http://a.example/", "*", true),
        ("http://a.example/", "a.example", true),
        ("http://A.EXAMPLE/", "a.Example", true),
        ("http://b.a.example/", "a.example", true),
        ("http://b.a.example/", ".a.example", true),
        ("http://b.a.example/", "*.a.example", true),
        ("http://ba.example/", "a.example", false),
        ("http://a.example.evil/", "a.example", false),
        ("http://a.example:8080/", "a.example:8080", true),
        ("http://a.example/", "a.example:8080", false),
        ("https://a.example/", "a.example:443", true),
        ("http://a.example/", "x, ,y  a.example", true),
        ("http://10.1.2.3/", "10.0.0.0/8", true),
        ("http://11.1.2.3/", "10.0.0.0/8", false),
        ("http://10.1.2.3/", "0.0.0.0/0", true),
        ("http://10.1.2.3/", "10.1.2.3", true),
        ("http://10.1.2.3/", "10.1.2.3/33", false),
        ("http://[fd00::1]/", "fd00::/8", true),
        ("http://[fe00::1]/", "fd00::/8", false),
        ("http://[fd00::1]:99/", "[fd00::1]:99", true),
        ("http://[fd00::1]:98/", "[fd00::1]:99", false),
        ("http://[fd00::1]/", "fd00::1", true),
        ("http://[fd00::1]/", "::/0", true),
        ("http://[::ffff:10.0.0.1]/", "10.0.0.0/8", true),
        ("http://a.example/", ".", false),
        ("http://a.example/", "", false),
    ];
    for (url, list, straight) in cases {
        let got = chosen(url, &[("ALL_PROXY", "http://p:1"), ("NO_PROXY", list)]).is_none();
        assert_eq!(got, straight, "{url} {list:?}");
    }
}

#[test]
fn f_053_credentials_are_decoded_and_never_shown() {
    let vars = [("HTTP_PROXY", "http://al%40ice:p%3Assw0rd%@p:1")];
    let url = Url::parse("http://a.example").unwrap();
    let target = proxy_for(&url, &ProxyChoice::Inherited, &environment(&vars)).unwrap().unwrap();
    let (user, password) = target.credentials.clone().unwrap();
    assert_eq!((user.as_str(), password.expose().as_str()), ("al@ice", "p:ssw0rd%"));
    assert_eq!(format!("{target:?}"), "http://p:1");
    assert_eq!(target.authorization().unwrap().expose(), "Basic YWxAaWNlOnA6c3N3MHJkJQ==");
    for bad in ["socks5://me:hidden1@p:1", "http://me:hidden1@", "http://me:hidden1@p:99999"] {
        let vars = BTreeMap::from([("HTTP_PROXY".to_owned(), bad.to_owned())]);
        let error =
            proxy_for(&url, &ProxyChoice::Inherited, &Environment { vars, ..environment(&[]) }).unwrap_err();
        assert_eq!(error.code(), ErrorCode::ProxyFailed, "{bad}");
        assert!(!error.message().contains("hidden1"), "{error:?}");
    }
}
