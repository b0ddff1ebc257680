/** Logins through the public interface, against authorization servers that behave and others that do not. */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { describe, expect, onTestFinished, test } from 'vitest';
import { authorizationWorld, call, inWorld, json, trap, type World } from './authorization-world';
import { caught, eventually, nextEvent, pause, temporaryDirectory, withManager } from './harness';

describe('a login', () => {
  test('OAU-01 OAU-02 HTTP-03 mcp:AUTH-07 mcp:AUTH-11 mcp:AUTH-30 mcp:AUTH-36 mcp:AUTH-40 mcp:AUTH-42 mcp:AUTH-43 mcp:AUTH-44 from a 401 to a connected server, with PKCE, state and resource', async () => {
    const world = await authorizationWorld();
    await inWorld(world, async (manager) => {
      const status = await manager.connect('w');
      expect(status).toMatchObject({ state: 'connected', tokenStorage: 'memory' });
      const [{ query }] = world.at('/authorize');
      expect(query.get('code_challenge_method')).toBe('S256');
      expect(query.get('state')!.length).toBeGreaterThanOrEqual(22);
      expect(query.get('resource')).toBe(world.url);
      expect(world.at('/token')[0].form.get('resource')).toBe(world.url);
      expect(JSON.parse(world.at('/register')[0].body)).toMatchObject({
        application_type: 'native',
        grant_types: ['authorization_code', 'refresh_token'],
      });
      await call(manager);
      const late = world.mcpHits.filter(({ path }) => path === '/mcp').slice(-1)[0];
      expect(late.headers.authorization).toMatch(/^Bearer access-/);
    });
  });

  test('OAU-02 without a callback the state is needs-auth and nothing opens; authenticate() logs in', async () => {
    const world = await authorizationWorld();
    await inWorld(
      world,
      async (manager) => {
        const asked = nextEvent(manager, 'authRequired');
        const error = await caught(manager.connect('w'));
        expect(error).toMatchObject({ code: 'AUTH_REQUIRED', server: 'w', name: 'McpAuthError' });
        expect(await asked).toMatchObject({ server: 'w' });
        expect(manager.status('w')).toMatchObject({ state: 'needs-auth', code: 'AUTH_REQUIRED' });
        expect(world.hits).toEqual([]);
        const status = await manager.authenticate('w', { onAuthorizationUrl: (r) => world.visit(r) });
        expect(status.state).toBe('connected');
        await call(manager);
      },
      { onAuthorizationUrl: undefined },
    );
  });

  test('OAU-02 B-128 B-143 mcp:AUTH-51 mcp:SEC-23 the loopback listener takes the true answer alone', async () => {
    const world = await authorizationWorld();
    let url = '';
    await inWorld(
      world,
      async (manager) => {
        const connecting = manager.connect('w');
        await eventually(() => url !== '');
        const back = new URL(await world.visit({ url }));
        expect(back.hostname).toBe('127.0.0.1');
        const wrong = new URL(back);
        wrong.searchParams.set('state', 'x'.repeat(43));
        expect((await fetch(wrong)).status).toBe(400);
        const bare = new URL(back);
        bare.searchParams.delete('state');
        expect((await fetch(bare)).status).toBe(400);
        const markup = new URL(wrong);
        markup.searchParams.set('error_description', '<script>');
        expect(await (await fetch(markup)).text()).not.toContain('<script>');
        expect(world.at('/token')).toEqual([]);
        const page = await fetch(back);
        expect(page.status).toBe(200);
        expect(page.headers.get('content-security-policy')).toBe("default-src 'none'");
        expect((await connecting).state).toBe('connected');
        await expect(fetch(back)).rejects.toThrow('fetch failed');
      },
      { onAuthorizationUrl: (request) => void (url = request.url) },
    );
  });

  test('OAU-02 A-13 completeAuthorization() finishes a login whose URL the error told', async () => {
    const world = await authorizationWorld();
    await inWorld(
      world,
      async (manager) => {
        const error = await caught(manager.authenticate('w'));
        expect(error).toMatchObject({ code: 'AUTH_REQUIRED' });
        const url = await world.visit({ url: error.authorizationUrl as string });
        const wrong = url.replace(/state=[^&]*/, 'state=other');
        expect(await caught(manager.completeAuthorization('w', wrong))).toMatchObject({
          code: 'AUTH_FAILED',
        });
        expect((await manager.completeAuthorization('w', url)).state).toBe('connected');
        expect(await caught(manager.completeAuthorization('w', url))).toMatchObject({ code: 'AUTH_FAILED' });
      },
      { onAuthorizationUrl: undefined },
    );
  });

  test('OAU-02 logout() revokes and forgets; the next use asks again', async () => {
    const world = await authorizationWorld();
    await inWorld(world, async (manager) => {
      await manager.connect('w');
      await manager.logout('w');
      expect(world.at('/revoke').length).toBe(2);
      expect(manager.status('w')?.tokenStorage).toBeUndefined();
      await manager.connect('w');
      expect(world.at('/authorize').length).toBe(2);
    });
  });

  test('A-14 an error answer ends the login with a clean error', async () => {
    const world = await authorizationWorld();
    await inWorld(
      world,
      async (manager) => {
        const error = await caught(manager.connect('w'));
        expect(error).toMatchObject({ code: 'AUTH_FAILED' });
        expect(error.message).toContain('access_denied');
        expect(error.message).not.toMatch(/\p{Cc}/u);
      },
      {
        onAuthorizationUrl: ({ url }) => {
          const asked = new URL(url).searchParams;
          return `${asked.get('redirect_uri')}?error=access_denied&error_description=%1b[31mno&state=${asked.get('state')}`;
        },
      },
    );
  });

  test('A-12 G15 a fixed port that is taken is named', async () => {
    const world = await authorizationWorld();
    const taken = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => taken.once('listening', resolve));
    onTestFinished(() => void taken.close());
    const { port } = taken.address() as AddressInfo;
    await inWorld(
      world,
      async (manager) => {
        const error = await caught(manager.connect('w'));
        expect(error).toMatchObject({ code: 'AUTH_FAILED' });
        expect(error.message).toContain(String(port));
      },
      { oauth: { callbackPort: port } },
    );
  });

  test('B-149 mcp:AUTH-10 a configured Authorization header wins and no login starts', async () => {
    const world = await authorizationWorld();
    await inWorld(
      world,
      async (manager) => {
        expect(await caught(manager.connect('w'))).toMatchObject({ code: 'AUTH_REQUIRED' });
        expect(world.hits).toEqual([]);
        expect(world.mcpHits.every(({ path }) => path === '/mcp')).toBe(true);
        expect(await caught(manager.authenticate('w'))).toMatchObject({ code: 'AUTH_FAILED' });
      },
      { server: { headers: { authorization: 'Bearer static-token' } } },
    );
  });

  test('B-135 mcp:SEC-31 two servers on one host present their own tokens only', async () => {
    const [one, other] = [await authorizationWorld(), await authorizationWorld()];
    const servers = {
      a: { type: 'http' as const, url: one.url },
      b: { type: 'http' as const, url: other.url },
    };
    const onAuthorizationUrl = ({ server, url }: { server: string; url: string }) =>
      (server === 'a' ? one : other).visit({ url });
    await withManager({ servers, onAuthorizationUrl }, async (manager) => {
      await manager.connect();
      for (const [world, own] of [
        [one, one.tokens],
        [other, other.tokens],
      ] as const) {
        const shown = world.mcpHits.map(({ headers }) => headers.authorization).filter(Boolean);
        expect(shown.length).toBeGreaterThan(0);
        expect(shown.every((value) => own.has(value!.replace('Bearer ', '')))).toBe(true);
      }
    });
  });
});

describe('discovery', () => {
  test.each([
    ['G1 mcp:AUTH-12 named by the header', 'header'],
    ['G1 mcp:AUTH-12 under the path', 'path'],
    ['G1 mcp:AUTH-12 at the root', 'root'],
  ])('%s', async (_, place) => {
    const places = {
      header: '/odd/place',
      path: '/.well-known/oauth-protected-resource/mcp',
      root: '/.well-known/oauth-protected-resource',
    };
    const path = places[place as keyof typeof places];
    const world = await authorizationWorld({
      challenge: (origin) => (place === 'header' ? `Bearer resource_metadata="${origin}${path}"` : 'Bearer'),
      takeOverMcp: (hit, response) => {
        if (hit.path === path) {
          return json(response, 200, { resource: world.url, authorization_servers: [world.issuer] });
        }
        return hit.path === '/mcp' ? false : json(response, 404, {});
      },
    });
    await inWorld(world, async (manager) => {
      expect((await manager.connect('w')).state).toBe('connected');
    });
  });

  test('G2 A-19 an OpenID document of an odd content type is enough', async () => {
    const world = await authorizationWorld({
      takeOver: (hit, response) => {
        if (hit.path === '/.well-known/oauth-authorization-server') return json(response, 404, {});
        if (hit.path !== '/.well-known/openid-configuration') return false;
        const document = {
          issuer: world.issuer,
          authorization_endpoint: `${world.issuer}/authorize`,
          token_endpoint: `${world.issuer}/token`,
          registration_endpoint: `${world.issuer}/register`,
          code_challenge_methods_supported: ['S256'],
        };
        response.writeHead(200, { 'content-type': 'text/plain' }).end(JSON.stringify(document));
        return true;
      },
    });
    await inWorld(world, async (manager) => {
      expect((await manager.connect('w')).state).toBe('connected');
    });
  });

  test('G3 A-7 mcp:AUTH-20 pages instead of metadata lead to the endpoints of 2025-03-26', async () => {
    const world = await authorizationWorld({
      takeOverMcp: async (hit, response) => {
        if (hit.path.startsWith('/.well-known/')) {
          response.writeHead(200, { 'content-type': 'text/html' }).end('<html>');
          return true;
        }
        if (!['/authorize', '/token', '/register'].includes(hit.path)) return false;
        const answer = await fetch(`${world.issuer}${hit.path}?${hit.query}`, {
          method: hit.method,
          body: hit.method === 'POST' ? hit.body : undefined,
          redirect: 'manual',
        });
        response.writeHead(answer.status, { location: answer.headers.get('location') ?? '' });
        response.end(await answer.text());
        return true;
      },
    });
    await inWorld(world, async (manager) => {
      expect((await manager.connect('w')).state).toBe('connected');
      const asked = world.mcpHits.find(({ path }) => path === '/.well-known/oauth-authorization-server')!;
      expect(asked.headers['mcp-protocol-version']).toBe('2025-03-26');
    });
  });

  test('A1 an outage of the metadata is an error and leads to no guessed endpoint', async () => {
    const world = await authorizationWorld({
      takeOverMcp: (hit, response) =>
        hit.path.startsWith('/.well-known/') ? json(response, 503, {}) : false,
    });
    await inWorld(
      world,
      async (manager) => {
        const error = await caught(manager.connect('w'));
        expect(error.message).toContain('503');
        expect(world.hits).toEqual([]);
        expect(world.mcpHits.some(({ path }) => path === '/authorize' || path === '/register')).toBe(false);
      },
      { retry: { attempts: 0 } },
    );
  });

  test('B-125 mcp:AUTH-19 metadata of another issuer is not used', async () => {
    const world = await authorizationWorld({
      issuer: (document) => ({ ...document, issuer: 'http://127.0.0.1:1' }),
    });
    await inWorld(world, async (manager) => {
      const error = await caught(manager.connect('w'));
      expect(error).toMatchObject({ code: 'AUTH_ISSUER_MISMATCH' });
      expect(error.message).toContain('expectedIssuer');
      expect(world.at('/authorize')).toEqual([]);
    });
  });

  test('A-3 an issuer may differ by the slash after its host', async () => {
    const world = await authorizationWorld({
      issuer: (document) => ({ ...document, issuer: `${document.issuer}/` }),
    });
    await inWorld(world, async (manager) => {
      expect((await manager.connect('w')).state).toBe('connected');
    });
  });

  test('B-134 mcp:AUTH-14 metadata of another resource is not used', async () => {
    for (const resource of ['http://127.0.0.1:1/mcp', '/mc']) {
      const world = await authorizationWorld({
        resource: (document) => ({
          ...document,
          resource: resource.startsWith('/') ? String(document.resource).replace('/mcp', resource) : resource,
        }),
      });
      await inWorld(world, async (manager) => {
        expect(await caught(manager.connect('w'))).toMatchObject({ code: 'AUTH_FAILED' });
        expect(world.hits).toEqual([]);
      });
    }
  });

  test('B-120 I10 mcp:SEC-20 authorization endpoints that are no web addresses are refused', async () => {
    for (const endpoint of ['file:///x', 'javascript:x', '-flag', 'http://10.0.0.1/authorize']) {
      const world = await authorizationWorld({
        issuer: (document) => ({ ...document, authorization_endpoint: endpoint }),
      });
      const asked: string[] = [];
      await inWorld(
        world,
        async (manager) => {
          expect(await caught(manager.connect('w'))).toMatchObject({ code: 'URL_REFUSED' });
          expect(asked).toEqual([]);
        },
        { onAuthorizationUrl: ({ url }) => void asked.push(url) },
      );
    }
  });

  test('BEY-07 B-122 G22 mcp:SEC-01 mcp:SEC-22 metadata in private networks and at metadata services is not fetched', async () => {
    const target = await trap();
    for (const place of [
      'http://169.254.169.254/latest',
      'http://10.0.0.1/x',
      `http://user:pw@127.0.0.1:${new URL(target.origin).port}/`,
      'file:///etc/passwd',
    ]) {
      const world = await authorizationWorld({ challenge: () => `Bearer resource_metadata="${place}"` });
      await inWorld(world, async (manager) => {
        expect(await caught(manager.connect('w'))).toMatchObject({ code: 'URL_REFUSED' });
      });
    }
    expect(target.hits).toEqual([]);
  });

  test('B-124 a token request is never redirected', async () => {
    const target = await trap();
    const world = await authorizationWorld({
      takeOver: (hit, response) => {
        if (hit.path !== '/token') return false;
        response.writeHead(307, { location: `${target.origin}/token` }).end();
        return true;
      },
    });
    await inWorld(world, async (manager) => {
      expect(await caught(manager.connect('w'))).toMatchObject({ code: 'REDIRECT_REFUSED' });
      expect(target.hits).toEqual([]);
    });
  });

  test('B-044 policy holds for authorization servers: denied ones are not asked', async () => {
    const world = await authorizationWorld();
    const policy = { deniedMcpServers: [{ serverUrl: `${world.issuer}/*` }] };
    await inWorld(
      world,
      async (manager) => {
        expect(await caught(manager.connect('w'))).toMatchObject({ code: 'POLICY_DENIED' });
        expect(world.hits).toEqual([]);
      },
      { policy },
    );
  });

  test('B-130 mcp:AUTH-41 no S256, no login; nothing is retried without a verifier', async () => {
    for (const methods of [['plain'], undefined]) {
      const world = await authorizationWorld({
        issuer: (document) => ({ ...document, code_challenge_methods_supported: methods }),
      });
      await inWorld(world, async (manager) => {
        expect(await caught(manager.connect('w'))).toMatchObject({ code: 'AUTH_FAILED' });
        expect(world.at('/authorize')).toEqual([]);
      });
      if (methods !== undefined) continue;
      await inWorld(
        world,
        async (manager) => {
          expect((await manager.connect('w')).state).toBe('connected');
          expect(world.at('/token').every(({ form }) => form.has('code_verifier'))).toBe(true);
        },
        { oauth: { allowUnadvertisedPkce: true } },
      );
    }
  });

  test('B-126 mcp:AUTH-45 mcp:AUTH-46 mcp:AUTH-47 mcp:AUTH-48 the issuer of the answer is checked before the code goes anywhere', async () => {
    for (const [advertised, iss, passes] of [
      [true, (issuer: string) => issuer, true],
      [true, undefined, false],
      [true, () => 'http://evil.test', false],
      [false, () => 'http://evil.test', false],
      [false, (issuer: string) => `${issuer}/`, false],
      [false, undefined, true],
    ] as const) {
      const world = await authorizationWorld({
        iss,
        issuer: (document) => ({ ...document, authorization_response_iss_parameter_supported: advertised }),
      });
      await inWorld(world, async (manager) => {
        if (passes) {
          expect((await manager.connect('w')).state).toBe('connected');
        } else {
          const error = await caught(manager.connect('w'));
          expect(error).toMatchObject({ code: 'AUTH_ISSUER_MISMATCH' });
          expect(error.message).not.toContain('evil');
          expect(world.at('/token')).toEqual([]);
        }
      });
    }
  });

  test('G7 A-8 the resource is sent verbatim, as configured, or not at all', async () => {
    for (const [oauth, expected] of [
      [undefined, (world: World) => `${world.origin}/`],
      [{ resource: 'urn:own' }, () => 'urn:own'],
      [{ resource: false as const }, () => null],
    ] as const) {
      const world = await authorizationWorld({
        life: 1,
        resource: (document) => ({ ...document, resource: String(document.resource).replace('/mcp', '/') }),
      });
      await inWorld(
        world,
        async (manager) => {
          await manager.connect('w');
          await pause(1100);
          await call(manager);
          const sent = [
            ...world.at('/authorize').map(({ query }) => query),
            ...world.at('/token').map(({ form }) => form),
          ];
          expect(sent.length).toBeGreaterThanOrEqual(3);
          for (const one of sent) expect(one.get('resource')).toBe(expected(world));
        },
        { oauth },
      );
    }
  });
});

describe('clients', () => {
  test('G5 A-15 mcp:AUTH-38 a registration that was forgotten is made anew once', async () => {
    const world = await authorizationWorld();
    const stateDir = temporaryDirectory();
    const options = { stateDir, oauth: { callbackPort: undefined } };
    await inWorld(world, async (manager) => void (await manager.connect('w')), options);
    expect(world.at('/register').length).toBe(1);
    (world as World & { forget: () => void }).forget();
    world.tokens.clear();
    await inWorld(
      world,
      async (manager) => {
        expect((await manager.connect('w')).state).toBe('connected');
      },
      options,
    );
    expect(world.at('/register').length).toBe(2);
  });

  test('A-11 mcp:AUTH-31 localhost is tried where the address is refused', async () => {
    const world = await authorizationWorld({
      takeOver: (hit, response) =>
        hit.path === '/register' && hit.body.includes('127.0.0.1')
          ? json(response, 400, { error: 'invalid_redirect_uri' })
          : false,
    });
    await inWorld(world, async (manager) => {
      expect((await manager.connect('w')).state).toBe('connected');
      expect(world.at('/authorize')[0].query.get('redirect_uri')).toMatch(
        /^http:\/\/localhost:\d+\/callback$/,
      );
    });
  });

  test('mcp:AUTH-25 a server that registers nobody asks for a client id', async () => {
    const world = await authorizationWorld({
      issuer: (document) => ({ ...document, registration_endpoint: undefined }),
    });
    await inWorld(world, async (manager) => {
      const error = await caught(manager.connect('w'));
      expect(error).toMatchObject({ code: 'AUTH_FAILED' });
      expect(error.message).toContain('oauth.clientId');
    });
  });

  test('B-132 mcp:AUTH-16 mcp:AUTH-17 mcp:AUTH-32 mcp:AUTH-33 mcp:AUTH-34 nothing of one issuer is shown to another', async () => {
    const other = await authorizationWorld();
    for (const oauth of [undefined, { clientId: 'known-client', clientSecret: 'known-secret' }]) {
      let moved = false;
      const world = await authorizationWorld({
        resource: (document) => (moved ? { ...document, authorization_servers: [other.issuer] } : document),
      });
      const before = other.hits.length;
      await inWorld(
        world,
        async (manager) => {
          await manager.connect('w');
          moved = true;
          world.tokens.clear();
          const error = await caught(call(manager));
          const shown = JSON.stringify(
            other.hits.slice(before).map(({ body, headers, query }) => [body, headers, String(query)]),
          );
          for (const secret of world.secrets) expect(shown).not.toContain(secret);
          expect(shown).not.toContain('known-');
          if (oauth) expect(error).toMatchObject({ code: 'AUTH_ISSUER_MISMATCH' });
        },
        { oauth },
      );
    }
  });

  test('G6 mcp:AUTH-37 a secret goes in the body where the header is refused and nothing was said', async () => {
    const world = await authorizationWorld({
      issuer: (document) => ({ ...document, token_endpoint_auth_methods_supported: undefined }),
      takeOver: (hit, response) =>
        hit.path === '/token' && hit.headers.authorization !== undefined
          ? json(response, 401, { error: 'invalid_client' })
          : false,
    });
    await inWorld(
      world,
      async (manager) => {
        expect((await manager.connect('w')).state).toBe('connected');
        expect(world.at('/token')[1].form.get('client_secret')).toBe('known-secret');
      },
      { oauth: { clientId: 'known-client', clientSecret: 'known-secret' } },
    );
  });

  test('G11 mcp:AUTH-55 mcp:AUTH-56 mcp:AUTH-57 mcp:AUTH-63 which scopes are asked for', async () => {
    for (const [oauth, challenge, supported, offline, expected] of [
      [{ scopes: ['own'] }, 'a', ['b'], true, 'own'],
      [undefined, 'a', ['b'], false, 'a'],
      [undefined, undefined, ['b', 'c'], false, 'b c'],
      [undefined, undefined, ['b'], true, 'b offline_access'],
      [undefined, undefined, undefined, false, null],
    ] as const) {
      const world = await authorizationWorld({
        challenge: () => (challenge ? `Bearer scope="${challenge}"` : 'Bearer'),
        resource: (document) => ({ ...document, scopes_supported: supported }),
        issuer: (document) =>
          offline ? { ...document, scopes_supported: ['offline_access', 'x'] } : document,
      });
      await inWorld(
        world,
        async (manager) => {
          await manager.connect('w');
          expect(world.at('/authorize')[0].query.get('scope')).toBe(expected);
        },
        { oauth: oauth && { scopes: [...oauth.scopes] } },
      );
    }
  });
});

describe('tokens', () => {
  test('G8 F-045 OAU-01 mcp:AUTH-09 fifty calls at expiry share one refresh, and the family lives', async () => {
    const world = await authorizationWorld({ life: 2, rotate: true });
    await inWorld(world, async (manager) => {
      await manager.connect('w');
      await pause(2100);
      await Promise.all(Array.from({ length: 50 }, () => call(manager)));
      expect(world).toMatchObject({ refreshes: 1, killed: 0 });
      expect(world.at('/authorize').length).toBe(1);
    });
  });

  test('G10 A-1 a refresh that fails on the way deletes nothing', async () => {
    let broken = false;
    const world = await authorizationWorld({
      takeOver: (hit, response) => (broken && hit.path === '/token' ? json(response, 503, {}) : false),
    });
    const stateDir = temporaryDirectory();
    await inWorld(
      world,
      async (manager) => {
        await manager.connect('w');
        world.tokens.clear();
        broken = true;
        expect((await caught(call(manager))).code).toBe('HTTP_STATUS');
        broken = false;
        await call(manager);
        expect(world.at('/authorize').length).toBe(1);
      },
      { stateDir },
    );
  });

  test('OAU-03 mcp:AUTH-05 mcp:AUTH-62 a login outlives the manager, in a private file without readable names', async () => {
    const world = await authorizationWorld();
    const stateDir = temporaryDirectory();
    for (let round = 0; round < 2; round++) {
      await inWorld(
        world,
        async (manager) => {
          expect(await manager.connect('w')).toMatchObject({ state: 'connected', tokenStorage: 'file' });
        },
        { stateDir },
      );
    }
    expect(world.at('/authorize').length).toBe(1);
    const folder = join(stateDir, 'tokens');
    const file = readdirSync(folder).find((name) => name.endsWith('.json'))!;
    expect(file).toMatch(/^[A-Za-z0-9]+\.json$/);
    expect(statSync(join(folder, file)).mode & 0o777).toBe(0o600);
    expect(statSync(folder).mode & 0o777).toBe(0o700);
  });

  test('OAU-03 the host may keep logins itself, with a lock', async () => {
    const world = await authorizationWorld({ life: 1 });
    const kept = new Map<string, string>();
    let locked = 0;
    const tokenStore = {
      get: (key: string) => kept.get(key) ?? null,
      set: (key: string, value: string) => void kept.set(key, value),
      delete: (key: string) => void kept.delete(key),
      lock: async <T>(_key: string, body: () => Promise<T>): Promise<T> => {
        locked++;
        try {
          return await body();
        } finally {
          locked--;
        }
      },
    };
    await inWorld(
      world,
      async (manager) => {
        expect(await manager.connect('w')).toMatchObject({ tokenStorage: 'host' });
        expect(kept.size).toBe(1);
        const [before] = kept.values();
        await pause(1100);
        await call(manager);
        expect([...kept.values()][0]).not.toBe(before);
        await eventually(() => locked === 0);
        await manager.logout('w');
        expect(kept.size).toBe(0);
      },
      { tokenStore },
    );
  });

  test('mcp:AUTH-65 OAU-03 a store that fails after a refresh is reported, and the new token is used', async () => {
    const world = await authorizationWorld();
    const kept = new Map<string, string>();
    let broken = false;
    const tokenStore = {
      get: (key: string) => kept.get(key) ?? null,
      set: (key: string, value: string) => {
        if (broken) throw new Error('disk full');
        kept.set(key, value);
      },
      delete: (key: string) => void kept.delete(key),
    };
    await inWorld(
      world,
      async (manager) => {
        await manager.connect('w');
        world.tokens.clear();
        broken = true;
        const reported = nextEvent(manager, 'diagnostic', ({ code }) => code === 'AUTH_STORE_FAILED');
        await caught(call(manager));
        await reported;
        await call(manager);
        expect(world.at('/authorize').length).toBe(1);
      },
      { tokenStore },
    );
  });

  test('B-147 a logout is not undone by a refresh that was under way', async () => {
    let slow = false;
    const world = await authorizationWorld({
      takeOver: async (hit) => {
        if (slow && hit.path === '/token') await pause(500);
        return false;
      },
    });
    const stateDir = temporaryDirectory();
    await inWorld(
      world,
      async (manager) => {
        await manager.connect('w');
        world.tokens.clear();
        slow = true;
        const calling = caught(call(manager));
        await eventually(() => world.at('/token').length === 2);
        await manager.logout('w');
        await calling;
        const left = readdirSync(join(stateDir, 'tokens')).filter((name) => name.endsWith('.json'));
        expect(left).toEqual([]);
      },
      { stateDir, onAuthorizationUrl: (request) => (slow ? new Promise(() => {}) : world.visit(request)) },
    );
  });

  test('G12 A-9 AUTH-58 AUTH-59 AUTH-60 mcp:AUTH-58 mcp:AUTH-59 mcp:AUTH-60 mcp:TOOL-21 a step up asks for the union, and a server that is never content is asked no further', async () => {
    const world = await authorizationWorld({ callScope: 'write', challenge: () => 'Bearer scope="read"' });
    await inWorld(world, async (manager) => {
      await manager.connect('w');
      await manager.listTools();
      const lists = () => world.mcpHits.filter(({ body }) => body.includes('"tools/list"')).length;
      const [before, changed] = [lists(), nextEvent(manager, 'toolsChanged')];
      await call(manager);
      expect(world.at('/authorize').map(({ query }) => query.get('scope'))).toEqual(['read', 'read write']);
      // Who may do more may be shown more.
      await changed;
      await manager.listTools();
      expect(lists(), 'mcp:TOOL-21').toBeGreaterThan(before);
    });
    const never = await authorizationWorld({
      challenge: () => 'Bearer scope="read"',
      takeOverMcp: (hit, response) =>
        hit.body.includes('"tools/call"')
          ? json(
              response,
              403,
              {},
              { 'www-authenticate': 'Bearer error="insufficient_scope", scope="write"' },
            )
          : false,
    });
    await inWorld(never, async (manager) => {
      await manager.connect('w');
      const error = await caught(call(manager));
      expect(error).toMatchObject({ code: 'AUTH_SCOPE_INSUFFICIENT', requiredScope: 'write' });
      await caught(call(manager));
      expect(never.at('/authorize').length).toBe(2);
    });
  });

  test('A-10 mcp:AUTH-61 a token that is refused right after the login is not asked for again', async () => {
    const world = await authorizationWorld({
      takeOverMcp: (hit, response) =>
        hit.path === '/mcp' ? json(response, 401, {}, { 'www-authenticate': 'Bearer' }) : false,
    });
    await inWorld(world, async (manager) => {
      expect(await caught(manager.connect('w'))).toMatchObject({ code: 'AUTH_REQUIRED' });
      expect(manager.status('w')?.state).toBe('needs-auth');
      expect(world.at('/authorize').length).toBe(1);
    });
  });

  test('OAU-02 a login that ended is a state: a call without hope leads to needs-auth', async () => {
    const world = await authorizationWorld({
      takeOver: (hit, response) =>
        hit.form.get('grant_type') === 'refresh_token'
          ? json(response, 400, { error: 'invalid_grant' })
          : false,
    });
    await inWorld(
      world,
      async (manager) => {
        await caught(manager.connect('w'));
        await manager.authenticate('w', { onAuthorizationUrl: (request) => world.visit(request) });
        world.tokens.clear();
        expect(await caught(call(manager))).toMatchObject({ code: 'AUTH_REQUIRED' });
        await eventually(() => manager.status('w')?.state === 'needs-auth');
      },
      { onAuthorizationUrl: undefined },
    );
  });

  test('SSE-02 the older way carries the token and logs in', async () => {
    const world = await authorizationWorld({
      takeOverMcp: (hit, response) => {
        const authorized = world.tokens.has((hit.headers.authorization ?? '').replace('Bearer ', ''));
        if (hit.path !== '/mcp' || !authorized) return false;
        if (hit.method === 'GET') {
          response.writeHead(200, { 'content-type': 'text/event-stream' });
          response.write('event: endpoint\ndata: /mcp\n\n');
          stream = response;
          return true;
        }
        const { id, method } = JSON.parse(hit.body) as { id?: number; method: string };
        response.writeHead(202).end();
        if (id === undefined) return true;
        const results: Record<string, unknown> = {
          initialize: {
            protocolVersion: '2024-11-05',
            capabilities: { tools: {} },
            serverInfo: { name: 's', version: '1' },
          },
          'tools/list': { tools: [{ name: 'echo', inputSchema: { type: 'object' } }] },
          'tools/call': { content: [] },
        };
        stream?.write(
          `event: message\ndata: ${JSON.stringify({ jsonrpc: '2.0', id, result: results[method] ?? {} })}\n\n`,
        );
        return true;
      },
    });
    let stream: import('node:http').ServerResponse | undefined;
    const servers = { w: { type: 'sse' as const, url: world.url } };
    await withManager({ servers, onAuthorizationUrl: (request) => world.visit(request) }, async (manager) => {
      expect(await manager.connect('w')).toMatchObject({ state: 'connected', transport: 'sse' });
      await call(manager);
    });
  });
});

test('SEC-03 B-142 no secret of a login is in any event, error, report, status or inspection', async () => {
  const world = await authorizationWorld({ life: 1, rotate: true });
  const seen: string[] = [];
  const stateDir = temporaryDirectory();
  await inWorld(
    world,
    async (manager) => {
      for (const name of ['status', 'log', 'diagnostic', 'authRequired', 'configChanged'] as const) {
        manager.on(name, (value: unknown) => void seen.push(JSON.stringify(value)));
      }
      await manager.connect('w');
      await pause(1100);
      await call(manager);
      world.tokens.clear();
      world.options.takeOver = (hit, response) =>
        hit.path === '/token'
          ? json(response, 400, { error: 'invalid_request', error_description: [...world.secrets].join(' ') })
          : false;
      const error = await caught(call(manager));
      seen.push(inspect(error, { depth: 9 }), JSON.stringify(error), String(error.stack));
      seen.push(
        inspect(manager, { depth: 9 }),
        JSON.stringify(manager.status()),
        JSON.stringify(manager.configReport()),
      );
    },
    {
      stateDir,
      oauth: { clientId: 'known-client', clientSecret: 'known-secret' },
      auditLog: join(stateDir, 'audit.jsonl'),
    },
  );
  seen.push(readFileSync(join(stateDir, 'audit.jsonl'), 'utf8'));
  const text = seen.join('\n');
  const found = [...world.secrets, 'known-secret'].filter((secret) => text.includes(secret));
  expect(found.map((secret) => secret.split('-')[0])).toEqual([]);
});
