// What drivers of Node.js are given to COPY.
'use strict';

const { Readable } = require('node:stream');
const { range } = require('./checks.js');

/** Rows as COPY's text format wants them. */
const rows = (count) => Readable.from(range(count).map((n) => `${n}\trow ${n}\n`));

/** A row that no table with a number in front takes, and then nothing, for as long as the reader wants to wait. */
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
