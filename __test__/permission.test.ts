import { join } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import type { McpManager, McpManagerOptions, PermissionAnswer, PermissionRequest } from '..';
import { caught, eventually, faulty, jsonOf, notes, pause, temporaryDirectory, withManager } from './harness';

type Ask = NonNullable<McpManagerOptions['onPermission']>;

/** A faulty server under rules and a callback; also gives the names of tools whose calls reached the server. */
function asked(
  options: McpManagerOptions,
  body: (manager: McpManager, reached: () => string[]) => Promise<void>,
): Promise<void> {
  const file = join(temporaryDirectory(), 'notes');
  const reached = () =>
    notes(file)
      .filter(({ method }) => method === 'tools/call')
      .map(({ params }) => params!.name!);
  return withManager({ servers: { s: faulty('--notes', file) }, permissions: {}, ...options }, (manager) =>
    body(manager, reached),
  );
}

const allow = vi.fn<Ask>(() => ({ behavior: 'allow' }));

describe('rules', () => {
  test('POL-07 POL-11 deny: refused with layer and rule, nothing reaches the server, nobody is asked', async () => {
    const ask = vi.fn<Ask>(() => ({ behavior: 'allow' }));
    await asked(
      { permissions: { allow: ['mcp__*'], deny: ['mcp__s__echo'] }, onPermission: ask },
      async (manager, reached) => {
        const error = await caught(manager.callTool('mcp__s__echo'));
        expect(error).toMatchObject({
          code: 'PERMISSION_DENIED',
          name: 'McpPermissionError',
          layer: 'rule',
          rule: 'mcp__s__echo',
          server: 's',
        });
        expect((await manager.callTool('mcp__s__reader')).isError).toBe(false);
        expect(reached()).toEqual(['reader']);
        expect(ask).not.toHaveBeenCalled();
      },
    );
  });

  test('POL-07 allow: nobody is asked', async () => {
    await asked({ permissions: { allow: ['mcp__s__echo'] } }, async (manager) => {
      expect((await manager.callTool('mcp__s__echo')).isError).toBe(false);
      expect((await caught(manager.callTool('mcp__s__reader'))).code).toBe('PERMISSION_REQUIRED');
    });
  });

  test('POL-07 ask wins over allow', async () => {
    const ask = vi.fn<Ask>(() => ({ behavior: 'allow' }));
    await asked(
      { permissions: { allow: ['mcp__*'], ask: ['mcp__s__echo'] }, onPermission: ask },
      async (manager) => {
        await manager.callTool('mcp__s__echo');
        await manager.callTool('mcp__s__reader');
        expect(ask).toHaveBeenCalledTimes(1);
        expect(ask.mock.calls[0][0].reason).toContain('mcp__s__echo');
      },
    );
  });

  test('POL-07 mcp:HOST-01 PERMISSION_REQUIRED without a callback, also by request()', async () => {
    await asked({}, async (manager, reached) => {
      expect(await caught(manager.callTool('mcp__s__echo'))).toMatchObject({
        code: 'PERMISSION_REQUIRED',
        name: 'McpPermissionError',
      });
      expect((await caught(manager.request('s', 'tools/call', { name: 'echo', arguments: {} }))).code).toBe(
        'PERMISSION_REQUIRED',
      );
      expect(reached()).toEqual([]);
    });
  });

  test('POL-07 request("tools/call") passes the same gate', async () => {
    await asked({ permissions: { allow: ['mcp__*'], deny: ['mcp__s__echo'] } }, async (manager, reached) => {
      expect((await caught(manager.request('s', 'tools/call', { name: 'echo' }))).code).toBe(
        'PERMISSION_DENIED',
      );
      expect(await manager.request('s', 'tools/call', { name: 'reader', arguments: {} })).toMatchObject({
        content: [{ type: 'text' }],
      });
      expect(reached()).toEqual(['reader']);
    });
  });

  test('POL-07 B-050 B-057 I8 a rule covers no more than it says', async () => {
    const servers = { a: faulty(), 'a-b': faulty() };
    await withManager({ servers, permissions: { allow: ['mcp__a'] } }, async (manager) => {
      expect((await manager.callTool('mcp__a__echo')).isError).toBe(false);
      expect((await caught(manager.callTool('mcp__a-b__echo'))).code).toBe('PERMISSION_REQUIRED');
    });
  });

  test('POL-07 rules are matched on the unshortened and unsuffixed form', async () => {
    const long = `mcp__s__${'x'.repeat(100)}`;
    await asked({ permissions: { allow: [long, 'mcp__s__a_b'] } }, async (manager) => {
      expect((await manager.callTool({ server: 's', tool: 'x'.repeat(100) })).isError).toBe(false);
      expect((await caught(manager.callTool({ server: 's', tool: `${'x'.repeat(99)}y` }))).code).toBe(
        'PERMISSION_REQUIRED',
      );
      for (const tool of ['a.b', 'a b'])
        expect((await manager.callTool({ server: 's', tool })).isError).toBe(false);
    });
  });
});

describe('onPermission', () => {
  test('POL-08 mcp:TOOL-15 mcp:TOOL-16 gets all it needs to decide', async () => {
    const requests: PermissionRequest[] = [];
    const onPermission: Ask = (request) => {
      requests.push(request);
      return { behavior: 'allow' };
    };
    await asked({ onPermission }, async (manager) => {
      await manager.callTool('mcp__s__reader', { ms: 1 });
      expect(requests).toHaveLength(1);
      expect(requests[0]).toMatchObject({
        server: 's',
        tool: 'reader',
        fullName: 'mcp__s__reader',
        input: { ms: 1 },
        description: 'Waits, changes nothing',
        annotations: { readOnlyHint: true, openWorldHint: false },
        reason: expect.stringMatching(/./),
      });
      expect(['search', 'read', 'unknown']).toContain(requests[0].classification);
      expect(requests[0].signal).toBeInstanceOf(AbortSignal);
      expect(requests[0].signal.aborted).toBe(false);
    });
  });

  test('POL-08 may change the input', async () => {
    const onPermission: Ask = async () => ({ behavior: 'allow', updatedInput: { text: 'changed' } });
    await asked({ onPermission }, async (manager) => {
      expect(jsonOf(await manager.callTool('mcp__s__echo', { text: 'asked' }))).toEqual({ text: 'changed' });
    });
  });

  test('POL-08 POL-11 deny with a message: layer user', async () => {
    await asked(
      { onPermission: () => ({ behavior: 'deny', message: 'not on a Friday' }) },
      async (manager, reached) => {
        const error = await caught(manager.callTool('mcp__s__echo'));
        expect(error).toMatchObject({ code: 'PERMISSION_DENIED', layer: 'user' });
        expect(error.message).toContain('not on a Friday');
        expect(reached()).toEqual([]);
      },
    );
  });

  const counts: [string, Ask][] = [
    [
      'throwing',
      () => {
        throw new Error('broken');
      },
    ],
    ['rejecting', () => Promise.reject(new Error('broken'))],
    ['nothing', () => undefined as unknown as PermissionAnswer],
    ['null', () => null as unknown as PermissionAnswer],
    ['true', () => true as unknown as PermissionAnswer],
    ['a text', () => 'allow' as unknown as PermissionAnswer],
    ['an unknown behaviour', () => ({ behavior: 'Allow' }) as unknown as PermissionAnswer],
    ['an inherited behaviour', () => Object.create({ behavior: 'perhaps' }) as PermissionAnswer],
    [
      'input that is no object',
      () => ({ behavior: 'allow', updatedInput: 'x' }) as unknown as PermissionAnswer,
    ],
    [
      'input that is no JSON',
      () => ({ behavior: 'allow', updatedInput: { n: 1n } }) as unknown as PermissionAnswer,
    ],
  ];
  test.each(counts)('POL-08 Q9 counts as deny: %s', async (_, onPermission) => {
    await asked({ onPermission }, async (manager, reached) => {
      expect(await caught(manager.callTool('mcp__s__echo'))).toMatchObject({
        code: 'PERMISSION_DENIED',
        layer: 'user',
      });
      expect(reached()).toEqual([]);
    });
  });

  test('POL-08 hanging past permissionTimeoutMs counts as deny, and the question is withdrawn', async () => {
    let signal: AbortSignal | undefined;
    const onPermission: Ask = (request) => {
      signal = request.signal;
      return new Promise(() => undefined);
    };
    await asked({ onPermission, permissionTimeoutMs: 150 }, async (manager, reached) => {
      const begin = Date.now();
      expect(await caught(manager.callTool('mcp__s__echo'))).toMatchObject({
        code: 'PERMISSION_DENIED',
        layer: 'user',
      });
      expect(Date.now() - begin).toBeLessThan(2000);
      expect(signal?.aborted).toBe(true);
      expect(reached()).toEqual([]);
    });
  });

  test('PRO-06 F9 the clocks of the call stand still while it is asked', async () => {
    const onPermission: Ask = async () => {
      await pause(1200);
      return { behavior: 'allow' };
    };
    await asked({ onPermission }, async (manager) => {
      await manager.connect();
      expect(
        (await manager.callTool('mcp__s__echo', {}, { timeoutMs: 700, maxTotalTimeoutMs: 1000 })).isError,
      ).toBe(false);
    });
  });

  test('POL-08 a cancelled call withdraws the question; a late answer changes nothing', async () => {
    let answer: ((value: PermissionAnswer) => void) | undefined;
    let signal: AbortSignal | undefined;
    const onPermission: Ask = (request) => {
      signal = request.signal;
      return new Promise((resolve) => (answer = resolve));
    };
    await asked({ onPermission }, async (manager, reached) => {
      const controller = new AbortController();
      const call = manager.callTool('mcp__s__echo', {}, { signal: controller.signal });
      await eventually(() => signal !== undefined);
      const reason = new Error('never mind');
      controller.abort(reason);
      expect(await caught(call)).toBe(reason);
      await eventually(() => signal?.aborted);
      answer?.({ behavior: 'allow' });
      await pause(100);
      expect(reached()).toEqual([]);
    });
  });

  test('LIF-06 closing withdraws the question', async () => {
    let signal: AbortSignal | undefined;
    const onPermission: Ask = (request) => {
      signal = request.signal;
      return new Promise(() => undefined);
    };
    await asked({ onPermission }, async (manager) => {
      const call = caught(manager.callTool('mcp__s__echo'));
      await eventually(() => signal !== undefined);
      await manager.close();
      const error = await Promise.race([call, pause(3000)]);
      expect(error).toMatchObject({ code: 'MANAGER_CLOSED' });
      expect(signal?.aborted).toBe(true);
    });
  });

  test('POL-08 remember: session covers that tool of that server, in this manager', async () => {
    const ask = vi.fn<Ask>(({ tool }) => ({
      behavior: 'allow',
      ...(tool === 'echo' ? { remember: 'session' as const } : {}),
    }));
    await asked({ onPermission: ask, servers: { s: faulty(), t: faulty() } }, async (manager) => {
      for (let round = 0; round < 3; round += 1) await manager.callTool('mcp__s__echo', { round });
      expect(ask).toHaveBeenCalledTimes(1);
      await manager.callTool('mcp__t__echo');
      expect(ask).toHaveBeenCalledTimes(2);
      await manager.callTool('mcp__s__reader');
      await manager.callTool('mcp__s__reader');
      expect(ask).toHaveBeenCalledTimes(4);
    });
  });

  test('POL-08 questions of calls at the same time are kept apart', async () => {
    const onPermission: Ask = async ({ input }) => {
      await pause(Number(input.wait));
      return input.ok === true ? { behavior: 'allow' } : { behavior: 'deny' };
    };
    await asked({ onPermission }, async (manager) => {
      const settled = await Promise.allSettled([
        manager.callTool('mcp__s__echo', { wait: 60, ok: true }),
        manager.callTool('mcp__s__echo', { wait: 10, ok: false }),
        manager.callTool('mcp__s__echo', { wait: 30, ok: true }),
      ]);
      expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    });
  });

  test('POL-07 nobody is asked about a tool that is not there', async () => {
    allow.mockClear();
    await asked({ onPermission: allow }, async (manager) => {
      expect((await caught(manager.callTool('mcp__s__nope'))).code).toBe('TOOL_UNKNOWN');
      expect(allow).not.toHaveBeenCalled();
    });
  });
});
