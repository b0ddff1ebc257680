// This package, through its public API, with the defaults of a user except that output is never cut.

import { McpManager, version } from 'mcp-switchboard';

const SERVER = 'bench';

export async function connect(command) {
  const manager = new McpManager({
    config: false,
    servers: { [SERVER]: { command } },
    permissions: { allow: ['mcp__*'] },
    maxOutputTokens: 0,
  });
  const status = await manager.connect(SERVER);
  if (status.state !== 'connected') throw new Error(`not connected: ${status.code}, ${status.reason}`);
  const tools = await manager.listTools();
  const fullNames = new Map(tools.map((tool) => [tool.mcpInfo.toolName, tool.name]));
  return {
    package: 'mcp-switchboard',
    version,
    call: (tool, args) => manager.callTool(fullNames.get(tool), args),
    close: () => manager.close(),
  };
}
