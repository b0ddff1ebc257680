// The official client, second generation, with its defaults.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

import { installedVersion } from './installed-version.mjs';

const PACKAGE = '@modelcontextprotocol/client';

export const connect = (command) => connectOver(new StdioClientTransport({ command }));

export const connectHttp = (url) => connectOver(new StreamableHTTPClientTransport(new URL(url)));

async function connectOver(transport) {
  const client = new Client({ name: 'bench', version: '1.0.0' });
  await client.connect(transport);
  await client.listTools();
  return {
    package: PACKAGE,
    version: installedVersion(import.meta.resolve(PACKAGE), PACKAGE),
    call: (name, args) => client.callTool({ name, arguments: args }),
    close: () => client.close(),
  };
}
