//! The exit of the host.

#![cfg_attr(test, allow(dead_code, reason = "the macros export nothing from a test binary"))]

use napi::bindgen_prelude::ClassInstance;
use napi_derive::napi;

use super::bridge::NativeBridge;
use super::manager::NativeManager;
use crate::transport::stdio::{ExitLot, close_all_now};

/// Ends every process of these owners, all together, blocking for about a second at most (STD-04).
#[napi(catch_unwind)]
pub fn close_now(
    managers: Vec<ClassInstance<'_, NativeManager>>,
    children: Vec<ClassInstance<'_, NativeBridge>>,
) {
    let mut lots: Vec<ExitLot> = managers.iter().map(|manager| manager.exit_lot()).collect();
    lots.extend(children.iter().map(|child| child.exit_lot()));
    // What could not be ended is past helping: the death-link is the last net.
    let _ = close_all_now(lots);
    for manager in &managers {
        manager.leave_now();
    }
}
