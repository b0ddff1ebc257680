'use strict';
// The animals behind a URL: what each does with a request, on top of a server that is correct otherwise.

const call = (one) => one.method === 'tools/call';
const page = (response, status = 200) =>
  response.writeHead(status, { 'content-type': 'text/html' }).end('<h1>Please log in</h1>');
const stream = (response) => response.writeHead(200, { 'content-type': 'text/event-stream' });

/** Takes over what fits: everything, or calls of tools. */
const everything = (act) => () => (one, response) => {
  act(response, one);
  return true;
};
const calls = (act) => () => (one, response) => {
  if (!call(one)) return false;
  act(response, one);
  return true;
};

/** Name, what makes the `answer` of a server, what it does, and the rule that a host should keep. */
const SERVICES = [
  [
    'http-page',
    everything((response) => page(response)),
    'answers everything with a page, as captive portals do',
    'told as what it is, with its first bytes',
  ],
  [
    'http-not-found',
    everything((response) => response.writeHead(404).end('nothing here')),
    'is not at this path',
    'the error has status and first bytes',
  ],
  [
    'http-busy',
    everything((response) => response.writeHead(503, { 'retry-after': '1' }).end()),
    'is busy for ever, and says for how long',
    '`Retry-After` is kept to, and has a bound',
  ],
  [
    'http-login',
    everything((response) => response.writeHead(401, { 'www-authenticate': 'Bearer' }).end()),
    'wants a login and does not say where',
    'told as a login that is wanted; nothing opens by itself',
  ],
  [
    'http-redirects-away',
    everything((response) => response.writeHead(307, { location: 'http://localhost:9/mcp' }).end()),
    'redirects to another origin',
    'not followed with credentials; the error names the target',
  ],
  ['http-silent', everything(() => {}), 'takes requests and never answers', 'a start has a time limit'],
  [
    'http-call-silent',
    calls((response) => stream(response).flushHeaders()),
    'opens the stream of an answer to a call, and says nothing',
    'silence has a time limit, an open stream or not',
  ],
  [
    'http-call-chatter',
    calls(chatter),
    'keeps the stream of an answer to a call alive with comments for ever',
    'comments are no progress: the limit counts all the same',
  ],
  [
    'http-call-cut',
    calls((response) => {
      response
        .writeHead(200, { 'content-type': 'application/json', 'content-length': '900' })
        .write('{"jsonrpc":"2.0",');
      setTimeout(() => response.destroy(), 20);
    }),
    'cuts the connection inside of an answer to a call',
    'the call fails and says that it may have run; it is not repeated',
  ],
  [
    'http-endless-event',
    calls(endlessEvent),
    'sends one event that never ends',
    'sizes have a bound that is told',
  ],
  [
    'http-wrong-id',
    calls((response, one) => {
      response
        .writeHead(200, { 'content-type': 'application/json' })
        .end(JSON.stringify({ jsonrpc: '2.0', id: `${one.id}-other`, result: {} }));
    }),
    'answers calls under another id',
    'no call is answered by what belongs to none',
  ],
  [
    'http-forgets',
    forgets,
    'forgets each session before its first call, with 404',
    'a new session is made once and the call sent again, not for ever',
  ],
].map(([name, make, does, rule]) => ({ name, make, does, rule }));

function chatter(response) {
  stream(response).flushHeaders();
  const timer = setInterval(() => response.write(': still here\n\n'), 200);
  response.on('close', () => clearInterval(timer));
}

function endlessEvent(response) {
  stream(response).write('data: "');
  const chunk = 'x'.repeat(1 << 16);
  const more = () => {
    while (!response.destroyed && response.write(chunk));
  };
  response.on('drain', more);
  more();
}

function forgets() {
  return (one, response) => {
    if (!call(one)) return false;
    response.writeHead(404).end();
    return true;
  };
}

module.exports = { SERVICES };
