import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { McpManager, PromptResult } from '..';
import { caught, faulty, notes, temporaryDirectory, withFaulty, withManager } from './harness';
import { programmed } from './programmed-server';

const said = ({ messages }: PromptResult) =>
  messages.map(({ content }) => (content.type === 'text' ? content.text : content.type)).join('|');

describe('prompts', () => {
  test('PRM-01 the list', async () => {
    await withFaulty([], async (manager) => {
      await manager.connect();
      const prompts = await manager.listPrompts();
      expect(prompts.map(({ name }) => name).sort()).toEqual([
        'mcp__s__code_review',
        'mcp__s__greet',
        'mcp__s__mixed',
        'mcp__s__plain',
      ]);
      expect(prompts.find(({ promptName }) => promptName === 'greet')).toEqual({
        name: 'mcp__s__greet',
        promptName: 'greet',
        server: 's',
        type: 'prompt',
        source: 'mcp',
        title: 'Greeting',
        description: 'Greets',
        arguments: [
          { name: 'name', description: 'Who', required: true },
          expect.objectContaining({ name: 'style' }),
        ],
      });
      expect(prompts.find(({ promptName }) => promptName === 'plain')?.arguments).toEqual([]);
    });
  });

  test('PRM-01 mcp:PRM-01 arguments by name and by place; what is too much joins the last', async () => {
    await withFaulty([], async (manager) => {
      expect(said(await manager.getPrompt('mcp__s__greet', { name: 'Ada', style: 'warmly' }))).toBe(
        'Hello Ada, warmly',
      );
      expect(said(await manager.getPrompt('mcp__s__greet', ['Ada', 'warmly']))).toBe('Hello Ada, warmly');
      expect(said(await manager.getPrompt('mcp__s__greet', ['Ada', 'very', 'warmly', 'so']))).toBe(
        'Hello Ada, very warmly so',
      );
      expect(said(await manager.getPrompt('mcp__s__greet', ['Ada']))).toBe('Hello Ada, plainly');
      expect(await manager.getPrompt('mcp__s__greet', { name: 'Ada' })).toMatchObject({
        description: 'Greets',
        messages: [{ role: 'user', content: { type: 'text' } }],
      });
    });
  });

  test('PRM-01 missing required arguments are named, nothing is sent', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withFaulty(['--notes', file], async (manager) => {
      const attempts: (Record<string, string> | string[] | undefined)[] = [undefined, {}, [], { style: 'x' }];
      for (const args of attempts) {
        const error = await caught(manager.getPrompt('mcp__s__greet', args));
        expect(error.code).toBe('INPUT_INVALID');
        expect(error.message).toContain('name');
      }
      expect(notes(file).filter(({ method }) => method === 'prompts/get')).toEqual([]);
    });
  });

  test('PRM-01 NAM-03 the wire gets the name of the server', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withFaulty(['--notes', file], async (manager) => {
      expect(said(await manager.getPrompt('mcp__s__code_review'))).toBe('code.review');
      expect(notes(file).find(({ method }) => method === 'prompts/get')?.params?.name).toBe('code.review');
    });
  });

  test('PRM-01 CAL-03 content is mapped as that of tools', async () => {
    await withFaulty([], async (manager) => {
      const { messages } = await manager.getPrompt('mcp__s__mixed');
      expect(messages).toMatchObject([
        { role: 'user', content: { type: 'image', mimeType: 'image/png' } },
        { role: 'assistant', content: { type: 'text', text: 'embedded' } },
      ]);
    });
  });

  const lines: [string, string][] = [
    ['/mcp__s__greet Ada warmly', 'Hello Ada, warmly'],
    ['/mcp__s__greet "Ada L" \'very warmly\'', 'Hello Ada L, very warmly'],
    ['/mcp__s__greet A\\ B "say \\"hi\\""', 'Hello A B, say "hi"'],
    ['/mcp__s__greet "" x', 'Hello , x'],
    ['/mcp__s__greet   Ada \t warmly  ', 'Hello Ada, warmly'],
    ['/mcp__s__plain', 'plain'],
  ];
  test.each(lines)('PRM-01 %s', async (line, text) => {
    await withFaulty([], async (manager) => {
      expect(said(await manager.runSlashCommand(line))).toBe(text);
    });
  });

  test('PROMPT_UNKNOWN with suggestions', async () => {
    await withFaulty([], async (manager) => {
      const attempts: ((manager: McpManager) => Promise<unknown>)[] = [
        (m) => m.getPrompt('mcp__s__gret'),
        (m) => m.runSlashCommand('/mcp__s__gret x'),
      ];
      for (const attempt of attempts) {
        const error = await caught(attempt(manager));
        expect(error).toMatchObject({ code: 'PROMPT_UNKNOWN', name: 'McpServerError' });
        expect(error.suggestions).toContain('mcp__s__greet');
      }
      expect(['PROMPT_UNKNOWN', 'SERVER_UNKNOWN']).toContain(
        (await caught(manager.getPrompt('mcp__nobody__greet'))).code,
      );
    });
  });

  test('PRO-05 mcp:PRM-03 a server without prompts: an empty list, no request', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withManager(
      { servers: { a: faulty('--capabilities', '{"tools":{}}', '--notes', file), b: faulty() } },
      async (manager) => {
        await manager.connect();
        expect(new Set((await manager.listPrompts()).map(({ server }) => server))).toEqual(new Set(['b']));
        expect(notes(file).map(({ method }) => method)).not.toContain('prompts/list');
      },
    );
  });
});

test('SEC-01 mcp:COMP-01 completion speaks to the server in its own names', async () => {
  const { config, noted } = programmed(
    '2025-11-25',
    `capabilities = { prompts: {}, resources: {}, completions: {} };
     on['prompts/list'] = () => ({ prompts: [{ name: '\uFB01nd', arguments: [{ name: 'l\u200Bang' }, { name: 'tone' }] }] });
     on['resources/list'] = () => ({ resources: [{ uri: 'a:\u200Bb' }] });
     on['resources/templates/list'] = () => ({ resourceTemplates: [
       { uriTemplate: 'db://ta\u200Bble/{row}', name: 'x' }, { uriTemplate: 'db://plain/{row}', name: 'y' }] });
     on['completion/complete'] = () => ({ completion: { values: [] } });`,
  );
  await withManager({ servers: { s: config } }, async (manager) => {
    await manager.connect();
    const [prompt] = await manager.listPrompts();
    const context = { arguments: { lang: 'lang', tone: 'x' } };
    for (const name of [prompt.name, prompt.promptName, '\uFB01nd']) {
      await manager.complete('s', { type: 'ref/prompt', name }, { name: 'lang', value: 'lang' }, context);
    }
    const asked = noted('completion/complete').map(({ params }) => params);
    expect(asked).toMatchObject(
      Array.from({ length: 3 }, () => ({
        ref: { type: 'ref/prompt', name: '\uFB01nd' },
        argument: { name: 'l\u200Bang', value: 'lang' },
        context: { arguments: { 'l\u200Bang': 'lang', tone: 'x' } },
      })),
    );
    const templates = await manager.listResourceTemplates();
    expect(templates.map(({ uriTemplate }) => uriTemplate)).toEqual(['db://plain/{row}']);
    const [resource] = await manager.listResources();
    await manager.complete('s', { type: 'ref/resource', uri: resource.uri }, { name: 'row', value: '' });
    expect(noted('completion/complete').at(-1)?.params?.['ref']).toEqual({
      type: 'ref/resource',
      uri: 'a:\u200Bb',
    });
  });
});
