'use strict';
// Shows the servers and their tools. Text of servers is text here, never markup.

const servers = new Map();

function show(id, lines) {
  const items = lines.map((text) => Object.assign(document.createElement('li'), { textContent: text }));
  document.querySelector(`#${id}`).replaceChildren(...items);
}

window.mcp.onStatus(async ({ name, state, reason }) => {
  servers.set(name, `${name}: ${state}${reason ? ` (${reason})` : ''}`);
  show('servers', [...servers.values()]);
  if (state !== 'connected') return;
  const tools = await window.mcp.tools();
  show(
    'tools',
    tools.map((tool) => tool.name),
  );
});
