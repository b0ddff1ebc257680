//! From a command line to the package that it runs. Pure.

use std::collections::BTreeMap;

/// A package by its kind of registry and its name, without a version.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Package {
    /// Kind, as `registryType` has it.
    pub kind: Kind,
    /// Name in one spelling.
    pub name: String,
}

/// A kind of registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// JavaScript.
    Npm,
    /// Python.
    Pypi,
    /// Container images.
    Oci,
    /// .NET.
    Nuget,
}

impl Kind {
    /// By the word of a registry's entry.
    pub fn read(text: &str) -> Option<Self> {
        Some(match text.to_ascii_lowercase().as_str() {
            "npm" => Kind::Npm,
            "pypi" => Kind::Pypi,
            "oci" | "docker" => Kind::Oci,
            "nuget" => Kind::Nuget,
            _ => return None,
        })
    }
}

impl Package {
    /// A package by the way people write it, with or without a version; `None` for a path, a URL or an alias.
    pub fn read(kind: Kind, text: &str) -> Option<Self> {
        let name = match kind {
            Kind::Npm => npm_name(text)?,
            Kind::Pypi => pypi_name(text)?,
            Kind::Oci => image_name(text)?,
            Kind::Nuget => text.split('@').next()?.to_ascii_lowercase(),
        };
        (!name.is_empty()).then_some(Self { kind, name })
    }
}

fn npm_name(text: &str) -> Option<String> {
    let (scope, rest) = match text.strip_prefix('@') {
        Some(scoped) => scoped.split_once('/').map(|(scope, rest)| (Some(scope), rest))?,
        None => (None, text),
    };
    let name = rest.split('@').next()?;
    let plain = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte))
    };
    if !plain(name) || rest.split_once('@').is_some_and(|(_, version)| version.contains([':', '/'])) {
        return None;
    }
    match scope {
        Some(scope) if plain(scope) => Some(format!("@{scope}/{name}")),
        Some(_) => None,
        None => Some(name.to_owned()),
    }
}

/// In the one spelling that the index knows: lower case, runs of `-`, `_` and `.` as one `-`.
fn pypi_name(text: &str) -> Option<String> {
    let end = text.find(['[', '=', '<', '>', '!', '~', '@', ';', ' ']).unwrap_or(text.len());
    let name = &text[..end];
    if name.is_empty()
        || text[end..].contains("://")
        || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    {
        return None;
    }
    let words: Vec<&str> = name.split(['-', '_', '.']).filter(|word| !word.is_empty()).collect();
    Some(words.join("-").to_ascii_lowercase())
}

/// Host, path and name, without tag and digest.
fn image_name(text: &str) -> Option<String> {
    let text = text.split('@').next()?;
    let text = match text.rsplit_once('/') {
        Some((path, last)) => format!("{path}/{}", last.split(':').next()?),
        None => text.split(':').next()?.to_owned(),
    };
    let first = text.split('/').next()?;
    let has_host = text.contains('/') && (first.contains(['.', ':']) || first == "localhost");
    let name = match (has_host, text.contains('/')) {
        (true, _) => text,
        (false, true) => format!("{IMAGES}/{text}"),
        (false, false) => format!("{IMAGES}/library/{text}"),
    };
    let name = name.strip_prefix("index.").unwrap_or(&name).to_ascii_lowercase();
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./:".contains(&byte)).then_some(name)
}

/// Where images without a host come from.
pub(super) const IMAGES: &str = "docker.io";

/// The package that a command line runs; `None` where it runs something else, or takes it from elsewhere.
pub fn of_command(command: &str, args: &[String], env: &BTreeMap<String, String>) -> Option<Package> {
    let mut words: Vec<&str> = std::iter::once(command).chain(args.iter().map(String::as_str)).collect();
    let mut variables: Vec<&str> = env.keys().map(String::as_str).collect();
    while let Some(inner) = behind_wrapper(&words) {
        variables.extend(words.drain(..inner).filter_map(|word| Some(word.split_once('=')?.0)));
    }
    if variables.into_iter().any(leads_elsewhere_variable) {
        return None;
    }
    let (program, rest) = words.split_first()?;
    let second = rest.first().copied().unwrap_or_default();
    match (base_name(program).as_str(), second) {
        ("npx" | "bunx" | "pnpx", _) => of_runner(Kind::Npm, rest, NPM),
        ("pnpm" | "yarn", "dlx") | ("bun", "x") | ("npm", "exec" | "x") => {
            of_runner(Kind::Npm, &rest[1..], NPM)
        }
        ("uvx", _) => of_runner(Kind::Pypi, rest, UVX),
        ("uv", "tool") if rest.get(1) == Some(&"run") => of_runner(Kind::Pypi, &rest[2..], UVX),
        ("pipx", "run") => of_runner(Kind::Pypi, &rest[1..], PIPX),
        ("dnx", _) => of_runner(Kind::Nuget, rest, DNX),
        ("docker" | "podman" | "nerdctl", _) => of_engine(rest),
        _ => None,
    }
}

/// How many words a wrapper and its own options take.
fn behind_wrapper(words: &[&str]) -> Option<usize> {
    let (program, rest) = words.split_first()?;
    let own = |word: &&&str| match base_name(program).as_str() {
        "cmd" => word.starts_with('/') && word.len() == 2,
        "env" => !word.starts_with('-') && word.contains('='),
        _ => false,
    };
    let count = rest.iter().take_while(own).count();
    match base_name(program).as_str() {
        "cmd" if count > 0 => Some(count + 1),
        "env" if rest.get(count).is_some_and(|word| !word.starts_with('-')) => Some(count + 1),
        _ => None,
    }
}

fn base_name(program: &str) -> String {
    let name = program.rsplit(['/', '\\']).next().unwrap_or_default().to_ascii_lowercase();
    [".exe", ".cmd", ".ps1"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name).to_owned()
}

/// What a program that fetches packages knows of options before the package's name.
#[derive(Clone, Copy)]
struct Runner {
    /// Options that name the package themselves.
    naming: &'static [&'static str],
    /// Options whose value is the next word.
    valued: &'static [&'static str],
    /// Options after which nothing can be said: another source, or a text for a shell.
    elsewhere: &'static [&'static str],
}

impl Runner {
    fn leads_elsewhere(&self, option: &str) -> bool {
        // Some take options by their beginnings.
        let begins = |known: &&str| option.len() > 3 && known.starts_with(option);
        self.elsewhere.contains(&option)
            || option.ends_with(":registry")
            || (!self.naming.contains(&option) && self.elsewhere.iter().any(begins))
    }
}

const NPM: Runner = Runner {
    naming: &["-p", "--package"],
    valued: &["--cache", "--loglevel", "-w", "--workspace"],
    elsewhere: &[
        "--registry",
        "--userconfig",
        "--globalconfig",
        "--prefix",
        "--node-options",
        "-c",
        "--call",
        "--shell-mode",
    ],
};
const UVX: Runner = Runner {
    naming: &["--from"],
    valued: &[
        "-p",
        "--python",
        "--with",
        "--cache-dir",
        "--directory",
        "--project",
        "--color",
        "--refresh-package",
    ],
    elsewhere: &[
        "--index-url",
        "-i",
        "--extra-index-url",
        "--default-index",
        "--index",
        "-f",
        "--find-links",
        "--config-file",
        "--with-editable",
        "--overrides",
        "--env-file",
    ],
};
const PIPX: Runner = Runner {
    naming: &["--spec"],
    valued: &["--python", "--backend"],
    elsewhere: &["--index-url", "-i", "--pip-args", "--path"],
};
const DNX: Runner = Runner {
    naming: &[],
    valued: &["--version", "--verbosity"],
    elsewhere: &["--source", "--add-source", "--configfile"],
};

/// Variables for npm that only say how it talks; any other one may lead to another registry, as
/// `npm_config_@scope:registry` does, or to a file that names one.
const HARMLESS: [&str; 6] = [
    "npm_config_yes",
    "npm_config_loglevel",
    "npm_config_fund",
    "npm_config_audit",
    "npm_config_progress",
    "npm_config_update_notifier",
];

/// Variables that make a program fetch packages from elsewhere.
fn leads_elsewhere_variable(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    (name.starts_with("npm_config_") && !HARMLESS.contains(&name.as_str()))
        || name.starts_with("pnpm_config_")
        || (name.starts_with("yarn_") && name.contains("registry"))
        || name == "bun_config_registry"
        || (name.starts_with("uv_")
            && (name.contains("index") || name.contains("find_links") || name.ends_with("config_file")))
        || (name.starts_with("pip_")
            && (name.contains("index") || name.contains("find_links") || name.ends_with("config_file")))
        || name == "docker_host"
}

fn of_runner(kind: Kind, words: &[&str], runner: Runner) -> Option<Package> {
    let mut named = Vec::new();
    let mut at = 0;
    let first = loop {
        let word = *words.get(at)?;
        at += 1;
        if word == "--" {
            break *words.get(at)?;
        }
        if !word.starts_with('-') {
            break word;
        }
        let (option, value) =
            word.split_once('=').map_or((word, None), |(option, value)| (option, Some(value)));
        if runner.leads_elsewhere(option) {
            return None;
        }
        if runner.naming.contains(&option) {
            named.push(value.or_else(|| words.get(at).copied())?);
            at += usize::from(value.is_none());
        } else if value.is_none() && runner.valued.contains(&option) {
            at += 1;
        }
    };
    // With several packages it is not said which of them brings the command.
    match named[..] {
        [] => Package::read(kind, first),
        [one] => Package::read(kind, one),
        _ => None,
    }
}

/// Options of `run` without a value.
const FLAGS: [&str; 14] = [
    "--rm",
    "--interactive",
    "--tty",
    "--init",
    "--privileged",
    "--read-only",
    "--detach",
    "--publish-all",
    "--no-healthcheck",
    "--oom-kill-disable",
    "--sig-proxy",
    "--quiet",
    "--use-api-socket",
    "--replace",
];

/// The image of `docker run …`. Options of the engine itself may lead to another machine, with other images.
fn of_engine(words: &[&str]) -> Option<Package> {
    let mut at = usize::from(words.first() == Some(&"container"));
    if words.get(at) != Some(&"run") {
        return None;
    }
    at += 1;
    loop {
        let word = *words.get(at)?;
        at += 1;
        if !word.starts_with('-') {
            return Package::read(Kind::Oci, word);
        }
        let short = word.len() > 1 && word[1..].bytes().all(|byte| b"itdPq".contains(&byte));
        if !(short || word.contains('=') || FLAGS.contains(&word)) {
            at += 1;
        }
    }
}
