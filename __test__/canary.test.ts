/**
 * Secrets are planted in every place where one may stand, over every transport and in a login; every server tells all
 * that it got in whatever it says. Nothing of that may be in an event, an error, a report, a status, an inspection, on the
 * host's own output, or in a byte of a file but the store of logins (SEC-03, B-142).
 */
import { spawn } from 'node:child_process';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { authorizationWorld, json } from './authorization-world';
import { fixture, temporaryDirectory } from './harness';

/** Every planted secret by where it stands. */
const planted = (place: string) => `${place}-secret-canary`;

/** All that requests told, kept to know that each secret was really used. */
class Gossip {
  heard: string[] = [];
  tell(request: IncomingMessage): string {
    const text = [request.url, ...request.rawHeaders, decodeBasic(request)].join(' ');
    this.heard.push(text);
    return text;
  }
}

const decodeBasic = ({ headers }: IncomingMessage) =>
  [headers.authorization, headers['proxy-authorization']]
    .map((value) => Buffer.from(/^Basic (.*)$/.exec(value ?? '')?.[1] ?? '', 'base64').toString())
    .join(' ');

/** A server that says what it got: in errors of calls and of HTTP, and in the body of a refused upgrade. */
async function gossiping(gossip: Gossip): Promise<string> {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const said = gossip.tell(request);
      if (!request.url?.startsWith('/works')) {
        return void response.writeHead(request.url?.startsWith('/401') ? 401 : 500).end(said);
      }
      if (request.method !== 'POST') return void response.writeHead(405).end(said);
      const { id, method } = JSON.parse(Buffer.concat(chunks).toString()) as { id?: number; method: string };
      if (id === undefined) return void response.writeHead(202).end();
      const results: Record<string, unknown> = {
        initialize: {
          protocolVersion: '2025-11-25',
          capabilities: { tools: {}, logging: {} },
          serverInfo: { name: 'g', version: '1' },
        },
        'tools/list': { tools: [{ name: 'echo', inputSchema: { type: 'object' } }] },
      };
      if (results[method]) return void json(response, 200, { jsonrpc: '2.0', id, result: results[method] });
      const params = { level: 'error', logger: said, data: { said } };
      const told = { jsonrpc: '2.0', method: 'notifications/message', params };
      const error = { jsonrpc: '2.0', id, error: { code: -32000, message: said, data: { said } } };
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end([told, error].map((message) => `data: ${JSON.stringify(message)}\n\n`).join(''));
    });
  });
  server.on('upgrade', (request, socket) => {
    const said = gossip.tell(request);
    socket.end(`HTTP/1.1 403 No\r\nContent-Length: ${Buffer.byteLength(said)}\r\n\r\n${said}`);
  });
  server.on('connect', (request, socket) => {
    const said = gossip.tell(request);
    socket.end(`HTTP/1.1 502 No\r\nContent-Length: ${Buffer.byteLength(said)}\r\n\r\n${said}`);
  });
  server.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Runs the host and gives all that it showed. */
async function shown(
  options: object,
  extra: object = {},
  args: string[] = [],
): Promise<{ text: string; stateDir: string; printed: string }> {
  const directory = temporaryDirectory();
  const stateDir = join(directory, 'state');
  const files = ['options.json', 'seen.txt'].map((name) => join(directory, name));
  const whole = {
    config: false,
    permissions: { allow: ['mcp__*'] },
    stateDir,
    auditArguments: true,
    recordTo: join(directory, 'recording.jsonl'),
    ...options,
  };
  writeFileSync(
    files[0],
    JSON.stringify({ options: { auditLog: join(directory, 'audit.jsonl'), ...whole }, ...extra }),
  );
  const env = { ...process.env, RUST_BACKTRACE: 'full', RUST_LOG: 'trace', DEBUG: '*', NODE_DEBUG: 'mcp' };
  const child = spawn(process.execPath, [...args, fixture('hosts/canary.mjs'), ...files], { env });
  let printed = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (printed += chunk));
  expect(await new Promise((resolve) => child.once('exit', resolve)), printed).toBe(0);
  const seen = [
    readFileSync(files[1], 'utf8'),
    readFileSync(join(directory, 'audit.jsonl'), 'utf8'),
    readFileSync(join(directory, 'recording.jsonl'), 'utf8'),
    printed,
  ];
  const walk = (folder: string): void => {
    for (const name of readdirSync(folder)) {
      const path = join(folder, name);
      if (statSync(path).isDirectory()) walk(path);
      else seen.push(path, readFileSync(path, 'latin1'));
    }
  };
  // Logins are kept there for the owner alone; their store has tests of its own.
  for (const name of readdirSync(stateDir)) {
    const path = join(stateDir, name);
    if (name === 'tokens') continue;
    if (statSync(path).isDirectory()) walk(path);
    else seen.push(path, readFileSync(path, 'latin1'));
  }
  return { text: seen.join('\n'), stateDir, printed };
}

const found = (text: string, secrets: Iterable<string>) =>
  [...secrets].filter((secret) => {
    const forms = [
      secret,
      encodeURIComponent(secret),
      Buffer.from(secret).toString('base64').replace(/=+$/, ''),
    ];
    return forms.some((form) => text.includes(form));
  });

test('SEC-03 B-142 G20 what is configured is in nothing that is shown, over every transport', async () => {
  const gossip = new Gossip();
  const place = await gossiping(gossip);
  const headers = (name: string) => ({
    'X-Api-Key': planted(`${name}-header`),
    Authorization: `Bearer ${planted(`${name}-bearer`)}`,
  });
  const query = (name: string) => `token=${planted(`${name}-query`)}&a=b`;
  const says = `process.stderr.write(process.env.SOME_SETTING + ' ' + process.argv.slice(1).join(' ') + '\\n');
    process.stdout.write('noise ' + process.env.SOME_SETTING + '\\n');
    require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
      const { id } = JSON.parse(line);
      const message = process.env.SOME_SETTING + process.argv.join(' ');
      const params = { level: 'error', logger: message, data: message };
      console.log(JSON.stringify({ jsonrpc: '2.0', method: 'notifications/message', params }));
      if (id !== undefined) console.log(JSON.stringify({ jsonrpc: '2.0', id, error: { code: 1, message } }));
    });`;
  const prints = (name: string) => [
    process.execPath,
    '-e',
    'console.log(JSON.stringify({ "X-Helped": process.argv[2] }))',
    '--',
    '--token',
    planted(name),
  ];
  const servers = {
    stdio: {
      command: process.execPath,
      args: ['-e', says, '--', '--api-key', planted('argument'), `--secret=${planted('flag')}`],
      env: { SOME_SETTING: planted('env') },
    },
    http: { type: 'http', url: `http://${place}/works?${query('http')}`, headers: headers('http') },
    broken: { type: 'http', url: `http://${place}/broken?${query('broken')}`, headers: headers('broken') },
    refused: { type: 'http', url: `http://${place}/401?${query('refused')}`, headers: headers('refused') },
    sse: { type: 'sse', url: `http://${place}/sse?${query('sse')}`, headers: headers('sse') },
    ws: { type: 'ws', url: `ws://${place}/ws?${query('ws')}`, headers: headers('ws') },
    helped: { type: 'http', url: `http://${place}/helped`, headersHelper: prints('helped-http') },
    helpedSocket: { type: 'ws', url: `ws://${place}/helped`, headersHelper: prints('helped-ws') },
    proxied: { type: 'http', url: 'https://a.example/', proxy: `http://user:${planted('proxy')}@${place}` },
    proxiedSocket: {
      type: 'ws',
      url: 'wss://a.example/',
      proxy: `http://user:${planted('proxy-ws')}@${place}`,
    },
    keyed: { type: 'http', url: `https://${place}/`, tls: { key: planted('key'), cert: 'no certificate' } },
    editor: { type: 'sse-ide', url: `http://${place}/ide`, ideName: 'E', authToken: planted('editor') },
    editorSocket: { type: 'ws-ide', url: `ws://${place}/ide`, ideName: 'E', authToken: planted('editor-ws') },
    userinfo: { type: 'http', url: `http://user:${planted('userinfo')}@${place}/works` },
  };
  const { text } = await shown({
    servers,
    reservedServerNames: [],
    retry: { attempts: 0 },
    connectTimeoutMs: 10_000,
  });
  const sent = [
    ...['http', 'broken', 'refused', 'sse', 'ws'].flatMap((name) =>
      ['header', 'bearer', 'query'].map((kind) => planted(`${name}-${kind}`)),
    ),
    ...['helped-http', 'helped-ws', 'proxy', 'proxy-ws', 'editor', 'editor-ws'].map(planted),
  ];
  const heard = gossip.heard.join('\n');
  expect(sent.filter((secret) => !heard.includes(secret))).toEqual([]);
  expect(text).toContain('[REDACTED]');
  for (const name of Object.keys(servers)) expect(text, name).toContain(name);
  const hidden = ['argument', 'flag', 'env', 'key', 'userinfo'].map(planted);
  expect(found(text, [...sent, ...hidden, 'argument-secret-canary'])).toEqual([]);
}, 120_000);

test('SEC-03 B-142 nothing of a login is in anything that is shown, over every transport', async () => {
  for (const type of ['http', 'sse', 'ws'] as const) {
    const secrets = new Set([planted('client')]);
    const world = await authorizationWorld({
      rotate: true,
      takeOver: (hit, response) => {
        for (const name of ['state', 'code', 'code_verifier', 'refresh_token', 'client_secret', 'token']) {
          for (const value of [hit.form.get(name), hit.query.get(name)]) if (value) secrets.add(value);
        }
        // The first login succeeds; everything later is refused with all that was ever said.
        if (hit.path !== '/token' || world.at('/token').length < 2) return false;
        const said = [...secrets, ...world.secrets, hit.body, hit.headers.authorization].join(' ');
        return json(response, 400, { error: 'invalid_request', error_description: said });
      },
      takeOverMcp: (hit, response) => {
        const late = type === 'sse' && world.at('/token').length > 0 && hit.path === '/mcp';
        if (!hit.body.includes('tools/call') && !late) return false;
        const said = `${hit.headers.authorization} ${[...secrets, ...world.secrets].join(' ')}`;
        return json(response, 401, { said }, { 'www-authenticate': `Bearer error_description="${said}"` });
      },
    });
    // Over a WebSocket only the upgrade can be refused.
    world.options.upgradeChallenge = () =>
      `Bearer error="insufficient_scope", scope="more", error_description="${[...secrets, ...world.secrets].join(' ')}"`;
    const url = type === 'ws' ? world.url.replace('http', 'ws') : world.url;
    const oauth = { clientId: 'known-client', clientSecret: planted('client') };
    const { text } = await shown({ servers: { w: { type, url, oauth } }, retry: { attempts: 0 } });
    expect(world.at('/token').length, type).toBeGreaterThan(1);
    const all = [...secrets, ...world.secrets, 'pasted-code-canary'];
    expect(all.length).toBeGreaterThan(5);
    expect(found(text, all).map((secret) => `${type} ${secret.slice(0, 12)}`)).toEqual([]);
  }
}, 120_000);

test("SEC-03 nothing of a machine's proof is in anything that is shown", async () => {
  const assertion = planted('workload');
  const machines = {
    workload: { clientId: 'a', workloadIdentity: { assertion } },
    secret: { clientId: 'a', clientSecret: planted('machine'), clientCredentials: { method: 'post' } },
    key: {
      clientId: 'a',
      clientCredentials: { method: 'private_key_jwt', privateKeyPem: planted('pem'), algorithm: 'ES256' },
    },
    person: {
      clientId: 'a',
      clientSecret: planted('vouched'),
      enterpriseManaged: {
        idpIssuer: 'https://idp.example',
        idpTokenEndpoint: 'http://127.0.0.1:1/token',
        idpClientId: 'b',
        idToken: planted('identity'),
      },
    },
  };
  for (const [name, oauth] of Object.entries(machines)) {
    const world = await authorizationWorld({
      takeOver: (hit, response) =>
        hit.path === '/token' ? json(response, 400, { error: hit.body, error_description: hit.body }) : false,
    });
    const { text } = await shown({
      servers: { [name]: { type: 'http', url: world.url, oauth } },
      retry: { attempts: 0 },
    });
    const secrets = ['workload', 'machine', 'pem', 'vouched', 'identity'].map(planted);
    expect(found(text, secrets), name).toEqual([]);
  }
}, 120_000);

test('SEC-03 PXY-01 the token of an account is in nothing that is shown', async () => {
  const gossip = new Gossip();
  const place = await gossiping(gossip);
  const server = { type: 'claudeai-proxy', url: `http://${place}/works/x`, id: 'x' };
  const broken = { type: 'claudeai-proxy', url: `http://${place}/401`, id: 'y' };
  const { text } = await shown(
    { servers: { server, broken }, retry: { attempts: 0 } },
    { connectorToken: planted('account') },
  );
  expect(gossip.heard.join('\n')).toContain(planted('account'));
  expect(found(text, [planted('account')])).toEqual([]);
}, 60_000);
