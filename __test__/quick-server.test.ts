/**
 * Calls one after another to a server that answers at once: after a few of them the JavaScript thread looks for the
 * answers itself. Nothing of that may be seen from outside: the same answers, the same events, and a thread that is
 * busy elsewhere holds up nobody.
 */
import { describe, expect, test } from 'vitest';
import { faulty, jsonOf, withFaulty, withManager } from './harness';
import type { McpManager } from '..';

/** Enough of them for the thread to look, on a slow machine too. */
async function oneAfterAnother(manager: McpManager, count = 300): Promise<void> {
  for (let n = 0; n < count; n += 1) {
    expect(jsonOf(await manager.callTool('mcp__s__echo', { n }))).toEqual({ n });
  }
}

function block(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

describe('a server that answers at once', () => {
  test('answers, logs and slow calls keep their order', async () => {
    await withFaulty([], async (manager) => {
      await manager.connect();
      for (let round = 0; round < 5; round += 1) {
        await oneAfterAnother(manager);
        expect(jsonOf(await manager.callTool('mcp__s__sleep', { ms: 30 }))).toMatchObject({ ms: 30 });
        const many = await Promise.all(
          Array.from({ length: 20 }, (_, n) => manager.callTool('mcp__s__echo', { n })),
        );
        expect(many.map(jsonOf)).toEqual(Array.from({ length: 20 }, (_, n) => ({ n })));
        const text = (await manager.callTool('mcp__s__big', { bytes: 300_000 })).content[0];
        expect(text).toMatchObject({ type: 'text' });
      }
    });
  }, 60_000);

  test('a thread that is blocked right after a call finds the answer when it is back', async () => {
    await withFaulty([], async (manager) => {
      await manager.connect();
      for (let round = 0; round < 3; round += 1) {
        await oneAfterAnother(manager);
        const call = manager.callTool('mcp__s__echo', { round });
        await Promise.resolve();
        block(100);
        expect(jsonOf(await call)).toEqual({ round });
      }
    });
  }, 30_000);

  test('a server that dies in between is noticed, and comes back', async () => {
    await withFaulty([], async (manager) => {
      await manager.connect();
      await oneAfterAnother(manager);
      await expect(manager.callTool('mcp__s__die')).rejects.toMatchObject({ delivered: 'unknown' });
      await oneAfterAnother(manager);
    });
  }, 30_000);

  test('two quick servers at a time do not get into each other’s way', async () => {
    await withManager({ servers: { s: faulty(), t: faulty() } }, async (manager) => {
      await manager.connect();
      const other = async () => {
        for (let n = 0; n < 300; n += 1) {
          expect(jsonOf(await manager.callTool('mcp__t__echo', { n }))).toEqual({ n });
        }
      };
      await Promise.all([oneAfterAnother(manager), other()]);
    });
  }, 30_000);
});
