//! Logins: how tokens for a server are had, kept, presented and renewed (OAU-01 to OAU-03, BEY-11).
//!
//! [`ServerAuth`] is what a transport asks for headers and what the manager's verbs act on. What is decided is pure
//! (`metadata`, `callback`, `tokens`, and the challenge grammar of the transport); `login` and `renewal` carry it
//! out, one at a time per server and store; every URL of a server passes the guard.

pub mod callback;
pub mod clients;
pub mod discovery;
pub mod flight;
pub mod keychain;
pub mod login;
pub mod loopback;
pub mod metadata;
pub mod proof;
pub mod record;
mod record_file;
mod renewal;
pub mod sealing;
pub mod server_auth;
mod session;
pub mod settings;
pub mod store;
pub mod tokens;
mod vault;
pub mod web;

pub use login::Asker;
pub use server_auth::{Parts, ServerAuth};
pub use store::{Sealing, TokenStore};
