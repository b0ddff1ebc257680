/** The rules of logins one by one, against an authorization server that tells what it was asked (mcp:AUTH-*). */
import { writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { authorizationWorld, call, inWorld, json, trap, type World } from './authorization-world';
import { caught, eventually, faulty, pause, temporaryDirectory, withManager } from './harness';

const wellKnown = (world: World) =>
  [...world.mcpHits, ...world.hits].filter(({ path }) => path.includes('/.well-known/'));

describe('tokens on their way', () => {
  test('mcp:AUTH-02 mcp:AUTH-03 mcp:AUTH-04 every request carries the token in its header, and nowhere else', async () => {
    const world = await authorizationWorld({
      takeOverMcp: (hit, response) => {
        const authorized = world.tokens.has((hit.headers.authorization ?? '').replace('Bearer ', ''));
        if (!authorized || !hit.body.includes('"initialize"')) return false;
        const { id } = JSON.parse(hit.body) as { id: number };
        const result = {
          protocolVersion: '2025-11-25',
          capabilities: { tools: {} },
          serverInfo: { name: 'world', version: '1' },
        };
        return json(response, 200, { jsonrpc: '2.0', id, result }, { 'mcp-session-id': 'session-1' });
      },
    });
    await inWorld(world, async (manager) => {
      await manager.connect('w');
      await call(manager);
      await eventually(() => world.mcpHits.some(({ method }) => method === 'GET'));
    });
    const first = world.mcpHits.findIndex(({ headers }) => headers.authorization !== undefined);
    const sent = world.mcpHits.slice(first).filter(({ path }) => path === '/mcp');
    expect(new Set(sent.map(({ method }) => method))).toEqual(new Set(['POST', 'GET', 'DELETE']));
    for (const hit of sent) expect(hit.headers.authorization).toMatch(/^Bearer access-/);
    for (const hit of world.mcpHits) {
      for (const secret of world.secrets) expect(String(hit.query) + hit.body).not.toContain(secret);
    }
  });

  test('mcp:AUTH-21 A5 documents are asked for without credentials, and bounded', async () => {
    const world = await authorizationWorld();
    const server = { headers: { 'X-Api-Key': 'own-api-key' } };
    await inWorld(world, async (manager) => void (await manager.connect('w')), { server });
    expect(wellKnown(world).length).toBeGreaterThanOrEqual(2);
    for (const { headers } of wellKnown(world)) {
      expect(headers).not.toHaveProperty('authorization');
      expect(headers).not.toHaveProperty('cookie');
      expect(headers).not.toHaveProperty('x-api-key');
    }
    const huge = await authorizationWorld({
      resource: (document) => ({ ...document, padding: 'x'.repeat(2 * 1024 * 1024) }),
    });
    await inWorld(huge, async (manager) => {
      expect((await caught(manager.connect('w'))).message).toContain('1048576');
      expect(huge.hits).toEqual([]);
    });
  });

  test('mcp:AUTH-64 mcp:AUTH-66 no refresh token, no scope: a new login when the token ends', async () => {
    const world = await authorizationWorld({
      takeOver: (hit, response) => {
        if (hit.path !== '/token') return false;
        const token = `access-${Math.random()}`;
        world.tokens.add(token);
        return json(response, 200, { access_token: token });
      },
    });
    await inWorld(world, async (manager) => {
      await manager.connect('w');
      world.tokens.clear();
      await call(manager);
      expect(world.at('/authorize').length).toBe(2);
      expect(world.at('/token').every(({ form }) => form.get('grant_type') === 'authorization_code')).toBe(
        true,
      );
    });
  });

  test('mcp:AUTH-67 mcp:AUTH-42 a refresh goes where the token came from, with client and resource, and no wider scope', async () => {
    const world = await authorizationWorld({ challenge: () => 'Bearer scope="read"' });
    await inWorld(world, async (manager) => {
      await manager.connect('w');
      world.tokens.clear();
      await call(manager);
      const [login, refresh] = world.at('/token').map(({ form }) => form);
      expect(Object.fromEntries(refresh)).toMatchObject({
        grant_type: 'refresh_token',
        resource: world.url,
        client_id: login.get('client_id'),
      });
      expect(refresh.has('scope')).toBe(false);
      expect(login.get('redirect_uri')).toBe(world.at('/authorize')[0].query.get('redirect_uri'));
    });
  });

  test('A-2 a refresh whose answer is lost is sent once more, and never in a loop', async () => {
    let lose = 1;
    const world = await authorizationWorld({
      rotate: true,
      takeOver: (hit, response) => {
        if (hit.form.get('grant_type') !== 'refresh_token' || lose-- <= 0) return false;
        response.socket?.destroy();
        return true;
      },
    });
    await inWorld(world, async (manager) => {
      await manager.connect('w');
      world.tokens.clear();
      await call(manager);
      expect(world).toMatchObject({ refreshes: 1, killed: 0 });
      world.tokens.clear();
      lose = 99;
      const before = world.at('/token').length;
      expect(await caught(call(manager))).toMatchObject({ code: 'CONNECTION_LOST' });
      expect(world.at('/token').length - before).toBe(2);
      lose = 0;
      await call(manager);
      expect(world.at('/authorize').length).toBe(1);
    });
  });

  test('G10 G13 an outage told as JSON is no refusal either', async () => {
    let broken = false;
    const world = await authorizationWorld({
      takeOver: (hit, response) =>
        broken && hit.path === '/token' ? json(response, 503, { error: 'temporarily_unavailable' }) : false,
    });
    await inWorld(world, async (manager) => {
      await manager.connect('w');
      world.tokens.clear();
      broken = true;
      expect(await caught(call(manager))).toMatchObject({ code: 'HTTP_STATUS', status: 503 });
      broken = false;
      await call(manager);
      expect(world.at('/authorize').length).toBe(1);
    });
  });

  test('G16 a 401 that passes does not stop a server with a header of its own; one that stays is told', async () => {
    let refuse = 1;
    const world = await authorizationWorld({
      takeOverMcp: (hit, response) => {
        if (hit.path === '/mcp' && refuse-- > 0)
          return json(response, 401, {}, { 'www-authenticate': 'Bearer' });
        return false;
      },
    });
    world.tokens.add('static-token');
    const server = { headers: { authorization: 'Bearer static-token' } };
    await inWorld(
      world,
      async (manager) => {
        expect((await manager.connect('w')).state).toBe('connected');
        refuse = 1;
        await call(manager);
        refuse = 99;
        expect(await caught(call(manager))).toMatchObject({ code: 'AUTH_REQUIRED' });
        expect(97 - refuse).toBe(0);
        refuse = 0;
        await manager.reconnect('w');
        expect(manager.status('w')?.state).toBe('connected');
      },
      { server },
    );
  });

  test('G16 a 403 that asks for scopes is a challenge, another one a failure', async () => {
    for (const [challenge, state] of [
      ['Bearer error="insufficient_scope", scope="all"', 'needs-auth'],
      ['Bearer', 'failed'],
    ] as const) {
      const world = await authorizationWorld({
        takeOverMcp: (hit, response) =>
          hit.path === '/mcp' ? json(response, 403, {}, { 'www-authenticate': challenge }) : false,
      });
      await inWorld(
        world,
        async (manager) => {
          await caught(manager.connect('w'));
          expect(manager.status('w')?.state).toBe(state);
          expect(world.hits).toEqual([]);
        },
        { onAuthorizationUrl: undefined },
      );
    }
  });

  test('B-136 a redirect to another origin gets nothing of a request', async () => {
    const target = await trap();
    const world = await authorizationWorld({
      takeOverMcp: (hit, response) => {
        if (hit.path !== '/mcp') return false;
        response.writeHead(307, { location: `${target.origin}/mcp` }).end();
        return true;
      },
    });
    const server = { headers: { 'X-Api-Key': 'own-api-key' } };
    await inWorld(
      world,
      async (manager) => {
        expect(await caught(manager.connect('w'))).toMatchObject({ code: 'REDIRECT_REFUSED' });
        expect(target.hits).toEqual([]);
      },
      { server },
    );
  });
});

describe('finding the authorization server', () => {
  test('A-5 mcp:AUTH-13 mcp:AUTH-18 paths are inserted once, without query, in their order', async () => {
    const world = await authorizationWorld({
      path: '/team/mcp',
      resource: (document) => ({ ...document, authorization_servers: [`${world.issuer}/tenant`] }),
      takeOver: (hit, response) => {
        if (hit.path !== '/tenant/.well-known/openid-configuration') return false;
        return json(response, 200, {
          issuer: `${world.issuer}/tenant`,
          authorization_endpoint: `${world.issuer}/authorize`,
          token_endpoint: `${world.issuer}/token`,
          registration_endpoint: `${world.issuer}/register`,
          code_challenge_methods_supported: ['S256'],
        });
      },
    });
    const server = { url: `${world.url}?team=a` };
    await inWorld(world, async (manager) => void (await manager.connect('w')), { server });
    expect(wellKnown(world).map(({ path, query }) => path + String(query))).toEqual([
      '/.well-known/oauth-protected-resource/team/mcp',
      '/.well-known/oauth-authorization-server/tenant',
      '/.well-known/openid-configuration/tenant',
      '/tenant/.well-known/openid-configuration',
    ]);
  });

  test('A-4 metadata of another issuer is passed over; alone it is refused by both names, unless it is expected', async () => {
    const other = 'https://other.example';
    const world = await authorizationWorld({ issuer: (document) => ({ ...document, issuer: other }) });
    await inWorld(world, async (manager) => {
      const error = await caught(manager.connect('w'));
      expect(error).toMatchObject({ code: 'AUTH_ISSUER_MISMATCH' });
      expect(error.message).toContain(other);
      expect(error.message).toContain(world.issuer);
    });
    const oauth = { expectedIssuer: other };
    await inWorld(world, async (manager) => expect((await manager.connect('w')).state).toBe('connected'), {
      oauth,
    });
    world.options.takeOver = (hit, response) =>
      hit.path === '/.well-known/openid-configuration'
        ? json(response, 200, {
            issuer: world.issuer,
            authorization_endpoint: `${world.issuer}/authorize`,
            token_endpoint: `${world.issuer}/token`,
            registration_endpoint: `${world.issuer}/register`,
            code_challenge_methods_supported: ['S256'],
          })
        : false;
    await inWorld(world, async (manager) => expect((await manager.connect('w')).state).toBe('connected'));
  });

  test('mcp:AUTH-15 mcp:AUTH-16 of several issuers the first is taken, or the one that knows us', async () => {
    const [one, other] = [await authorizationWorld(), await authorizationWorld()];
    let issuers = [one.issuer];
    const world = await authorizationWorld({
      resource: (document) => ({ ...document, authorization_servers: issuers }),
      takeOverMcp: (hit) => {
        for (const token of [...one.tokens, ...other.tokens]) world.tokens.add(token);
        return hit.path === '/never';
      },
    });
    const stateDir = temporaryDirectory();
    const visit = { onAuthorizationUrl: (request: { url: string }) => one.visit(request), stateDir };
    await inWorld(world, async (manager) => void (await manager.connect('w')), visit);
    issuers = [other.issuer, one.issuer];
    one.tokens.clear();
    world.tokens.clear();
    await inWorld(world, async (manager) => void (await manager.connect('w')), visit);
    expect(one.refreshes).toBe(1);
    expect(other.hits).toEqual([]);
  });

  test('A-18 E15 the authorization server is trusted and reached as the server is: a private CA', async () => {
    const world = await authorizationWorld({ secure: true });
    const fails = await inWorld(world, (manager) => caught(manager.connect('w')));
    expect(fails).toMatchObject({ code: 'TLS_FAILED' });
    await inWorld(
      world,
      async (manager) => {
        expect((await manager.connect('w')).state).toBe('connected');
        await call(manager);
        expect(world.at('/token').length).toBe(1);
      },
      { server: { tls: { ca: world.certificate } } },
    );
  });
});

describe('who we are', () => {
  test('mcp:AUTH-25 mcp:AUTH-26 mcp:AUTH-27 mcp:AUTH-35 a metadata document is used where it is taken, else we register', async () => {
    const clientMetadataUrl = 'https://host.example/client.json';
    for (const taken of [true, false]) {
      const world = await authorizationWorld({
        clients: [clientMetadataUrl],
        issuer: (document) => ({ ...document, client_id_metadata_document_supported: taken }),
      });
      await inWorld(
        world,
        async (manager) => {
          expect((await manager.connect('w')).state).toBe('connected');
          expect(world.at('/register').length).toBe(taken ? 0 : 1);
          expect(world.at('/authorize')[0].query.get('client_id') === clientMetadataUrl).toBe(taken);
        },
        { oauth: { clientMetadataUrl } },
      );
    }
    const world = await authorizationWorld();
    for (const bad of [
      'http://host.example/client.json',
      'https://host.example',
      'https://host.example/#x',
    ]) {
      await inWorld(
        world,
        async (manager) => {
          expect(await caught(manager.connect('w'))).toMatchObject({ code: 'CONFIG_INVALID' });
          expect(world.hits).toEqual([]);
        },
        { oauth: { clientMetadataUrl: bad } },
      );
    }
  });

  test('mcp:AUTH-28 mcp:AUTH-29 a client that was registered beforehand registers no more', async () => {
    const world = await authorizationWorld();
    await inWorld(
      world,
      async (manager) => {
        expect((await manager.connect('w')).state).toBe('connected');
        expect(world.at('/register')).toEqual([]);
        expect(world.at('/authorize')[0].query.get('client_id')).toBe('known-client');
      },
      { oauth: { clientId: 'known-client', clientSecret: 'known-secret' } },
    );
  });

  test('mcp:AUTH-06 mcp:AUTH-49 people come back over https or to this machine, and both requests say so', async () => {
    const world = await authorizationWorld();
    for (const [redirectUri, passes] of [
      ['https://host.example/back', true],
      ['http://localhost:4711/back', true],
      ['http://host.example/back', false],
      ['myapp://back', false],
    ] as const) {
      const before = world.at('/token').length;
      await inWorld(
        world,
        async (manager) => {
          if (!passes) {
            expect(await caught(manager.connect('w'))).toMatchObject({ code: 'CONFIG_INVALID' });
            return;
          }
          expect((await manager.connect('w')).state).toBe('connected');
          expect(world.at('/token')[before].form.get('redirect_uri')).toBe(redirectUri);
          const { application_type: kind } = JSON.parse(world.at('/register').slice(-1)[0].body) as {
            application_type: string;
          };
          expect(kind).toBe(redirectUri.startsWith('https') ? 'web' : 'native');
        },
        { oauth: { redirectUri } },
      );
    }
  });

  test('B-120 mcp:AUTH-50 mcp:SEC-21 what a shell would read is one URL, and nothing is opened by us', async () => {
    const world = await authorizationWorld({
      issuer: (document) => ({
        ...document,
        authorization_endpoint: `${document.issuer}/authorize/$(id)"&touch;|x`,
      }),
    });
    const seen: string[] = [];
    await inWorld(
      world,
      async (manager) => {
        const connecting = caught(manager.connect('w'));
        await eventually(() => seen.length > 0);
        expect(seen[0]).toBe(new URL(seen[0]).href);
        expect(seen[0]).not.toMatch(/["\s<>`]/);
        expect(world.hits.some(({ path }) => path.startsWith('/authorize'))).toBe(false);
        await manager.close();
        await connecting;
      },
      { onAuthorizationUrl: ({ url }) => void seen.push(url) },
    );
  });
});

test('mcp:AUTH-08 a late refusal of an old token refreshes nothing', async () => {
  let hold: ServerResponse | undefined;
  const world = await authorizationWorld({
    takeOverMcp: (hit, response) => {
      if (hold !== undefined || !hit.body.includes('"slow"')) return false;
      hold = response;
      return true;
    },
  });
  await inWorld(world, async (manager) => {
    await manager.connect('w');
    const slow = manager.callTool('mcp__w__echo', { kind: 'slow' });
    await eventually(() => hold !== undefined);
    world.tokens.clear();
    await call(manager);
    expect(world.refreshes).toBe(1);
    json(hold!, 401, {}, { 'www-authenticate': 'Bearer error="invalid_token"' });
    await slow;
    await pause(50);
    expect(world.refreshes).toBe(1);
  });
});

test('mcp:AUTH-01 a server without a URL knows no login', async () => {
  await withManager({ servers: { s: faulty() } }, async (manager) => {
    const error = await caught(manager.authenticate('s'));
    expect(error).toMatchObject({ code: 'AUTH_FAILED', server: 's' });
    expect(error.message).toContain('http, sse or ws');
  });
});

test('G21 H6 a variable that is missing is told before anything is sent, and starts no login', async () => {
  const world = await authorizationWorld();
  const directory = temporaryDirectory();
  const w = { type: 'http', url: world.url, headers: { Authorization: 'Bearer ${NO_SUCH_VARIABLE}' } };
  writeFileSync(join(directory, '.mcp.json'), JSON.stringify({ mcpServers: { w } }));
  await withManager(
    { cwd: directory, config: { homeDir: directory, projectRoot: directory }, onApproval: () => 'approved' },
    async (manager) => {
      await manager.load();
      await manager.connect('w').catch(() => {});
      const report = JSON.stringify(manager.configReport());
      expect(report).toContain('NO_SUCH_VARIABLE');
      expect(world.hits).toEqual([]);
      for (const { headers } of world.mcpHits) expect(headers.authorization).not.toContain('${');
    },
  );
});
