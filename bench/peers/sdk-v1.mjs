// The official SDK, first generation, with its defaults.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';

import { installedVersion } from './installed-version.mjs';

const PACKAGE = '@modelcontextprotocol/sdk';

export async function connect(command) {
  const client = new Client({ name: 'bench', version: '1.0.0' });
  await client.connect(new StdioClientTransport({ command }));
  await client.listTools();
  return {
    package: PACKAGE,
    version: installedVersion(import.meta.resolve(`${PACKAGE}/client/index.js`), PACKAGE),
    call: (name, args) => client.callTool({ name, arguments: args }),
    close: () => client.close(),
  };
}
