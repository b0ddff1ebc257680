//! Fetching the lists of a server into its catalogue.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::catalog::Fetch;
use super::manifest::Kept;
use super::{Live, Shared};
use crate::client::pages::{Pages, read_all};
use crate::config::spec::TransportSpec;
use crate::deadline::Deadline;
use crate::diagnostic::Diagnostic;
use crate::error::{ErrorCode, McpError};
use crate::protocol::capability::ServerCapability;
use crate::protocol::prompt::{self, PromptDefinition};
use crate::protocol::resource::{self, ResourceDefinition};
use crate::protocol::skill::{self, SkillDefinition};
use crate::protocol::tool::{self, ToolDefinition};
use crate::protocol::version::Era;

/// Pause before the one repetition of a list that failed (D9).
const REPEAT_AFTER: Duration = Duration::from_millis(250);

/// Reads tools, prompts and resources side by side (LIF-03); what fails is kept for the status.
pub(super) async fn prefetch(shared: &Arc<Shared>, live: &Live) {
    shared.tell_hidden("the server's words on itself", live.client.negotiated().introduction.removed);
    let _ = tokio::join!(
        tools(shared, live),
        prompts(shared, live),
        resources(shared, live),
        templates(shared, live)
    );
}

type Items<T> = Result<Arc<Vec<T>>, McpError>;

/// The tools of a connected server.
pub(crate) async fn tools(shared: &Arc<Shared>, live: &Live) -> Items<ToolDefinition> {
    let declared = &live.client.negotiated().introduction.capabilities;
    shared.catalog.declare_resources(declared.has(ServerCapability::Resources));
    let (owner, live) = (Arc::clone(shared), live.clone());
    let generation = live.generation;
    let fetch = move || -> Fetch<ToolDefinition> {
        Box::pin(async move {
            let pages = fetch(&owner, &live, "tools/list", "tools", ServerCapability::Tools).await?;
            owner.catalog.tools.set_hint(hint_of(&live, &pages));
            let classifier = &owner.settings.classifier;
            let (mut tools, findings) = tool::map_tools(&owner.spec.name, &pages.items("tools"), classifier);
            let filter = &owner.spec.tools;
            tools.retain(|tool| filter.admits(&tool.wire_name));
            report(&owner, findings);
            drop_unmirrorable(&owner, &live, &mut tools);
            live.client.learn_tools(&tools);
            keep(&owner, Kept::Tools, &pages).await;
            if owner.catalog.has_resources() {
                keep(&owner, Kept::Resources, &pages).await;
            }
            Ok(tools)
        })
    };
    let listener = Arc::clone(&shared.listener);
    let news = move || listener.catalog_changed();
    shared.catalog.tools.get(generation, shared.settings.catalog_ttl, fetch, news).await
}

/// The prompts of a connected server.
pub(crate) async fn prompts(shared: &Arc<Shared>, live: &Live) -> Items<PromptDefinition> {
    let (owner, live) = (Arc::clone(shared), live.clone());
    let generation = live.generation;
    let fetch = move || -> Fetch<PromptDefinition> {
        Box::pin(async move {
            let pages = fetch(&owner, &live, "prompts/list", "prompts", ServerCapability::Prompts).await?;
            owner.catalog.prompts.set_hint(hint_of(&live, &pages));
            let (prompts, findings) = prompt::map_prompts(&owner.spec.name, &pages.items("prompts"));
            report(&owner, findings);
            keep(&owner, Kept::Prompts, &pages).await;
            Ok(prompts)
        })
    };
    let listener = Arc::clone(&shared.listener);
    let news = move || listener.catalog_changed();
    shared.catalog.prompts.get(generation, shared.settings.catalog_ttl, fetch, news).await
}

/// The resources of a connected server.
pub(crate) async fn resources(shared: &Arc<Shared>, live: &Live) -> Items<ResourceDefinition> {
    let (owner, live) = (Arc::clone(shared), live.clone());
    let generation = live.generation;
    let fetch = move || -> Fetch<ResourceDefinition> {
        Box::pin(async move {
            let pages =
                fetch(&owner, &live, "resources/list", "resources", ServerCapability::Resources).await?;
            owner.catalog.resources.set_hint(hint_of(&live, &pages));
            let (resources, findings) = resource::map_resources(&owner.spec.name, &pages.items("resources"));
            report(&owner, findings);
            Ok(resources)
        })
    };
    shared.catalog.resources.get(generation, shared.settings.catalog_ttl, fetch, || {}).await
}

/// The resource templates of a connected server.
pub(crate) async fn templates(shared: &Arc<Shared>, live: &Live) -> Items<ResourceDefinition> {
    let (owner, live) = (Arc::clone(shared), live.clone());
    let generation = live.generation;
    let fetch = move || -> Fetch<ResourceDefinition> {
        Box::pin(async move {
            let (method, member) = ("resources/templates/list", "resourceTemplates");
            let pages = match fetch(&owner, &live, method, member, ServerCapability::Resources).await {
                // Optional within the capability: many servers do not know it.
                Err(error) if error.facts().rpc_code == Some(-32601) => Pages::default(),
                other => other?,
            };
            owner.catalog.templates.set_hint(hint_of(&live, &pages));
            let (templates, findings) = resource::map_templates(&owner.spec.name, &pages.items(member));
            report(&owner, findings);
            Ok(templates)
        })
    };
    shared.catalog.templates.get(generation, shared.settings.catalog_ttl, fetch, || {}).await
}

/// The skills of a connected server; nothing of them is read (mcp:SKILL-12).
pub(crate) async fn skills(shared: &Arc<Shared>, live: &Live) -> Items<SkillDefinition> {
    let (owner, live) = (Arc::clone(shared), live.clone());
    let generation = live.generation;
    let fetch = move || -> Fetch<SkillDefinition> {
        Box::pin(async move {
            let pages = fetch(&owner, &live, "skills/list", "skills", ServerCapability::Skills).await?;
            owner.catalog.skills.set_hint(hint_of(&live, &pages));
            let (skills, findings) = skill::map_skills(&owner.spec.name, &pages.items("skills"));
            report(&owner, findings);
            Ok(skills)
        })
    };
    shared.catalog.skills.get(generation, shared.settings.catalog_ttl, fetch, || {}).await
}

/// Reads a list, twice if need be; a server without the capability has an empty one.
async fn fetch(
    shared: &Arc<Shared>,
    live: &Live,
    method: &str,
    member: &str,
    capability: ServerCapability,
) -> Result<Pages, McpError> {
    if !live.client.negotiated().introduction.capabilities.has(capability) {
        return Ok(Pages::default());
    }
    let since = Instant::now();
    let read = || async {
        let deadline = Arc::new(Deadline::start(shared.settings.clocks.request(None, None)));
        read_all(&live.client, method, member, &deadline, shared.settings.lists).await
    };
    let first = read().await;
    let again = match &first {
        Err(error) => error.code() == ErrorCode::RpcError && error.facts().rpc_code != Some(-32601),
        Ok(_) => false,
    };
    let outcome = if again {
        tokio::time::sleep(REPEAT_AFTER).await;
        read().await
    } else {
        first
    };
    shared.judge(live, since, outcome.as_ref().err());
    match &outcome {
        Ok(_) => {}
        Err(error) => shared.diagnose(Diagnostic::warning(
            "LIST_FAILED",
            format!("{method} failed: {} ({})", error.message(), error.code()),
        )),
    }
    outcome.map_err(|error| shared.redact_error(error))
}

/// The server's own word on freshness, in the era that has one (mcp:CACHE-03, 15).
fn hint_of(live: &Live, pages: &Pages) -> Option<Duration> {
    (live.client.era() == Era::Modern).then(|| pages.fresh_for()).flatten()
}

/// Over HTTP a tool with invalid header annotations is not offered; elsewhere they mean nothing (mcp:HDR-14, 15).
fn drop_unmirrorable(shared: &Shared, live: &Live, tools: &mut Vec<ToolDefinition>) {
    if live.client.era() != Era::Modern || !matches!(shared.spec.transport, TransportSpec::Http(_)) {
        return;
    }
    tools.retain(|tool| match &tool.header_mirrors {
        Ok(_) => true,
        Err(why) => {
            let message = format!("tool '{}' is left out: {why}", crate::client::excerpt(&tool.name, 200));
            shared.diagnose(Diagnostic::warning("TOOL_INVALID", message));
            false
        }
    });
}

/// Keeps a list for the time before the next start, where the server starts late (LIF-09). Awaited, so that a host
/// which has got the list and ends leaves it behind.
async fn keep(shared: &Arc<Shared>, kept: Kept, pages: &Pages) {
    let Some(manifest) = shared.manifest.clone() else { return };
    let items = pages.items(kept.member()).into_iter().map(ToOwned::to_owned).collect();
    if let Ok(Err(error)) = tokio::task::spawn_blocking(move || manifest.keep(kept, items)).await {
        shared.diagnose(Diagnostic::warning("MANIFEST_NOT_KEPT", error.message()));
    }
}

fn report(shared: &Shared, findings: Vec<Diagnostic>) {
    for finding in findings {
        shared.diagnose(finding);
    }
}
