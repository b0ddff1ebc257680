'use strict';
// The zoo: servers that misbehave, each in one way, so that hosts can be tested against them (BEY-09). Nothing native is
// loaded here, and nothing of this package's host.

const { join } = require('node:path');
const { SERVICES } = require('./http.js');
const { smallServer } = require('./http-server.js');
const { PROGRAMS } = require('./stdio.js');

const ANIMALS = new Map(
  [
    ...PROGRAMS.map((animal) => ({ ...animal, transport: 'stdio' })),
    ...SERVICES.map((animal) => ({ ...animal, transport: 'http' })),
  ].map((animal) => [animal.name, animal]),
);

function list() {
  return Array.from(ANIMALS.values(), ({ name, transport, does, rule }) => ({ name, transport, does, rule }));
}

function command(name) {
  const { script, args } = find(name, 'stdio', 'start() starts it');
  return { command: process.execPath, args: [join(__dirname, 'servers', script), ...args] };
}

async function start(name) {
  const { make } = find(name, 'http', 'command() says how it is started');
  const server = await smallServer();
  server.answer = make();
  return {
    url: server.url,
    requests: () => server.arrived.map(({ verb, method, path }) => ({ verb, method, path })),
    close: () => server.close(),
  };
}

function find(name, transport, otherwise) {
  const animal = ANIMALS.get(name);
  if (animal?.transport === transport) return animal;
  const names = [...ANIMALS.values()].filter((one) => one.transport === transport).map((one) => one.name);
  const message =
    animal === undefined
      ? `there is no ${JSON.stringify(name)} in the zoo; over ${transport} there are ${names.join(', ')}`
      : `${name} is a server over ${animal.transport}; ${otherwise}`;
  throw Object.assign(new TypeError(message), { code: 'INVALID_ARGUMENT', parameter: 'name' });
}

exports.command = command;
exports.list = list;
exports.start = start;
