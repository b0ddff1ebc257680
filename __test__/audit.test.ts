/** The audit log: what is written, and what never is (SEC-07). */
import { expect, test } from 'vitest';
import type { AuditEvent, McpManagerOptions } from '..';
import { caught, faulty, fixture, withManager } from './harness';

async function audited(
  options: McpManagerOptions,
  body: Parameters<typeof withManager>[1],
): Promise<AuditEvent[]> {
  const events: AuditEvent[] = [];
  await withManager({ ...options, auditLog: (event) => void events.push(event) }, body);
  return events;
}

const modern = (...flags: string[]) => ({
  command: process.execPath,
  args: [fixture('modern-server.mjs'), ...flags],
});

const secret = 'value-of-the-environment';
const args = { text: `say ${secret}`, apiToken: 'abc', nested: [{ password: 'x', n: 1 }] };

test('SEC-07 arguments are written only when asked for, without secrets', async () => {
  const servers = { s: { ...faulty(), env: { SOME_KEY: secret } } };
  for (const auditArguments of [undefined, true]) {
    const events = await audited({ servers, auditArguments }, async (manager) => {
      await manager.callTool('mcp__s__echo', args);
      await manager.request('s', 'tools/call', { name: 'echo', arguments: args });
      await caught(manager.callTool('mcp__s__fail'));
    });
    const calls = events.filter(({ kind }) => kind === 'call');
    expect(calls.map(({ tool, outcome }) => [tool, outcome])).toEqual([
      ['echo', 'ok'],
      ['echo', 'ok'],
      ['fail', 'toolError'],
    ]);
    const shown = auditArguments
      ? { text: 'say [REDACTED]', apiToken: '[REDACTED]', nested: [{ password: '[REDACTED]', n: 1 }] }
      : undefined;
    expect(calls.map((call) => call.arguments)).toEqual([shown, shown, auditArguments ? {} : undefined]);
    expect(JSON.stringify(events)).not.toContain(secret);
  }
});

test('SEC-07 questions to people: mode, place and outcome, never the answer', async () => {
  const answers = [
    { action: 'accept' as const, content: { name: 'Ada Lovelace' } },
    { action: 'decline' as const },
    { action: 'cancel' as const },
  ];
  const events = await audited(
    {
      servers: { form: modern(), page: modern('--url') },
      onElicitation: ({ mode }) => (mode === 'url' ? { action: 'accept' } : answers.shift()!),
    },
    async (manager) => {
      for (const name of ['form', 'form', 'form', 'page']) await manager.callTool(`mcp__${name}__ask`);
    },
  );
  const questions = events.filter(({ kind }) => kind === 'elicitation');
  expect(questions.map(({ server, mode, host, action }) => [server, mode, host, action])).toEqual([
    ['form', 'form', null, 'accept'],
    ['form', 'form', null, 'decline'],
    ['form', 'form', null, 'cancel'],
    ['page', 'url', 'login.example', 'accept'],
  ]);
  expect(JSON.stringify(events)).not.toContain('Lovelace');
});
