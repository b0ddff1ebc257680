//! The mapping between wire JSON and the public shapes: versions, capabilities, tools, prompts, resources, content.
//!
//! Everything here is pure: text in, text and findings out. Payloads stay JSON text and are looked into only as
//! deep as a rule needs; JavaScript parses them, so keys such as `__proto__` are never set on anything (SEC-04).

pub mod app;
pub mod capability;
pub mod classify;
pub mod completion;
pub mod content;
pub mod definition;
pub mod elicitation;
mod format;
pub mod header_mirror;
pub mod media;
pub mod negotiation;
pub(crate) mod oddities;
pub mod prompt;
pub(crate) mod repeats;
pub mod resource;
pub mod restore;
pub mod sampling;
pub mod sanitize;
pub mod skill;
pub mod stateless;
pub mod task;
pub mod tool;
pub mod version;
