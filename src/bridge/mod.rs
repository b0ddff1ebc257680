//! Remote control: an agent's session, driven from outside (BRG-01 to BRG-09).
//!
//! The centre is pure: what is where in both directions (`position`, `queue`), what a message is (`message`,
//! `control`), how it is written (`wire`), who may (`gate`, `expiry`). Around it three tasks read, write and keep the
//! lease (`reading`, `writing`), two lanes hand on to the host (`inbound`), and a transport moves the bytes (`v1`,
//! `v2`). One lock holds all state, never over an await (`session`). `sessions` and `spawner` are the life of sessions
//! as such; `desk` is the one shape in which the face asks any of them.

mod callbacks;
pub mod control;
pub mod desk;
pub mod expiry;
pub mod gate;
mod ids;
mod inbound;
pub mod message;
pub mod options;
pub mod position;
pub mod queue;
mod reading;
mod requests;
mod session;
pub mod sessions;
pub mod spawner;
mod tokens;
mod transport;
pub mod uuid_set;
mod v1;
mod v2;
pub mod wire;
mod writing;

#[cfg(test)]
mod tests;

pub use session::Bridge;
