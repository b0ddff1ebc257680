/** The audit log: what is written, and what never is (SEC-07). */
import { expect, test } from 'vitest';
import type { AuditEvent, McpManagerOptions } from '..';
import { authorizationWorld, call, inWorld, json } from './authorization-world';
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

test('SEC-07 mcp:TOOL-18 arguments are written only when asked for, without secrets', async () => {
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
    expect(calls.map((one) => one.arguments)).toEqual([shown, shown, auditArguments ? {} : undefined]);
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

test('SEC-07 a login leaves its steps and no secret', async () => {
  const world = await authorizationWorld({ callScope: 'write', challenge: () => 'Bearer scope="read"' });
  const events: AuditEvent[] = [];
  const secrets = ['known-secret'];
  await inWorld(
    world,
    async (manager) => {
      await manager.connect('w');
      world.tokens.clear();
      await call(manager);
      world.tokens.clear();
      world.options.takeOver = (hit, response) => {
        secrets.push(...hit.form.values(), ...hit.query.values());
        if (hit.path !== '/token') return false;
        const description = [...world.secrets, ...secrets].join(' ');
        return json(response, 400, { error: 'invalid_grant', error_description: description });
      };
      await caught(call(manager));
      await manager.logout('w');
    },
    {
      auditLog: (event) => void events.push(event),
      oauth: { clientId: 'known-client', clientSecret: 'known-secret' },
    },
  );
  const auth = events.filter(({ kind }) => kind === 'auth');
  expect(auth.map(({ event, code, scope }) => [event, scope ?? code ?? ''])).toEqual([
    ['loginStarted', ''],
    ['loginFinished', 'read'],
    ['tokenRenewed', 'read'],
    ['stepUp', 'write'],
    ['loginStarted', ''],
    ['loginFinished', 'read write'],
    ['renewalFailed', 'AUTH_REQUIRED'],
    ['loginStarted', ''],
    ['loginFailed', 'AUTH_FAILED'],
    ['loggedOut', ''],
  ]);
  const text = JSON.stringify(events);
  const hidden = [...world.secrets, ...secrets].filter((one) => one.length >= 20);
  const found = hidden.filter((one) => text.includes(one) && !/^http|^authorization_code$/.test(one));
  expect(hidden.length).toBeGreaterThan(8);
  expect(found).toEqual([]);
});

test('SEC-07 a server that waits for a login is told of', async () => {
  const world = await authorizationWorld();
  const events: AuditEvent[] = [];
  await inWorld(world, async (manager) => void (await caught(manager.connect('w'))), {
    auditLog: (event) => void events.push(event),
    onAuthorizationUrl: undefined,
  });
  expect(events.filter(({ kind }) => kind === 'auth')).toEqual([
    expect.objectContaining({ server: 'w', event: 'needsAuth', state: 'needs-auth', code: 'AUTH_REQUIRED' }),
  ]);
});
