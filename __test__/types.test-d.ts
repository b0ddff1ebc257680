/** A user's program as far as the compiler is concerned: it must compile, and the marked lines must not. */
import {
  McpConnectionError,
  McpError,
  McpManager,
  McpPermissionError,
  McpTimeoutError,
  McpToolCallError,
  buildToolName,
  decidePermission,
  discoverIde,
  expandEnv,
  parseToolName,
  partitionCalls,
  sanitizeUnicode,
  toModelResult,
  toModelTools,
  type JsonObject,
  version,
  type ContentBlock,
  type Json,
  type McpManagerOptions,
  type PermissionAnswer,
  type RemoteServerConfig,
  type ServerStatus,
  type Tool,
  type ToolResult,
} from '..';
import type { ReactElement } from 'react';
import { McpConnectionProvider, useMcpServers, useMcpToggle } from 'mcp-switchboard/react';
import { command, start, type ZooAnimal } from 'mcp-switchboard/zoo';

/** What servers behind a URL share can be kept apart from how they are reached. */
const remote: RemoteServerConfig = {
  url: 'https://mcp.example.com',
  headers: { 'X-Team': 'a' },
  oauth: false,
};
export const reached: McpManagerOptions['servers'] = { a: remote, b: { ...remote, type: 'sse' } };

/** What is found fits the options. */
export const found = discoverIde({ cwd: '/project', env: { CLAUDE_CODE_SSE_PORT: undefined } });
void found.then(([ide]): McpManagerOptions => ({ ide, servers: { ide } }));
// @ts-expect-error The environment is one of texts.
void discoverIde({ env: { A: 1 } });

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const same = <A, B>(answer: Equal<A, B>): void => void answer;

const options: McpManagerOptions = {
  cwd: '/project',
  clientInfo: { name: 'host', version: '1.0.0' },
  servers: {
    files: {
      command: 'npx',
      args: ['-y', 'server'],
      env: { A: 'b' },
      toolTimeoutMs: 1000,
      tools: { include: ['a'] },
    },
  },
  config: false,
  permissions: { allow: ['mcp__files__read_*'], deny: ['mcp__files__delete'] },
  onPermission: async ({ server, tool, input, signal }): Promise<PermissionAnswer> => {
    same<typeof server, string>(true);
    if (signal.aborted || tool === 'x' || input.path === null) return { behavior: 'deny', message: 'no' };
    return { behavior: 'allow', remember: 'session' };
  },
  shutdown: { graceMs: 1000 },
  retry: { attempts: 2 },
  toolErrors: 'throw',
};

export async function program(): Promise<void> {
  await using manager = new McpManager(options);
  manager.on('status', (status) => {
    same<typeof status.state, ServerStatus['state']>(true);
    same<typeof status.time, number>(true);
  });
  manager.once('log', ({ source, data }) => {
    same<typeof source, 'stderr' | 'protocol'>(true);
    same<typeof data, Json>(true);
  });
  manager.off('diagnostic', ({ code }) => void code.length);
  // @ts-expect-error there is no such event
  manager.on('statuss', () => undefined);

  same<ReturnType<McpManager['status']>, ServerStatus | undefined>(true);
  const all = manager.status();
  same<typeof all, ServerStatus[]>(true);
  const one = manager.status('files');
  same<typeof one, ServerStatus | undefined>(true);

  const statuses = await manager.connect();
  same<typeof statuses, ServerStatus[]>(true);
  const status = await manager.connect('files', { signal: AbortSignal.timeout(1000) });
  same<typeof status, ServerStatus>(true);

  const tools: Tool[] = await manager.listTools({ server: 'files' });
  for (const { inputSchema, mcpInfo } of tools) void [inputSchema.type, mcpInfo.toolName.length];

  interface Arguments {
    path: string;
  }
  const typed: Arguments = { path: '/x' };
  const result: ToolResult = await manager.callTool('mcp__files__read', typed, {
    timeoutMs: 5,
    onProgress: ({ progress, total }) => void (progress + (total ?? 0)),
  });
  await manager.callTool({ server: 'files', tool: 'read' });
  for (const block of result.content) show(block);
  // @ts-expect-error the wire result is read-only
  result.raw = {};
  // @ts-expect-error a tool is named by a string or a pair
  await manager.callTool(7);
  // @ts-expect-error a pair needs both
  await manager.callTool({ server: 'files' });

  const settled = await manager.callTools([{ tool: 'a', args: {} }], { concurrency: 3 });
  for (const outcome of settled) if (outcome.status === 'fulfilled') void outcome.value.isError;

  const task = await manager.startTool('mcp__files__index', {}, { ttlMs: 60_000 });
  task.on('status', (word) => void word.length);
  same<typeof task.status, string>(true);
  await task.cancel();
  void (await task.result({ signal: AbortSignal.timeout(5) })).isError;
  const again = await manager.resumeTask(task.server, task.taskId, { tool: task.fullName });
  void (again.statusMessage ?? (await manager.listTasks('files'))[0]?.taskId);

  await manager.getPrompt('mcp__files__x', { a: 'b' });
  await manager.getPrompt('mcp__files__x', ['a', 'b']);
  const [content] = await manager.readResource('files', 'file:///x', { blobs: 'buffer' });
  same<typeof content.data, Uint8Array | undefined>(true);
  const { values } = await manager.complete(
    'files',
    { type: 'ref/prompt', name: 'x' },
    { name: 'a', value: '' },
    { arguments: { b: 'c' } },
  );
  same<typeof values, string[]>(true);
  await manager.close({ mode: 'fast' });
}

function show(block: ContentBlock): string {
  switch (block.type) {
    case 'text':
      return block.text;
    case 'image':
    case 'audio':
      return block.mimeType;
    case 'file':
      return block.path;
    case 'resource_link':
      return block.uri;
    case 'unknown':
      return JSON.stringify(block.raw);
  }
}

export function explain(error: unknown): string {
  if (error instanceof McpTimeoutError) return `${error.kind} after ${error.elapsedMs}`;
  if (error instanceof McpToolCallError) return String(error.result.content.length);
  if (error instanceof McpPermissionError) return error.layer;
  if (error instanceof McpConnectionError)
    return [error.delivered, error.exit?.code, error.stderrTail?.at(-1), error.nextRetryAt].join();
  if (error instanceof McpError)
    return `${error.code} ${error.server ?? ''} ${error.retryable} ${String(error.cause)}`;
  return 'not ours';
}

same<typeof version, string>(true);
same<ReturnType<typeof buildToolName>, string>(true);
same<ReturnType<typeof parseToolName>, { server: string; tool: string } | null>(true);
same<ReturnType<typeof expandEnv>, { value: string; missing: string[] }>(true);
const cleaned = sanitizeUnicode({ a: ['x'] }, 'invisible');
same<typeof cleaned, { a: string[] }>(true);
const groups = partitionCalls([{ tool: 'a', extra: 1 }], (tool) => tool.startsWith('r'));
same<typeof groups, { tool: string; extra: number }[][]>(true);
const { decision } = decidePermission({ server: 'a', tool: 'b' }, {});
same<typeof decision, 'allow' | 'ask' | 'deny' | 'passthrough'>(true);

declare const tools: Tool[];
const [offered] = toModelTools(tools, 'anthropic').tools;
same<NonNullable<typeof offered>['input_schema']['type'], 'object'>(true);
const [called] = toModelTools(tools, 'openai').tools;
same<NonNullable<typeof called>['function']['name'], string>(true);
const profile = { maxNameLength: 40, nameCharset: /^\w+$/, rootUnions: false, refs: false };
export const own: JsonObject[] = toModelTools(tools, profile).tools;

declare const result: ToolResult;
const told = toModelResult(result, 'anthropic', { id: '1' });
same<typeof told.message.tool_use_id, string>(true);
same<typeof told.left, ContentBlock[]>(true);
// @ts-expect-error there is no such profile
toModelResult(result, 'mistral', { id: '1' });

declare const manager: McpManager;
same<ReturnType<typeof McpConnectionProvider>, ReactElement>(true);
McpConnectionProvider({ manager });
// @ts-expect-error a manager is needed
McpConnectionProvider({});
same<ReturnType<typeof useMcpServers>, readonly ServerStatus[]>(true);
same<ReturnType<ReturnType<typeof useMcpToggle>>, Promise<ServerStatus>>(true);
same<ReturnType<typeof command>, { command: string; args: string[] }>(true);
same<Awaited<ReturnType<typeof start>>['url'], string>(true);
same<ZooAnimal['transport'], 'stdio' | 'http'>(true);
