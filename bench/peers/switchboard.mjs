// This package, through its public API, with the defaults of a user except that output is never cut.

import { McpManager, version } from 'mcp-switchboard';

const SERVER = 'bench';

export const connect = (command) => connectTo({ command });

export const connectHttp = (url) => connectTo({ type: 'http', url });

async function connectTo(server) {
  const manager = new McpManager({
    config: false,
    servers: { [SERVER]: server },
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
