/** Commands that answer, but not in the protocol. */
import { expect, test } from 'vitest';
import { caught, withManager } from './harness';

test.each([
  ['an HTTP answer', 'HTTP/1.1 400 Bad Request'],
  ['an HTML page', '<!DOCTYPE html><html><body>nothing here</body></html>'],
])('D5 %s to initialize is told as what it is, at once', async (what, line) => {
  const script = `process.stdin.once('data', () => console.log(${JSON.stringify(line)})); setInterval(() => {}, 1000)`;
  const s = { command: process.execPath, args: ['-e', script] };
  await withManager({ servers: { s }, connectTimeoutMs: 25_000 }, async (manager) => {
    const begin = Date.now();
    const error = await caught(manager.connect('s'));
    expect(error).toMatchObject({ code: 'MESSAGE_INVALID', server: 's', firstBytes: line });
    expect(error.message).toContain(what);
    expect(Date.now() - begin).toBeLessThan(12_000);
    expect(manager.status('s')).toMatchObject({ state: 'failed', code: 'MESSAGE_INVALID' });
  });
});

test('D5 the same after the handshake is noise', async () => {
  const script = `
    require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
      const { id, method } = JSON.parse(line);
      if (id === undefined) return;
      const result = method === 'initialize'
        ? { protocolVersion: '2025-11-25', capabilities: {}, serverInfo: { name: 's', version: '1' } }
        : {};
      console.log(JSON.stringify({ jsonrpc: '2.0', id, result }));
      console.log('<html>');
    });`;
  const s = { command: process.execPath, args: ['-e', script] };
  await withManager({ servers: { s } }, async (manager) => {
    await manager.connect('s');
    expect(await manager.ping('s')).toBeGreaterThanOrEqual(0);
    expect(manager.status('s')!.state).toBe('connected');
  });
});
