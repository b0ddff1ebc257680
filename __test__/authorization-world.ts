/**
 * A server that wants logins and the authorization server it names, both of this process and on this machine, as good
 * or as hostile as a test needs: every document and every endpoint can be changed or taken over.
 */
import { createHash, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import { createServer as createSecureServer, get as secureGet } from 'node:https';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';
import { WebSocketServer } from 'ws';
import type { HttpServerConfig, McpManager, McpManagerOptions, OAuthConfig } from '..';
import { fixture, withManager } from './harness';

/** A request as it came in. */
export interface Hit {
  method: string;
  path: string;
  query: URLSearchParams;
  headers: IncomingHttpHeaders;
  body: string;
  /** The body as a form. */
  form: URLSearchParams;
}

/** Takes a request over; `true` says that it was answered. */
export type TakeOver = (hit: Hit, response: ServerResponse) => boolean | void | Promise<boolean | void>;

export interface WorldOptions {
  /** Path of the MCP endpoint. */
  path?: string;
  /** Whether both speak TLS, with a certificate that nobody vouches for. */
  secure?: boolean;
  /** Client ids that are known beforehand, without a secret. */
  clients?: string[];
  /** Seconds that tokens count; nothing is told where it is `null`. */
  life?: number | null;
  /** Whether refresh tokens are used once, and using one twice ends the whole family. */
  rotate?: boolean;
  /** Changes the metadata of the resource; `null` is a 404. */
  resource?: (document: Record<string, unknown>) => Record<string, unknown> | null;
  /** Changes the metadata of the authorization server; `null` is a 404. */
  issuer?: (document: Record<string, unknown>) => Record<string, unknown> | null;
  /** `iss` of the answer to a login; nothing is sent where it is absent. */
  iss?: (issuer: string) => string;
  /** Value of `WWW-Authenticate` of a 401. */
  challenge?: (origin: string) => string | string[];
  /** Scopes that calls of tools need; a token without gets a 403. */
  callScope?: string;
  /** Challenge of a 403 to an upgrade with this token, if it is to be refused. */
  upgradeChallenge?: (token: string) => string | undefined;
  /** Before the authorization server answers. */
  takeOver?: TakeOver;
  /** Before the MCP server answers. */
  takeOverMcp?: TakeOver;
}

interface Family {
  dead: boolean;
}

/** What a test sees and changes. */
export interface World {
  /** URL of the MCP server. */
  url: string;
  /** Origin of the MCP server. */
  origin: string;
  /** Issuer. */
  issuer: string;
  options: WorldOptions;
  /** Requests to the authorization server. */
  hits: Hit[];
  /** Requests to the MCP server. */
  mcpHits: Hit[];
  /** Access tokens that count. */
  tokens: Set<string>;
  /** Every secret that was given out. */
  secrets: Set<string>;
  /** Refreshes that succeeded. */
  refreshes: number;
  /** Access tokens whose life is over. */
  expiries: number;
  /** Families that were ended because a refresh token came twice. */
  killed: number;
  /** Hits of a path at the authorization server. */
  at(path: string): Hit[];
  /** The certificate of `secure`, as PEM text. */
  certificate: string;
  /** Scope that a token was given for. */
  scopeOf(token: string): string | undefined;
  /** Follows the authorization URL as a browser that agrees would; gives where it is sent back to. */
  visit(request: { url: string }): Promise<string>;
}

type Answer = (hit: Hit, response: ServerResponse) => Promise<void>;

const certificate = readFileSync(fixture('tls/localhost-cert.pem'), 'utf8');
const key = readFileSync(fixture('tls/localhost-key.pem'), 'utf8');

function hitOf(request: IncomingMessage, body: string): Hit {
  const url = new URL(request.url ?? '/', 'http://x');
  return {
    method: request.method ?? '',
    path: url.pathname,
    query: url.searchParams,
    headers: request.headers,
    body,
    form: new URLSearchParams(body),
  };
}

async function listen(answer: Answer, secure = false): Promise<{ origin: string; server: Server }> {
  const take = (request: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      void answer(hitOf(request, Buffer.concat(chunks).toString()), response);
    });
  };
  const server: Server = secure ? createSecureServer({ cert: certificate, key }, take) : createServer(take);
  server.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { origin: secure ? `https://localhost:${port}` : `http://127.0.0.1:${port}`, server };
}

export function json(response: ServerResponse, status: number, body: unknown, headers = {}): true {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify(body));
  return true;
}

/** Starts a server that counts requests and answers each with 200; nobody should come by. */
export async function trap(): Promise<{ origin: string; hits: Hit[] }> {
  const hits: Hit[] = [];
  const { origin } = await listen(async (hit, response) => {
    hits.push(hit);
    json(response, 200, {});
  });
  return { origin, hits };
}

export async function authorizationWorld(options: WorldOptions = {}): Promise<World> {
  const path = options.path ?? '/mcp';
  const codes = new Map<string, { challenge: string; client: string; redirect: string; scope: string }>();
  const clients = new Map<string, string | undefined>();
  const refresh = new Map<string, { family: Family; used: boolean; scope: string }>();
  const scopes = new Map<string, string>();
  const families = new Map<string, Family>();
  const world = { options, hits: [], mcpHits: [], refreshes: 0, expiries: 0, killed: 0 } as unknown as World;
  world.tokens = new Set();
  world.secrets = new Set();
  const secret = (kind: string): string => {
    const text = `${kind}-${randomUUID()}`;
    world.secrets.add(text);
    return text;
  };

  const grant = (family: Family, scope: string): Record<string, unknown> => {
    const access = secret('access');
    const next = secret('refresh');
    world.tokens.add(access);
    scopes.set(access, scope);
    families.set(access, family);
    refresh.set(next, { family, used: false, scope });
    const life = options.life === undefined ? 3600 : options.life;
    const end = () => {
      world.tokens.delete(access);
      world.expiries++;
    };
    if (life !== null) setTimeout(end, life * 1000).unref();
    return {
      access_token: access,
      token_type: 'Bearer',
      refresh_token: next,
      ...(life === null ? {} : { expires_in: life }),
      ...(scope === '' ? {} : { scope }),
    };
  };

  const token = (hit: Hit, response: ServerResponse): true => {
    const { form } = hit;
    const basic = /^Basic (.*)$/.exec(hit.headers.authorization ?? '')?.[1];
    const client = basic
      ? decodeURIComponent(Buffer.from(basic, 'base64').toString().split(':')[0])
      : (form.get('client_id') ?? '');
    if (!clients.has(client)) return json(response, 401, { error: 'invalid_client' });
    if (form.get('grant_type') === 'authorization_code') {
      const code = codes.get(form.get('code') ?? '');
      const verifier = createHash('sha256')
        .update(form.get('code_verifier') ?? '')
        .digest('base64url');
      const fits = code?.challenge === verifier && code.redirect === form.get('redirect_uri');
      if (!fits || code.client !== client) return json(response, 400, { error: 'invalid_grant' });
      codes.delete(form.get('code') ?? '');
      return json(response, 200, grant({ dead: false }, code.scope));
    }
    const known = refresh.get(form.get('refresh_token') ?? '');
    if (known === undefined || known.family.dead) return json(response, 400, { error: 'invalid_grant' });
    if (known.used && options.rotate) {
      known.family.dead = true;
      world.killed++;
      for (const [access, family] of families) if (family === known.family) world.tokens.delete(access);
      return json(response, 400, { error: 'invalid_grant' });
    }
    known.used = true;
    world.refreshes++;
    return json(response, 200, grant(known.family, known.scope));
  };

  const authorize = (hit: Hit, response: ServerResponse): true => {
    const code = secret('code');
    const redirect = hit.query.get('redirect_uri') ?? '';
    codes.set(code, {
      challenge: hit.query.get('code_challenge') ?? '',
      client: hit.query.get('client_id') ?? '',
      redirect,
      scope: hit.query.get('scope') ?? '',
    });
    const back = new URL(redirect);
    back.searchParams.set('code', code);
    back.searchParams.set('state', hit.query.get('state') ?? '');
    world.secrets.add(hit.query.get('state') ?? '');
    if (options.iss) back.searchParams.set('iss', options.iss(world.issuer));
    response.writeHead(302, { location: back.href }).end();
    return true;
  };

  const register = (hit: Hit, response: ServerResponse): true => {
    const asked = JSON.parse(hit.body) as Record<string, unknown>;
    const id = `client-${randomUUID()}`;
    clients.set(id, undefined);
    return json(response, 201, { ...asked, client_id: id });
  };

  const authorization = await listen(async (hit, response) => {
    world.hits.push(hit);
    if (await options.takeOver?.(hit, response)) return;
    if (hit.path === '/.well-known/oauth-authorization-server') {
      const document = {
        issuer: world.issuer,
        authorization_endpoint: `${world.issuer}/authorize`,
        token_endpoint: `${world.issuer}/token`,
        registration_endpoint: `${world.issuer}/register`,
        revocation_endpoint: `${world.issuer}/revoke`,
        code_challenge_methods_supported: ['S256'],
        token_endpoint_auth_methods_supported: ['none', 'client_secret_basic'],
      };
      const changed = options.issuer ? options.issuer(document) : document;
      return void (changed === null ? json(response, 404, {}) : json(response, 200, changed));
    }
    if (hit.path === '/authorize') return void authorize(hit, response);
    if (hit.path === '/token') return void token(hit, response);
    if (hit.path === '/register') return void register(hit, response);
    if (hit.path === '/revoke') return void json(response, 200, {});
    json(response, 404, {});
  }, options.secure);

  world.issuer = authorization.origin;

  const mcp = await listen(async (hit, response) => {
    world.mcpHits.push(hit);
    if (await options.takeOverMcp?.(hit, response)) return;
    if (hit.path === `/.well-known/oauth-protected-resource${path}`) {
      const document = { resource: world.url, authorization_servers: [world.issuer] };
      const changed = options.resource ? options.resource(document) : document;
      return void (changed === null ? json(response, 404, {}) : json(response, 200, changed));
    }
    if (hit.path !== path) return void json(response, 404, {});
    const bearer = /^Bearer (.*)$/.exec(hit.headers.authorization ?? '')?.[1] ?? '';
    if (!world.tokens.has(bearer)) {
      const challenge = options.challenge?.(world.origin) ?? 'Bearer';
      return void json(response, 401, {}, { 'www-authenticate': challenge });
    }
    if (hit.method !== 'POST') return void response.writeHead(405).end();
    const message = JSON.parse(hit.body) as { id?: number; method: string };
    if (message.id === undefined) return void response.writeHead(202).end();
    const wanted = options.callScope;
    if (message.method === 'tools/call' && wanted && !scopes.get(bearer)?.split(' ').includes(wanted)) {
      const challenge = `Bearer error="insufficient_scope", scope="${wanted}"`;
      return void json(response, 403, {}, { 'www-authenticate': challenge });
    }
    const result = RESULTS[message.method];
    const answer = result === undefined ? { error: { code: -32601, message: 'no such method' } } : { result };
    json(response, 200, { jsonrpc: '2.0', id: message.id, ...answer });
  }, options.secure);
  world.origin = mcp.origin;
  world.url = `${world.origin}${path}`;
  serveSockets(mcp.server, world);
  world.at = (wanted) => world.hits.filter((hit) => hit.path === wanted);
  world.certificate = certificate;
  world.scopeOf = (given) => scopes.get(given);
  world.visit = async ({ url }) => {
    if (options.secure) {
      return new Promise((resolve, reject) => {
        secureGet(url, { ca: certificate }, ({ headers }) => resolve(headers.location ?? '')).once(
          'error',
          reject,
        );
      });
    }
    const response = await fetch(url, { redirect: 'manual' });
    return response.headers.get('location') ?? '';
  };
  /** Forgets every registered client. */
  (world as World & { forget: () => void }).forget = () => clients.clear();
  /** Knows a client beforehand. */
  clients.set('known-client', 'known-secret');
  for (const id of options.clients ?? []) clients.set(id, undefined);
  return world;
}

/** The same server over a WebSocket: its upgrade wants a token. */
function serveSockets(server: Server, world: World): void {
  const sockets = new WebSocketServer({ noServer: true });
  onTestFinished(() => {
    for (const socket of sockets.clients) socket.terminate();
  });
  server.on('upgrade', (request, socket, head) => {
    const hit = hitOf(request, '');
    world.mcpHits.push(hit);
    const bearer = /^Bearer (.*)$/.exec(hit.headers.authorization ?? '')?.[1] ?? '';
    const { challenge, upgradeChallenge } = world.options;
    const refuse = (status: string, wants: string) => {
      const fields = [`WWW-Authenticate: ${wants}`, 'Content-Length: 0', 'Connection: close'];
      socket.end(`HTTP/1.1 ${status}\r\n${fields.join('\r\n')}\r\n\r\n`);
    };
    if (!world.tokens.has(bearer)) {
      return refuse('401 Unauthorized', String(challenge?.(world.origin) ?? 'Bearer'));
    }
    const wants = upgradeChallenge?.(bearer);
    if (wants !== undefined) return refuse('403 Forbidden', wants);
    sockets.handleUpgrade(request, socket, head, (peer) => {
      peer.on('message', (data) => {
        const { id, method } = JSON.parse(String(data)) as { id?: number; method: string };
        if (id !== undefined)
          peer.send(JSON.stringify({ jsonrpc: '2.0', id, result: RESULTS[method] ?? {} }));
      });
    });
  });
}

/** A manager with one server `w` that follows authorization URLs by itself. */
export function inWorld<T>(
  world: World,
  body: (manager: McpManager) => Promise<T>,
  options: McpManagerOptions & { oauth?: OAuthConfig | false; server?: Partial<HttpServerConfig> } = {},
): Promise<T> {
  const { oauth, server, ...rest } = options;
  const w: HttpServerConfig = { type: 'http', url: world.url, oauth, ...server };
  return withManager(
    { onAuthorizationUrl: (request) => world.visit(request), ...rest, servers: { w } },
    body,
  );
}

/** A call of the one tool of the server `w`. */
export const call = (manager: McpManager) => manager.callTool('mcp__w__echo', {});

const RESULTS: Record<string, unknown> = {
  initialize: {
    protocolVersion: '2025-11-25',
    capabilities: { tools: {} },
    serverInfo: { name: 'world', version: '1' },
  },
  'tools/list': { tools: [{ name: 'echo', inputSchema: { type: 'object' } }] },
  'tools/call': { content: [{ type: 'text', text: 'hello' }] },
};
