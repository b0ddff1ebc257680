'use strict';
// Results of tools as the APIs of models take them back (USE-03): one message in the API's shape, and a report of everything
// that it does not say as the server said it. Pure.

const { isObject } = require('./check.js');

/** Images that models look at, and the one that Gemini does not. */
const IMAGES = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp']);
const MOVING = 'image/gif';
/** An answer without words would be an empty one, which some APIs refuse. */
const NOTHING = '(no content)';

const dataUrl = ({ mimeType, data }) => `data:${mimeType};base64,${data}`;
const text = (words) => ({ type: 'text', text: words });
/** Just the text where there is nothing else: every API takes that. */
const alone = (parts) => (parts.every(({ type }) => type === 'text') ? joined(parts) : undefined);
const joined = (parts) => parts.map((part) => part.text).join('\n');

/**
 * What an API takes. `images` and `audio`: the part for such a block, where it takes it. `failure`: what says that the tool
 * failed, where the shape has no place for it. `onlyTextWhenFailed`: a failure is words alone there. `named`: the message wants the tool's name. `shape`: the message.
 */
const RESULTS = {
  anthropic: {
    // `is_error` with anything but text is refused there.
    onlyTextWhenFailed: true,
    images: ({ mimeType, data }) => ({
      type: 'image',
      source: { type: 'base64', media_type: mimeType, data },
    }),
    shape: ({ parts, isError }, { id }) => ({
      type: 'tool_result',
      tool_use_id: id,
      content: parts,
      ...(isError && { is_error: true }),
    }),
  },
  openai: {
    failure: 'The tool failed:',
    shape: ({ parts }, { id }) => ({ role: 'tool', tool_call_id: id, content: joined(parts) }),
  },
  'openai-responses': {
    images: (block) => ({ type: 'input_image', detail: 'auto', image_url: dataUrl(block) }),
    failure: 'The tool failed:',
    shape: ({ parts }, { id }) => ({
      type: 'function_call_output',
      call_id: id,
      output:
        alone(parts) ?? parts.map((part) => (part.type === 'text' ? { ...part, type: 'input_text' } : part)),
    }),
  },
  gemini: {
    images: (block) => (block.mimeType === MOVING ? undefined : inlineData(block)),
    audio: inlineData,
    named: true,
    shape: ({ parts, isError, structured }, { id, name }) => {
      const words = parts.filter(({ type }) => type === 'text');
      const media = parts.filter(({ type }) => type !== 'text');
      const response = { [isError ? 'error' : 'output']: structured ?? joined(words) };
      return { functionResponse: { id, name, response, ...(media.length > 0 && { parts: media }) } };
    },
    takesStructured: true,
  },
  'ai-sdk': {
    images: ({ mimeType, data }) => ({ type: 'image-data', data, mediaType: mimeType }),
    audio: ({ mimeType, data }) => ({ type: 'file-data', data, mediaType: mimeType }),
    onlyTextWhenFailed: true,
    named: true,
    shape: ({ parts, isError }, { id, name }) => ({
      type: 'tool-result',
      toolCallId: id,
      toolName: name,
      output: aiOutput(parts, isError),
    }),
  },
  langchain: {
    // The model behind it may be one of the first kind.
    onlyTextWhenFailed: true,
    images: (block) => ({ type: 'image_url', image_url: { url: dataUrl(block) } }),
    shape: ({ parts, isError }, { id, name }) => ({
      type: 'tool',
      tool_call_id: id,
      ...(name !== undefined && { name }),
      status: isError ? 'error' : 'success',
      content: alone(parts) ?? parts,
    }),
  },
};

function inlineData({ mimeType, data }) {
  return { inlineData: { mimeType, data } };
}

function aiOutput(parts, isError) {
  const words = alone(parts);
  if (words === undefined) return { type: 'content', value: parts };
  return { type: isError ? 'error-text' : 'text', value: words };
}

/** @param outcome A result, or what the call rejected with. */
function toModelResult(outcome, profile, call) {
  const api = RESULTS[profile];
  const result = resultOf(outcome);
  const report = new Report(api, call, result.isError);
  const parts = result.content.flatMap((block, index) => report.part(block, index));
  const structured = structuredAnswer(result, parts, api, report);
  if (result.truncated !== undefined) report.cut(result.truncated);
  if (result.isError && api.failure !== undefined) {
    parts.unshift(text(api.failure));
    report.note(undefined, 'added', `"${api.failure}", as this API has no other place for a failure`);
  }
  if (parts.length === 0 && structured === undefined) {
    parts.push(text(NOTHING));
    report.note(undefined, 'added', `"${NOTHING}", as there is none`);
  }
  const { isError } = result;
  const message = api.shape({ parts, isError, structured }, call);
  return { message, changes: report.changes, left: report.left };
}

/** The result that an error carries, or one that says what went wrong. */
function resultOf(outcome) {
  if (!(outcome instanceof Error)) return outcome;
  if (isObject(outcome.result) && Array.isArray(outcome.result.content)) return outcome.result;
  const { code, message } = outcome;
  const words = typeof code === 'string' ? `${code}: ${message}` : message;
  return { content: [text(words)], isError: true };
}

/** Makes parts of blocks, and remembers what became of each that is not said as it was. */
class Report {
  changes = [];
  left = [];
  #takers;

  constructor(api, { images = true, audio = false }, isError) {
    const words = isError && api.onlyTextWhenFailed;
    this.#takers = {
      image: images && !words ? api.images : undefined,
      audio: audio && !words ? api.audio : undefined,
    };
  }

  note(block, kind, detail) {
    this.changes.push({ ...(block !== undefined && { block }), kind, detail });
  }

  cut({ tokens, limit, path }) {
    const where = path === undefined ? 'the rest is gone' : `the whole is in ${path}`;
    this.note(
      undefined,
      'truncated',
      `about ${tokens} tokens were more than the limit of ${limit}; ${where}`,
    );
  }

  part(block, index) {
    switch (block.type) {
      case 'text':
        if (block.text !== '') return [text(block.text)];
        this.note(index, 'left', 'a text without a character');
        return [];
      case 'image':
      case 'audio':
        return [this.#media(block, index)];
      case 'resource_link':
      case 'file':
        this.note(
          index,
          'described',
          `a ${block.type === 'file' ? 'saved file' : 'link to a resource'}, named in words`,
        );
        return [text(described(block))];
      default:
        this.note(index, 'described', 'a block of a kind that is not known, as JSON');
        return [text(JSON.stringify(block.raw ?? block))];
    }
  }

  #media(block, index) {
    const { type, mimeType, data } = block;
    const known = data !== '' && (type === 'audio' || IMAGES.has(mimeType));
    const taken = known ? this.#takers[type]?.(block) : undefined;
    if (taken !== undefined) return taken;
    this.left.push(block);
    this.note(index, 'left', `${type} of type ${mimeType}, which was named only`);
    return text(`[${type} of type ${mimeType}, ${Buffer.byteLength(data, 'base64')} bytes, not shown]`);
  }
}

/** Files and links in words: everything that is known of them. */
function described({ type, ...facts }) {
  const { annotations: _, ...shown } = facts;
  return `[${type === 'file' ? 'saved file' : 'resource'} ${JSON.stringify(shown)}]`;
}

/**
 * Adds what the structured answer says beyond the words; servers mostly say the same in both. Gives the answer itself where
 * the API takes it as it is.
 */
function structuredAnswer({ content, structuredContent: value }, parts, api, report) {
  if (value === undefined) return undefined;
  const twin = content.findIndex((block) => block.type === 'text' && sameJson(block.text, value));
  if (twin !== -1) {
    report.note(twin, 'merged', 'says the same as structuredContent, which was not repeated');
    return undefined;
  }
  if (api.takesStructured && isObject(value) && parts.every(({ type }) => type !== 'text')) return value;
  parts.push(text(JSON.stringify(value)));
  report.note(undefined, 'added', 'structuredContent, as a text of JSON');
  return undefined;
}

function sameJson(words, value) {
  try {
    return canonical(JSON.parse(words)) === canonical(value);
  } catch {
    return false;
  }
}

/** JSON with its keys in order. */
function canonical(value) {
  return JSON.stringify(value, (_, one) =>
    isObject(one)
      ? Object.fromEntries(Object.entries(one).sort(([left], [right]) => (left < right ? -1 : 1)))
      : one,
  );
}

module.exports = { RESULTS, toModelResult };
