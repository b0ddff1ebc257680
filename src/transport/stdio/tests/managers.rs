//! Version managers that have what the path has not (B3).

use super::Scratch;
use crate::environment::Environment;
use crate::transport::stdio::version_managers::{VersionManager, installed};

fn machine(home: &Scratch, files: &[&str]) -> Environment {
    for file in files {
        let path = home.0.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }
    Environment { home: Some(home.0.clone()), vars: [].into(), ..Environment::capture() }
}

#[test]
fn b3_managers_are_named_with_the_newest_version_that_has_the_command() {
    let home = Scratch::new("managers");
    let environment = machine(
        &home,
        &[
            ".nvm/versions/node/v9.0.0/bin/npx",
            ".nvm/versions/node/v22.11.0/bin/npx",
            ".nvm/versions/node/v24.0.0/bin/other",
            ".volta/bin/node",
            ".local/share/fnm/node-versions/v20.1.0/installation/bin/npx",
        ],
    );
    let at = |path: &str| Some(home.0.join(path));
    let fnm = ".local/share/fnm/node-versions/v20.1.0/installation/bin/npx";
    assert_eq!(
        installed("npx", &environment),
        [
            VersionManager { name: "nvm", file: at(".nvm/versions/node/v22.11.0/bin/npx") },
            VersionManager { name: "fnm", file: at(fnm) },
            VersionManager { name: "volta", file: None },
        ]
    );
    assert_eq!(installed("/usr/bin/npx", &environment), []);
}

#[test]
fn b3_a_variable_says_where_a_manager_is() {
    let home = Scratch::new("manager-variable");
    let mut environment = machine(&home, &["elsewhere/shims/uvx"]);
    let root = home.0.join("elsewhere");
    environment.vars.insert("ASDF_DATA_DIR".to_owned(), root.to_string_lossy().into_owned());
    let file = Some(root.join("shims/uvx"));
    assert_eq!(installed("uvx", &environment), [VersionManager { name: "asdf", file }]);
}
