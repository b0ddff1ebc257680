'use strict';
// Tools as the APIs of models take them (BEY-06): names in their charset and length with a way back, schemas repaired
// where a model's API would refuse them. Pure; what it changes it says, what it cannot repair it leaves out and says so.

const { createHash } = require('node:crypto');
const { PROFILES } = require('./model-profiles.js');

/** Bounds of one schema: places after references were put in, and how deep they nest. */
const MAX_PLACES = 20_000;
const MAX_DEPTH = 64;
const HASH_LENGTH = 8;

/** Keywords that hold one schema, a list of them, or a table of them. */
const ONE = new Set('items additionalProperties not if then else contains propertyNames'.split(' '));
const LIST = new Set(['anyOf', 'oneOf', 'allOf', 'prefixItems']);
const TABLE = new Set(['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas']);
const UNIONS = ['anyOf', 'oneOf', 'allOf'];
/** The types there are, and the keywords that are about each alone. */
const TYPES = new Map([
  ['null', []],
  ['boolean', []],
  ['string', ['format', 'minLength', 'maxLength', 'pattern']],
  ['number', ['format', 'minimum', 'maximum']],
  ['integer', ['format', 'minimum', 'maximum']],
  ['array', ['items', 'minItems', 'maxItems']],
  ['object', ['properties', 'required', 'minProperties', 'maxProperties', 'propertyOrdering']],
]);
const OF_ONE_TYPE = [...TYPES.values()].flat();

/** A schema that cannot be repaired; the message says why. */
class Beyond extends Error {}

const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);
const has = (object, key) => Object.prototype.hasOwnProperty.call(object, key);
/** The same object with other values; keys such as `__proto__` stay plain keys. */
const mapValues = (object, change) =>
  Object.fromEntries(Object.entries(object).map(([key, value]) => [key, change(value, key)]));
const without = (object, keys) =>
  Object.fromEntries(Object.entries(object).filter(([key]) => !keys.includes(key)));
const only = (object, keys) =>
  Object.fromEntries(Object.entries(object).filter(([key]) => keys.includes(key)));

function toModelTools(tools, profile) {
  const rules = profileOf(profile);
  const changes = [];
  const names = new Map();
  const given = [];
  const seen = new Set();
  for (const tool of tools) {
    if (seen.has(tool.name)) {
      changes.push({ tool: tool.name, kind: 'quarantined', detail: 'a second tool of this name' });
      continue;
    }
    seen.add(tool.name);
    try {
      const repair = new Repair(rules);
      const schema = repair.root(tool.inputSchema);
      const name = nameFor(tool.name, rules, names);
      names.set(name, tool.name);
      if (name !== tool.name) changes.push({ tool: tool.name, kind: 'renamed', detail: name });
      for (const detail of repair.done) changes.push({ tool: tool.name, kind: 'repaired', detail });
      given.push(rules.shape(name, tool.description, schema));
    } catch (error) {
      if (!(error instanceof Beyond)) throw error;
      changes.push({ tool: tool.name, kind: 'quarantined', detail: error.message });
    }
  }
  return { tools: given, resolve: (name) => names.get(name), changes };
}

function profileOf(profile) {
  if (typeof profile !== 'string') return { shape: PROFILES.anthropic.shape, ...profile };
  return PROFILES[profile];
}

/** The name itself where it fits, else a cleaned one that ends with a hash of it: the same in every run. */
function nameFor(name, { maxNameLength, nameCharset }, taken) {
  const fits = (character) =>
    matches(nameCharset, character) ||
    matches(nameCharset, `a${character}`) ||
    matches(nameCharset, `_${character}`);
  const whole = matches(nameCharset, name) || Array.from(name).every((one) => matches(nameCharset, one));
  if (whole && name.length <= maxNameLength && !taken.has(name)) return name;
  const filler = fits('_') ? '_' : '';
  let clean = Array.from(name, (character) => (fits(character) ? character : filler)).join('');
  if (!matches(nameCharset, clean.slice(0, 1))) clean = `${matches(nameCharset, '_') ? '_' : 'a'}${clean}`;
  for (let round = 0; ; round++) {
    const hash = createHash('sha256').update(`${round}:${name}`).digest('hex').slice(0, HASH_LENGTH);
    const tail = `${filler}${hash}`.slice(-maxNameLength);
    const candidate = clean.slice(0, Math.max(0, maxNameLength - tail.length)) + tail;
    if (!taken.has(candidate)) return candidate;
  }
}

/** Whether the expression takes the whole text, or, where it is about one character, each of it. */
function matches(charset, text) {
  charset.lastIndex = 0;
  return charset.exec(text)?.[0] === text;
}

/** Repairs one schema. */
class Repair {
  #rules;
  #document;
  /** Collected with the first reference that needs them. */
  #anchors;
  #places = 0;
  /** References that are being put in, outermost first. */
  #open = [];
  #done = new Set();

  constructor(rules) {
    this.#rules = rules;
  }

  get done() {
    return [...this.#done];
  }

  root(schema) {
    if (!isObject(schema)) throw new Beyond('the schema is not an object');
    this.#document = schema;
    let root = this.#schema(this.#object(this.#rules.refs ? this.#unfolded(schema) : schema), 0);
    if (!this.#rules.rootUnions) root = this.#merged(root);
    root = this.#settled(root);
    if (root.type !== undefined && root.type !== 'object') {
      const types = [root.type].flat();
      if (!types.includes('object')) throw new Beyond(`the type of its root is ${JSON.stringify(root.type)}`);
    }
    if (root.type !== 'object') this.#note('type: "object" at the root');
    if (!isObject(root.properties)) this.#note('properties at the root');
    return { ...root, type: 'object', properties: isObject(root.properties) ? root.properties : {} };
  }

  /** Arguments are an object, whatever else they might be. */
  #object(schema) {
    if (!Array.isArray(schema.type) || !schema.type.includes('object')) return schema;
    this.#note('type: "object" at the root');
    return { ...schema, type: 'object' };
  }

  /** A root that only refers is what it refers to: no API looks for the arguments anywhere else. */
  #unfolded(schema) {
    const followed = new Set();
    let root = schema;
    while (typeof root.$ref === 'string') {
      this.#note('references put in');
      const target =
        root.$ref.startsWith('#') && !followed.has(root.$ref) ? this.#find(root.$ref) : undefined;
      if (!isObject(target)) throw new Beyond(`its root refers to ${root.$ref}, which is no schema`);
      followed.add(root.$ref);
      root = { ...target, ...without(root, ['$ref']) };
    }
    return root;
  }

  #note(detail) {
    this.#done.add(detail);
  }

  /** Counts a place, however it was come by: references make few lines into many. */
  #visit(depth) {
    if (++this.#places > MAX_PLACES) throw new Beyond('the schema is too large');
    if (depth > MAX_DEPTH) throw new Beyond('the schema is nested too deep');
  }

  #schema(schema, depth) {
    this.#visit(depth);
    if (schema === true || schema === false) return this.#rules.keywords === undefined ? schema : {};
    if (!isObject(schema)) {
      this.#note('a place that held no schema');
      return {};
    }
    if (typeof schema.$ref === 'string') {
      if (!schema.$ref.startsWith('#'))
        throw new Beyond(`it refers to ${schema.$ref}, outside of the schema`);
      if (!this.#rules.refs) return this.#putIn(schema, depth);
    }
    return this.#narrowed(this.#members(schema, depth));
  }

  #members(schema, depth) {
    const next = (value) => this.#settled(this.#schema(value, depth + 1));
    const members = [];
    for (const [key, value] of Object.entries(this.#tupled(schema))) {
      if (ONE.has(key)) members.push([key, next(value)]);
      else if (LIST.has(key)) this.#push(members, key, Array.isArray(value), () => value.map(next));
      else if (TABLE.has(key)) {
        if (!this.#rules.refs && (key === '$defs' || key === 'definitions')) continue;
        this.#push(members, key, isObject(value), () => mapValues(value, next));
      } else members.push([key, value]);
    }
    return this.#typed(Object.fromEntries(members));
  }

  /** A tuple in the words of 2020-12: the older ones, a list of `items`, are refused. */
  #tupled(schema) {
    if (!Array.isArray(schema.items)) return schema;
    this.#note('a list of items as prefixItems');
    const { items: prefixItems, additionalItems } = schema;
    const rest = without(schema, ['items', 'additionalItems']);
    return { ...rest, prefixItems, ...(additionalItems !== undefined && { items: additionalItems }) };
  }

  /** Only types that exist. */
  #typed(schema) {
    if (!has(schema, 'type')) return schema;
    const all = [schema.type].flat();
    const types = all.filter((type) => TYPES.has(type));
    if (types.length === all.length && all.length > 0) return schema;
    this.#note('a type that does not exist left out');
    return types.length > 0 ? { ...schema, type: types } : without(schema, ['type']);
  }

  /** What depends on the other members, once those are what they stay: the items of an array, the names that are required. */
  #settled(schema) {
    if (!isObject(schema)) return schema;
    let result = schema;
    const tuple = result.prefixItems !== undefined;
    if ([result.type].flat().includes('array') && result.items === undefined && !tuple) {
      this.#note('items of an array');
      result = { ...result, items: {} };
    }
    if (!has(result, 'required')) return result;
    const required = this.#required(result);
    return required === undefined ? without(result, ['required']) : { ...result, required };
  }

  #push(members, key, fits, make) {
    if (fits) members.push([key, make()]);
    else this.#note(`${key} of the wrong kind left out`);
  }

  #required({ required, properties }) {
    if (!Array.isArray(required)) {
      this.#note('required of the wrong kind left out');
      return undefined;
    }
    const names = required.filter((name) => typeof name === 'string');
    const listed = isObject(properties) ? properties : {};
    const known = this.#rules.keywords ? names.filter((name) => has(listed, name)) : names;
    if (known.length < required.length) this.#note('required names that are no properties left out');
    return known;
  }

  /** The place that a reference names, in its stead; a cycle ends where it begins. */
  #putIn(schema, depth) {
    const { $ref: reference } = schema;
    this.#note('references put in');
    if (this.#open.includes(reference)) {
      this.#note('a recursive reference ends after one round');
      return {};
    }
    const target = this.#find(reference);
    const beside = without(schema, ['$ref']);
    this.#open.push(reference);
    const found = isObject(target) ? { ...target, ...beside } : target;
    const result = this.#schema(found, depth + 1);
    this.#open.pop();
    return result;
  }

  #find(reference) {
    const pointer = decodeURIComponentOr(reference.slice(1));
    if (pointer === '') return this.#document;
    if (!pointer.startsWith('/')) {
      this.#anchors ??= collectAnchors(this.#document, new Map(), 0);
      const anchored = this.#anchors.get(pointer);
      if (anchored === undefined) throw new Beyond(`it refers to ${reference}, which is not there`);
      return anchored;
    }
    let place = this.#document;
    for (const part of pointer.slice(1).split('/')) {
      const key = part.replaceAll('~1', '/').replaceAll('~0', '~');
      if ((!isObject(place) && !Array.isArray(place)) || !has(place, key)) {
        throw new Beyond(`it refers to ${reference}, which is not there`);
      }
      place = place[key];
    }
    return place;
  }

  /** Only keywords that the API knows, where it knows few. */
  #narrowed(schema) {
    const { keywords } = this.#rules;
    if (keywords === undefined) return schema;
    let result = { ...schema };
    if (has(result, 'const') && result.enum === undefined) result.enum = [result.const];
    if (result.oneOf !== undefined && result.anyOf === undefined) result.anyOf = result.oneOf;
    if (result.allOf !== undefined) result = this.#together(result);
    if (result.prefixItems !== undefined) result = this.#listed(result);
    for (const step of [this.#chosen, this.#split, this.#either]) {
      result = step.call(this, result);
      if (result.type === 'null') return { type: 'null', ...described(result) };
    }
    result = this.#formatted(result);
    const unknown = Object.keys(result).filter((key) => !keywords.has(key));
    if (unknown.length > 0) this.#note(`keywords that the API does not know left out: ${unknown.join(', ')}`);
    return without(result, unknown);
  }

  /** A list of anything that a tuple may hold. */
  #listed(schema) {
    this.#note('a tuple as a list');
    const all = [...[schema.prefixItems].flat(), schema.items].filter((item) => isObject(item));
    const kinds = new Map(all.map((item) => [JSON.stringify(item), item]));
    kinds.delete('{}');
    const anyOf = [...kinds.values()];
    const items = anyOf.length > 1 ? this.#narrowed({ anyOf }) : (anyOf[0] ?? {});
    return { ...without(schema, ['prefixItems']), items };
  }

  /** Of an enum the texts, which alone can be in one: others as texts would be answered as texts, which the server refuses. */
  #chosen(schema) {
    if (schema.enum === undefined) return schema;
    const all = [schema.enum].flat();
    const values = all.filter((value) => value !== null);
    const nothing = values.length < all.length;
    if (nothing && values.length === 0) return { ...schema, type: 'null' };
    const rest = { ...without(schema, ['enum']), ...(nothing && { nullable: true }) };
    if (values.length === 0 || values.some((value) => typeof value !== 'string')) {
      this.#note('an enum of other values than texts left out');
      return rest;
    }
    const texts = values.filter((value) => value !== '');
    if (texts.length < values.length) this.#note('an empty text in an enum left out');
    return { ...rest, type: 'string', ...(texts.length > 0 && { enum: texts }) };
  }

  /** One type each: several become a choice, each with the keywords that are about it. */
  #split(schema) {
    if (!Array.isArray(schema.type)) return schema;
    const types = schema.type.filter((type) => type !== 'null');
    if (types.length === 0) return { ...schema, type: 'null' };
    const result = {
      ...without(schema, ['type']),
      ...(types.length < schema.type.length && { nullable: true }),
    };
    if (types.length === 1) return { ...result, type: types[0] };
    this.#note('several types as a choice');
    if (result.anyOf !== undefined) return result;
    const branch = (type) => this.#settled(this.#formatted({ type, ...only(result, TYPES.get(type)) }));
    return { ...without(result, OF_ONE_TYPE), anyOf: types.map(branch) };
  }

  /** A choice without null. */
  #either(schema) {
    if (!Array.isArray(schema.anyOf)) return schema;
    const some = schema.anyOf.filter((one) => one.type !== 'null');
    if (some.length === 0) return { ...schema, type: 'null' };
    const result = { ...schema, ...(some.length < schema.anyOf.length && { nullable: true }) };
    if (some.length > 1) return { ...result, anyOf: some };
    return { ...without(result, ['anyOf']), ...some[0], ...described(result) };
  }

  #formatted(schema) {
    const { type, format } = schema;
    if (format === undefined || this.#rules.formats.get(type)?.has(format)) return schema;
    this.#note(`a format that the API does not know left out: ${format}`);
    return without(schema, ['format']);
  }

  /** What holds all at once: keywords side by side, or objects with the properties of all. */
  #together(schema) {
    if (schema.allOf.some((part) => isObject(part.properties)) || isObject(schema.properties)) {
      return this.#merged(schema);
    }
    return Object.assign({}, ...schema.allOf, without(schema, ['allOf']));
  }

  /** A root that is a choice becomes one object with the properties of all choices, so that arguments stay as they are. */
  #merged(root, depth = 0) {
    const unions = UNIONS.filter((key) => Array.isArray(root[key]));
    if (unions.length === 0) return root;
    this.#note(`${unions.join(', ')} at the root merged into one object`);
    let result = without(root, unions);
    for (const key of unions) {
      const branches = root[key].map((branch) => this.#branch(branch, depth + 1));
      result = mergeInto(result, branches, key === 'allOf');
    }
    return result;
  }

  #branch(branch, depth) {
    this.#visit(depth);
    if (!isObject(branch)) return {};
    const found = typeof branch.$ref === 'string' ? this.#find(branch.$ref) : branch;
    return isObject(found) ? this.#merged({ ...found, ...without(branch, ['$ref']) }, depth) : {};
  }
}

const described = ({ description, title, nullable }) =>
  Object.fromEntries(
    Object.entries({ description, title, nullable }).filter(([, value]) => value !== undefined),
  );

/** Properties of all branches; required is what all of them require, or, where all hold at once, what any does. */
function mergeInto(base, branches, allHold) {
  const properties = new Map(Object.entries(isObject(base.properties) ? base.properties : {}));
  for (const branch of branches) {
    for (const [name, schema] of Object.entries(isObject(branch.properties) ? branch.properties : {})) {
      const before = properties.get(name);
      if (before === undefined) properties.set(name, schema);
      else if (JSON.stringify(before) !== JSON.stringify(schema))
        properties.set(name, either(before, schema));
    }
  }
  const lists = branches.map(({ required }) => (Array.isArray(required) ? required : []));
  const common = allHold
    ? lists.flat()
    : (lists[0] ?? []).filter((name) => lists.every((list) => list.includes(name)));
  const required = [...new Set([...(Array.isArray(base.required) ? base.required : []), ...common])];
  const merged = { ...base, type: 'object', properties: Object.fromEntries(properties) };
  if (required.length > 0) merged.required = required;
  return merged;
}

function either(left, right) {
  const choices =
    isObject(left) && Array.isArray(left.anyOf) && Object.keys(left).length === 1 ? left.anyOf : [left];
  return { anyOf: [...choices, right] };
}

/** Every named place of a schema; the first of a name counts. */
function collectAnchors(place, anchors, depth) {
  if (depth > MAX_DEPTH || place === null || typeof place !== 'object') return anchors;
  const { $anchor: name } = place;
  if (typeof name === 'string' && !anchors.has(name)) anchors.set(name, place);
  for (const value of Object.values(place)) collectAnchors(value, anchors, depth + 1);
  return anchors;
}

function decodeURIComponentOr(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

module.exports = { toModelTools };
