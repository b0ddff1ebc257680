'use strict';
// The servers of a manager in a tree of React components: one provider at the top, hooks below (USE-02). React is the
// program's own, looked for when it is first needed, so that everybody else can do without it. Nothing native is loaded
// here: the manager comes from the program.

const { storeOf } = require('./store.js');

let made;

/** React, and the one context of this module. */
function react() {
  made ??= make(load());
  return made;
}

function load() {
  try {
    return require('react');
  } catch (cause) {
    if (cause.code !== 'MODULE_NOT_FOUND') throw cause;
    throw new Error(
      'mcp-switchboard/react needs the package "react", 18 or newer; install it in your program',
      {
        cause,
      },
    );
  }
}

function make(React) {
  const Context = React.createContext(undefined);
  Context.displayName = 'McpConnection';
  return { React, Context };
}

function McpConnectionProvider({ manager, children }) {
  const { React, Context } = react();
  return React.createElement(Context.Provider, { value: storeOf(manager) }, children);
}

function useStore(hook) {
  const { React, Context } = react();
  const store = React.useContext(Context);
  if (store === undefined)
    throw new Error(`${hook}() works inside of <McpConnectionProvider manager={…}> only`);
  return store;
}

function useMcpServers() {
  const { subscribe, servers } = useStore('useMcpServers');
  return react().React.useSyncExternalStore(subscribe, servers, servers);
}

function useMcpReconnect() {
  return useStore('useMcpReconnect').reconnect;
}

function useMcpToggle() {
  return useStore('useMcpToggle').toggle;
}

exports.McpConnectionProvider = McpConnectionProvider;
exports.useMcpReconnect = useMcpReconnect;
exports.useMcpServers = useMcpServers;
exports.useMcpToggle = useMcpToggle;
