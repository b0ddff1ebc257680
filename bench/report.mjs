// From samples to figures: medians, ratios, targets. Pure functions; prints nothing.

/** What is compared with what. */
export const OURS = 'switchboard';
export const RIVALS = ['client-v2', 'sdk-v1', 'bare-pipes'];

/** How a figure is read from one sample of a round. `better` says which direction is an improvement. */
const CALL_TIME = {
  id: 'time',
  title: 'time per call',
  unit: 'ms',
  better: 'less',
  of: (s) => s.wallMs / s.calls,
};
const RATE = {
  id: 'rate',
  title: 'calls per second',
  unit: '/s',
  better: 'more',
  of: (s) => (s.calls / s.wallMs) * 1000,
};
const CPU = { id: 'cpu', title: 'CPU per call', unit: 'ms', better: 'less', of: (s) => s.cpuMs / s.calls };
const BLOCK = { id: 'block', title: 'longest block', unit: 'ms', better: 'less', of: (s) => s.blockMs };

/** Aims, as ratios to a rival; they are printed and decide nothing. */
const TARGETS = {
  'sequential/time': { 'client-v2': 0.5, 'sdk-v1': 0.8 },
  'sequential/cpu': { 'client-v2': 0.5 },
  'in-flight-64/rate': { 'client-v2': 2.5 },
  'in-flight-64/cpu': { 'client-v2': 0.5 },
  'text-8m-ascii/block': { 'client-v2': 0.5 },
  'text-8m-cjk/block': { 'client-v2': 0.5 },
  'http-sequential/time': { 'client-v2': 0.35 },
  'http-sequential/cpu': { 'client-v2': 0.3 },
  'http-in-flight-64/rate': { 'client-v2': 4 },
  'http-in-flight-64/cpu': { 'client-v2': 0.3 },
};

function metricsOf(workload) {
  return [workload.inFlight > 1 ? RATE : CALL_TIME, ...(workload.block ? [BLOCK] : []), CPU];
}

export function median(values) {
  const sorted = [...values].sort((left, right) => left - right);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/**
 * One entry for every workload and figure.
 * @param {object[]} workloads
 * @param {Map<string, Map<string, object[]>>} samples by workload, then by peer; one sample a round
 */
export function makeReport(workloads, samples) {
  return workloads.flatMap((workload) =>
    metricsOf(workload).map((metric) => makeEntry(workload, metric, samples.get(workload.id))),
  );
}

function makeEntry(workload, metric, byPeer) {
  const rounds = new Map([...byPeer].map(([peer, list]) => [peer, list.map(metric.of)]));
  const ours = rounds.get(OURS);
  const compared = RIVALS.filter((rival) => ours && rounds.has(rival));
  return {
    workload: workload.id,
    workloadTitle: workload.title,
    metric: metric.id,
    metricTitle: metric.title,
    unit: metric.unit,
    better: metric.better,
    medians: Object.fromEntries([...rounds].map(([peer, values]) => [peer, median(values)])),
    ratios: Object.fromEntries(compared.map((rival) => [rival, makeRatio(ours, rounds.get(rival))])),
    targets: makeTargets(`${workload.id}/${metric.id}`, metric, ours, rounds),
    rounds: Object.fromEntries(rounds),
  };
}

/** The ratio of the medians, and between what bounds the ratio lay within single rounds. */
function makeRatio(ours, theirs) {
  const single = ours.map((value, round) => value / theirs[round]);
  return {
    ofMedians: median(ours) / median(theirs),
    lowest: Math.min(...single),
    highest: Math.max(...single),
  };
}

function makeTargets(key, { better }, ours, rounds) {
  return Object.entries(TARGETS[key] ?? {}).map(([rival, bound]) => {
    const target = { rival, better, bound };
    if (!ours || !rounds.has(rival)) return target;
    const ratio = median(ours) / median(rounds.get(rival));
    return { ...target, met: better === 'less' ? ratio <= bound : ratio >= bound };
  });
}
