// The report as a table of text (a Markdown table, so that it can be pasted).

import { OURS, RIVALS } from './report.mjs';

const LABELS = {
  [OURS]: 'switchboard',
  'client-v2': 'client 2.x',
  'sdk-v1': 'sdk 1.x',
  'bare-pipes': 'bare pipes',
};
const ABSENT = '–';

/** Renders the entries of `makeReport` for the peers that took part. */
export function renderTable(report, peers) {
  const rivals = RIVALS.filter((rival) => peers.includes(OURS) && peers.includes(rival));
  const head = ['workload', 'figure', ...peers.map((peer) => LABELS[peer])];
  head.push(...rivals.map((rival) => `ratio to ${LABELS[rival]} (single rounds)`), 'target');
  const rows = report.map((entry, index) => [
    entry.workload === report[index - 1]?.workload ? '' : entry.workloadTitle,
    figureTitle(entry),
    ...peers.map((peer) => amount(entry.medians[peer], entry.unit)),
    ...rivals.map((rival) => ratio(entry.ratios[rival])),
    entry.targets.map(target).join('; '),
  ]);
  return align(head, rows);
}

/** Renders the figures of `measureDecisions` and `measureStart`. */
export function renderDecisions(decisions) {
  const rows = decisions.map(({ title, micros, target: bound }) => [
    title,
    amount(micros / 1000, 'ms'),
    `≤ ${amount(bound / 1000, 'ms')}: ${micros <= bound ? 'met' : 'not met'}`,
  ]);
  return align(['by itself', 'time', 'target'], rows);
}

function figureTitle({ metricTitle, better }) {
  return better === 'more' ? `${metricTitle} (more is better)` : metricTitle;
}

function amount(value, unit) {
  if (value === undefined) return ABSENT;
  if (unit === 'ms' && value < 1) return `${number(value * 1000)} µs`;
  return unit === 'ms' ? `${number(value)} ms` : `${number(value)}${unit}`;
}

function number(value) {
  const digits = value < 10 ? 2 : value < 100 ? 1 : 0;
  return value.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

function ratio(found) {
  if (found === undefined) return ABSENT;
  const { ofMedians, lowest, highest } = found;
  return `${ofMedians.toFixed(2)} (${lowest.toFixed(2)}–${highest.toFixed(2)})`;
}

function target({ rival, better, bound, met }) {
  const aim = `${better === 'less' ? '≤' : '≥'} ${bound} × ${LABELS[rival]}`;
  return met === undefined ? aim : `${aim}: ${met ? 'met' : 'not met'}`;
}

function align(head, rows) {
  const widths = head.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => row[column].length)),
  );
  const isText = (column) => column < 2 || column === head.length - 1;
  const line = (cells) =>
    `| ${cells.map((cell, column) => pad(cell, widths[column], isText(column))).join(' | ')} |`;
  const dashes = (width, column) => (isText(column) ? '-'.repeat(width + 2) : `${'-'.repeat(width + 1)}:`);
  const rule = `|${widths.map(dashes).join('|')}|`;
  return [line(head), rule, ...rows.map(line)].join('\n');
}

const pad = (cell, width, left) => (left ? cell.padEnd(width) : cell.padStart(width));
