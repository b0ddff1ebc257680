'use strict';
// What the APIs of models, and libraries in front of them, ask of tools: names, schemas, and the shape of one tool.

/** All that Gemini's `Schema` knows. */
const GEMINI_KEYWORDS = new Set(
  (
    'type format title description nullable enum maxItems minItems properties required minProperties ' +
    'maxProperties minLength maxLength pattern example anyOf propertyOrdering default items minimum maximum'
  ).split(' '),
);

const NUMBERS = new Set(['float', 'double', 'int32', 'int64']);
/** The formats that Gemini takes, by type; any other costs the whole request. */
const GEMINI_FORMATS = new Map([
  ['string', new Set(['enum', 'date-time'])],
  ['number', NUMBERS],
  ['integer', NUMBERS],
]);

const ANY_MODEL = {
  maxNameLength: 63,
  nameCharset: /^[A-Za-z_][A-Za-z0-9_-]*$/,
  rootUnions: false,
  refs: false,
};

const PROFILES = {
  anthropic: {
    maxNameLength: 64,
    nameCharset: /^[A-Za-z0-9_-]+$/,
    rootUnions: false,
    refs: true,
    shape: (name, description, schema) => ({ name, description, input_schema: schema }),
  },
  openai: {
    maxNameLength: 64,
    nameCharset: /^[A-Za-z0-9_-]+$/,
    rootUnions: false,
    refs: true,
    shape: (name, description, parameters) => ({
      type: 'function',
      function: { name, description, parameters },
    }),
  },
  'openai-responses': {
    maxNameLength: 64,
    nameCharset: /^[A-Za-z0-9_-]+$/,
    rootUnions: false,
    refs: true,
    // Without the word it is strict there, and refuses most schemas.
    shape: (name, description, parameters) => ({
      type: 'function',
      name,
      description,
      parameters,
      strict: false,
    }),
  },
  // Whatever model is behind these two: what the tightest takes.
  'ai-sdk': {
    ...ANY_MODEL,
    shape: (name, description, inputSchema) => ({ name, description, inputSchema }),
  },
  langchain: {
    ...ANY_MODEL,
    shape: (name, description, schema) => ({ name, description, schema }),
  },
  gemini: {
    maxNameLength: 63,
    nameCharset: /^[A-Za-z_][A-Za-z0-9_.-]*$/,
    rootUnions: false,
    refs: false,
    keywords: GEMINI_KEYWORDS,
    formats: GEMINI_FORMATS,
    shape: (name, description, parameters) => ({ name, description, parameters }),
  },
};

module.exports = { PROFILES };
