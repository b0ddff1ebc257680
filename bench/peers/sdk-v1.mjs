// The official SDK, first generation, with its defaults.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

import { installedVersion } from './installed-version.mjs';

const PACKAGE = '@modelcontextprotocol/sdk';

export const connect = (command) => connectOver(new StdioClientTransport({ command }));

export const connectHttp = (url) => connectOver(new StreamableHTTPClientTransport(new URL(url)));

async function connectOver(transport) {
  const client = new Client({ name: 'bench', version: '1.0.0' });
  await client.connect(transport);
  await client.listTools();
  return {
    package: PACKAGE,
    version: installedVersion(import.meta.resolve(`${PACKAGE}/client/index.js`), PACKAGE),
    call: (name, args) => client.callTool({ name, arguments: args }),
    close: () => client.close(),
  };
}
