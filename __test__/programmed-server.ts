/** A server on standard input and output that a test writes: a few lines of JavaScript that answer by method. */
import { join } from 'node:path';
import type { StdioServerConfig } from '..';
import { type Noted, notes, temporaryDirectory } from './harness';

const PRELUDE = `
  const fs = require('fs');
  const say = (message) => console.log(JSON.stringify({ jsonrpc: '2.0', ...message }));
  const META = 'io.modelcontextprotocol/';
  const boots = Number(process.env.BOOTS && fs.existsSync(process.env.BOOTS) ? fs.readFileSync(process.env.BOOTS) : 0) + 1;
  if (process.env.BOOTS) fs.writeFileSync(process.env.BOOTS, String(boots));
  const text = (value) => ({ content: [{ type: 'text', text: typeof value === 'string' ? value : JSON.stringify(value) }] });
  const tool = (name, more) => ({ name, inputSchema: { type: 'object' }, ...more });
  let capabilities = { tools: {} };
  const on = {};`;

const LOOP = `
  require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
    fs.appendFileSync(process.env.NOTES, line + '\\n');
    const message = JSON.parse(line);
    const { id, method } = message;
    if (method === undefined) return on.answer?.(message);
    if (method === 'server/discover' && VERSION === '2026-07-28') return say({ id, result: { resultType: 'complete',
      supportedVersions: [VERSION], capabilities, _meta: { [META + 'serverInfo']: { name: 'scripted', version: '1' } } } });
    if (method === 'initialize' && VERSION !== '2026-07-28') return say({ id, result: { protocolVersion: VERSION, capabilities,
      serverInfo: { name: 'scripted', version: '1' } } });
    const found = on[method];
    if (found === undefined) return id !== undefined && say({ id, error: { code: -32601, message: 'Method not found' } });
    const result = found(message);
    if (result !== undefined) say({ id, result });
  });`;

/** A server of a revision; `script` fills `on` (method → result, or nothing where it has answered itself) and `capabilities`. */
export function programmed(
  version: '2024-11-05' | '2025-06-18' | '2025-11-25' | '2026-07-28',
  script: string,
): { config: StdioServerConfig; noted: (method?: string) => Noted[] } {
  const directory = temporaryDirectory();
  const file = join(directory, 'notes');
  const code = `const VERSION = '${version}';${PRELUDE}${script};${LOOP}`;
  return {
    config: {
      command: process.execPath,
      args: ['-e', code],
      env: { NOTES: file, BOOTS: join(directory, 'boots') },
      protocol: version === '2026-07-28' ? 'modern' : 'legacy',
    },
    noted: (method) => notes(file).filter((one) => method === undefined || one.method === method),
  };
}
