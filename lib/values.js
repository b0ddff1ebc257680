'use strict';
// What kind of value something is.

/** An object that is no array. */
function isObject(value) {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

module.exports = { isObject };
