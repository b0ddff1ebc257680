//! How connections over the network are made: trust and detours, the same for every remote transport and
//! for logins (TLS-01, PRX-01).
//!
//! Owns: the way to a host, the TLS configuration, the choice of a proxy, the pool of HTTP connections. Does not
//! know what is said over a connection.

pub mod client;
pub(in crate::transport) mod dial;
pub mod headers_helper;
pub mod proxy;
pub(in crate::transport) mod reply_head;
pub mod tls;
pub(in crate::transport) mod wire;

pub use client::Network;
pub use proxy::{ProxyTarget, proxy_for};
pub use tls::tls_config;
