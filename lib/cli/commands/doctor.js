'use strict';

const { reach, withManager } = require('../host.js');

const FAILED = 1;

module.exports = {
  name: 'doctor',
  summary: 'connect every server and say what is wrong with which, and what to do',
  usage: [''],
  about: ['Only servers that are active are started. The exit code is 1 where anything is wrong.'],
  run: (context) =>
    withManager(context, {}, async (manager) => {
      const { out } = context;
      await reach(manager, undefined, { ...context, out: silent(out) });
      const report = manager.doctor();
      out.answer(report, () => lines(report, out));
      return report.healthy ? undefined : FAILED;
    }),
};

/** The report says it all; the warnings on the way there would say it twice. */
const silent = (out) => ({ progress: (text) => out.progress(text), warning: () => {} });

function lines({ healthy, version, node, platform, servers, configuration }, out) {
  const { errors, warnings, unused } = configuration;
  return [
    `mcp-switchboard ${version}, Node ${node}, ${platform}`,
    ...servers.flatMap((server) => serverLines(server, out)),
    ...unused.map(
      ({ server, scope, fate, reason }) => `${server}: ${fate} (${scope})${reason ? `: ${reason}` : ''}`,
    ),
    ...errors.map(({ message, file, line }) => `${out.paint('error', 'red')} ${place(file, line)}${message}`),
    ...warnings.map(
      ({ message, file, line }) => `${out.paint('warning', 'yellow')} ${place(file, line)}${message}`,
    ),
    healthy ? 'all is well' : 'something is wrong',
  ];
}

/** That it was tried once only is no news, and the advice of that error is for programs. */
function serverLines({ server, state, healthy, cause, evidence, advice }, out) {
  const { stderrTail = [], listErrors = [] } = evidence ?? {};
  return [
    `${server}: ${out.paint(state, healthy ? 'green' : 'red')}${cause ? ` ${cause.code}: ${cause.message}` : ''}`,
    ...listErrors.map(({ list, code, message }) => `  ${list}: ${code}: ${message}`),
    ...stderrTail.slice(-5).map((line) => `  stderr: ${line}`),
    ...(advice === undefined || cause?.code === 'RETRIES_EXHAUSTED' ? [] : [`  ${advice}`]),
  ];
}

const place = (file, line) => (file === undefined ? '' : `${file}${line === undefined ? '' : `:${line}`}: `);
