'use strict';

const { openBrowser } = require('../browser.js');
const { withManager } = require('../host.js');
const { firstLine } = require('../stdin.js');

module.exports = {
  name: 'auth',
  summary: 'log in at a server',
  usage: ['SERVER'],
  about: [
    'Prints the address where you log in and waits until the browser comes back to this machine, ten minutes at most. If',
    'the browser is on another machine, the page that it ends at does not load: with --redirect-url, hand its address over',
    'on standard input.',
  ],
  positionals: [1, 1],
  options: {
    open: { type: 'boolean', help: 'open the address in the browser of this machine' },
    'redirect-url': {
      type: 'boolean',
      help: 'read the address that the browser ended at from standard input',
    },
    logout: { type: 'boolean', help: 'forget the login instead, and give its tokens back' },
  },
  run: (context) =>
    withManager(context, {}, async (manager) => {
      const [name] = context.positionals;
      const { values, out, signal } = context;
      if (values.logout) {
        await manager.logout(name, { signal });
        return out.answer({ server: name, loggedIn: false }, () => [`logged out of ${name}`]);
      }
      const onAuthorizationUrl = (request) => visit(request, context);
      const status = await manager.authenticate(name, { onAuthorizationUrl, signal });
      const { state, tokenStorage } = status;
      out.answer({ server: name, loggedIn: tokenStorage !== undefined, state, tokenStorage }, () => [
        tokenStorage === undefined
          ? `${name} is ${state}; it wants no login`
          : `logged in at ${name}; the login is kept in ${PLACES[tokenStorage] ?? tokenStorage}`,
      ]);
      return undefined;
    }),
};

const PLACES = {
  keychain: 'a file sealed by the keychain',
  file: 'a file that is not encrypted',
  memory: 'memory, and is gone now',
};

async function visit({ server, url, signal }, context) {
  const { values, out } = context;
  out.ask(`log in at ${server}:\n${url}`);
  if (values.open) openBrowser(url);
  if (!values['redirect-url']) {
    out.note('waiting for the browser to come back (Ctrl+C gives up)');
    return undefined;
  }
  out.note('then paste the address that the browser ended at:');
  return firstLine(context.stdin, AbortSignal.any([signal, context.signal]));
}
