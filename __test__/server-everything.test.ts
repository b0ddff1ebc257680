/**
 * Everything that the official "everything" server offers, through the public interface, over both transports. What it
 * offers is asked of the server itself: a tool, prompt, template or resource that no exercise here knows is a failure, so
 * that an upgrade of the server cannot bring something untested along.
 */
import { gunzipSync } from 'node:zlib';
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { McpManager, type McpManagerEvents, type ServerConfig, type ToolResult } from '..';
import { DEFAULTS, startEverything, eventually, nextEvent, realServer, textOf } from './harness';

const S = 'everything';
const full = (tool: string) => `mcp__${S}__${tool}`;
const PICTURE = expect.objectContaining({ type: 'image', mimeType: 'image/png' });

/** What a person and a model answer; every question is noted. */
class Audience {
  readonly asked: { mode: string; server: string; message?: string; host?: string }[] = [];
  form: Record<string, unknown> = { name: 'Ada' };

  answer(request: { mode: string; server: string; message: string; host?: string }) {
    const { mode, server, message, host } = request;
    this.asked.push({ mode, server, message, host });
    return mode === 'form'
      ? { action: 'accept' as const, content: this.form as never }
      : { action: 'accept' as const };
  }

  sample(params: Record<string, unknown>) {
    this.asked.push({ mode: 'sampling', server: S });
    return {
      role: 'assistant',
      model: 'm',
      stopReason: 'endTurn',
      content: { type: 'text', text: `${String(params['maxTokens'])} words` },
    };
  }
}

describe.each(['stdio', 'http'] as const)('server-everything over %s', (transport) => {
  let manager: McpManager;
  let stop = () => {};
  const audience = new Audience();
  const exercised = { tools: new Set<string>(), prompts: new Set<string>(), templates: new Set<string>() };
  const logs: McpManagerEvents['log'][0][] = [];

  const call = (tool: string, args?: object, options?: Parameters<McpManager['callTool']>[2]) => {
    exercised.tools.add(tool);
    return manager.callTool(full(tool), args, options);
  };
  const prompt = (name: string, args?: Record<string, string>) => {
    exercised.prompts.add(name);
    return manager.getPrompt(full(name), args);
  };

  beforeAll(async () => {
    let config: ServerConfig = realServer('@modelcontextprotocol/server-everything', 'stdio');
    if (transport === 'http') {
      const started = await startEverything('streamableHttp');
      stop = started.stop;
      config = { type: 'http', url: `http://127.0.0.1:${started.port}/mcp` };
    }
    manager = new McpManager({
      ...DEFAULTS,
      servers: { [S]: config },
      roots: ['file:///first'],
      onElicitation: (request) => audience.answer(request),
      onSampling: ({ params }) => audience.sample(params),
    });
    manager.on('log', (log) => void (log.source === 'protocol' && logs.push(log)));
    await manager.connect();
    // Some tools are there only once the server knows what the host can do.
    await eventually(async () =>
      (await manager.listTools()).some(({ name }) => name === full('trigger-sampling-request-async')),
    );
    // The server asks for the roots a moment later.
    await eventually(() => logs.some(({ data }) => /Roots updated: 1/.test(String(data))), 10_000);
  }, 60_000);

  afterAll(async () => {
    await manager?.close();
    stop();
  });

  describe('tools', () => {
    test('echo, get-sum, get-env', async () => {
      expect(textOf(await call('echo', { message: 'ﬁ ½' }))).toContain('ﬁ ½');
      expect(textOf(await call('get-sum', { a: 2, b: 40 }))).toContain('42');
      expect(JSON.parse(textOf(await call('get-env')))).toHaveProperty('PATH');
    });

    test('CAL-03 get-tiny-image, get-annotated-message: pictures and annotations', async () => {
      expect((await call('get-tiny-image')).content).toContainEqual(PICTURE);
      for (const [messageType, audienceOf] of [
        ['error', ['user', 'assistant']],
        ['success', ['user']],
        ['debug', ['assistant']],
      ] as const) {
        const { content } = await call('get-annotated-message', { messageType, includeImage: true });
        expect(content[0]).toMatchObject({ type: 'text', annotations: { audience: audienceOf } });
        expect(content[1]).toMatchObject({ type: 'image', annotations: { audience: ['user'] } });
      }
    });

    test('CAL-03 get-structured-content: checked against its schema', async () => {
      const result = await call('get-structured-content', { location: 'New York' });
      expect(result.structuredContent).toEqual({
        temperature: expect.any(Number),
        conditions: expect.any(String),
        humidity: expect.any(Number),
      });
    });

    test('RES-01 get-resource-links, get-resource-reference: links can be read, references are there', async () => {
      const { content } = await call('get-resource-links', { count: 4 });
      const links = content.filter((block) => block.type === 'resource_link');
      expect(links).toHaveLength(4);
      for (const link of links) {
        const [read] = await manager.readResource(S, link.uri);
        expect(read?.uri).toBe(link.uri);
      }
      const text = await call('get-resource-reference', { resourceType: 'Text', resourceId: 3 });
      expect(JSON.stringify(text.content)).toContain('This is a plaintext resource');
      const blob = await call('get-resource-reference', { resourceType: 'Blob', resourceId: 3 });
      expect(blob.content.some((block) => block.type === 'file')).toBe(true);
    });

    test('RES-01 gzip-file-as-resource: by link and whole', async () => {
      const data = `data:text/plain;base64,${Buffer.from('squeeze me').toString('base64')}`;
      const [link] = (await call('gzip-file-as-resource', { name: 'a.gz', data, outputType: 'resourceLink' }))
        .content;
      if (link?.type !== 'resource_link') throw new Error(`expected a link, got ${link?.type}`);
      const [read] = await manager.readResource(S, link.uri, { blobs: 'buffer' });
      expect(gunzipSync(read!.data!).toString()).toBe('squeeze me');
      const [file] = (await call('gzip-file-as-resource', { name: 'b.gz', data, outputType: 'resource' }))
        .content;
      if (file?.type !== 'file') throw new Error(`expected a file, got ${file?.type}`);
      expect(gunzipSync(readFileSync(file.path)).toString()).toBe('squeeze me');
    });

    test('PRO-08 PRO-07 trigger-long-running-operation: progress, and an end before the end', async () => {
      const seen: number[] = [];
      const onProgress = ({ progress }: { progress: number }) => void seen.push(progress);
      await call('trigger-long-running-operation', { duration: 0.6, steps: 3 }, { onProgress });
      expect(seen).toEqual([1, 2, 3]);
      const signal = AbortSignal.timeout(200);
      await expect(
        call('trigger-long-running-operation', { duration: 60, steps: 60 }, { signal }),
      ).rejects.toMatchObject({ name: 'TimeoutError' });
      expect(textOf(await call('echo', { message: 'still there' }))).toContain('still there');
    });

    test('PRO-11 toggle-simulated-logging, logging/setLevel: no message below the level', async () => {
      await manager.setLogLevel(S, 'emergency');
      logs.length = 0;
      await call('toggle-simulated-logging');
      await manager.setLogLevel(S, 'debug');
      await call('toggle-simulated-logging');
      const heard = nextEvent(manager, 'log', ({ source }) => source === 'protocol', 15_000);
      await call('toggle-simulated-logging');
      expect(await heard).toMatchObject({ server: S, level: expect.any(String) });
      await call('toggle-simulated-logging');
      await manager.setLogLevel(S, 'info');
    });

    test('RES-02 toggle-subscriber-updates: heard of while subscribed', async () => {
      const [{ uri }] = await manager.listResources();
      await manager.subscribeResource(S, uri);
      const updated = nextEvent(manager, 'resourceUpdated', undefined, 15_000);
      await call('toggle-subscriber-updates');
      expect(await updated).toEqual({ server: S, uri });
      await call('toggle-subscriber-updates');
      await manager.unsubscribeResource(S, uri);
    });

    test('PRO-10 get-roots-list: also after they have changed', async () => {
      expect(textOf(await call('get-roots-list'))).toContain('file:///first');
      await manager.setRoots(['file:///second']);
      await eventually(async () => textOf(await call('get-roots-list')).includes('file:///second'), 10_000);
    });

    test('PRO-12 trigger-sampling-request', async () => {
      const result = await call('trigger-sampling-request', { prompt: 'Hello', maxTokens: 7 });
      expect(textOf(result)).toContain('7 words');
    });

    test('ELI-01 trigger-elicitation-request: every kind of field, defaults filled in', async () => {
      audience.form = {
        name: 'Ada',
        check: true,
        email: 'ada@example.com',
        homepage: 'https://ada.example/',
        birthdate: '1815-12-10',
        untitledMultipleSelectEnum: ['Piano', 'Violin'],
        titledSingleSelectEnum: 'hero-3',
      };
      const said = texts(await call('trigger-elicitation-request'));
      const answer = JSON.parse(/Raw result: ([\s\S]*)$/.exec(said)![1]!) as { content: object };
      expect(answer.content).toEqual({
        ...audience.form,
        firstLine: 'It was a dark and stormy night.',
        integer: 42,
        number: 3.14,
        untitledSingleSelectEnum: 'Monica',
        titledMultipleSelectEnum: ['fish-1'],
        legacyTitledEnum: 'pet-1',
      });
      audience.form = { name: 'Ada', integer: 1000 };
      expect(texts(await call('trigger-elicitation-request')), 'what breaks the form is not sent').toContain(
        'cancelled',
      );
      audience.form = { name: 'Ada' };
    });

    test('ELI-02 CAL-01 trigger-url-elicitation: by request, and by error −32042 with a repetition', async () => {
      audience.asked.length = 0;
      const url = 'https://login.example/start?x=1';
      expect(texts(await call('trigger-url-elicitation', { url }))).toContain('completed the URL');
      expect(audience.asked).toMatchObject([{ mode: 'url', server: S, host: 'login.example' }]);
      audience.asked.length = 0;
      const again = await call('trigger-url-elicitation', { url, errorPath: true });
      expect(texts(again)).toContain('completed the URL');
      expect(audience.asked.map(({ host }) => host)).toEqual(['modelcontextprotocol.io', 'login.example']);
    }, 20_000);

    test('BEY-13 simulate-research-query: a task with a question, plain and in the background', async () => {
      audience.form = { interpretation: 'technical' };
      const tool = full('simulate-research-query');
      exercised.tools.add('simulate-research-query');
      const task = await manager.startTool(tool, { topic: 'life', ambiguous: true });
      const seen: string[] = [];
      task.on('status', (status) => seen.push(status));
      const [result, plain] = await Promise.all([
        task.result(),
        manager.callTool(tool, { topic: 'bees', ambiguous: false }),
      ]);
      expect(textOf(result)).toContain('Research Report: life (technical)');
      expect(textOf(plain)).toContain('Research Report: bees');
      expect(seen).toEqual(expect.arrayContaining(['input_required', 'completed']));
      expect((await manager.listTasks(S)).map(({ taskId }) => taskId)).toContain(task.taskId);

      const unwanted = await manager.startTool(tool, { topic: 'time' });
      await unwanted.cancel();
      expect(unwanted.status).toBe('cancelled');
      audience.form = { name: 'Ada' };
    }, 30_000);

    test('mcp:TASKL-15 trigger-elicitation-request-async, trigger-sampling-request-async: tasks of ours', async () => {
      const [form, words] = await Promise.all([
        call('trigger-elicitation-request-async'),
        call('trigger-sampling-request-async', { prompt: 'Hello', maxTokens: 9 }),
      ]);
      expect(texts(form)).toContain('[COMPLETED]');
      expect(texts(form)).toContain('- Name: Ada');
      expect(texts(words)).toContain('[COMPLETED]');
      expect(texts(words)).toContain('9 words');
    }, 30_000);
  });

  test('PRM-01 prompts, by name and as a slash command', async () => {
    expect((await prompt('simple-prompt')).messages[0]).toMatchObject({ role: 'user' });
    const args = { city: 'Ulm', state: 'BW' };
    const filled = await prompt('args-prompt', args);
    expect(filled.messages[0]?.content).toMatchObject({ text: "What's weather in Ulm, BW?" });
    const line = await manager.runSlashCommand(`/${full('args-prompt')} "New Ulm" MN`);
    expect(line.messages[0]?.content).toMatchObject({ text: "What's weather in New Ulm, MN?" });
    const named = await prompt('completable-prompt', { department: 'Sales', name: 'Eve' });
    expect(named.messages[0]?.content).toMatchObject({ text: expect.stringContaining('Eve') });
    const text = await prompt('resource-prompt', { resourceType: 'Text', resourceId: '2' });
    expect(JSON.stringify(text)).toContain('plaintext resource');
    const blob = await prompt('resource-prompt', { resourceType: 'Blob', resourceId: '2' });
    expect(blob.messages.some(({ content }) => content.type === 'file')).toBe(true);
  });

  test('PRO-11 completion, of prompts and of templates', async () => {
    const reference = { type: 'ref/prompt', name: full('completable-prompt') } as const;
    const departments = await manager.complete(S, reference, { name: 'department', value: 'S' });
    expect(departments.values).toEqual(['Sales', 'Support']);
    const names = await manager.complete(
      S,
      reference,
      { name: 'name', value: '' },
      { arguments: { department: 'Engineering' } },
    );
    expect(names.values).toEqual(['Alice', 'Bob', 'Charlie']);
    const types = { type: 'ref/prompt', name: full('resource-prompt') } as const;
    expect((await manager.complete(S, types, { name: 'resourceType', value: 'B' })).values).toEqual(['Blob']);
    expect((await manager.complete(S, types, { name: 'resourceId', value: '5' })).values).toEqual(['5']);
    for (const { uriTemplate } of await manager.listResourceTemplates()) {
      const template = { type: 'ref/resource', uri: uriTemplate } as const;
      const ids = await manager.complete(S, template, { name: 'resourceId', value: '12' });
      expect(ids.values).toEqual(['12']);
    }
  });

  test('RES-01 every resource and every template can be read', async () => {
    const resources = await manager.listResources();
    expect(resources.length).toBeGreaterThan(0);
    for (const { uri } of resources) {
      const [content] = await manager.readResource(S, uri);
      expect(content, uri).toMatchObject({ uri, server: S });
      expect(content!.text ?? content!.path, uri).toBeTruthy();
    }
    for (const { uriTemplate } of await manager.listResourceTemplates()) {
      const uri = uriTemplate.replace('{resourceId}', '7');
      expect(uri, 'a variable that this test does not know').not.toMatch(/[{}]/);
      const [content] = await manager.readResource(S, uri);
      expect(content!.text ?? content!.path, uri).toBeTruthy();
      exercised.templates.add(uriTemplate);
    }
  });

  test('PRO-11 ping, instructions, and what the server declares', async () => {
    expect(await manager.ping(S)).toBeGreaterThanOrEqual(0);
    const { capabilities, instructions, era } = manager.status(S)!;
    expect(era).toBe('legacy');
    expect(instructions).toBeTruthy();
    // A capability that is not here is one that no test above shows.
    expect(Object.keys(capabilities!).sort()).toEqual([
      'completions',
      'logging',
      'prompts',
      'resources',
      'tasks',
      'tools',
    ]);
  });

  test('nothing it offers is left out', async () => {
    const offered = (await manager.listTools()).map(({ mcpInfo }) => mcpInfo.toolName);
    const ours = ['mcp_list_resources', 'mcp_read_resource'];
    for (const name of ours)
      expect((await manager.callTool(full(name), argumentsOf(name))).isError).toBe(false);
    expect(offered.filter((name) => !ours.includes(name)).sort()).toEqual([...exercised.tools].sort());
    expect((await manager.listPrompts()).map(({ promptName }) => promptName).sort()).toEqual(
      [...exercised.prompts].sort(),
    );
    expect((await manager.listResourceTemplates()).map(({ uriTemplate }) => uriTemplate).sort()).toEqual(
      [...exercised.templates].sort(),
    );
  });
});

const argumentsOf = (tool: string) =>
  tool === 'mcp_read_resource' ? { uri: 'demo://resource/dynamic/text/1' } : {};

/** All texts of a result. */
function texts(result: ToolResult): string {
  return result.content.map((block) => (block.type === 'text' ? block.text : '')).join('\n');
}
