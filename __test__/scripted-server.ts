/** A process that speaks over standard streams exactly what a test writes down, and keeps what it is told. */
import { join } from 'node:path';
import type { JsonObject, StdioServerConfig } from '..';
import { notes, temporaryDirectory, type Noted } from './harness';

/** How such a server is. Texts are said as they stand, but for `$ID`, which becomes the id of the request. */
export interface Script {
  /** Default: the newest of the handshake era. */
  protocolVersion?: string;
  /** What it declares; default: tools. */
  capabilities?: JsonObject;
  /**
   * What it says to a method: a result, or lines as they stand. Of several answers each request takes the next one, and
   * the last goes on.
   */
  answers?: Record<string, Answer | Answer[]>;
}

/** The result of a request, or lines instead of it; a line with `times` is said so often, `$N` counting from 0. */
export type Answer = { result: unknown } | { lines: (string | { line: string; times: number })[] };

/** A server and what it has heard. */
export interface ScriptedServer {
  config: StdioServerConfig;
  heard(): Noted[];
  /** What it was answered, by the id of its request. */
  answers(): Noted[];
}

/** One line: the result of the request that is being answered. */
export const result = (value: unknown): string =>
  `{"jsonrpc":"2.0","id":$ID,"result":${JSON.stringify(value)}}`;

/** The result of a tool. */
export const said = (text: string): { content: object[] } => ({ content: [{ type: 'text', text }] });

/** The list of one tool, `t`. */
export const TOOLS = { tools: [{ name: 't', inputSchema: { type: 'object' } }] };

const PROGRAM = `
  const { answers, file } = JSON.parse(process.env.SCRIPT);
  const turns = {};
  require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
    require('fs').appendFileSync(file, line + '\\n');
    const { id, method } = JSON.parse(line);
    if (id === undefined || method === undefined) return;
    const all = [answers[method] ?? { result: {} }].flat();
    const turn = Math.min((turns[method] = (turns[method] ?? -1) + 1), all.length - 1);
    const { lines, result } = all[turn];
    const own = lines ?? ['{"jsonrpc":"2.0","id":$ID,"result":' + JSON.stringify(result) + '}'];
    const each = own.flatMap((one) =>
      one.times ? Array.from({ length: one.times }, (_, n) => one.line.replaceAll('$N', n)) : [one]);
    process.stdout.write(each.map((one) => one.replaceAll('$ID', JSON.stringify(id)) + '\\n').join(''));
  });`;

function scripted(answers: Record<string, Answer | Answer[]>): ScriptedServer {
  const file = join(temporaryDirectory(), 'heard');
  const env = { SCRIPT: JSON.stringify({ answers, file }) };
  return {
    config: { command: process.execPath, args: ['-e', PROGRAM], env },
    heard: () => notes(file),
    answers: () => notes(file).filter(({ method }) => method === undefined),
  };
}

/** A server of the handshake era. */
export function scriptedServer(script: Script = {}): ScriptedServer {
  const { protocolVersion = '2025-11-25', capabilities = { tools: {} }, answers } = script;
  const serverInfo = { name: 'scripted', version: '1' };
  return scripted({
    initialize: { result: { protocolVersion, capabilities, serverInfo } },
    'tools/list': { result: TOOLS },
    'tools/call': { result: said('hello') },
    ...answers,
  });
}

/** A server of the stateless era alone; its results are complete and stale at once, unless a script says otherwise. */
export function statelessServer(script: Script = {}): ScriptedServer {
  const complete = { resultType: 'complete', ttlMs: 0, cacheScope: 'private' };
  const { protocolVersion = '2026-07-28', capabilities = { tools: {} }, answers } = script;
  const refusal = '{"jsonrpc":"2.0","id":$ID,"error":{"code":-32601,"message":"Method not found"}}';
  return scripted({
    initialize: { lines: [refusal] },
    'server/discover': { result: { ...complete, supportedVersions: [protocolVersion], capabilities } },
    'tools/list': { result: { ...complete, ...TOOLS } },
    'tools/call': { result: { ...complete, ...said('hello') } },
    'subscriptions/listen': { lines: [] },
    ...answers,
  });
}
