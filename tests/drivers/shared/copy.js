// The COPY data for the drivers of Node.js.
'use strict';

const { Readable } = require('node:stream');
const { range } = require('./checks.js');

/** Rows in COPY's text format. */
const rows = (count) => Readable.from(range(count).map((n) => `${n}\trow ${n}\n`));

/** A row that is invalid for a table with a leading integer, and then no more data, for as long as the reader waits. */
const badRow = () => {
  const source = new Readable({ read() {} });
  source.push('x\ty\n');
  return source;
};

/** A row, and then the source fails. */
const givenUp = () =>
  Readable.from(
    (async function* () {
      yield '9000\tnever\n';
      throw new Error('changed my mind');
    })(),
  );

module.exports = { rows, badRow, givenUp };
