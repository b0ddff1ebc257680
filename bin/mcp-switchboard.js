#!/usr/bin/env node
'use strict';

const { main } = require('../lib/cli/main.js');

void main(process.argv.slice(2));
