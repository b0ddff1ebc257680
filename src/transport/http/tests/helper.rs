//! Headers that a command gives (OAU-04).

use super::server::{answer, json, result};
use super::*;
use crate::transport::authorizer::Authorizer;
use crate::transport::connector::headers_helper::{HeadersHelper, HelperRecipe};
use crate::transport::stdio::Inherit;

/// A helper that counts its runs in a file: `Bearer token-1`, `Bearer token-2`, …, at most `most`.
fn counting(name: &str, most: u32) -> Arc<HeadersHelper> {
    let given = "printf '{\"authorization\":\"Bearer token-%d\",\"X-Own\":\"given\"}' $n";
    running(name, &format!("[ $n -gt {most} ] && n={most}; {given}"))
}

/// A helper that runs a script with `n`, the number of the run.
fn running(name: &str, script: &str) -> Arc<HeadersHelper> {
    let file = std::env::temp_dir().join(format!("switchboard-{name}-{}", std::process::id()));
    let _ = std::fs::remove_file(&file);
    let script = format!("echo x >> {0}; n=$(wc -l < {0}); {script}", file.display());
    let vars = std::collections::BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]);
    Arc::new(HeadersHelper::new(HelperRecipe {
        server: "s".into(),
        url: "http://s.test/".to_owned(),
        words: vec!["sh".to_owned(), "-c".to_owned(), script],
        cwd: "/".into(),
        inherit: Inherit::Safe,
        environment: Arc::new(Environment { vars, ..environment() }),
    }))
}

fn with(server: &Server, helper: Arc<HeadersHelper>) -> Arc<HttpTransport> {
    let authorizers = Authorizers::new([helper as Arc<dyn Authorizer>]);
    let recipe = HttpRecipe { authorizers, ..recipe(&server.url("/mcp")) };
    open(recipe, Arc::new(Heard::default())).unwrap()
}

#[tokio::test]
async fn oau_04_f_045_one_more_run_for_all_that_were_refused() {
    let server = Server::start(|seen| match seen.header("authorization") {
        Some("Bearer token-2") => json(&result(seen.id(), "{}")),
        _ => answer(401, "WWW-Authenticate: Bearer\r\n", "token-1 is not good"),
    })
    .await;
    let transport = with(&server, counting("parallel", 9));
    let calls: Vec<_> = (0..50)
        .map(|id| {
            let own = Arc::clone(&transport);
            tokio::spawn(async move { ask(&own, id, "tools/call").await })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap(), "{}");
    }
    assert!(
        server.seen().iter().all(|seen| seen.header("x-own") == Some("given")),
        "it wins over what is configured"
    );
    assert!(server.seen().iter().all(|seen| seen.header("authorization") != Some("Bearer token-3")));
}

#[tokio::test]
async fn oau_04_a_second_refusal_is_the_answer_and_shows_no_secret() {
    for (status, code) in [(401, ErrorCode::AuthRequired), (403, ErrorCode::HttpStatus)] {
        let server = Server::start(move |seen| {
            let token = seen.header("authorization").unwrap_or_default().to_owned();
            answer(status, "", &format!("not good: {token}"))
        })
        .await;
        let transport = with(&server, counting(&format!("refused-{status}"), 9));
        let error = ask(&transport, 1, "initialize").await.unwrap_err();
        assert_eq!((error.code(), server.count("POST")), (code, 2));
        assert!(!format!("{error:?}").contains("token-"), "{error:?}");
        // The same again is not worth asking.
        let transport = with(&server, counting(&format!("same-{status}"), 1));
        let error = ask(&transport, 1, "initialize").await.unwrap_err();
        assert_eq!((error.code(), server.count("POST")), (code, 3));
    }
}

#[tokio::test]
async fn oau_04_headers_that_are_given_no_more_are_sent_no_more() {
    let server = Server::start(|seen| match seen.header("x-second") {
        Some(_) => json(&result(seen.id(), "{}")),
        None => answer(401, "", ""),
    })
    .await;
    let script =
        "[ $n = 1 ] && echo '{\"X-First\":\"1\",\"X-Own\":\"given\"}' || echo '{\"X-Second\":\"2\"}'";
    let transport = with(&server, running("fewer", script));
    assert_eq!(ask(&transport, 1, "initialize").await.unwrap(), "{}");
    let sent = |nth: usize| {
        let seen = &server.seen()[nth];
        ["x-first", "x-second", "x-own"].map(|name| seen.header(name).map(str::to_owned))
    };
    assert_eq!(sent(0), [Some("1".to_owned()), None, Some("given".to_owned())]);
    assert_eq!(sent(1), [None, Some("2".to_owned()), Some("own-secret".to_owned())]);
}
