/** Connections that go bad: lost sessions, servers that fail again and again, silence, sleep. */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { McpManagerOptions } from '..';
import { caught, eventually, fixture, nextEvent, pause, textOf, withManager } from './harness';
import { reply, smallServer, type SmallServer } from './small-http-server';

const over = (small: SmallServer, options: McpManagerOptions = {}): McpManagerOptions => ({
  ...options,
  servers: { s: { type: 'http', url: small.url } },
});

describe('sessions', () => {
  test('CAL-01 F-043 lost with 100 calls in flight: one handshake, refused calls repeated, unanswered ones fail', async () => {
    const small = await smallServer();
    let waiting = 0;
    let refuse = () => {};
    const allThere = new Promise<void>((resolve) => (refuse = resolve));
    small.answer = (one, response) => {
      if (one.method !== 'tools/call' || one.session !== 'session-1') return false;
      waiting += 1;
      if (waiting === 100) refuse();
      // Every other call is never answered.
      if (Number(one.params?.arguments?.n) % 2 === 0) void allThere.then(() => response.writeHead(404).end());
      return true;
    };
    await withManager(over(small), async (manager) => {
      await manager.connect();
      const outcomes = await Promise.allSettled(
        Array.from({ length: 100 }, (_, n) => manager.callTool('mcp__s__echo', { n })),
      );
      outcomes.forEach((outcome, n) => {
        if (n % 2 === 0) expect(outcome.status).toBe('fulfilled');
        else
          expect((outcome as PromiseRejectedResult).reason).toMatchObject({
            code: expect.stringMatching(/SESSION_EXPIRED|CONNECTION_LOST/),
            server: 's',
            delivered: 'unknown',
          });
      });
      expect(small.sessions).toBe(2);
      const repeated = small.arrived.filter(
        (one) => one.method === 'tools/call' && one.session === 'session-2',
      );
      expect(repeated).toHaveLength(50);
    });
  }, 20_000);

  test('CAL-01 prompts and resources are asked again too', async () => {
    const small = await smallServer();
    const lose = (method: string) => {
      const lost = `session-${small.sessions}`;
      small.answer = (one, response) => {
        if (one.method !== method || one.session !== lost) return false;
        response.writeHead(404).end();
        return true;
      };
    };
    await withManager(over(small), async (manager) => {
      await manager.connect();
      lose('prompts/get');
      expect((await manager.getPrompt('mcp__s__hello')).messages).toHaveLength(1);
      lose('resources/read');
      expect((await manager.readResource('s', 'a://b'))[0].text).toBe('hello');
      expect(small.sessions).toBe(3);
    });
  });

  test('CAL-01 LIF-04 404 again after the renewal: the call fails, handshakes stay few', async () => {
    const small = await smallServer();
    small.answer = (one, response) => {
      if (one.method !== 'tools/call') return false;
      response.writeHead(404).end();
      return true;
    };
    await withManager(over(small), async (manager) => {
      await manager.connect();
      expect(await caught(manager.callTool('mcp__s__echo'))).toMatchObject({ code: 'SESSION_EXPIRED' });
      await pause(500);
      expect(small.count('tools/call')).toBe(2);
      expect(small.sessions).toBeLessThanOrEqual(3);
    });
  });
});

describe('the circuit', () => {
  test('LIF-05 LIF-04 503 three times in a row: CIRCUIT_OPEN, a visible next try, and quiet', async () => {
    const small = await smallServer();
    small.answer = (one, response) => {
      if (one.method !== 'tools/call') return false;
      response.writeHead(503, { 'retry-after': '0' }).end();
      return true;
    };
    await withManager(over(small), async (manager) => {
      await manager.connect();
      const opened = nextEvent(manager, 'status', ({ state }) => state === 'failed', 10_000);
      for (let n = 0; n < 3; n += 1)
        expect((await caught(manager.callTool('mcp__s__echo'))).code).toBe('HTTP_STATUS');
      const status = await opened;
      expect(status).toMatchObject({ code: 'CIRCUIT_OPEN', from: 'connected', httpStatus: 503 });
      expect(status.nextRetryAt! - Date.now()).toBeGreaterThan(20_000);
      expect(status.nextRetryAt! - Date.now()).toBeLessThan(31_000);
      const before = small.arrived.length;
      for (let n = 0; n < 20; n += 1)
        expect(await caught(manager.callTool('mcp__s__echo'))).toMatchObject({
          code: 'CIRCUIT_OPEN',
          nextRetryAt: expect.any(Number),
        });
      expect(small.arrived.slice(before).filter(({ verb }) => verb === 'POST')).toEqual([]);
      expect(await manager.listTools()).toEqual([]);
      small.answer = () => false;
      expect((await manager.reconnect('s')).status.state).toBe('connected');
      expect(textOf(await manager.callTool('mcp__s__echo'))).toBe('hello');
    });
  }, 20_000);

  test('LIF-05 a success in between resets the count', async () => {
    const small = await smallServer();
    let calls = 0;
    small.answer = (one, response) => {
      if (one.method !== 'tools/call') return false;
      calls += 1;
      // Each failing call is sent twice (HTTP-03): two failing ones, a good one, two failing ones.
      if (calls === 5) return false;
      response.writeHead(503, { 'retry-after': '0' }).end();
      return true;
    };
    await withManager(over(small), async (manager) => {
      await manager.connect();
      const codes: (string | undefined)[] = [];
      for (let n = 0; n < 5; n += 1)
        codes.push(
          await manager.callTool('mcp__s__echo').then(
            () => 'ok',
            ({ code }) => code as string,
          ),
        );
      expect(codes).toEqual(['HTTP_STATUS', 'HTTP_STATUS', 'ok', 'HTTP_STATUS', 'HTTP_STATUS']);
      expect(manager.status('s')?.state).toBe('connected');
    });
  }, 20_000);
});

describe('silence', () => {
  test('mcp:PING-02 LIF-07 a quiet connection is pinged, one that answers calls is not', async () => {
    const small = await smallServer();
    await withManager(over(small, { http: { pingIntervalMs: 300 } }), async (manager) => {
      await manager.connect();
      await eventually(() => small.count('ping') >= 2, 5000);
      const before = manager.status('s')?.lastContactAt ?? 0;
      await eventually(() => (manager.status('s')?.lastContactAt ?? 0) > before, 5000);
      expect(manager.status('s')?.state).toBe('connected');
    });
  });

  test.each(['tools/call', 'ping'])(
    'F-047 HTTP-03 LIF-07 a server that is busy with %s and wants to be left alone is not given up',
    async (busy) => {
      const small = await smallServer();
      let refused = 0;
      small.answer = (one, response) => {
        if (one.method !== busy || refused > 0) return false;
        refused = Date.now();
        response.writeHead(503, { 'retry-after': '2' }).end();
        return true;
      };
      const pace = { pingIntervalMs: 100, pongTimeoutMs: 300 };
      await withManager(over(small, { http: pace }), async (manager) => {
        await manager.connect();
        const states: string[] = [];
        manager.on('status', ({ state }) => states.push(state));
        if (busy === 'ping') await eventually(() => refused > 0, 5000);
        expect(textOf(await manager.callTool('mcp__s__echo'))).toBe('hello');
        expect(Date.now() - refused).toBeGreaterThan(1900);
        const pings = small.count('ping');
        await eventually(() => small.count('ping') > pings, 5000);
        expect(states).toEqual([]);
        expect(small.sessions).toBe(1);
      });
    },
    20_000,
  );

  test('F-047 LIF-04 a start that is refused with Retry-After is tried again then, and not sooner', async () => {
    const small = await smallServer();
    const arrived: number[] = [];
    small.answer = (one, response) => {
      if (one.verb !== 'POST' || arrived.length === 2) return false;
      arrived.push(Date.now());
      response.writeHead(503, { 'retry-after': '7' }).end();
      return true;
    };
    await withManager(over(small, { retry: { initialDelayMs: 50 } }), async (manager) => {
      expect(await caught(manager.connect('s'))).toMatchObject({ code: 'HTTP_STATUS' });
      const status = manager.status('s')!;
      expect(status.state).toBe('pending');
      expect(status.nextRetryAt! - arrived[0]!).toBeGreaterThan(6500);
      await eventually(() => arrived.length === 2, 10_000);
      expect(arrived[1]! - arrived[0]!).toBeGreaterThan(6500);
    });
  }, 20_000);

  test('mcp:PING-03 LIF-07 F-058 a black hole is noticed, and the connection made anew', async () => {
    const small = await smallServer();
    await withManager(
      over(small, { http: { pingIntervalMs: 200, pongTimeoutMs: 500 }, retry: { initialDelayMs: 50 } }),
      async (manager) => {
        await manager.connect();
        const states: string[] = [];
        manager.on('status', ({ from, state }) => states.push(`${from}>${state}`));
        small.answer = (one) => one.session === 'session-1';
        const lost = await nextEvent(manager, 'status', ({ state }) => state === 'pending', 10_000);
        expect(lost).toMatchObject({ code: 'CONNECTION_LOST', from: 'connected' });
        expect(lost.reason).toContain('ping');
        await eventually(() => states.length >= 2, 10_000);
        expect(states).toEqual(['connected>pending', 'pending>connected']);
        expect(small.sessions).toBe(2);
      },
    );
  }, 20_000);

  test('LIF-07 BEY-04 a server at work may be silent, and its call still gets its answer', async () => {
    const small = await smallServer();
    let finish = () => {};
    small.answer = (one, response) => {
      if (one.method === 'tools/call') finish = () => reply(response, one.id!, { content: [] });
      return one.method === 'tools/call' || one.method === 'ping';
    };
    await withManager(over(small, { http: { pingIntervalMs: 100, pongTimeoutMs: 100 } }), async (manager) => {
      await manager.connect();
      const call = manager.callTool('mcp__s__echo');
      await eventually(() => small.count('ping') >= 3, 10_000);
      expect(manager.status('s')?.state).toBe('connected');
      finish();
      expect((await call).isError).toBe(false);
      expect(small.sessions).toBe(1);
    });
  }, 20_000);

  test('LIF-07 BEY-04 F-058 a broken way is noticed while a call is in flight', async () => {
    const small = await smallServer();
    let called = false;
    small.answer = (one, response) => {
      if (one.method !== 'tools/call') return false;
      called = true;
      // The head of the answer is there; the rest never comes.
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(': working\n\n');
      return true;
    };
    const pace = { pingIntervalMs: 200, pongTimeoutMs: 1000 };
    await withManager(over(small, { http: pace, retry: { attempts: 0 } }), async (manager) => {
      await manager.connect();
      const call = caught(manager.callTool('mcp__s__echo'));
      await eventually(() => called, 5000);
      small.vanish();
      const lost = await nextEvent(manager, 'status', ({ state }) => state !== 'connected', 15_000);
      expect(lost.from).toBe('connected');
      expect(lost.code).toMatch(/CIRCUIT_OPEN|CONNECTION_LOST|RETRIES_EXHAUSTED/);
      expect(await call).toMatchObject({ server: 's', delivered: 'unknown' });
    });
  }, 30_000);

  test('LIF-07 an answer that is an error is an answer', async () => {
    const small = await smallServer();
    small.answer = (one, response) => {
      if (one.method !== 'ping') return false;
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ jsonrpc: '2.0', id: one.id, error: { code: -32601, message: 'no' } }));
      return true;
    };
    await withManager(over(small, { http: { pingIntervalMs: 100 } }), async (manager) => {
      await manager.connect();
      await eventually(() => small.count('ping') >= 3, 5000);
      expect(manager.status('s')?.state).toBe('connected');
      expect(small.sessions).toBe(1);
    });
  });

  test.runIf(process.platform === 'linux')(
    'LIF-07 BEY-04 a host that was stopped and goes on looks after its connections at once',
    async () => {
      const small = await smallServer();
      const host = spawn(process.execPath, [fixture('hosts', 'connects-to.mjs'), small.url], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      onTestFinished(() => void host.kill('SIGKILL'));
      const lines: string[] = [];
      createInterface(host.stdout).on('line', (line) => lines.push(line));
      await eventually(() => lines.includes('connected'), 10_000);
      expect(small.count('ping')).toBe(0);
      host.kill('SIGSTOP');
      await pause(7500);
      // What was there before the sleep is gone.
      small.answer = (one, response) => {
        if (one.session !== 'session-1') return false;
        response.writeHead(404).end();
        return true;
      };
      host.kill('SIGCONT');
      const begin = Date.now();
      await eventually(() => small.sessions === 2, 10_000, 'a new handshake');
      expect(Date.now() - begin).toBeLessThan(10_000);
      await eventually(() => lines.at(-1) === 'connected' && lines.length > 1, 5000);
    },
    40_000,
  );
});
