/** One table of texts that hide something, through the pure function and through every way a server can say something. */
import { describe, expect, test } from 'vitest';
import { sanitizeUnicode, type Diagnostic, type McpManager, type McpManagerOptions } from '..';
import { caught, eventually, fixture, withManager } from './harness';

/** What the text is, what strict cleaning leaves of it (SEC-01), what stays in results (SEC-02). */
const TABLE: [string, string, string, string][] = [
  ['tag block', 'x\u{E0041}\u{E0042}\u{E007F}y', 'xy', 'xy'],
  ['bidi controls', '\u202Eabc\u202C\u2066d\u2069\u200F', 'abcd', 'abcd'],
  ['zero width', 'a\u200Bb\u2060c\uFEFF\u00AD', 'abc', 'abc'],
  ['variation selectors', 'a\uFE00b\uFE0Fc\u{E0100}', 'abc', 'abc'],
  ['letters that show nothing', 'a\u3164b\u115Fc\uFFA0d\u1160', 'abcd', 'abcd'],
  ['private use', 'a\uE000b\u{F0000}', 'ab', 'ab'],
  [
    'a black flag with text in tags',
    '\u{1F3F4}\u{E0072}\u{E0075}\u{E006E}\u{E007F}',
    '\u{1F3F4}',
    '\u{1F3F4}',
  ],
  [
    'a true flag',
    '\u{1F3F4}\u{E0067}\u{E0062}\u{E0073}\u{E0063}\u{E0074}\u{E007F}',
    '\u{1F3F4}',
    '\u{1F3F4}\u{E0067}\u{E0062}\u{E0073}\u{E0063}\u{E0074}\u{E007F}',
  ],
  ['NFKC that is not done in one pass', 'e\u200B\u0301 \uFB01\u200B', '\u00E9 fi', 'e\u0301 \uFB01'],
  ['NFKC that makes invisible letters', '\u3164\uFB01\uFFA0\u00BD', 'fi1\u20442', '\uFB01\u00BD'],
  ['an emoji family', '👩\u200D👩\u200D👧 ❤\uFE0F', '👩👩👧 ❤', '👩\u200D👩\u200D👧 ❤\uFE0F'],
  [
    'Devanagari joiners',
    'क\u094D\u200Dष क\u094D\u200Cष',
    'क\u094Dष क\u094Dष',
    'क\u094D\u200Dष क\u094D\u200Cष',
  ],
  ['a Persian joiner', 'می\u200Cخواهم', 'میخواهم', 'می\u200Cخواهم'],
  ['joiners between Latin letters', 'a\u200Cb\u200Dc', 'abc', 'abc'],
  [
    'nothing hidden',
    'plain ASCII, 日本語, Ünïcode',
    'plain ASCII, 日本語, Ünïcode',
    'plain ASCII, 日本語, Ünïcode',
  ],
];

const dirty = (said: string) => ({
  command: process.execPath,
  args: [fixture('dirty-server.mjs'), JSON.stringify(said)],
});

/** Every string of a value, keys included. */
function strings(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => [key, ...strings(inner)]);
}

/** Asks a server for everything it has, and collects what was said, by carrier. */
async function collect(said: string, options: McpManagerOptions = {}) {
  const heard: Record<string, unknown> = {};
  const found: Diagnostic[] = [];
  const onElicitation: McpManagerOptions['onElicitation'] = ({ signal, ...asked }) => {
    expect(signal.aborted).toBe(false);
    heard.question = asked;
    return { action: 'decline' };
  };
  await withManager(
    { servers: { s: dirty(said) }, onElicitation, ...options },
    async (manager: McpManager) => {
      manager.on('diagnostic', (one) => found.push(one));
      manager.on('log', ({ source, ...log }) => source === 'protocol' && (heard.log = log));
      await manager.connect('s');
      const { serverInfo, instructions } = manager.status('s')!;
      Object.assign(heard, { serverInfo, instructions });
      heard.tools = (await manager.listTools())
        .filter(({ mcpInfo }) => !mcpInfo.toolName.startsWith('mcp_'))
        // What the server sent is kept beside what models see.
        .map((tool) => ({ ...tool, rawInputSchema: undefined }));
      heard.prompts = await manager.listPrompts();
      heard.resources = await manager.listResources();
      heard.templates = await manager.listResourceTemplates();
      const { raw: _, ...result } = await manager.callTool('mcp__s__result');
      heard.result = result;
      heard.resource = await manager.readResource('s', 'x://r');
      heard.prompt = await manager.getPrompt('mcp__s__p');
      const ref = { type: 'ref/prompt', name: 'p' } as const;
      heard.completion = await manager.complete('s', ref, { name: 'a', value: '' });
      const failed = await caught(manager.callTool('mcp__s__fail'));
      heard.failure = { message: failed.message, content: failed.result!.content };
      const refused = await caught(manager.callTool('mcp__s__refuse'));
      heard.refusal = refused.message;
      heard.refusalData = refused.data;
      heard.removed = refused.removed;
      await manager.callTool('mcp__s__log');
      await manager.callTool(
        'mcp__s__progress',
        {},
        { onProgress: (progress) => (heard.progress = progress) },
      );
      await manager.callTool('mcp__s__ask');
      await eventually(() => heard.log !== undefined && heard.progress !== undefined);
    },
  );
  return { heard, found };
}

describe('SEC-01 SEC-02 I5 the pure function', () => {
  test.each(TABLE)('%s', (_, said, strict, visible) => {
    expect(sanitizeUnicode(said)).toBe(strict);
    expect(sanitizeUnicode(said, 'invisible')).toBe(visible);
    expect(sanitizeUnicode(sanitizeUnicode(said))).toBe(strict);
    expect(sanitizeUnicode({ [said]: [said, { said }] })).toEqual({ [strict]: [strict, { said: strict }] });
  });
});

describe('SEC-01 SEC-02 I5 everything a server says', () => {
  const STRICT = [
    'serverInfo',
    'instructions',
    'tools',
    'prompts',
    'resources',
    'templates',
    'refusal',
    'log',
    'progress',
    'question',
  ];
  const VISIBLE = ['result', 'resource', 'prompt', 'refusalData'];

  test.each(TABLE)('%s', async (_, said, strict, visible) => {
    const { heard, found } = await collect(said);
    for (const carrier of [...STRICT, ...VISIBLE]) {
      const left = STRICT.includes(carrier) ? strict : visible;
      const spoken = strings(heard[carrier]).filter((text) => text.includes('['));
      expect(spoken.length, carrier).toBeGreaterThan(0);
      for (const text of spoken) expect(text, carrier).toContain(`[${left}]`);
    }
    expect(heard.failure).toMatchObject({
      message: expect.stringContaining(`[${visible}]`),
      content: [{ text: `[${visible}]` }],
    });
    const values = said === visible ? [`[${said}]`, 'plain'] : ['plain'];
    expect(heard.completion).toMatchObject({ values });

    const told = found.filter(({ code }) => code === 'INVISIBLE_REMOVED');
    for (const { removed, server, message } of told) {
      expect(removed).toBeGreaterThan(0);
      expect(server).toBe('s');
      expect(message).toContain(String(removed));
      expect(sanitizeUnicode(message)).toBe(message);
    }
    const places = told.map(({ message }) => message.split(':')[0]).join();
    const hides = said !== visible || /\u200C|\u200D|\uFE0F|[\u{E0020}-\u{E007F}]/u.test(said);
    const words = [
      'list of tools',
      'list of prompts',
      'list of resources',
      'log message',
      'progress',
      'question',
      'itself',
      'error',
    ];
    for (const word of words) expect(places.includes(word), word).toBe(hides);
    expect(places.includes('result of')).toBe(said !== visible);
  });

  test('counts are those of the characters', async () => {
    const { heard, found } = await collect('a\u200Bb\u{E0041}c');
    const counts = Object.fromEntries(
      found
        .filter(({ code }) => code === 'INVISIBLE_REMOVED')
        .map(({ message, removed }) => [message.replace(/:.*/, ''), removed]),
    );
    expect(counts).toMatchObject({
      'the list of prompts': 6,
      'the list of resources': 8,
      "result of 'mcp__s__result'": 18,
      "result of 'x": 2,
      'a log message': 4,
      'a report of progress': 2,
      "the server's words on itself": 6,
    });
    expect(heard.removed).toBe(4);
  });

  test('B-074 keys that become equal: the clean one wins, else the first', async () => {
    await withManager({ servers: { s: dirty('') } }, async (manager) => {
      const { structuredContent } = await manager.callTool('mcp__s__collide');
      expect(structuredContent).toEqual({ role: 'user', x: 1 });
    });
  });

  test("sanitizeResults: 'strict' cleans results like definitions, 'off' leaves them, and nothing else", async () => {
    const said = 'ﬁ\u200B\u{E0041}';
    const strict = await collect(said, { sanitizeResults: 'strict' });
    expect(strict.heard.resource).toMatchObject([{ text: '[fi]' }]);
    const off = await collect(said, { sanitizeResults: 'off' });
    expect(off.heard.resource).toMatchObject([{ text: `[${said}]` }]);
    for (const { heard } of [strict, off]) {
      expect(heard.instructions).toBe('[fi]');
      expect(heard.prompts).toMatchObject([{ description: '[fi]' }]);
      expect(heard.refusal).toContain('[fi]');
    }
  });

  test('J12 instructions and descriptions that are too long are cut, with a mark', async () => {
    const { heard } = await collect(`${'é'.repeat(40_000)}\u200B`);
    const instructions = String(heard.instructions);
    expect(Buffer.byteLength(instructions)).toBeLessThan(33 * 1024);
    expect(instructions).toMatch(/^\[é+… \[cut\]$/);
    for (const { description } of heard.tools as { description: string }[])
      expect(description).toMatch(/^\[é+… \[cut\]$/);
  });
});
