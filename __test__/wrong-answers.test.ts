/** Commands that answer, but not in the protocol. */
import { expect, test } from 'vitest';
import { command } from 'mcp-switchboard/zoo';
import { caught, withManager } from './harness';

test.each([
  ['an HTTP answer', 'http-answer', 'HTTP/1.1 400 Bad Request'],
  ['an HTML page', 'page', '<!DOCTYPE html><html><body>nothing here</body></html>'],
])('D5 %s to initialize is told as what it is, at once', async (what, animal, line) => {
  await withManager({ servers: { s: command(animal) }, connectTimeoutMs: 25_000 }, async (manager) => {
    const begin = Date.now();
    const error = await caught(manager.connect('s'));
    expect(error).toMatchObject({ code: 'MESSAGE_INVALID', server: 's', firstBytes: line });
    expect(error.message).toContain(what);
    expect(Date.now() - begin).toBeLessThan(12_000);
    expect(manager.status('s')).toMatchObject({ state: 'failed', code: 'MESSAGE_INVALID' });
  });
});

test('D5 the same after the handshake is noise', async () => {
  await withManager({ servers: { s: command('noise') } }, async (manager) => {
    await manager.connect('s');
    expect(await manager.ping('s')).toBeGreaterThanOrEqual(0);
    expect(manager.status('s')!.state).toBe('connected');
  });
});
