//! How connections over the network are made: trust and detours, the same for every remote transport and
//! for logins (TLS-01, PRX-01).
//!
//! Owns: the TLS configuration and the choice of a proxy. Does not know what is said over a connection.

pub mod client;
pub mod proxy;
pub mod tls;

pub use client::Network;
pub use proxy::{ProxyTarget, proxy_for};
pub use tls::tls_config;
