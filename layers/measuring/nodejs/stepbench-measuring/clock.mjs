// The finest wall clock that Node.js has, in integer nanoseconds: Date.now() has milliseconds only, and what counts from
// the start of the process is wrong once a sandbox was frozen. Node's own WASI answers CLOCK_REALTIME in microseconds,
// and needs no module of WebAssembly for it, only memory to put the answer into.

import { createRequire } from 'node:module';

const REALTIME = 0;
const MS = 1_000_000n;

function openWasi() {
  const warn = process.emitWarning;
  process.emitWarning = () => {}; // "WASI is an experimental feature", in the function's log
  try {
    const { WASI } = createRequire(import.meta.url)('node:wasi');
    const wasi = new WASI({ version: 'preview1' });
    const memory = new WebAssembly.Memory({ initial: 1 });
    wasi.initialize({ exports: { memory } });
    const read = wasi.wasiImport.clock_time_get;
    const value = new BigUint64Array(memory.buffer);
    const clock = () => {
      if (read(REALTIME, 1n, 0) !== 0) throw new Error('no clock');
      return value[0];
    };
    return Math.abs(Number(clock() / MS) - Date.now()) < 1_000 ? clock : null;
  } catch {
    return null; // Node.js 18 has it behind an option
  } finally {
    process.emitWarning = warn;
  }
}

// How far CLOCK_REALTIME is ahead of the monotonic clock, by what Date.now() rules out: each reading leaves a millisecond,
// all of them together less. A clock that was set, or a sandbox that was frozen, begins anew.
export class Bracketed {
  #low = 0n;
  #high = -1n;

  resolutionNs = Number(MS);

  now(counted = process.hrtime.bigint(), milliseconds = Date.now()) {
    const low = BigInt(milliseconds) * MS - counted;
    const narrowed = [low > this.#low ? low : this.#low, low + MS < this.#high ? low + MS : this.#high];
    [this.#low, this.#high] = narrowed[0] < narrowed[1] ? narrowed : [low, low + MS];
    this.resolutionNs = Number(this.#high - this.#low);
    return counted + (this.#low + this.#high) / 2n;
  }
}

const wasi = openWasi();
const bracketed = new Bracketed();
let failed = wasi === null;

export function now() {
  if (!failed) {
    try {
      return wasi();
    } catch {
      failed = true;
    }
  }
  return bracketed.now();
}

export function resolutionNs() {
  return failed ? bracketed.resolutionNs : 1_000;
}
