/** What servers may ask people for, and what they may not (B-155, B-157, B-158, B-160). */
import { expect, test } from 'vitest';
import type { ElicitationRequest, JsonObject, McpManager, McpManagerOptions } from '..';
import { jsonOf, withManager } from './harness';

/** A server whose one tool asks what its arguments say, and answers with what it was told. */
const SERVER = `
  let calls = new Map(), next = 1;
  const send = (message) => console.log(JSON.stringify({ jsonrpc: '2.0', ...message }));
  require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
    const { id, method, params, result, error } = JSON.parse(line);
    if (method === 'initialize') send({ id, result: { protocolVersion: '2025-11-25',
      capabilities: { tools: {} }, serverInfo: { name: 's', version: '1' } } });
    else if (method === 'tools/list') send({ id, result: { tools: [{ name: 'ask', inputSchema: { type: 'object' } }] } });
    else if (method === 'tools/call') {
      const { method: asked, ...rest } = params.arguments;
      calls.set('q' + next, id);
      send({ id: 'q' + next++, method: asked ?? 'elicitation/create', params: rest });
    } else if (method === undefined && calls.has(id)) {
      send({ id: calls.get(id), result: { content: [{ type: 'text', text: JSON.stringify(result ?? { error }) }] } });
    } else if (id !== undefined) send({ id, error: { code: -32601, message: 'no' } });
  });`;

function asking<T>(options: McpManagerOptions, body: (manager: McpManager) => Promise<T>): Promise<T> {
  const servers = { s: { command: process.execPath, args: ['-e', SERVER] } };
  return withManager({ ...options, servers }, async (manager) => {
    await manager.connect('s');
    return body(manager);
  });
}

const ask = async (manager: McpManager, args: JsonObject) =>
  jsonOf(await manager.callTool('mcp__s__ask', args));

const form = (properties: JsonObject) => ({ message: '?', requestedSchema: { type: 'object', properties } });

test('B-155 an address with letters that deceive is offered with a warning; unsafe ones are not offered', async () => {
  const asked: ElicitationRequest[] = [];
  const onElicitation = (request: ElicitationRequest) => {
    asked.push(request);
    return { action: 'decline' as const };
  };
  await asking({ onElicitation }, async (manager) => {
    const visit = (url: string) => ask(manager, { mode: 'url', message: 'Log in', url, elicitationId: 'e' });
    expect(await visit('https://xn--pple-43d.test/')).toEqual({ action: 'decline' });
    expect(asked[0]).toMatchObject({
      url: 'https://xn--pple-43d.test/',
      host: 'xn--pple-43d.test',
      warnings: [{ code: 'punycode' }],
    });
    expect(await visit('https://plain.test/')).toEqual({ action: 'decline' });
    expect(asked[1]).not.toHaveProperty('warnings');
    for (const url of ['file:///x', 'http://pub.test/', 'https://169.254.169.254/', 'https://a@b.test/']) {
      expect(await visit(url), url).toMatchObject({ error: { code: -32602 } });
    }
    expect(asked.length).toBe(2);
  });
});

test('M4 a very long address is offered whole, with its host beside it', async () => {
  const url = `https://login.test/${'a'.repeat(5_000)}`;
  const asked: ElicitationRequest[] = [];
  const onElicitation = (request: ElicitationRequest) => {
    asked.push(request);
    return { action: 'decline' as const };
  };
  await asking({ onElicitation }, async (manager) => {
    await ask(manager, { mode: 'url', message: 'Log in', url, elicitationId: 'e' });
  });
  expect(asked).toMatchObject([{ url, host: 'login.test' }]);
});

test('B-157 a form that asks for a secret is marked, and declined unasked where the host wants that', async () => {
  for (const secretForms of ['ask', 'decline'] as const) {
    const asked: ElicitationRequest[] = [];
    const onElicitation = (request: ElicitationRequest) => {
      asked.push(request);
      return { action: 'cancel' as const };
    };
    await asking({ onElicitation, secretForms }, async (manager) => {
      const forms: JsonObject[] = [
        { password: { type: 'string' } },
        { api_key: { type: 'string' } },
        { otp: { type: 'string' } },
        { field: { type: 'string', description: 'your token' } },
      ];
      for (const properties of forms) {
        const action = secretForms === 'decline' ? 'decline' : 'cancel';
        expect(await ask(manager, form(properties))).toEqual({ action });
      }
      expect(asked.map((request) => 'sensitive' in request && request.sensitive)).toEqual(
        secretForms === 'decline' ? [] : [true, true, true, true],
      );
      expect(await ask(manager, form({ name: { type: 'string' } }))).toEqual({ action: 'cancel' });
      expect(asked.at(-1)).not.toHaveProperty('sensitive');
    });
  }
});

test('B-158 answers that break the form are not sent; without anybody to ask nothing is declared', async () => {
  const onElicitation = () => ({ action: 'accept' as const, content: { name: 7, extra: 'x' } });
  await asking({ onElicitation }, async (manager) => {
    expect(await ask(manager, form({ name: { type: 'string' } }))).toEqual({ action: 'cancel' });
  });
  await asking({}, async (manager) => {
    expect(await ask(manager, form({ name: { type: 'string' } }))).toMatchObject({ error: { code: -32601 } });
  });
});

test('B-160 a model is not lent to a server unless the host says so', async () => {
  await asking({}, async (manager) => {
    const answer = await ask(manager, { method: 'sampling/createMessage', messages: [], maxTokens: 1 });
    expect(answer).toMatchObject({ error: { code: -32601 } });
  });
});
