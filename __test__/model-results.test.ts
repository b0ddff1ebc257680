/**
 * USE-03: results of tools in the shapes of five interfaces, with a report of what each cannot say.
 *
 * The shapes were compiled against the types of `@anthropic-ai/sdk` 1.14, `openai` 7.59, `@google/genai` 3.3, `ai` 6.0 and
 * 7.0 and `@langchain/core` 1.4, and passed through `generateText` and `ToolMessage`, by hand: 100 MB of packages are too
 * heavy for every test run.
 */
import { describe, expect, test } from 'vitest';
import {
  McpToolCallError,
  toModelResult,
  toModelTools,
  type ContentBlock,
  type ModelResultMessages,
  type Tool,
  type ToolResult,
} from '..';
import { caught, faulty, realServer, thrown, withManager } from './harness';

type Profile = keyof ModelResultMessages;
const PROFILES: Profile[] = ['anthropic', 'openai', 'openai-responses', 'gemini', 'ai-sdk', 'langchain'];
const CALL = { id: 'call-1', name: 'tool' };
const PNG = 'iVBORw0KGgo=';

const result = (content: ContentBlock[], more: Partial<ToolResult> = {}): ToolResult =>
  ({
    server: 's',
    tool: 't',
    fullName: 'mcp__s__t',
    content,
    isError: false,
    elapsedMs: 1,
    ...more,
  }) as ToolResult;
const words = (text: string): ContentBlock => ({ type: 'text', text });
const image = (mimeType = 'image/png', data = PNG): ContentBlock => ({ type: 'image', data, mimeType });
const audio: ContentBlock = { type: 'audio', data: 'AAAA', mimeType: 'audio/wav' };
const message = (outcome: ToolResult | Error, profile: Profile, more = {}) =>
  toModelResult(outcome, profile, { ...CALL, ...more }).message;

describe('USE-03 results', () => {
  test('USE-03 the shapes: text and image', () => {
    const both = result([words('one'), image(), words('two')]);
    const text = (type: string, value: string) => ({ type, text: value });
    const url = `data:image/png;base64,${PNG}`;
    expect(message(both, 'anthropic')).toEqual({
      type: 'tool_result',
      tool_use_id: 'call-1',
      content: [
        text('text', 'one'),
        { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PNG } },
        text('text', 'two'),
      ],
    });
    expect(message(both, 'openai')).toEqual({
      role: 'tool',
      tool_call_id: 'call-1',
      content: 'one\n[image of type image/png, 8 bytes, not shown]\ntwo',
    });
    expect(message(both, 'openai-responses')).toEqual({
      type: 'function_call_output',
      call_id: 'call-1',
      output: [
        text('input_text', 'one'),
        { type: 'input_image', detail: 'auto', image_url: url },
        text('input_text', 'two'),
      ],
    });
    expect(message(both, 'gemini')).toEqual({
      functionResponse: {
        id: 'call-1',
        name: 'tool',
        response: { output: 'one\ntwo' },
        parts: [{ inlineData: { mimeType: 'image/png', data: PNG } }],
      },
    });
    expect(message(both, 'ai-sdk')).toEqual({
      type: 'tool-result',
      toolCallId: 'call-1',
      toolName: 'tool',
      output: {
        type: 'content',
        value: [
          text('text', 'one'),
          { type: 'image-data', data: PNG, mediaType: 'image/png' },
          text('text', 'two'),
        ],
      },
    });
    expect(message(both, 'langchain')).toEqual({
      type: 'tool',
      tool_call_id: 'call-1',
      name: 'tool',
      status: 'success',
      content: [text('text', 'one'), { type: 'image_url', image_url: { url } }, text('text', 'two')],
    });
  });

  test('USE-03 text alone is a text where that is enough', () => {
    const plain = result([words('one'), words('two')]);
    expect(message(plain, 'openai-responses')).toMatchObject({ output: 'one\ntwo' });
    expect(message(plain, 'langchain')).toMatchObject({ content: 'one\ntwo' });
    expect(message(plain, 'ai-sdk')).toMatchObject({ output: { type: 'text', value: 'one\ntwo' } });
    for (const profile of PROFILES) expect(toModelResult(plain, profile, CALL).changes).toEqual([]);
  });

  test('USE-03 a failure of the tool says that it is one, everywhere', () => {
    const failed = result([words('no disk'), image()], { isError: true });
    // Anthropic: "all content must be type 'text' if 'is_error' is true".
    expect(message(failed, 'anthropic')).toMatchObject({
      is_error: true,
      content: [words('no disk'), { type: 'text', text: expect.stringMatching(/^\[image/) }],
    });
    expect(message(failed, 'openai')).toMatchObject({
      content: expect.stringMatching(/^The tool failed:\nno disk\n/),
    });
    expect(message(failed, 'openai-responses')).toMatchObject({
      output: [{ text: 'The tool failed:' }, {}, {}],
    });
    expect(message(failed, 'gemini')).toMatchObject({ functionResponse: { response: { error: 'no disk' } } });
    expect(message(failed, 'langchain')).toMatchObject({
      status: 'error',
      content: expect.stringMatching(/^no disk\n\[image/),
    });
    expect(toModelResult(failed, 'anthropic', CALL).left).toEqual([image()]);
    const { message: ai, left, changes } = toModelResult(failed, 'ai-sdk', CALL);
    expect(ai.output).toMatchObject({
      type: 'error-text',
      value: expect.stringMatching(/^no disk\n\[image/),
    });
    expect(left).toEqual([image()]);
    expect(changes).toMatchObject([{ block: 1, kind: 'left' }]);
  });

  test('USE-03 what a call rejects with is a failure too', async () => {
    await withManager({ servers: { s: faulty() } }, async (manager) => {
      const failure = await caught(manager.callTool('mcp__s__fail'));
      expect(failure).toBeInstanceOf(McpToolCallError);
      for (const profile of PROFILES)
        expect(message(failure, profile)).toEqual(message(failure.result!, profile));
      const unknown = await caught(manager.callTool('mcp__s__nothing'));
      expect(message(unknown, 'anthropic')).toMatchObject({
        is_error: true,
        content: [{ text: expect.stringMatching(/^TOOL_UNKNOWN: /) }],
      });
    });
    expect(message(new Error('aborted'), 'openai')).toMatchObject({ content: 'The tool failed:\naborted' });
  });

  test('USE-03 nothing is dropped silently: what cannot be shown is named, reported and handed back', () => {
    const blocks: ContentBlock[] = [
      audio,
      image('image/svg+xml'),
      { type: 'resource_link', uri: 'a://b', name: 'b', size: 3, description: 'of c' },
      { type: 'file', path: '/tmp/x.pdf', mimeType: 'application/pdf', bytes: 9, uri: 'a://x' },
      { type: 'unknown', raw: { type: 'video', length: 4 } },
      words(''),
    ];
    for (const profile of PROFILES) {
      const made = toModelResult(result(blocks), profile, CALL);
      const said = JSON.stringify(made.message);
      for (const fact of ['audio/wav', 'image/svg+xml', 'a://b', 'of c', '/tmp/x.pdf', 'a://x', 'video'])
        expect(said, profile).toContain(fact);
      expect(made.left, profile).toEqual(blocks.slice(0, 2));
      expect(
        made.changes.map(({ block, kind }) => [block, kind]),
        profile,
      ).toEqual([
        [0, 'left'],
        [1, 'left'],
        [2, 'described'],
        [3, 'described'],
        [4, 'described'],
        [5, 'left'],
      ]);
    }
  });

  test('USE-03 images and sounds as far as the model takes them', () => {
    const media = result([image(), image('image/gif'), audio]);
    for (const profile of PROFILES) {
      const none = toModelResult(media, profile, { ...CALL, images: false });
      expect(none.left, profile).toEqual(media.content);
      expect(JSON.stringify(none.message)).not.toContain(PNG);
      const { left } = toModelResult(media, profile, { ...CALL, audio: true });
      const wanted = { openai: media.content, gemini: [image('image/gif')], 'ai-sdk': [] };
      expect(left, profile).toEqual(wanted[profile as keyof typeof wanted] ?? [audio]);
    }
    expect(message(media, 'ai-sdk', { audio: true })).toMatchObject({
      output: { value: [{}, {}, { type: 'file-data', mediaType: 'audio/wav', data: 'AAAA' }] },
    });
  });

  test('USE-03 structuredContent is said once', () => {
    const value = { b: [1, { y: 2, x: null }], a: 'é' };
    const same = result([words('{"a":"é","b":[1,{"x":null,"y":2}]}')], { structuredContent: value });
    const other = result([words('see below')], { structuredContent: value });
    const only = result([image()], { structuredContent: value });
    for (const profile of PROFILES) {
      const twice = toModelResult(same, profile, CALL);
      expect(twice.changes, profile).toMatchObject([{ block: 0, kind: 'merged' }]);
      expect(JSON.stringify(twice.message).split('é')).toHaveLength(2);
      expect(toModelResult(other, profile, CALL).changes, profile).toMatchObject([{ kind: 'added' }]);
      for (const each of [other, only])
        expect(JSON.stringify(message(each, profile)), profile).toContain('é');
    }
    expect(message(only, 'gemini')).toMatchObject({ functionResponse: { response: { output: value } } });
    expect(message(result([], { structuredContent: [1] }), 'gemini')).toMatchObject({
      functionResponse: { response: { output: '[1]' } },
    });
  });

  test('USE-03 nothing at all, and less than all, are told', () => {
    for (const profile of PROFILES) {
      const empty = toModelResult(result([]), profile, CALL);
      expect(JSON.stringify(empty.message), profile).toContain('(no content)');
      expect(empty.changes).toMatchObject([{ kind: 'added' }]);
      const truncated = { tokens: 90, limit: 10, path: '/tmp/whole.txt' };
      expect(toModelResult(result([words('a')], { truncated }), profile, CALL).changes).toEqual([
        { kind: 'truncated', detail: expect.stringMatching(/90.*10.*\/tmp\/whole\.txt/) },
      ]);
    }
  });

  test('USE-03 a real result is not changed by it', async () => {
    await withManager(
      { servers: { e: realServer('@modelcontextprotocol/server-everything') } },
      async (manager) => {
        await manager.connect();
        for (const [tool, args] of [
          ['get-tiny-image', {}],
          ['get-resource-links', { count: 2 }],
          ['get-structured-content', { location: 'New York' }],
        ] as const) {
          const real = await manager.callTool({ server: 'e', tool }, args);
          const before = JSON.stringify(real);
          for (const profile of PROFILES) {
            const made = toModelResult(real, profile, CALL);
            expect(JSON.parse(JSON.stringify(made)), `${tool} ${profile}`).toEqual(made);
          }
          expect(JSON.stringify(real)).toBe(before);
        }
      },
    );
  });

  test('USE-03 wrong arguments name their parameter', () => {
    const wrong = (call: () => unknown, parameter: string) =>
      expect(thrown(call)).toMatchObject({ code: 'INVALID_ARGUMENT', parameter });
    wrong(() => toModelResult('x' as never, 'openai', CALL), 'outcome');
    wrong(() => toModelResult(result([null as never]), 'openai', CALL), 'outcome.content[0]');
    wrong(() => toModelResult(result([]), 'mistral' as never, CALL), 'profile');
    wrong(() => toModelResult(result([]), 'openai', {} as never), 'call.id');
    wrong(() => toModelResult(result([]), 'gemini', { id: '1' }), 'call.name');
    wrong(() => toModelResult(result([]), 'openai', { id: '1', images: 'no' as never }), 'call.images');
  });
});

describe('USE-03 tools', () => {
  const schema = {
    type: 'object',
    properties: { a: { $ref: '#/$defs/x' } },
    $defs: { x: { type: 'string' } },
  };
  const tool = { name: '9__lives', description: 'nine', inputSchema: schema } as unknown as Tool;

  test('USE-03 the shapes for Responses, the AI SDK and LangChain', () => {
    const flat = { type: 'object', properties: { a: { type: 'string' } } };
    expect(toModelTools([tool], 'openai-responses').tools).toEqual([
      { type: 'function', name: '9__lives', description: 'nine', parameters: schema, strict: false },
    ]);
    for (const [profile, field] of [
      ['ai-sdk', 'inputSchema'],
      ['langchain', 'schema'],
    ] as const) {
      const { tools, resolve, changes } = toModelTools([tool], profile);
      expect(tools).toEqual([
        { name: expect.stringMatching(/^_9__lives_/), description: 'nine', [field]: flat },
      ]);
      expect(resolve(tools[0].name as string)).toBe('9__lives');
      expect(changes.map(({ kind }) => kind)).toEqual(expect.arrayContaining(['renamed', 'repaired']));
    }
  });
});
