//! Link settings of the Node add-on; nothing to do for the plain core.
fn main() {
    if std::env::var_os("CARGO_FEATURE_BINDING").is_some() {
        napi_build::setup();
    }
}
