//! Tools that do not stand in the model's context from the start: finding them, and which ones do by now (TOL-05).

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use super::Manager;
use super::arrivals::Arrivals;
use super::listing::{Caller, is_offered, tools_json};
use super::registry::{Registry, ToolEntry};
use super::view::View;
use crate::connection::Connection;
use crate::error::McpError;
use crate::json_scan;
use crate::runtime::lock;
use crate::tool_search::{Document, Query, SearchIndex, read_query};

/// Tools that a search for words finds when nothing else is said.
const DEFAULT_LIMIT: usize = 10;
/// Names that are remembered as loaded.
const MAX_LOADED: usize = 50_000;

/// What one model has in its context.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    /// Full names of the tools that were found or called.
    names: Mutex<HashSet<Arc<str>>>,
    /// The order in which its lists had their tools.
    pub(super) arrivals: Arrivals,
}

impl Loaded {
    pub(super) fn add(&self, entry: &ToolEntry) {
        let mut names = lock(&self.names);
        if !names.contains(&entry.full_name) && names.len() < MAX_LOADED {
            names.insert(Arc::clone(&entry.full_name));
        }
    }

    fn has(&self, entry: &ToolEntry) -> bool {
        lock(&self.names).contains(&entry.full_name)
    }
}

/// The index of a registry's tools.
#[derive(Debug)]
pub(super) struct ToolIndex {
    words: SearchIndex,
    /// By the number the index knows them by.
    entries: Vec<Arc<ToolEntry>>,
}

impl ToolIndex {
    pub(super) fn build(entries: Vec<Arc<ToolEntry>>) -> Self {
        let parameters: Vec<Vec<String>> = entries.iter().map(|entry| parameters(entry)).collect();
        let documents = entries.iter().zip(&parameters).map(|(entry, parameters)| {
            let tool = entry.definition();
            Document {
                name: &entry.full_name,
                own_names: [entry.connection.name(), &tool.name],
                title: tool.title.as_deref().unwrap_or_default(),
                description: &tool.description,
                hint: tool.search_hint.as_deref().unwrap_or_default(),
                parameters,
            }
        });
        Self { words: SearchIndex::build(documents), entries }
    }

    fn find(&self, query: &Query, registry: &Registry) -> Vec<Arc<ToolEntry>> {
        match query {
            Query::Select(names) => names.iter().filter_map(|name| registry.tool(name).cloned()).collect(),
            Query::Words(words) => {
                self.words.search(words).into_iter().map(|number| Arc::clone(&self.entries[number])).collect()
            }
        }
    }
}

fn parameters(entry: &ToolEntry) -> Vec<String> {
    let [properties] = json_scan::pick(&entry.definition().input_schema, ["properties"]);
    json_scan::members(properties.unwrap_or_default()).map(|member| member.key().into_owned()).collect()
}

impl Manager {
    /// JSON text of the tools that a query finds, best first; they count as loaded from then on. `limit` is about
    /// words, not about exact picks.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a view that is closed.
    pub async fn search_tools(
        &self,
        query: &str,
        limit: Option<usize>,
        view: Option<u32>,
    ) -> Result<String, McpError> {
        let view = self.view(view)?;
        let view = view.as_deref();
        let shown = self.tools_fetched(None, view).await?;
        let shown: HashSet<&str> = shown.iter().map(Connection::name).collect();
        let registry = self.registry();
        let query = read_query(query);
        let most = match query {
            Query::Select(_) => limit.unwrap_or(usize::MAX),
            Query::Words(_) => limit.unwrap_or(DEFAULT_LIMIT),
        };
        let mut found = registry.index().find(&query, &registry);
        found.retain(|entry| {
            shown.contains(entry.connection.name()) && is_offered(entry, view, Caller::Model)
        });
        found.truncate(most);
        for entry in &found {
            self.loaded_in(view).add(entry);
        }
        Ok(tools_json(found.iter()))
    }

    /// Whether a tool stands in the model's context: from the start, or because it was found or called.
    pub(super) fn is_loaded(&self, entry: &ToolEntry, view: Option<&View>) -> bool {
        entry.definition().always_load
            || entry.connection.spec().always_load
            || self.loaded_in(view).has(entry)
    }

    pub(super) fn loaded_in<'a>(&'a self, view: Option<&'a View>) -> &'a Loaded {
        view.map_or(&self.loaded, |view| &view.loaded)
    }
}
