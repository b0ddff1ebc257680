use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::super::spawn_failure::SpawnFailure;
use super::super::{StdioRecipe, spawn};
use super::{Scratch, shell};
use crate::environment::Environment;
use crate::error::{ErrorCode, McpError};

fn recipe(command: &str) -> StdioRecipe {
    StdioRecipe { command: command.to_owned(), args: Vec::new(), ..shell("") }
}

fn refused(recipe: &StdioRecipe) -> McpError {
    let error = spawn(recipe, &Environment::capture(), Box::new(|_| {})).expect_err("it must not start");
    assert_eq!(error.server(), Some("fixture"));
    error
}

fn fact(error: &McpError, name: &str) -> String {
    let facts = error.facts().data.as_ref().expect("facts").get();
    let facts: serde_json::Value = serde_json::from_str(facts).expect("JSON");
    facts[name].as_str().unwrap_or_default().to_owned()
}

/// The reason of a permanent failure.
fn reason(recipe: &StdioRecipe) -> String {
    let error = refused(recipe);
    assert_eq!(error.code(), ErrorCode::SpawnFailed, "{error}");
    fact(&error, "reason")
}

#[tokio::test]
async fn std_06_not_found_names_the_path_that_was_searched_and_whose_it_is() {
    let mut recipe = recipe("no-such-program-x");
    let error = refused(&recipe);
    let host = Environment::capture().get("PATH").expect("a path").to_owned();
    assert!(error.message().contains(&host) && error.message().contains("host's PATH"), "{error}");
    assert_eq!((fact(&error, "reason"), fact(&error, "pathFrom")), ("not-found".into(), "host".into()));
    recipe.env = vec![("PATH".to_owned(), "/only/here".to_owned())];
    let error = refused(&recipe);
    assert!(error.message().contains("/only/here") && error.message().contains("definition"), "{error}");
    assert_eq!(
        (fact(&error, "searchedPath"), fact(&error, "pathFrom")),
        ("/only/here".into(), "config".into())
    );
}

#[tokio::test]
async fn f_022_and_f_023_each_failure_has_its_reason() {
    let scratch = Scratch::new("failures");
    let here = |path: PathBuf| recipe(path.to_str().expect("text"));
    scratch.file("plain.txt", "no program", 0o644);
    std::fs::create_dir(scratch.0.join("folder")).expect("a directory");
    let missing_shell = scratch.file("missing.sh", "#!/no/such/shell -x\n", 0o755);
    let crlf = scratch.file("crlf.sh", "#!/bin/sh\r\necho\r\n", 0o755);
    let text = scratch.file("text", "just text\n", 0o755);
    let cases = [
        (here(scratch.0.join("nothing")), "not-found"),
        (here(scratch.0.join("plain.txt")), "not-executable"),
        (here(scratch.0.join("folder")), "is-directory"),
        (here(missing_shell), "interpreter-missing"),
        (here(crlf), "shebang-carriage-return"),
        (here(text), "not-a-program"),
        (recipe(""), "command-empty"),
        (recipe("a\0b"), "not-representable"),
        (StdioRecipe { args: vec!["a\0".into()], ..shell("") }, "not-representable"),
        (StdioRecipe { env: vec![("A=B".into(), String::new())], ..shell("") }, "not-representable"),
        (StdioRecipe { args: vec!["x".repeat(4_000_000)], ..shell("") }, "arguments-too-long"),
        (StdioRecipe { cwd: Some(scratch.0.join("gone")), ..shell("") }, "cwd-missing"),
        (StdioRecipe { cwd: Some(scratch.0.join("plain.txt")), ..shell("") }, "cwd-not-directory"),
    ];
    for (recipe, expected) in cases {
        assert_eq!(reason(&recipe), expected, "{:?}", recipe.command);
    }
}

#[tokio::test]
async fn b8_a_missing_directory_is_told_apart_by_who_chose_it() {
    let gone = PathBuf::from("/no/such/directory");
    let error = refused(&StdioRecipe { cwd: Some(gone.clone()), ..shell("") });
    assert!(error.message().contains("correct cwd"), "{error}");
    let error = refused(&StdioRecipe { default_cwd: gone.clone(), ..shell("") });
    assert!(error.message().contains("set cwd"), "{error}");
    assert_eq!(fact(&error, "cwd"), gone.to_str().expect("text"));
}

#[tokio::test]
async fn std_06_the_command_is_searched_in_the_childs_path_and_relative_to_its_directory() {
    let scratch = Scratch::new("lookup");
    scratch.file("tool", "#!/bin/sh\nexit 7\n", 0o755);
    std::fs::create_dir(scratch.0.join("shadow")).expect("a directory");
    scratch.file("shadow/tool", "not executable", 0o644);
    let path = format!("{}:{}", scratch.0.join("shadow").display(), scratch.0.display());
    let searched = StdioRecipe { env: vec![("PATH".into(), path)], ..recipe("tool") };
    let relative = StdioRecipe { cwd: Some(scratch.0.clone()), ..recipe("./tool") };
    for recipe in [searched, relative] {
        let spawned = super::run(&recipe);
        assert_eq!(spawned.process.exited().await.code, Some(7), "{:?}", recipe.command);
    }
    for path in [":", ".", "./", "shadow/..", "shadow:.:"] {
        let beside = StdioRecipe {
            env: vec![("PATH".into(), path.into())],
            cwd: Some(scratch.0.clone()),
            ..recipe("tool")
        };
        assert_eq!(reason(&beside), "not-found", "B-012 {path} is not the working directory");
    }
}

#[tokio::test]
async fn f_023_a_program_that_is_being_written_is_a_passing_failure() {
    let scratch = Scratch::new("busy");
    let program = scratch.0.join("program");
    std::fs::copy("/bin/sh", &program).expect("a copy");
    let writer = std::fs::OpenOptions::new().append(true).open(&program).expect("open");
    let error = refused(&recipe(program.to_str().expect("text")));
    drop(writer);
    assert_eq!((error.code(), fact(&error, "reason")), (ErrorCode::ConnectFailed, "file-busy".to_owned()));
}

#[test]
fn f_022_only_passing_failures_may_be_retried() {
    let file = Path::new("/bin/sh");
    let transient = [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOMEM, Errno::TXTBSY];
    let permanent = [Errno::NOENT, Errno::ACCESS, Errno::NOEXEC, Errno::TOOBIG, Errno::ISDIR, Errno::LOOP];
    let code = |errno: Errno| {
        let error = io::Error::from_raw_os_error(errno.raw_os_error());
        SpawnFailure::of(&error, file).into_error("s", "sh").code()
    };
    for errno in transient {
        assert_eq!(code(errno), ErrorCode::ConnectFailed, "{errno:?}");
        assert!(code(errno).retryable());
    }
    for errno in permanent {
        assert_eq!(code(errno), ErrorCode::SpawnFailed, "{errno:?}");
        assert!(!code(errno).retryable());
    }
}

#[test]
fn messages_are_one_line_and_bounded() {
    let nasty = "a\n\u{1b}[31m".repeat(10_000);
    let failure = SpawnFailure::FileMissing { file: PathBuf::from(&nasty) };
    let error = failure.into_error("s", &nasty);
    assert!(!error.message().chars().any(char::is_control));
    assert!(error.message().len() < 4_000);
}

#[test]
fn std_06_arguments_and_values_never_stand_in_an_error() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let recipe = StdioRecipe {
        args: vec!["--token=sesame".into()],
        env: vec![("KEY".into(), "sesame\0".into())],
        ..recipe("no-such-program-x")
    };
    let error = runtime.block_on(async { refused(&recipe) });
    assert!(!error.to_json().contains("sesame"));
}

#[test]
fn a_start_outside_a_runtime_is_an_error_not_a_panic() {
    let error = spawn(&shell(""), &Environment::capture(), Box::new(|_| {})).expect_err("no runtime");
    assert_eq!(error.code(), ErrorCode::Internal);
}
