//! A command whose output gives headers (OAU-04): run without a shell when a connection is made, and again when
//! the server refuses what it gave. What it prints is secret.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::header::HeaderMap;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::sync::OnceCell;
use url::Url;

use crate::environment::Environment;
use crate::error::{ErrorCode, McpError};
use crate::runtime::lock;
use crate::secret::{Redactor, Secret};
use crate::transport::BoxFuture;
use crate::transport::authorizer::{AuthRefusal, Authorizer, Mending, Presented};
use crate::transport::http::headers::configured;
use crate::transport::stdio::{Inherit, child_environment, find_program};

/// How long the command may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest output, and most headers in it.
const MAX_OUTPUT: usize = 64 * 1024;
const MAX_HEADERS: usize = 64;

/// What is needed to run the command.
pub struct HelperRecipe {
    /// The server, for the command and for errors.
    pub server: Arc<str>,
    /// URL of the server, for the command.
    pub url: String,
    /// Program and arguments.
    pub words: Vec<String>,
    /// Working directory.
    pub cwd: PathBuf,
    /// Variables of the host, where the definition is trusted with them (§2); otherwise only the safe ones.
    pub inherit: Inherit,
    /// Environment of the host.
    pub environment: Arc<Environment>,
}

/// The headers of one connection, as the command gave them last.
pub struct HeadersHelper {
    recipe: HelperRecipe,
    /// One run of the command, shared by everybody who needs its headers meanwhile.
    current: Mutex<Arc<OnceCell<HeaderMap>>>,
}

impl fmt::Debug for HeadersHelper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeadersHelper").field("server", &self.recipe.server).finish_non_exhaustive()
    }
}

impl HeadersHelper {
    /// Nothing runs before the first question.
    pub fn new(recipe: HelperRecipe) -> Self {
        Self { recipe, current: Mutex::default() }
    }

    /// The run whose headers count; a new one where those of the last were `refused`. One run serves all requests
    /// that were refused together (F-045).
    fn run(&self, refused: Option<&HeaderMap>) -> Arc<OnceCell<HeaderMap>> {
        let mut current = lock(&self.current);
        if refused.is_some() && current.get() == refused {
            *current = Arc::default();
        }
        Arc::clone(&current)
    }

    async fn headers(&self, refused: Option<&HeaderMap>) -> Result<HeaderMap, McpError> {
        let run = self.run(refused);
        run.get_or_try_init(|| self.recipe.run()).await.cloned()
    }
}

impl Authorizer for HeadersHelper {
    fn prepare(&self) -> BoxFuture<'_, Result<(), McpError>> {
        Box::pin(async { self.headers(None).await.map(drop) })
    }

    fn present<'a>(&'a self, _: &'a str, _: &'a Url) -> BoxFuture<'a, Result<Presented, McpError>> {
        Box::pin(async { Ok(Presented { headers: self.headers(None).await?, serial: 0 }) })
    }

    fn refused<'a>(
        &'a self,
        presented: &'a Presented,
        refusal: &'a AuthRefusal,
    ) -> BoxFuture<'a, Result<Mending, McpError>> {
        Box::pin(async {
            if refusal.again {
                return Ok(Mending::Nothing);
            }
            let now = self.headers(Some(&presented.headers)).await?;
            // What gives the same again says that there is nothing better.
            Ok(if now == presented.headers { Mending::Nothing } else { Mending::Renewed })
        })
    }

    fn redactor(&self) -> Redactor {
        let run = self.run(None);
        let values = run.get().into_iter().flat_map(HeaderMap::values);
        Redactor::new(values.filter_map(|value| std::str::from_utf8(value.as_bytes()).ok()))
    }
}

impl HelperRecipe {
    async fn run(&self) -> Result<HeaderMap, McpError> {
        let output = tokio::time::timeout(PATIENCE, self.output()).await.unwrap_or_else(|_| {
            Err(self.failed(&format!("did not end within {} ms", PATIENCE.as_millis())))
        })?;
        let given = read(&output).map_err(|why| self.failed(why))?;
        configured(&given)
            .map_err(|error| self.failed(&format!("gave what cannot be sent: {}", error.message())))
    }

    async fn output(&self) -> Result<Vec<u8>, McpError> {
        let (program, arguments) = self.words.split_first().ok_or_else(|| self.failed("names no program"))?;
        let own = [
            ("CLAUDE_CODE_MCP_SERVER_NAME".to_owned(), self.server.to_string()),
            ("CLAUDE_CODE_MCP_SERVER_URL".to_owned(), self.url.clone()),
        ];
        let variables: BTreeMap<String, String> = child_environment(&self.environment, &self.inherit, &own);
        let file = find_program(program, self.environment.platform, &variables, &self.cwd);
        let file = file.map_err(|why| self.failed(&format!("cannot be started: {why}")))?;
        let mut command = Command::new(file);
        #[cfg(unix)]
        command.arg0(program);
        command.args(arguments).env_clear().envs(variables).current_dir(&self.cwd);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        #[cfg(windows)]
        command.creation_flags(windows_sys::Win32::System::Threading::CREATE_NO_WINDOW);
        let child = command.spawn().map_err(|error| self.failed(&format!("cannot be started: {error}")))?;
        let mut group = Group(child);
        let mut output = Vec::new();
        if let Some(stdout) = group.0.stdout.take() {
            let mut bounded = stdout.take(MAX_OUTPUT as u64 + 1);
            let read = bounded.read_to_end(&mut output).await;
            read.map_err(|error| self.failed(&format!("cannot be read: {error}")))?;
        }
        if output.len() > MAX_OUTPUT {
            return Err(self.failed(&format!("printed more than {MAX_OUTPUT} bytes")));
        }
        let status = group.0.wait().await.map_err(|error| self.failed(&error.to_string()))?;
        if !status.success() {
            return Err(self.failed(&format!("failed: {status}")));
        }
        Ok(output)
    }

    fn failed(&self, what: &str) -> McpError {
        McpError::new(ErrorCode::AuthFailed, format!("the command of headersHelper {what}")).on(&self.server)
    }
}

/// A command and what it started: given up, they all end.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        // Once it was waited for, the command has no id any more; what it left behind on purpose stays.
        #[cfg(unix)]
        if let Some(group) =
            self.0.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw)
        {
            // Where that fails, there is nobody left.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

/// Reads the output: a JSON object of strings.
fn read(output: &[u8]) -> Result<Vec<(String, Secret<String>)>, &'static str> {
    const EXPECTED: &str = "printed something else than one JSON object of strings";
    let object: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(output).map_err(|_| EXPECTED)?;
    if object.len() > MAX_HEADERS {
        return Err("printed more headers than anybody needs");
    }
    object
        .into_iter()
        .map(|(name, value)| match value {
            serde_json::Value::String(value) => Ok((name, Secret::new(value))),
            _ => Err(EXPECTED),
        })
        .collect()
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use crate::environment::Platform;

    fn helper(script: &str) -> HeadersHelper {
        let vars = [("PATH", "/usr/bin:/bin"), ("HOST_SECRET", "host"), ("HOME", "/home/x")];
        let vars = vars.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        HeadersHelper::new(HelperRecipe {
            server: "s".into(),
            url: "https://a.test/mcp".to_owned(),
            words: vec!["sh".to_owned(), "-c".to_owned(), script.to_owned()],
            cwd: "/".into(),
            inherit: Inherit::Safe,
            environment: Arc::new(Environment {
                vars,
                cwd: "/".into(),
                home: None,
                platform: Platform::Unix,
            }),
        })
    }

    fn shown(headers: &HeaderMap) -> Vec<(&str, &str)> {
        headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect()
    }

    #[tokio::test]
    async fn oau_04_the_output_is_an_object_of_strings() {
        let script = r#"printf '{"X-Name":"%s","X-Url":"%s","X-Host":"%s"}' \
            "$CLAUDE_CODE_MCP_SERVER_NAME" "$CLAUDE_CODE_MCP_SERVER_URL" "$HOST_SECRET""#;
        let given = helper(script).headers(None).await.unwrap();
        assert_eq!(shown(&given), [("x-name", "s"), ("x-url", "https://a.test/mcp"), ("x-host", "")]);
        assert!(!format!("{given:?}").contains("a.test"));
        for (script, word) in [
            ("echo very-secret", "JSON object"),
            ("echo '[\"very-secret\"]'", "JSON object"),
            ("echo '{\"a\": 5, \"b\": \"very-secret\"}'", "JSON object"),
            ("echo '{\"a\": \"very-secret\"}'; exit 3", "exit status: 3"),
            ("yes very-secret", "bytes"),
            ("exec /no/such/very", "failed"),
            ("printf '{\"a b\":\"very-secret\"}'", "header name"),
            ("printf '{\"a\":\"very-secret\\\\n\"}'", "characters"),
        ] {
            let error = helper(script).headers(None).await.unwrap_err();
            assert_eq!(error.code(), ErrorCode::AuthFailed, "{script}");
            assert!(error.message().contains(word), "{error}");
            assert!(!error.message().contains("very-secret"), "{error}");
        }
    }

    /// B-012 I4
    #[tokio::test]
    async fn oau_04_a_program_of_the_project_is_not_taken_for_one_of_the_path() {
        let project = std::env::temp_dir().join(format!("switchboard-project-{}", std::process::id()));
        let bin = project.join("bin");
        std::fs::create_dir_all(&bin).unwrap();
        for directory in [&project, &bin] {
            let script = format!("#!/bin/sh\necho x >> {}/canary; echo '{{}}'\n", project.display());
            std::fs::write(directory.join("token-tool"), script).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(directory.join("token-tool"), mode).unwrap();
        }
        let with = |path: &str, word: &str| {
            let mut recipe = helper("").recipe;
            let mut environment = (*recipe.environment).clone();
            environment.vars.insert("PATH".to_owned(), path.to_owned());
            recipe.environment = Arc::new(environment);
            recipe.cwd.clone_from(&project);
            recipe.words = vec![word.to_owned()];
            HeadersHelper::new(recipe)
        };
        for path in [":/usr/bin", ".:/usr/bin", "bin:/usr/bin", "/usr/bin:", "./bin"] {
            let error = with(path, "token-tool").headers(None).await.unwrap_err();
            assert!(error.message().contains("was not found"), "{path}: {error}");
        }
        assert!(!project.join("canary").exists());
        with("/usr/bin", "./token-tool").headers(None).await.unwrap();
        with(&bin.display().to_string(), "token-tool").headers(None).await.unwrap();
        std::fs::remove_dir_all(project).unwrap();
    }

    #[tokio::test]
    async fn f_045_one_run_serves_all_that_were_refused_together() {
        let file = std::env::temp_dir().join(format!("switchboard-helper-{}", std::process::id()));
        let path = file.display();
        let helper = helper(&format!("echo x >> {path}; printf '{{\"n\":\"%s\"}}' $(wc -l < {path})"));
        let both = tokio::join!(helper.headers(None), helper.headers(None));
        let first = both.0.unwrap();
        assert_eq!(shown(&first), [("n", "1")]);
        assert_eq!(both.1.unwrap(), first);
        let refused = Some(&first);
        let renewed = tokio::join!(helper.headers(refused), helper.headers(refused), helper.headers(refused));
        for given in [renewed.0, renewed.1, renewed.2, helper.headers(refused).await] {
            assert_eq!(shown(&given.unwrap()), [("n", "2")]);
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 2);
        assert!(helper.redactor().is_empty(), "short values are no secrets in text");
        std::fs::remove_file(file).unwrap();
    }

    #[tokio::test]
    async fn oau_04_a_command_that_hangs_ends_with_all_it_started() {
        let file = std::env::temp_dir().join(format!("switchboard-hanging-{}", std::process::id()));
        let helper = helper(&format!("sleep 1000 & echo $! > {}; wait", file.display()));
        let given = tokio::time::timeout(Duration::from_millis(700), helper.headers(None)).await;
        assert!(given.is_err());
        let id = std::fs::read_to_string(&file).unwrap();
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", id.trim())).ok();
        for _ in 0..100 {
            if state().is_none_or(|stat| stat.contains(") Z")) {
                std::fs::remove_file(file).unwrap();
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("it still runs: {:?}", state());
    }
}
