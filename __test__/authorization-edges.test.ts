/** Edges of logins that servers in the field come near and hostile ones aim at (mcp:AUTH-*, CC, EMA, DPOP, SEC). */
import { generateKeyPairSync } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { describe, expect, test } from 'vitest';
import type { McpManager, OAuthConfig } from '..';
import { authorizationWorld, call, inWorld, json, trap, type Hit, type World } from './authorization-world';
import { caught, eventually, pause, temporaryDirectory } from './harness';

const scopes = (world: World) => world.at('/authorize').map(({ query }) => query.get('scope'));

/** Answers with the metadata of the resource at this place alone. */
const metadataAt =
  (place: string, world: () => World) =>
  (hit: Hit, response: ServerResponse): boolean => {
    if (hit.path === place) {
      return json(response, 200, { resource: world().url, authorization_servers: [world().issuer] });
    }
    return hit.path === '/mcp' ? false : json(response, 404, {});
  };

describe('challenges', () => {
  test.each([
    ['a realm in any language', (odd: string) => `Bearer realm="Größe ☃", scope="seen", ${odd}`],
    [
      'a realm in Latin-1',
      (odd: string) => Buffer.from(`Bearer realm="Größe", scope="seen", ${odd}`, 'latin1'),
    ],
    [
      'several fields and any case',
      (odd: string) => ['Basic realm="x, scope=no"', `bEaReR SCOPE = seen , ${odd}`],
    ],
    ['a scheme nobody knows', (odd: string) => `Odd ${odd}, Bearer scope="seen"`],
  ])('mcp:AUTH-07 mcp:AUTH-56 mcp:DPOP-02 %s costs nothing of the challenge', async (_, challenge) => {
    const world: World = await authorizationWorld({
      challenge: (origin) => {
        const value = challenge(`resource_metadata="${origin}/odd/place"`);
        // Node writes header values as Latin-1.
        const bytes = (text: string | Buffer) => Buffer.from(text as string).toString('latin1');
        return Array.isArray(value) ? value.map(bytes) : bytes(value as string | Buffer);
      },
      takeOverMcp: metadataAt('/odd/place', () => world),
    });
    await inWorld(world, async (manager) => {
      expect((await manager.connect('w')).state).toBe('connected');
      expect(scopes(world)).toEqual(['seen']);
    });
  });

  test('mcp:AUTH-12 mcp:AUTH-20 where the named metadata is missing the well-known places are asked, and nothing is guessed', async () => {
    const world = await authorizationWorld({
      challenge: (origin) => `Bearer resource_metadata="${origin}/gone"`,
    });
    await inWorld(world, async (manager) => {
      expect((await manager.connect('w')).state).toBe('connected');
      const asked = world.mcpHits.map(({ path }) => path).filter((path) => path !== '/mcp');
      expect(asked).toEqual(['/gone', '/.well-known/oauth-protected-resource/mcp']);
    });
  });

  test('mcp:AUTH-08 a stream that is refused later on is opened again with a new token', async () => {
    const streams: [string, ServerResponse][] = [];
    const world: World = await authorizationWorld({
      takeOverMcp: (hit, response) => {
        const token = (hit.headers.authorization ?? '').replace('Bearer ', '');
        if (hit.method !== 'GET' || hit.path !== '/mcp' || !world.tokens.has(token)) return false;
        response.writeHead(200, { 'content-type': 'text/event-stream' }).write(': open\n\n');
        streams.push([token, response]);
        return true;
      },
    });
    await inWorld(world, async (manager) => {
      await manager.connect('w');
      await eventually(() => streams.length === 1);
      world.tokens.clear();
      streams[0][1].end();
      await eventually(() => streams.length === 2);
      expect(streams[1][0]).not.toBe(streams[0][0]);
      expect(world.refreshes).toBe(1);
      expect(world.at('/authorize').length).toBe(1);
    });
  });

  test('A-19 mcp:AUTH-21 a mark of the byte order before a document is passed over', async () => {
    const world = await authorizationWorld({
      takeOver: (hit, response) => {
        if (hit.path !== '/.well-known/oauth-authorization-server') return false;
        const document = {
          issuer: world.issuer,
          authorization_endpoint: `${world.issuer}/authorize`,
          token_endpoint: `${world.issuer}/token`,
          registration_endpoint: `${world.issuer}/register`,
          code_challenge_methods_supported: ['S256'],
        };
        response.end(`\ufeff${JSON.stringify(document)}`);
        return true;
      },
    });
    await inWorld(world, async (manager) => expect((await manager.connect('w')).state).toBe('connected'));
  });
});

test('mcp:CC-04 a machine renews its token in time for the same scope and resource', async () => {
  const world: World = await authorizationWorld({
    challenge: (origin) => `Bearer scope="read", resource_metadata="${origin}/odd/place"`,
    takeOverMcp: metadataAt('/odd/place', () => world),
    takeOver: (hit, response) => {
      if (hit.path !== '/token') return false;
      const token = `machine-${world.at('/token').length}`;
      world.tokens.add(token);
      return json(response, 200, { access_token: token, token_type: 'Bearer', expires_in: 1 });
    },
  });
  const oauth = {
    clientId: 'machine',
    clientSecret: 'secret',
    clientCredentials: { method: 'post' as const },
  };
  await inWorld(
    world,
    async (manager) => {
      await manager.connect('w');
      await pause(1100);
      const before = world.at('/token').length;
      await call(manager);
      const asked = world.at('/token').slice(before - 1);
      expect(asked.length).toBeGreaterThanOrEqual(2);
      for (const { form } of asked) {
        expect(Object.fromEntries(form)).toMatchObject({ scope: 'read', resource: world.url });
      }
    },
    { oauth },
  );
});

describe('scopes', () => {
  test('mcp:AUTH-59 what a step up brought is asked for by the next login, too', async () => {
    const world = await authorizationWorld({
      callScope: 'write',
      challenge: () => 'Bearer scope="read"',
      takeOver: (hit, response) =>
        hit.form.get('grant_type') === 'refresh_token'
          ? json(response, 400, { error: 'invalid_grant' })
          : false,
    });
    await inWorld(world, async (manager) => {
      await manager.connect('w');
      await call(manager);
      world.tokens.clear();
      await call(manager);
      expect(scopes(world)).toEqual(['read', 'read write', 'read write']);
      await manager.logout('w');
    });
    await inWorld(world, async (manager) => void (await manager.connect('w')));
    expect(scopes(world).slice(3)).toEqual(['read']);
  });

  test('A-9 mcp:AUTH-60 a step up that a person refused is not asked for again, until somebody wants a login', async () => {
    let agrees = true;
    const world = await authorizationWorld({ callScope: 'write', challenge: () => 'Bearer scope="read"' });
    const onAuthorizationUrl = (request: { url: string }) => {
      if (agrees) return world.visit(request);
      asked += 1;
      const query = new URL(request.url).searchParams;
      return `${query.get('redirect_uri')}?error=access_denied&state=${query.get('state')}`;
    };
    let asked = 0;
    await inWorld(
      world,
      async (manager) => {
        await manager.connect('w');
        agrees = false;
        expect(await caught(call(manager))).toMatchObject({ code: 'AUTH_FAILED' });
        for (let round = 0; round < 3; round++) {
          const error = await caught(call(manager));
          expect(error).toMatchObject({ code: 'AUTH_SCOPE_INSUFFICIENT', requiredScope: 'write' });
        }
        expect(asked).toBe(1);
        agrees = true;
        await manager.authenticate('w', { onAuthorizationUrl });
        await call(manager);
        expect(scopes(world).at(-1)).toBe('read write');
      },
      { onAuthorizationUrl },
    );
  });

  test('mcp:CC-05 a machine steps up by itself, once, and keeps what it needs', async () => {
    const world: World = await authorizationWorld({
      challenge: () => 'Bearer scope="read"',
      takeOver: (hit, response) => {
        if (hit.path !== '/token') return false;
        const token = `machine-${world.at('/token').length}`;
        world.tokens.add(token);
        granted.set(token, hit.form.get('scope') ?? '');
        return json(response, 200, { access_token: token, token_type: 'Bearer' });
      },
      takeOverMcp: (hit, response) => {
        const scope = granted.get((hit.headers.authorization ?? '').replace('Bearer ', ''));
        if (scope === undefined || scope.includes('write') || !hit.body.includes('"tools/call"'))
          return false;
        const wants = 'Bearer error="insufficient_scope", scope="write"';
        return json(response, 403, {}, { 'www-authenticate': wants });
      },
    });
    const granted = new Map<string, string>();
    await inWorld(
      world,
      async (manager) => {
        await manager.connect('w');
        await call(manager);
        world.tokens.clear();
        await call(manager);
        const asked = world.at('/token').map(({ form }) => form.get('scope'));
        expect(asked).toEqual(['read', 'read write', 'read write']);
        expect(world.at('/authorize')).toEqual([]);
      },
      { oauth: { clientId: 'machine', clientSecret: 'secret', clientCredentials: { method: 'post' } } },
    );
  });
});

describe('issuers', () => {
  test('mcp:AUTH-35 a metadata document is shown to another issuer as it is, a refresh token is not', async () => {
    const clientMetadataUrl = 'https://host.example/client.json';
    const takes = {
      clients: [clientMetadataUrl],
      issuer: (document: Record<string, unknown>) => ({
        ...document,
        client_id_metadata_document_supported: true,
      }),
    };
    const other = await authorizationWorld(takes);
    let moved = false;
    const world: World = await authorizationWorld({
      ...takes,
      resource: (document) => (moved ? { ...document, authorization_servers: [other.issuer] } : document),
      takeOverMcp: () => {
        for (const token of other.tokens) world.tokens.add(token);
      },
    });
    await inWorld(
      world,
      async (manager) => {
        await manager.connect('w');
        moved = true;
        world.tokens.clear();
        await call(manager);
        expect(other.at('/token').map(({ form }) => form.get('client_id'))).toEqual([clientMetadataUrl]);
        expect(other.at('/token')[0].form.get('grant_type')).toBe('authorization_code');
        expect([...world.at('/register'), ...other.at('/register')]).toEqual([]);
      },
      {
        oauth: { clientMetadataUrl },
        onAuthorizationUrl: (request) => (moved ? other : world).visit(request),
      },
    );
  });

  test('mcp:AUTH-32 mcp:AUTH-16 who comes back to an issuer is known there still', async () => {
    const other = await authorizationWorld();
    let named: World | undefined;
    const world: World = await authorizationWorld({
      resource: (document) => ({ ...document, authorization_servers: [(named ?? world).issuer] }),
      takeOverMcp: () => {
        for (const token of other.tokens) world.tokens.add(token);
      },
    });
    await inWorld(
      world,
      async (manager) => {
        await manager.connect('w');
        for (const next of [other, world]) {
          named = next;
          world.tokens.clear();
          other.tokens.clear();
          await call(manager);
        }
        expect(world.at('/authorize').length).toBe(2);
        expect([world, other].map((one) => one.at('/register').length)).toEqual([1, 1]);
      },
      {
        oauth: { redirectUri: 'http://localhost:4711/back' },
        onAuthorizationUrl: (request) => (named ?? world).visit(request),
      },
    );
  });

  test('B-132 mcp:AUTH-33 mcp:AUTH-34 the secret of a machine does not follow a server that names another issuer', async () => {
    const other = await authorizationWorld();
    let moved = false;
    const world: World = await authorizationWorld({
      resource: (document) => (moved ? { ...document, authorization_servers: [other.issuer] } : document),
      takeOver: (hit, response) => {
        if (hit.path !== '/token') return false;
        world.tokens.add('machine-token');
        return json(response, 200, { access_token: 'machine-token' });
      },
    });
    await inWorld(
      world,
      async (manager) => {
        await manager.connect('w');
        moved = true;
        world.tokens.clear();
        expect(await caught(call(manager))).toMatchObject({ code: 'AUTH_ISSUER_MISMATCH' });
        expect(other.at('/token')).toEqual([]);
      },
      { oauth: { clientId: 'machine', clientSecret: 'secret', clientCredentials: { method: 'basic' } } },
    );
  });

  test('mcp:EMA-02 what is no identity assertion is shown to nobody', async () => {
    const world = await authorizationWorld();
    const provider = await authorizationWorld({
      takeOver: (hit, response) =>
        hit.path === '/token'
          ? json(response, 200, {
              access_token: 'not-an-assertion',
              issued_token_type: 'urn:ietf:params:oauth:token-type:access_token',
              token_type: 'Bearer',
            })
          : false,
    });
    const enterpriseManaged = {
      idpIssuer: provider.issuer,
      idpTokenEndpoint: `${provider.issuer}/token`,
      idpClientId: 'idp-client',
      idToken: 'identity-token',
    };
    await inWorld(
      world,
      async (manager) => {
        expect(await caught(manager.connect('w'))).toMatchObject({ code: 'AUTH_FAILED' });
        expect(provider.at('/token').length).toBe(1);
        expect(world.at('/token')).toEqual([]);
        const shown = JSON.stringify(world.mcpHits.map(({ headers }) => headers));
        expect(shown).not.toContain('not-an-assertion');
      },
      { oauth: { clientId: 'machine', clientSecret: 'secret', enterpriseManaged } },
    );
  });
});

describe('where a server may lead', () => {
  test.each(['token_endpoint', 'registration_endpoint', 'revocation_endpoint'])(
    'B-122 mcp:SEC-02 mcp:SEC-03 a %s elsewhere is refused before anything is asked of anybody',
    async (name) => {
      for (const endpoint of [
        'http://169.254.169.254/x',
        'http://[::ffff:10.0.0.1]/',
        'https://192.168.0.1/t',
        'https://[2001:0:7f00:1::]/',
        'http://as.example/t',
        'ftp://127.0.0.1/',
        'https://user@127.0.0.1/',
      ]) {
        const world = await authorizationWorld({
          issuer: (document) => ({ ...document, [name]: endpoint }),
        });
        await inWorld(world, async (manager) => {
          expect(await caught(manager.connect('w')), endpoint).toMatchObject({ code: 'URL_REFUSED' });
          expect([...world.at('/authorize'), ...world.at('/register')]).toEqual([]);
        });
      }
    },
  );

  test('B-124 mcp:SEC-04 no redirect leads a login to another origin, whatever it asks', async () => {
    const target = await trap();
    for (const path of [
      '/.well-known/oauth-protected-resource/mcp',
      '/.well-known/oauth-authorization-server',
      '/register',
      '/revoke',
    ]) {
      const away = (hit: Hit, response: ServerResponse) => {
        if (hit.path !== path) return false;
        response.writeHead(307, { location: `${target.origin}/x` }).end();
        return true;
      };
      const world = await authorizationWorld({ takeOver: away, takeOverMcp: away });
      await inWorld(world, async (manager) => {
        if (path === '/revoke') {
          await manager.connect('w');
          await manager.logout('w');
          expect(world.at('/revoke').length).toBe(2);
        } else {
          expect(await caught(manager.connect('w')), path).toMatchObject({ code: 'REDIRECT_REFUSED' });
        }
      });
    }
    expect(target.hits).toEqual([]);
  });

  test('B-044 policy holds for each endpoint that metadata names', async () => {
    const denied = await trap();
    const policy = { deniedMcpServers: [{ serverUrl: `${denied.origin}/*` }] };
    for (const name of ['authorization', 'token', 'registration', 'revocation']) {
      const world = await authorizationWorld({
        issuer: (document) => ({ ...document, [`${name}_endpoint`]: `${denied.origin}/x` }),
      });
      await inWorld(
        world,
        async (manager) => expect((await caught(manager.connect('w'))).code, name).toBe('POLICY_DENIED'),
        { policy },
      );
    }
    expect(denied.hits).toEqual([]);
  });

  test('B-109 mcp:AUTH-21 cookies of either server come back to neither', async () => {
    const bake = (_: Hit, response: ServerResponse) => void response.setHeader('set-cookie', 'a=b; Path=/');
    const world = await authorizationWorld({ takeOver: bake, takeOverMcp: bake });
    await inWorld(world, async (manager) => {
      await manager.connect('w');
      world.tokens.clear();
      await call(manager);
      const ours = [...world.hits, ...world.mcpHits].filter(({ path }) => path !== '/authorize');
      expect(ours.length).toBeGreaterThan(6);
      for (const { headers } of ours) expect(headers).not.toHaveProperty('cookie');
    });
  });

  test('B-130 a refused verifier is no reason to go on without one', async () => {
    const world = await authorizationWorld({
      takeOver: (hit, response) =>
        hit.path === '/token'
          ? json(response, 400, { error: 'invalid_request', error_description: 'code_verifier is unknown' })
          : false,
    });
    await inWorld(world, async (manager) => {
      expect(await caught(manager.connect('w'))).toMatchObject({ code: 'AUTH_FAILED' });
      expect(world.at('/token').map(({ form }) => form.has('code_verifier'))).toEqual([true]);
      expect(world.at('/authorize')[0].query.get('code_challenge_method')).toBe('S256');
    });
  });
});

test('B-135 mcp:AUTH-04 mcp:SEC-31 two servers of one origin have a token each', async () => {
  const world: World = await authorizationWorld({
    path: '/a',
    takeOverMcp: (hit, response) => {
      if (hit.path === '/.well-known/oauth-protected-resource/b') {
        const document = { resource: `${world.origin}/b`, authorization_servers: [world.issuer] };
        return json(response, 200, document);
      }
      // Served as the other one is, under a path of its own.
      if (hit.path === '/b') hit.path = '/a';
      else if (hit.path === '/a') ownHits.push(hit);
      return false;
    },
  });
  const ownHits: Hit[] = [];
  const shown = (hits: Hit[]) => new Set(hits.map(({ headers }) => headers.authorization).filter(Boolean));
  const b = { type: 'http' as const, url: '' };
  const both = async (manager: McpManager) => {
    await manager.connect('w');
    await manager.addServer('b', { ...b, url: `${world.origin}/b` });
    await manager.connect('b');
    await manager.callTool('mcp__b__echo', {});
    await call(manager);
    const own = shown(ownHits);
    const others = shown(world.mcpHits.filter((hit) => !ownHits.includes(hit)));
    expect([own.size, others.size]).toEqual([1, 1]);
    expect(own).not.toEqual(others);
    const resources = world.at('/token').map(({ form }) => form.get('resource'));
    expect(resources).toEqual([`${world.origin}/a`, `${world.origin}/b`]);
  };
  await inWorld(world, both);
});

test('mcp:DPOP-03 a nonce that comes with any answer goes with the next proof', async () => {
  let refused = 0;
  let count = 0;
  const world: World = await authorizationWorld({
    takeOver: (hit, response) =>
      hit.path === '/token'
        ? json(response, 200, { access_token: 'bound-token', token_type: 'DPoP' })
        : false,
    takeOverMcp: (hit, response) => {
      if (hit.path !== '/mcp' || hit.headers.authorization !== 'DPoP bound-token') return false;
      const [, claims] = String(hit.headers.dpop).split('.');
      const { nonce } = JSON.parse(Buffer.from(claims, 'base64url').toString()) as { nonce?: string };
      if (hit.body.includes('"tools/call"') && nonce !== `nonce-${count}`) {
        refused += 1;
        const wants = { 'www-authenticate': 'DPoP error="use_dpop_nonce"', 'dpop-nonce': `nonce-${count}` };
        return json(response, 401, {}, wants);
      }
      if (hit.body.includes('"tools/call"')) count += 1;
      response.setHeader('dpop-nonce', `nonce-${count}`);
      hit.headers.authorization = 'Bearer bound-token';
      return false;
    },
  });
  world.tokens.add('bound-token');
  await inWorld(
    world,
    async (manager) => {
      await manager.connect('w');
      for (let round = 0; round < 5; round++) await call(manager);
      expect([count, refused]).toEqual([5, 0]);
    },
    { oauth: { dpop: true } },
  );
});

describe('B-142 SEC-03 a server that repeats what it was sent', () => {
  const pem = () => {
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    return privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  };
  const secret = { clientId: 'machine', clientSecret: 'machine-secret' };
  const basic = { ...secret, clientCredentials: { method: 'basic' as const } };
  const jwt = { method: 'private_key_jwt' as const, algorithm: 'ES256' };
  const bare = (hit: Hit) => (hit.headers.authorization ?? '').replace('Basic ', '');
  test.each<[string, () => OAuthConfig, (hit: Hit) => string]>([
    ['the header', () => basic, bare],
    ['what the header says', () => basic, (hit) => Buffer.from(bare(hit), 'base64').toString()],
    ['the body', () => ({ ...secret, clientCredentials: { method: 'post' } }), (hit) => hit.body.slice(-100)],
    ['the proof', () => ({ ...basic, dpop: true }), (hit) => String(hit.headers.dpop)],
    [
      'the assertion',
      () => ({ clientId: 'machine', clientCredentials: { ...jwt, privateKeyPem: pem() } }),
      (hit) => hit.form.get('client_assertion') ?? '',
    ],
    [
      'the token of a workload',
      () => ({ clientId: 'machine', workloadIdentity: { assertion: 'workload-assertion' } }),
      (hit) => hit.form.get('assertion') ?? '',
    ],
  ])('%s', async (_, oauth, repeated) => {
    let said = '';
    const world = await authorizationWorld({
      takeOver: (hit, response) => {
        if (hit.path !== '/token') return false;
        said = repeated(hit);
        // Also where a code should stand.
        const error = world.at('/token').length > 1 ? said : 'invalid_request';
        return json(response, 400, { error, error_description: said });
      },
    });
    const auditLog = join(temporaryDirectory(), 'audit.jsonl');
    const seen: unknown[] = [];
    await inWorld(
      world,
      async (manager) => {
        for (const name of ['status', 'log', 'diagnostic'] as const) {
          manager.on(name, (event: object) => void seen.push(event));
        }
        for (const again of [() => manager.connect('w'), () => manager.authenticate('w')]) {
          const error = await caught(again());
          expect(error).toMatchObject({ code: 'AUTH_FAILED' });
          seen.push(inspect(error, { depth: 9 }), error, manager.status(), manager.doctor());
        }
        expect(world.at('/token').length).toBeGreaterThan(1);
      },
      { oauth: oauth(), auditLog },
    );
    const text = JSON.stringify(seen) + readFileSync(auditLog, 'utf8');
    expect(text).toContain('invalid_request');
    expect(said.length).toBeGreaterThan(10);
    for (const part of [said, said.slice(0, 200), 'machine-secret']) expect(text).not.toContain(part);
  });
});
