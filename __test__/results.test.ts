import { existsSync, lstatSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { McpManager, type ContentBlock } from '..';
import {
  caught,
  eventually,
  nextEvent,
  pause,
  temporaryDirectory,
  textOf,
  thrown,
  withFaulty,
} from './harness';

/** Lets the server answer with exactly this JSON as its result. */
const raw = (manager: McpManager, result: unknown) =>
  manager.callTool('mcp__s__raw-result', typeof result === 'string' ? { text: result } : { result });

const file = (blocks: ContentBlock[]) => blocks.find((block) => block.type === 'file')!;

describe('content', () => {
  test('CAL-03 an image stays an image', async () => {
    await withFaulty([], async (manager) => {
      const [block] = (await manager.callTool('mcp__s__image')).content;
      expect(block).toMatchObject({ type: 'image', mimeType: 'image/png' });
      expect(block.type === 'image' && Buffer.from(block.data, 'base64').subarray(1, 4).toString()).toBe(
        'PNG',
      );
    });
  });

  test('CAL-03 RES-01 mcp:TOOL-13 embedded resources: text, image, and a file that stays where it belongs', async () => {
    const outputDir = temporaryDirectory();
    await withFaulty(
      [],
      async (manager) => {
        const { content } = await manager.callTool('mcp__s__embedded');
        expect(content.map(({ type }) => type)).toEqual([
          'text',
          'image',
          'file',
          'resource_link',
          'audio',
          'unknown',
        ]);
        expect(content[0]).toMatchObject({ text: 'embedded text' });
        expect(content[1]).toMatchObject({ mimeType: 'image/png' });
        expect(content[3]).toMatchObject({ uri: 'test://text', name: 'text' });
        expect(content[4]).toMatchObject({ data: 'AAAA', mimeType: 'audio/wav' });
        expect(content[5]).toEqual({ type: 'unknown', raw: { type: 'hologram', depth: 3 } });

        const saved = file(content);
        expect(saved).toMatchObject({
          mimeType: 'application/pdf',
          uri: 'test://../../paper.pdf',
          bytes: 10,
        });
        if (saved.type !== 'file') return;
        expect(dirname(saved.path)).toBe(outputDir);
        expect(saved.path).toMatch(/\.pdf$/);
        expect(readFileSync(saved.path, 'utf8')).toBe('#!/bin/sh\n');
        if (process.platform !== 'win32') expect(statSync(saved.path).mode & 0o777).toBe(0o600);

        const again = file((await manager.callTool('mcp__s__embedded')).content);
        expect(again.type === 'file' && again.path).not.toBe(saved.path);
      },
      { outputDir },
    );
  });

  test('CAL-03 RES-01 without outputDir a blob is saved in a private directory', async () => {
    await withFaulty([], async (manager) => {
      const saved = file((await manager.callTool('mcp__s__embedded')).content);
      if (saved.type !== 'file') throw new Error('no file');
      expect(readFileSync(saved.path, 'utf8')).toBe('#!/bin/sh\n');
      if (process.platform !== 'win32') expect(statSync(dirname(saved.path)).mode & 0o077).toBe(0);
    });
  });

  test('R15 B-165 RES-01 hostile names stay in the output directory, none overwrites another', async () => {
    const outputDir = temporaryDirectory();
    const uris = [
      'x://../../../etc/passwd',
      'x://h/%2e%2e%2f%2e%2e%2fevil.sh',
      'x://h/..%5c..%5cevil.bat',
      'C:\\Windows\\System32\\evil.dll',
      'x://h/a\u0000b.txt',
      'x://h/a%00.txt',
      'x://h/CON',
      'x://h/nul.txt',
      'x://h/COM1.tar',
      'x://h/lpt9.pdf',
      'x://h/AUX .txt',
      `x://h/${'n'.repeat(4096)}.txt`,
      `x://h/${'%41'.repeat(1400)}`,
      'x://h/Case.txt',
      'x://h/case.TXT',
      'x://h/CASE.txt',
      'x://h/case.txt',
      'x://h/dots...',
      'x://h/spaces   ',
      'x://h/..',
      'x://h/.',
      'x://h/.bashrc',
      'x://h/-rf',
      'x://h/~',
      'x://h/photo\u202Egnp.exe',
      'x://h/line\nbreak.txt',
      'x://h/日本.txt',
      'x://h/stream.txt:hidden',
      '',
      '/',
      '\u0000',
    ];
    const types = ['application/octet-stream', 'text/../../x', 'text/plain\u0000', '../sh', ''];
    await withFaulty(
      [],
      async (manager) => {
        const blob = Buffer.from('inside').toString('base64');
        const content = uris.flatMap((uri, n) => [
          { type: 'resource', resource: { uri, blob: Buffer.from(`one ${n}`).toString('base64') } },
          ...types.map((mimeType) => ({ type: 'resource', resource: { uri, mimeType, blob: `${blob}` } })),
        ]);
        const result = await raw(manager, { content });
        const paths = result.content.map((block) => (block.type === 'file' ? block.path : 'no file'));
        expect(paths).toHaveLength(uris.length * (types.length + 1));
        const reserved = /^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i;
        for (const path of paths) {
          expect(dirname(path)).toBe(outputDir);
          const name = basename(path);
          expect(name).toMatch(/^[A-Za-z0-9_][A-Za-z0-9._-]*$/);
          expect(name.length).toBeLessThan(110);
          expect(name).not.toMatch(/[. ]$/);
          expect(name).not.toMatch(reserved);
          expect(lstatSync(path).isFile()).toBe(true);
        }
        const own = uris.map((_, n) => readFileSync(paths[n * (types.length + 1)], 'utf8'));
        expect(own).toEqual(uris.map((_, n) => `one ${n}`));
        expect(new Set(readdirSync(outputDir))).toEqual(new Set(paths.map((path) => basename(path))));
      },
      { outputDir },
    );
  });

  test('outputRetention: files that are too old go with the next one, and only ours', async () => {
    const outputDir = temporaryDirectory();
    const foreign = join(outputDir, 'notes.txt');
    writeFileSync(foreign, 'mine');
    const save = async (manager: McpManager) => {
      const saved = file((await manager.callTool('mcp__s__embedded')).content);
      return saved.type === 'file' ? saved.path : '';
    };
    await withFaulty(
      [],
      async (manager) => {
        const [first, edited] = [await save(manager), await save(manager)];
        expect(existsSync(first)).toBe(true);
        writeFileSync(edited, 'somebody works on this');
        await pause(400);
        const next = await save(manager);
        await eventually(() => !existsSync(first));
        expect([foreign, edited, next].map((path) => existsSync(path))).toEqual([true, true, true]);
      },
      { outputDir, outputRetention: { maxAgeMs: 200 } },
    );
    await withFaulty(
      [],
      async (manager) => {
        const first = await save(manager);
        await pause(50);
        await save(manager);
        await pause(200);
        expect(existsSync(first)).toBe(true);
      },
      { outputDir, outputRetention: false },
    );
  });

  test('outputRetention: files of an earlier process go too, by the state directory', async () => {
    const stateDir = temporaryDirectory();
    const options = { stateDir, outputRetention: { maxAgeMs: 200 } };
    const first = await withFaulty(
      [],
      async (manager) => file((await manager.callTool('mcp__s__embedded')).content),
      options,
    );
    if (first.type !== 'file') throw new Error('no file');
    expect(existsSync(first.path)).toBe(true);
    await pause(300);
    await withFaulty([], async (manager) => void (await manager.callTool('mcp__s__embedded')), options);
    expect(existsSync(first.path)).toBe(false);
    expect(readdirSync(join(stateDir, 'outputs'))).toHaveLength(1);
  });

  test('outputRetention is checked', () => {
    for (const wrong of [{ maxAgeMs: 0 }, { maxAgeMs: 'x' }, { maxBytes: -1 }, { maxage: 5 }, true, 7]) {
      expect(thrown(() => new McpManager({ outputRetention: wrong as never }))).toMatchObject({
        code: 'INVALID_ARGUMENT',
        parameter: 'options.outputRetention',
      });
    }
  });

  const shapes: [string, unknown, ContentBlock[]][] = [
    ['nothing', {}, []],
    ['content null', { content: null }, []],
    ['content text', { content: 'text' }, [{ type: 'text', text: 'text' }]],
    ['content one block', { content: { type: 'text', text: 'one' } }, [{ type: 'text', text: 'one' }]],
    ['the old toolResult, text', { toolResult: 'old' }, [{ type: 'text', text: 'old' }]],
    ['the old toolResult, object', { toolResult: { a: 1 } }, [{ type: 'text', text: '{"a":1}' }]],
    ['empty content', { content: [] }, []],
  ];
  test.each(shapes)('K6 %s', async (_, wire, content) => {
    await withFaulty([], async (manager) => {
      const result = await raw(manager, wire);
      expect(result.content).toEqual(content);
      expect(result).toMatchObject({ isError: false, raw: wire });
    });
  });

  test.each(['7', 'null', '"text"', '[]', 'true'])('a result that is no object: %s', async (wire) => {
    await withFaulty([], async (manager) => {
      expect(['RESULT_INVALID', 'MESSAGE_INVALID']).toContain((await caught(raw(manager, wire))).code);
      expect((await manager.callTool('mcp__s__echo')).isError).toBe(false);
    });
  });

  test('B-079 R12 mcp:TOOL-17 blocks of any kind pass as what they are, or the call fails with a code', async () => {
    await withFaulty([], async (manager) => {
      const wire =
        '{"content":[{"type":"text"},{"type":"__proto__"},5,null,{"type":"image"},{"type":"resource"},{"type":"text","text":7},[],{"type":"text","text":"good"}]}';
      const settled = await raw(manager, wire).catch(
        (error: unknown) => error as { code: string; content?: undefined },
      );
      if (settled.content === undefined) expect(settled.code).toBe('RESULT_INVALID');
      else expect(settled.content.some((block) => block.type === 'text' && block.text === 'good')).toBe(true);
    });
  });

  test('K7 an embedded resource without a uri', async () => {
    await withFaulty([], async (manager) => {
      const { content } = await raw(manager, {
        content: [{ type: 'resource', resource: { text: 'lenient' } }],
      });
      expect(content).toMatchObject([{ type: 'text', text: 'lenient' }]);
    });
  });

  test('Base64 that is none harms only its block', async () => {
    await withFaulty([], async (manager) => {
      const settled = await raw(manager, {
        content: [
          { type: 'resource', resource: { uri: 'x://y', blob: '%%%not base64%%%' } },
          { type: 'text', text: 'good' },
        ],
      }).catch((error: unknown) => error as { code: string; content?: undefined });
      if (settled.content === undefined) expect(settled.code).toBe('RESULT_INVALID');
      else expect(settled.content.at(-1)).toMatchObject({ type: 'text', text: 'good' });
    });
  });

  test('K8 SVG, empty, broken and mislabelled images break no conversation', async () => {
    const outputDir = temporaryDirectory();
    const { content: pixels } = await withFaulty([], (manager) => manager.callTool('mcp__s__image'));
    const pixel = pixels[0].type === 'image' ? pixels[0].data : '';
    const of = (text: string) => Buffer.from(text).toString('base64');
    const image = (data: string, mimeType: string) => ({ type: 'image', data, mimeType });
    await withFaulty(
      [],
      async (manager) => {
        const { content } = await raw(manager, {
          content: [
            image(of('<svg xmlns="http://www.w3.org/2000/svg"/>'), 'image/svg+xml'),
            image('', 'image/png'),
            image('%%% no base64 %%%', 'image/png'),
            image(of('<!DOCTYPE html><html>not found</html>'), 'image/png'),
            image(pixel, 'image/jpeg'),
            image(pixel, 'image/png'),
          ],
        });
        expect(content.map(({ type }) => type)).toEqual([
          'file',
          'text',
          'unknown',
          'file',
          'image',
          'image',
        ]);
        expect(content[0]).toMatchObject({
          mimeType: 'image/svg+xml',
          path: expect.stringMatching(/\.svg$/),
        });
        expect(content[1]).toEqual({ type: 'text', text: '[empty image of type image/png]' });
        expect(content[3]).toMatchObject({ mimeType: 'text/html', path: expect.stringMatching(/\.html$/) });
        expect(content[4]).toMatchObject({ data: pixel, mimeType: 'image/png' });
        for (const block of content) if (block.type === 'file') expect(dirname(block.path)).toBe(outputDir);
      },
      { outputDir },
    );
  });

  test('K2 an image that structured content and text repeat is handed over once', async () => {
    await withFaulty([], async (manager) => {
      const { content } = await manager.callTool('mcp__s__image');
      const { data } = content[0] as { data: string };
      const result = await raw(manager, {
        content: [...content, { type: 'text', text: JSON.stringify({ picture: data }) }],
        structuredContent: { picture: data, as: `data:image/png;base64,${data}`, n: 1 },
      });
      expect(result.content[0]).toEqual(content[0]);
      expect(result.structuredContent).toEqual({
        picture: '[base64 of content[0]]',
        as: 'data:image/png;base64,[base64 of content[0]]',
        n: 1,
      });
      expect(JSON.parse((result.content[1] as { text: string }).text)).toEqual({
        picture: '[base64 of content[0]]',
      });
      expect(result.raw.structuredContent).toMatchObject({ picture: data });
    });
  });

  test('K2 BEY-14 a blob that became a file is not in raw as well', async () => {
    await withFaulty([], async (manager) => {
      const bytes = Buffer.alloc(100_000, 7);
      const resource = { uri: 'x://y/data.bin', blob: bytes.toString('base64') };
      const result = await raw(manager, {
        content: [
          { type: 'resource', resource },
          { type: 'resource', resource },
        ],
      });
      const [first, second] = result.content;
      if (first.type !== 'file' || second.type !== 'file') throw new Error('no files');
      expect(readFileSync(first.path).equals(bytes)).toBe(true);
      expect(second.path).toBe(first.path);
      expect(result.raw.content).toEqual(
        [1, 2].map(() => ({ type: 'resource', resource: { uri: 'x://y/data.bin', blob: '' } })),
      );
    });
  });

  test('K9 a failure with several blocks keeps all of them, an empty success is one', async () => {
    await withFaulty([], async (manager) => {
      const error = await caught(manager.callTool('mcp__s__fail'));
      expect(error.message).toMatch(/one\ntwo\nthree/);
      expect(error.result!.content).toHaveLength(3);
      const mixed = await caught(
        raw(manager, {
          content: [
            { type: 'text', text: 'first' },
            { type: 'audio', data: 'AAAA', mimeType: 'audio/wav' },
            { type: 'text', text: 'last' },
          ],
          structuredContent: { why: [1] },
          isError: true,
        }),
      );
      expect(mixed).toMatchObject({
        code: 'TOOL_ERROR',
        message: expect.stringMatching(/first\nlast/),
        result: { isError: true, structuredContent: { why: [1] } },
      });
      expect(mixed.result!.content.map(({ type }) => type)).toEqual(['text', 'audio', 'text']);
      const noted = nextEvent(manager, 'diagnostic', ({ code }) => code === 'RESULT_EMPTY');
      expect(await raw(manager, { content: [] })).toMatchObject({ content: [], isError: false });
      expect((await noted).level).toBe('info');
    });
  });

  test('mcp:BASE-19 CAL-03 _meta and unknown fields are kept', async () => {
    await withFaulty([], async (manager) => {
      const result = await raw(manager, { content: [], _meta: { 'x.y/z': [1] }, novel: { a: 1 } });
      expect(result.meta).toEqual({ 'x.y/z': [1] });
      expect(result.raw).toEqual({ content: [], _meta: { 'x.y/z': [1] }, novel: { a: 1 } });
    });
  });
});

describe('structured content', () => {
  test('CAL-03 is kept, whatever it is', async () => {
    await withFaulty([], async (manager) => {
      for (const structuredContent of [{ a: [1, { b: null }] }, [1, 2], 'x', 0, false, null]) {
        const result = await raw(manager, { content: [], structuredContent });
        expect(result.structuredContent).toEqual(structuredContent);
      }
      expect('structuredContent' in (await raw(manager, { content: [] }))).toBe(false);
    });
  });

  test('CAL-03 a mismatch with outputSchema is a diagnostic, with strictOutput an error', async () => {
    await withFaulty([], async (manager) => {
      await manager.connect();
      const told = nextEvent(
        manager,
        'diagnostic',
        ({ server, message }) => server === 's' && message.includes('structured'),
      );
      expect(
        (await manager.callTool('mcp__s__structured', { value: { n: 'text' } })).structuredContent,
      ).toEqual({ n: 'text' });
      expect((await told).level).toBe('warning');
    });
    await withFaulty(
      [],
      async (manager) => {
        await manager.connect();
        expect(await caught(manager.callTool('mcp__s__structured', { value: { n: 'text' } }))).toMatchObject({
          code: 'RESULT_INVALID',
          name: 'McpCallError',
        });
        expect((await manager.callTool('mcp__s__structured', { value: { n: 1 } })).structuredContent).toEqual(
          { n: 1 },
        );
      },
      { strictOutput: true },
    );
  });

  test('mcp:TOOL-11 mcp:TOOL-12 J10 any value is checked, null is not absent, failures are not; nothing is lost', async () => {
    const values: [unknown, boolean][] = [
      [{ n: 1 }, true],
      [{ n: 'text' }, false],
      [[1, 2], false],
      ['x', false],
      [0, false],
      [false, false],
      [null, false],
    ];
    const call = (manager: McpManager, value: unknown) => manager.callTool('mcp__s__structured', { value });
    await withFaulty([], async (manager) => {
      await manager.connect();
      const told: string[] = [];
      manager.on('diagnostic', ({ code }) => told.push(code));
      for (const [value, fits] of values) {
        told.length = 0;
        const result = await call(manager, value);
        expect(result.structuredContent).toEqual(value);
        expect(result.content).toHaveLength(1);
        await eventually(() => fits || told.includes('OUTPUT_SCHEMA_MISMATCH'));
        expect(told.includes('OUTPUT_SCHEMA_MISMATCH')).toBe(!fits);
      }
    });
    await withFaulty(
      [],
      async (manager) => {
        await manager.connect();
        for (const [value, fits] of values) {
          if (fits) continue;
          const error = await caught(call(manager, value));
          expect(error).toMatchObject({ code: 'RESULT_INVALID', data: { structuredContent: value } });
        }
        const failure = await caught(manager.callTool('mcp__s__structured', { value: 5, isError: true }));
        expect(failure).toMatchObject({ code: 'TOOL_ERROR', result: { structuredContent: 5 } });
      },
      { strictOutput: true },
    );
  });

  test('B-110 SEC-04 __proto__ changes no prototype', async () => {
    await withFaulty([], async (manager) => {
      const result = await raw(
        manager,
        '{"content":[],"structuredContent":{"__proto__":{"isAdmin":true},"constructor":1,"a":{"__proto__":[]}},"_meta":{"__proto__":{"x":1}},"__proto__":{"isError":true}}',
      );
      const structured = result.structuredContent as Record<string, unknown>;
      expect(Object.getPrototypeOf(structured)).toBe(Object.prototype);
      expect(structured.isAdmin).toBeUndefined();
      expect(structured.constructor).toBe(1);
      expect(Object.hasOwn(structured, '__proto__')).toBe(true);
      expect(Array.isArray(structured.a)).toBe(false);
      expect(result.isError).toBe(false);
      expect(({} as Record<string, unknown>).isAdmin).toBeUndefined();
    });
  });

  test('B-112 numbers beyond the range of JavaScript settle the call', async () => {
    await withFaulty([], async (manager) => {
      const { structuredContent } = await raw(
        manager,
        '{"content":[],"structuredContent":{"big":9007199254740993,"huge":1e400,"small":1e-400,"minus":-0,"long":123456789012345678901234567890}}',
      );
      const numbers = structuredContent as Record<string, number>;
      expect(numbers.big).toBe(Number('9007199254740993'));
      expect(numbers.huge).toBe(Number.POSITIVE_INFINITY);
      expect(Object.values(numbers).every((value) => typeof value === 'number')).toBe(true);
    });
  });

  test('R13 a result that looks like a promise is not awaited', async () => {
    await withFaulty([], async (manager) => {
      const result = await raw(manager, '{"content":[],"structuredContent":{"then":"x"},"then":1}');
      expect(JSON.stringify(result.structuredContent)).toBe('{"then":"x"}');
    });
  });
});

describe('limits', () => {
  test('B-087 SEC-04 nested 200 deep: that call fails with a code, nothing else', async () => {
    await withFaulty([], async (manager) => {
      const deep = (levels: number) =>
        `{"content":[],"structuredContent":${'['.repeat(levels)}${']'.repeat(levels)}}`;
      const other = manager.callTool('mcp__s__sleep', { ms: 300 });
      const error = await caught(
        manager.callTool('mcp__s__raw-result', { text: deep(200) }, { timeoutMs: 5000 }),
      );
      expect(['MESSAGE_INVALID', 'RESULT_INVALID']).toContain(error.code);
      expect((await other).isError).toBe(false);
      expect((await raw(manager, deep(100))).isError).toBe(false);
    });
  });

  test('B-087 nested 100,000 deep, in a result and in a notification', async () => {
    await withFaulty([], async (manager) => {
      const deep = '['.repeat(100_000) + ']'.repeat(100_000);
      const error = await caught(
        manager.callTool(
          'mcp__s__raw-result',
          { text: `{"content":[],"structuredContent":${deep}}` },
          { timeoutMs: 5000 },
        ),
      );
      expect(['MESSAGE_INVALID', 'RESULT_INVALID']).toContain(error.code);
      const lines = [
        `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":${deep}}}`,
        '{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}',
      ];
      expect((await manager.callTool('mcp__s__raw-lines', { lines })).isError).toBe(false);
    });
  });
});

describe('characters', () => {
  const dirty = 'a\u200Bb\u{E0041}\u202Ec ½ ﬁ 👩‍👩‍👧 ❤️';

  test('SEC-02 I5 invisible ones go from text and structured content, visible ones stay', async () => {
    await withFaulty([], async (manager) => {
      const result = await raw(manager, {
        content: [{ type: 'text', text: dirty }],
        structuredContent: { 'ke\u200By': dirty, 'key\u{E0041}2': [dirty] },
      });
      expect(textOf(result)).toBe('abc ½ ﬁ 👩‍👩‍👧 ❤️');
      expect(result.structuredContent).toEqual({ key: 'abc ½ ﬁ 👩‍👩‍👧 ❤️', key2: ['abc ½ ﬁ 👩‍👩‍👧 ❤️'] });
      expect((result.raw.content as { text: string }[])[0].text).toBe(dirty);
    });
  });

  test("SEC-02 sanitizeResults: 'strict' and 'off'", async () => {
    await withFaulty(
      [],
      async (manager) => {
        expect(textOf(await raw(manager, { content: [{ type: 'text', text: 'ﬁ\u200B' }] }))).toBe('fi');
      },
      { sanitizeResults: 'strict' },
    );
    await withFaulty(
      [],
      async (manager) => {
        expect(textOf(await raw(manager, { content: [{ type: 'text', text: dirty }] }))).toBe(dirty);
      },
      { sanitizeResults: 'off' },
    );
  });

  test('SEC-02 Base64 is untouched', async () => {
    await withFaulty([], async (manager) => {
      const data = Buffer.from(dirty).toString('base64');
      expect(
        (await raw(manager, { content: [{ type: 'image', data, mimeType: 'image/png' }] })).content[0],
      ).toMatchObject({ data });
    });
  });

  test('C6 a lone surrogate in an answer', async () => {
    await withFaulty([], async (manager) => {
      const result = await manager.callTool('mcp__s__raw-result', {
        text: '{"content":[{"type":"text","text":"x\\ud83d y"}]}',
      });
      expect(textOf(result)).toMatch(/^x. y$/u);
    });
  });
});
