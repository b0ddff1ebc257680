//! Link settings of the Node add-on; nothing to do for the plain core.
fn main() {
    if std::env::var_os("CARGO_FEATURE_BINDING").is_some() {
        napi_build::setup();
        if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
            // Threads of the runtime outlive the environment that loaded the add-on: it must stay in memory
            // when the last worker that used it ends.
            println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
        }
    }
}
