import { readFileSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { ContentBlock, McpManager } from '..';
import { caught, nextEvent, temporaryDirectory, textOf, withFaulty } from './harness';

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

  test('CAL-03 RES-01 embedded resources: text, image, and a file that stays where it belongs', async () => {
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

  test('B-079 R12 blocks of any kind pass as what they are, or the call fails with a code', async () => {
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
