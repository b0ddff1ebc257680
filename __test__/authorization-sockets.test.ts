/** Logins at servers behind a WebSocket: the token travels in the upgrade (OAU-01, OAU-02, WS-01). */
import { expect, test } from 'vitest';
import type { McpManager, McpManagerOptions, OAuthConfig } from '..';
import { authorizationWorld, call, json, type World } from './authorization-world';
import { caught, eventually, nextEvent, temporaryDirectory, withManager } from './harness';

function overSocket<T>(
  world: World,
  body: (manager: McpManager) => Promise<T>,
  { oauth, ...options }: McpManagerOptions & { oauth?: OAuthConfig | false } = {},
): Promise<T> {
  const w = { type: 'ws' as const, url: world.url.replace('http:', 'ws:'), oauth };
  return withManager(
    {
      onAuthorizationUrl: (request) => world.visit(request),
      retry: { initialDelayMs: 20, maxDelayMs: 50 },
      ...options,
      servers: { w },
    },
    body,
  );
}

const upgrades = (world: World) => world.mcpHits.filter(({ headers }) => headers.upgrade === 'websocket');

test('WS-01 OAU-01 mcp:CUST-06 mcp:CUST-07 a 401 to the upgrade leads to a login, and the token goes with the next one', async () => {
  const world = await authorizationWorld();
  await overSocket(world, async (manager) => {
    expect(await manager.connect('w')).toMatchObject({ state: 'connected', tokenStorage: 'memory' });
    await call(manager);
    const shown = upgrades(world).map(({ headers }) => headers.authorization?.slice(0, 13));
    expect(shown).toEqual([undefined, 'Bearer access']);
    expect(world.at('/authorize')[0].query.get('resource')).toBe(world.url);
  });
});

test('WS-01 OAU-02 without a callback the state is needs-auth; authenticate() logs in', async () => {
  const world = await authorizationWorld();
  await overSocket(
    world,
    async (manager) => {
      const asked = nextEvent(manager, 'authRequired');
      expect(await caught(manager.connect('w'))).toMatchObject({ code: 'AUTH_REQUIRED', status: 401 });
      expect(await asked).toMatchObject({ server: 'w' });
      expect(manager.status('w')).toMatchObject({ state: 'needs-auth' });
      expect(world.hits).toEqual([]);
      const status = await manager.authenticate('w', { onAuthorizationUrl: (r) => world.visit(r) });
      expect(status.state).toBe('connected');
      await manager.logout('w');
      expect(world.at('/revoke').length).toBe(2);
      expect(manager.status('w')?.state).not.toBe('connected');
    },
    { onAuthorizationUrl: undefined },
  );
});

test('WS-01 OAU-01 a token that ended meanwhile is refreshed at the upgrade', async () => {
  const world = await authorizationWorld({ rotate: true });
  const stateDir = temporaryDirectory();
  for (let round = 0; round < 2; round++) {
    await overSocket(
      world,
      async (manager) => {
        expect((await manager.connect('w')).state).toBe('connected');
        world.tokens.clear();
      },
      { stateDir },
    );
  }
  expect(world).toMatchObject({ refreshes: 1, killed: 0 });
  expect(world.at('/authorize').length).toBe(1);
});

test('WS-01 HTTP-03 an upgrade that lacks a scope steps up once, with the union', async () => {
  const world = await authorizationWorld({ challenge: () => 'Bearer scope="read"' });
  world.options.upgradeChallenge = (token) =>
    world.scopeOf(token)?.includes('write') ? undefined : 'Bearer error="insufficient_scope", scope="write"';
  await overSocket(world, async (manager) => {
    // The first login was for `read`; what else is needed shows with its token.
    await manager.connect('w').catch(() => manager.connect('w'));
    expect(manager.status('w')?.state).toBe('connected');
    expect(world.at('/authorize').map(({ query }) => query.get('scope'))).toEqual(['read', 'read write']);
  });
  world.options.upgradeChallenge = () => 'Bearer error="insufficient_scope", scope="write"';
  const before = world.at('/authorize').length;
  await overSocket(world, async (manager) => {
    await caught(manager.connect('w'));
    expect(await caught(manager.connect('w'))).toMatchObject({
      code: 'AUTH_SCOPE_INSUFFICIENT',
      requiredScope: 'write',
    });
    expect(world.at('/authorize').length - before).toBeLessThanOrEqual(2);
  });
});

test('WS-01 B-134 metadata may name the socket or the page, and is sent as it stands', async () => {
  for (const scheme of ['ws:', 'http:']) {
    const world = await authorizationWorld({
      resource: (document) => ({ ...document, resource: String(document.resource).replace('http:', scheme) }),
    });
    await overSocket(world, async (manager) => {
      expect((await manager.connect('w')).state).toBe('connected');
      expect(world.at('/token')[0].form.get('resource')).toBe(world.url.replace('http:', scheme));
    });
  }
});

test('WS-01 BEY-11 a machine gets its token for an upgrade', async () => {
  const world = await authorizationWorld({
    takeOver: (hit, response) => {
      if (hit.form.get('grant_type') !== 'client_credentials') return false;
      world.tokens.add('machine-token');
      return json(response, 200, { access_token: 'machine-token', token_type: 'Bearer' });
    },
  });
  const oauth = {
    clientId: 'known-client',
    clientSecret: 'known-secret',
    clientCredentials: { method: 'basic' as const },
  };
  await overSocket(
    world,
    async (manager) => {
      expect((await manager.connect('w')).state).toBe('connected');
      await call(manager);
    },
    { oauth, onAuthorizationUrl: undefined },
  );
});

test('WS-01 B-149 with oauth false, or a header of its own, no login starts', async () => {
  const world = await authorizationWorld();
  await overSocket(
    world,
    async (manager) => {
      expect(await caught(manager.connect('w'))).toMatchObject({ code: 'AUTH_REQUIRED' });
      expect(world.hits).toEqual([]);
      await eventually(() => manager.status('w')?.state === 'needs-auth');
    },
    { oauth: false },
  );
});
