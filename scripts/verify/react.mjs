// The React entry of the installed package, in every React that it promises: a program that shows servers, and its types.

import { copyFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { root } from '../project.mjs';
import { COMPILERS, installed, NODE_TYPES } from './consumers.mjs';
import { mustRunProgram } from './programs.mjs';

const RUN_MS = 180_000;
const node = process.execPath;
const fixtures = (...path) => join(root, '__test__', 'fixtures', ...path);

const REACTS = {
  'React 18': { react: '18.3.1', 'react-test-renderer': '18.3.1', '@types/react': '18.3.28' },
  'React 19': { react: '19.3.1', 'react-test-renderer': '19.3.1', '@types/react': '19.3.3' },
};

const TYPED = `
import { createElement, type ReactElement } from 'react';
import { McpManager, type ServerStatus } from 'mcp-switchboard';
import { McpConnectionProvider, useMcpReconnect, useMcpServers, useMcpToggle } from 'mcp-switchboard/react';

function Servers(): ReactElement {
  const servers: readonly ServerStatus[] = useMcpServers();
  const reconnect = useMcpReconnect();
  const toggle = useMcpToggle();
  const onClick = async (): Promise<number> => {
    await toggle('s', true, { persist: true });
    return (await reconnect('s')).tools.length;
  };
  return createElement('button', { onClick }, ...servers.map(({ name, state }) => name + ' ' + state));
}
export const app = createElement(McpConnectionProvider, { manager: new McpManager() }, createElement(Servers));
`;

export async function reactSteps(report, world) {
  report.table('react');
  for (const [title, versions] of Object.entries(REACTS)) {
    const typescript = { typescript: COMPILERS['TypeScript 5'], '@types/node': NODE_TYPES };
    const packages = Object.entries({ ...versions, ...typescript }).map((pair) => pair.join('@'));
    const name = title.replace(' ', '-').toLowerCase();
    const place = await report.step(title, 'install', () => installed(world, name, packages));
    if (place === undefined) continue;
    const run = (...command) =>
      mustRunProgram([node, ...command], { cwd: place, env: world.env, deadlineMs: RUN_MS });
    await report.step(title, 'program', async () => {
      // A copy, so that it finds the packages of this place.
      copyFileSync(fixtures('react', 'program.cjs'), join(place, 'program.cjs'));
      const { stdout } = await run('program.cjs', join(root, 'zoo', 'servers', 'faulty-server.mjs'));
      const wanted = `${title}: pending, connected, disabled, connected`;
      if (stdout.trim() !== wanted) throw new Error(`said ${JSON.stringify(stdout)}, not ${wanted}`);
    });
    await report.step(title, 'types', () => {
      for (const file of ['app.mts', 'app.cts']) writeFileSync(join(place, file), TYPED);
      const settings =
        '--strict --noEmit --module node16 --target es2023 --lib es2023,esnext.disposable,dom'.split(' ');
      return run(join('node_modules', 'typescript', 'bin', 'tsc'), ...settings, 'app.mts', 'app.cts');
    });
  }
}
