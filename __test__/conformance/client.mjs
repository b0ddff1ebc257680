// The program that the official conformance suite drives: a host with one server and one configuration for all
// scenarios. The scenario's name decides only what is asked of the server and which credentials there are; the era and
// the revision of the protocol are found out, never told.
//
// Called by the suite with the server's URL as last argument, `MCP_CONFORMANCE_SCENARIO` and, for some scenarios,
// `MCP_CONFORMANCE_CONTEXT` (JSON) in the environment. Exits with 0 when everything asked for was answered.

import switchboard from '../../index.js';

const { McpManager, version } = switchboard;
/** Name of the only server; its tools are `mcp__suite__…`. */
const SERVER = 'suite';

/** Asks the authorization server as a browser would: the address it sends the user back to is the answer. */
async function visit({ url, signal }) {
  const response = await fetch(url, { redirect: 'manual', signal });
  const location = response.headers.get('location');
  if (location === null)
    throw new Error(`no way back from the authorization server: HTTP ${response.status}`);
  return new URL(location, url).href;
}

/** Answers of the person: agreement where there is a question, and nothing typed where fields have defaults. */
function agree({ mode, requestedSchema }) {
  if (mode !== 'form') return { action: 'decline' };
  const asked = Object.entries(requestedSchema.properties ?? {});
  const needed = asked.filter(([name, field]) => !('default' in field) && isRequired(requestedSchema, name));
  return {
    action: 'accept',
    content: Object.fromEntries(needed.map(([name, field]) => [name, sample(field)])),
  };
}

function isRequired(schema, name) {
  return schema.required?.includes(name) ?? false;
}

/** A value that fits a field of a form. */
function sample({ type, minimum }) {
  if (type === 'boolean') return true;
  if (type === 'number' || type === 'integer') return minimum ?? 1;
  return 'sample';
}

/** Credentials of the scenarios that come with some; every other one is registered by the library itself. */
const CREDENTIALS = {
  'auth/basic-cimd': () => ({ clientMetadataUrl: 'https://conformance-test.local/client-metadata.json' }),
  'auth/pre-registration': ({ client_id, client_secret }) => ({
    clientId: client_id,
    clientSecret: client_secret,
  }),
  'auth/client-credentials-basic': ({ client_id, client_secret }) => ({
    clientId: client_id,
    clientSecret: client_secret,
    clientCredentials: { method: 'basic' },
  }),
  'auth/client-credentials-jwt': ({ client_id, private_key_pem, signing_algorithm }) => ({
    clientId: client_id,
    clientCredentials: {
      method: 'private_key_jwt',
      privateKeyPem: private_key_pem,
      algorithm: signing_algorithm ?? 'ES256',
    },
  }),
  'auth/enterprise-managed-authorization': (context) => ({
    clientId: context.client_id,
    clientSecret: context.client_secret,
    enterpriseManaged: {
      idpIssuer: context.idp_issuer,
      idpTokenEndpoint: context.idp_token_endpoint,
      idpClientId: context.idp_client_id,
      idToken: context.idp_id_token,
    },
  }),
  'auth/wif-jwt-bearer': ({ client_id, valid_jwt }) => ({
    clientId: client_id,
    workloadIdentity: { assertion: valid_jwt },
  }),
  'auth/dpop': () => ({ dpop: true }),
  'auth/dpop-nonce': () => ({ dpop: true }),
};

/** What is asked of the server; `null` when connecting is all. */
const PLANS = {
  initialize: null,
  tools_call: (manager) => call(manager, 'add_numbers', { a: 5, b: 3 }),
  'elicitation-sep1034-client-defaults': (manager) => call(manager, 'test_client_elicitation_defaults'),
  'sse-retry': (manager) => call(manager, 'test_reconnection'),
  'request-metadata': (manager) => manager.listTools(),
  'sep-2322-client-request-state': askBack,
  'http-standard-headers': useEverything,
  'http-custom-headers': replay,
  'http-invalid-tool-headers': callAllTools,
  'json-schema-ref-no-deref': (manager) => manager.listTools(),
  'json-schema-2020-12-preservation': echoSchema,
  'sep-2640-client-no-prefetch': (manager) => manager.listSkills(),
  'sep-2640-client-verify-digest': useSkills,
  'sep-2640-client-verify-size': useSkills,
  'sep-2640-client-verify-frontmatter': useSkills,
};

/** Lists first, as a host does that offers tools to a model, then calls. */
async function call(manager, tool, args) {
  await manager.listTools();
  return manager.callTool({ server: SERVER, tool }, args);
}

async function askBack(manager) {
  await manager.listTools();
  // One after another: the last two show what is left over from the first two.
  for (const tool of [
    'test_mrtr_echo_state',
    'test_mrtr_no_state',
    'test_mrtr_unrelated',
    'test_mrtr_no_result_type',
  ]) {
    await manager.callTool({ server: SERVER, tool });
  }
}

async function useEverything(manager) {
  for (const { name, mcpInfo } of await manager.listTools()) {
    // Those that this package adds for resources are no tools of the server.
    if (!mcpInfo.toolName.startsWith('mcp_')) await manager.callTool(name);
  }
  for (const { uri } of await manager.listResources()) await manager.readResource(SERVER, uri);
  for (const { name } of await manager.listPrompts()) await manager.getPrompt(name);
}

async function replay(manager, { toolCalls }) {
  await manager.listTools();
  for (const { name, arguments: args } of toolCalls) {
    await manager.callTool({ server: SERVER, tool: name }, args);
  }
}

async function callAllTools(manager) {
  const tools = await manager.listTools();
  for (const { name } of tools) await manager.callTool(name, { region: 'us-west1' });
}

async function echoSchema(manager) {
  const tools = await manager.listTools();
  const { inputSchema, rawInputSchema } = tools.find(
    ({ mcpInfo }) => mcpInfo.toolName === 'json_schema_2020_12_tool',
  );
  const schema = rawInputSchema ?? inputSchema;
  await manager.callTool({ server: SERVER, tool: 'json_schema_echo' }, { schema });
}

/** Loads every skill, and goes on to a file of it only when it proved to be what was listed. */
async function useSkills(manager) {
  for (const { name } of await manager.listSkills()) {
    const loaded = await manager.loadSkill(SERVER, name).catch((error) => void console.error(String(error)));
    await loaded?.read('references/FORMS.md');
  }
}

async function main(scenario, context, url) {
  const manager = new McpManager({
    config: false,
    clientInfo: { name: 'mcp-switchboard-conformance', version },
    permissions: { allow: [`mcp__${SERVER}`] },
    onElicitation: agree,
    onSampling: () => {
      throw new Error('no model here');
    },
    onAuthorizationUrl: visit,
    servers: { [SERVER]: { type: 'http', url, oauth: CREDENTIALS[scenario]?.(context) } },
  });
  const plan = scenario in PLANS ? PLANS[scenario] : (host) => call(host, 'test-tool');
  manager.on('diagnostic', ({ level, code, message }) => console.error(`${level} ${code}: ${message}`));
  try {
    const status = await manager.connect(SERVER);
    console.log(`${status.transport} ${status.era} ${status.protocolVersion}`);
    await plan?.(manager, context);
  } finally {
    await manager.close();
  }
}

const { MCP_CONFORMANCE_SCENARIO: scenario = '', MCP_CONFORMANCE_CONTEXT: context = '{}' } = process.env;
try {
  await main(scenario, JSON.parse(context), process.argv.at(-1));
} catch (error) {
  console.error(error);
  process.exitCode = 1;
}
