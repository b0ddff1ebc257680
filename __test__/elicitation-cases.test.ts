/** What servers may ask people for, and what they may not (B-155, B-157, B-158, B-160). */
import { expect, test } from 'vitest';
import type { ElicitationRequest, JsonObject, McpManager, McpManagerOptions } from '..';
import { trap } from './authorization-world';
import { jsonOf, textOf, withManager } from './harness';
import { programmed } from './programmed-server';

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

test('M4 mcp:ELI-21 a very long address is offered whole, with its host beside it', async () => {
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

test('mcp:ELI-22 mcp:ELI-23 mcp:ELI-24 nobody but the host goes to an address, whatever is answered', async () => {
  const { origin, hits } = await trap();
  for (const action of ['accept', 'decline', 'cancel'] as const) {
    await asking({ onElicitation: () => ({ action }) }, async (manager) => {
      const url = `${origin}/login?for=${action}`;
      expect(await ask(manager, { mode: 'url', message: 'Log in', url, elicitationId: 'e' })).toEqual({
        action,
      });
    });
  }
  expect(hits).toEqual([]);
});

test('mcp:ELI-14 choices that cannot be compared with an answer are shown to nobody', async () => {
  let asked = 0;
  const onElicitation = () => {
    asked += 1;
    return { action: 'accept' as const, content: { one: 'anything' } };
  };
  await asking({ onElicitation }, async (manager) => {
    const wild: JsonObject[] = [
      { type: 'string', enum: [1, 2] },
      { type: 'string', oneOf: [{ title: 'Red' }] },
      { type: 'string', anyOf: [{ const: 'r' }] },
      { type: 'number', enum: [1, 2] },
    ];
    for (const one of wild) {
      const answer = await ask(manager, form({ one }));
      expect(answer, JSON.stringify(one)).toMatchObject({ error: { code: -32602 } });
    }
    expect(asked).toBe(0);
  });
});

test('mcp:ELI-30 mcp:MRTR-05 a visit that is not over is asked for again; what the server wants to remember is told to nobody', async () => {
  const { config, noted } = programmed(
    '2026-07-28',
    `capabilities = { tools: {}, logging: {} };
     on['tools/list'] = () => ({ resultType: 'complete', tools: [tool('visit')] });
     on['tools/call'] = ({ params }) => params.requestState === 'secret-2'
       ? { resultType: 'complete', ...text('seen') }
       : { resultType: 'input_required', requestState: 'secret-' + (params.requestState ? 2 : 1), inputRequests: {
           go: { method: 'elicitation/create', params: { mode: 'url', message: 'Log in', url: 'https://a.test/' } } } };`,
  );
  const asked: ElicitationRequest[] = [];
  const shown: unknown[] = [];
  const options: McpManagerOptions = {
    onElicitation: (request) => {
      asked.push(request);
      return { action: 'accept' };
    },
    auditLog: (event) => shown.push(event),
  };
  await withManager({ ...options, servers: { s: config } }, async (manager) => {
    for (const name of ['log', 'diagnostic', 'call', 'status'] as const)
      manager.on(name, (event: unknown) => void shown.push(event));
    expect(textOf(await manager.callTool('mcp__s__visit'))).toBe('seen');
    expect(asked.map(({ mode }) => mode)).toEqual(['url', 'url']);
    expect(noted('tools/call').map(({ params }) => params?.['requestState'])).toEqual([
      undefined,
      'secret-1',
      'secret-2',
    ]);
    expect(shown.length).toBeGreaterThan(0);
    expect(JSON.stringify([shown, asked, manager.status(), manager.doctor()])).not.toContain('secret-');
  });
});

test('mcp:MRTR-01 mcp:MRTR-16 tools, prompts and resources may ask, and a call of several legs is one', async () => {
  const { config, noted } = programmed(
    '2026-07-28',
    `capabilities = { tools: {}, prompts: {}, resources: {} };
     const form = { message: 'Who?', requestedSchema: { type: 'object', properties: { name: { type: 'string' } } } };
     const asking = (done) => ({ params }) => params.inputResponses === undefined
       ? { resultType: 'input_required', inputRequests: { a: { method: 'elicitation/create', params: form } } }
       : { resultType: 'complete', ...done(params.inputResponses.a.content.name) };
     on['tools/list'] = () => ({ resultType: 'complete', tools: [tool('t')] });
     on['prompts/list'] = () => ({ resultType: 'complete', prompts: [{ name: 'p' }] });
     on['prompts/get'] = asking((name) => ({ messages: [{ role: 'user', content: { type: 'text', text: name } }] }));
     on['resources/read'] = asking((name) => ({ contents: [{ uri: 'test://a', text: name }] }));
     on['tools/call'] = ({ params }) => {
       const { progressToken } = params._meta;
       say({ method: 'notifications/progress', params: { progressToken, progress: params.inputResponses ? 2 : 1 } });
       return asking(text)({ params });
     };`,
  );
  const onElicitation = () => ({ action: 'accept' as const, content: { name: 'Ada' } });
  await withManager({ onElicitation, servers: { s: config } }, async (manager) => {
    await manager.connect();
    const seen: number[] = [];
    const onProgress = ({ progress }: { progress: number }) => void seen.push(progress);
    expect(textOf(await manager.callTool('mcp__s__t', {}, { onProgress }))).toBe('Ada');
    expect(seen).toEqual([1, 2]);
    const tokens = noted('tools/call').map(({ params }) => params?._meta?.['progressToken']);
    expect(new Set(tokens).size).toBe(2);
    expect((await manager.getPrompt('mcp__s__p')).messages).toMatchObject([{ content: { text: 'Ada' } }]);
    expect(await manager.readResource('s', 'test://a')).toMatchObject([{ text: 'Ada' }]);
  });
});

/** A server of a revision that asks a model once and tells what it was answered. */
const askingModel = (version: '2025-06-18' | '2025-11-25', params: JsonObject) =>
  programmed(
    version,
    `on['tools/list'] = () => ({ tools: [tool('ask')] });
     let call;
     on['tools/call'] = ({ id }) => {
       call = id;
       say({ id: 'q', method: 'sampling/createMessage', params: ${JSON.stringify(params)} });
     };
     on.answer = ({ result, error }) => say({ id: call, result: text(result ?? { error }) });`,
  );

test('mcp:SAMP-11 a server of an earlier revision gets one block, never a list', async () => {
  const text = { type: 'text', text: 'hi' };
  const params = { messages: [{ role: 'user', content: text }], maxTokens: 5 };
  for (const [version, content, sent] of [
    ['2025-11-25', [text, text], [text, text]],
    ['2025-06-18', [text], text],
    ['2025-06-18', [text, text], undefined],
    ['2025-06-18', { type: 'tool_use', id: '1', name: 't', input: {} }, undefined],
  ] as const) {
    const onSampling = () => ({ role: 'assistant', model: 'm', content }) as unknown as JsonObject;
    const servers = { s: askingModel(version, params).config };
    await withManager({ onSampling, servers }, async (manager) => {
      await manager.connect();
      const told: string[] = [];
      manager.on('diagnostic', ({ code }) => told.push(code));
      const answer = await ask(manager, {});
      if (sent === undefined) expect(answer).toMatchObject({ error: { code: -32603 } });
      else expect(answer.content).toEqual(sent);
      expect(told).toEqual(sent === undefined ? ['SAMPLING_ANSWER_INVALID'] : []);
    });
  }
});

test('mcp:SAMP-08 mcp:SAMP-09 calls and results of tools that name no id reach no model', async () => {
  const call = { type: 'tool_use', id: '1', name: 't', input: {} };
  let asked = 0;
  const onSampling = () => {
    asked += 1;
    return { role: 'assistant', model: 'm', content: { type: 'text', text: 'x' } };
  };
  for (const messages of [
    [
      {
        role: 'user',
        content: [
          { type: 'tool_result', content: [] },
          { type: 'text', text: 'and' },
        ],
      },
    ],
    [{ role: 'assistant', content: [{ type: 'tool_use', name: 't', input: {} }] }],
    [
      { role: 'assistant', content: [call] },
      { role: 'user', content: [{ type: 'tool_result', toolUseId: '2', content: [] }] },
    ],
  ]) {
    const { config } = askingModel('2025-11-25', { messages, maxTokens: 5 } as unknown as JsonObject);
    await withManager({ onSampling, servers: { s: config } }, async (manager) => {
      await manager.connect();
      expect(await ask(manager, {})).toMatchObject({ error: { code: -32602 } });
    });
  }
  expect(asked).toBe(0);
});

test('mcp:SAMP-06 mcp:SAMP-15 mcp:SAMP-16 tools of a request go to the host as they are, and are nobody’s tools', async () => {
  const params = {
    messages: [
      { role: 'user', content: { type: 'text', text: 'hi' } },
      {
        role: 'assistant',
        content: [{ type: 'tool_use', id: '1', name: 'theirs', input: {}, _meta: { a: 1 } }],
      },
      { role: 'user', content: [{ type: 'tool_result', toolUseId: '1', content: [], _meta: { b: 2 } }] },
    ],
    tools: [{ name: 'theirs', inputSchema: { type: 'object' } }],
    maxTokens: 5,
  } as unknown as JsonObject;
  const { config, noted } = askingModel('2025-11-25', params);
  const asked: JsonObject[] = [];
  const answer = {
    role: 'assistant',
    model: 'm',
    content: [{ type: 'tool_use', id: '2', name: 'theirs', input: {} }],
    stopReason: 'toolUse',
  };
  const onSampling = (request: { params: JsonObject }) => {
    asked.push(request.params);
    return answer;
  };
  await withManager({ onSampling, servers: { s: config } }, async (manager) => {
    await manager.connect();
    expect(await ask(manager, {})).toEqual(answer);
    expect(asked).toEqual([params]);
    expect((await manager.listTools()).map(({ name }) => name)).toEqual(['mcp__s__ask']);
    expect(noted('tools/call')).toHaveLength(1);
  });
  const refuse = () => {
    throw new Error('no');
  };
  const other = askingModel('2025-11-25', params);
  await withManager({ onSampling: refuse, servers: { s: other.config } }, async (manager) => {
    await manager.connect();
    expect(await ask(manager, {})).toMatchObject({ error: { code: -1 } });
  });
});
