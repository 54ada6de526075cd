// Lines put into the results table, once the handler has ended, instead of the function's log; `table.py` beside, for
// Node.js. No SDK: the function may bring one of any version, or none.

import { createHash, createHmac } from 'node:crypto';
import http from 'node:http';
import https from 'node:https';
import { clearTimeout, setTimeout } from 'node:timers';

const LIMIT_MS = 2_000; // so long a handler's answer waits for the table at most
const LEAST_MS = 100; // with less left, it is not tried
const SPARED_MS = 500; // of the function's own time-out
const PAUSE_MS = 60_000; // so long the log takes the lines after a failure
const IDLE_MS = 20_000; // a connection unused for longer may be dead without a sign, as in a sandbox that was frozen
const SHARDS = 16n;
const ITEM_BYTES = 350_000; // DynamoDB takes 400 kB an item
const KEPT_S = 86_400n; // as the log
const S = 1_000_000_000n;
const TYPE = 'application/x-amz-json-1.0';
const TARGET = 'DynamoDB_20120810.PutItem';

const sha256 = (text) => createHash('sha256').update(text).digest('hex');

// The headers of a PutItem of this body; credentials are key, secret and token, which may be empty.
export function signedHeaders(host, region, [key, secret, token], body, atS) {
  const at = `${new Date(atS * 1_000).toISOString().slice(0, 19).replaceAll(/[-:]/g, '')}Z`;
  const headers = { 'content-type': TYPE, host, 'x-amz-date': at };
  if (token) headers['x-amz-security-token'] = token;
  headers['x-amz-target'] = TARGET;
  const listed = Object.entries(headers).map(([name, value]) => `${name}:${value}\n`).join('');
  const names = Object.keys(headers).join(';');
  const scope = `${at.slice(0, 8)}/${region}/dynamodb/aws4_request`;
  const text = `AWS4-HMAC-SHA256\n${at}\n${scope}\n${sha256(`POST\n/\n\n${listed}\n${names}\n${sha256(body)}`)}`;
  let signing = `AWS4${secret}`;
  for (const part of [...scope.split('/'), text]) signing = createHmac('sha256', signing).update(part).digest();
  const signature = `Credential=${key}/${scope}, SignedHeaders=${names}, Signature=${signing.toString('hex')}`;
  return { ...headers, authorization: `AWS4-HMAC-SHA256 ${signature}` };
}

// Lines in as few texts as an item's limit allows.
function parts(lines) {
  const found = [''];
  for (const line of lines) {
    if (found.at(-1) && Buffer.byteLength(found.at(-1)) + Buffer.byteLength(line) > ITEM_BYTES) found.push('');
    found[found.length - 1] += line;
  }
  return found;
}

// The way to the table of one sandbox; `place` is `https://host[:port]/name-of-the-table`.
export class ResultsTable {
  #url;
  #trial;
  #region;
  #credentials;
  #protocol;
  #agent = null;
  #usedAt = 0;
  #resumeAt = 0;

  constructor(place, trial, environment) {
    this.#url = new URL(place);
    this.#trial = trial;
    this.#region = environment.AWS_REGION;
    const names = ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY', 'AWS_SESSION_TOKEN'];
    this.#credentials = names.map((name) => environment[name] ?? '');
    this.#protocol = this.#url.protocol === 'https:' ? https : http;
  }

  // Whether the table has taken all lines of an invocation, of which so long is left until its time-out. Never rejects.
  async put(t5, request, lines, remainingMs) {
    const now = performance.now();
    const limitMs = Math.min(LIMIT_MS, remainingMs - SPARED_MS);
    if (now < this.#resumeAt || limitMs < LEAST_MS) return false;
    try {
      for (const [part, text] of parts(lines).entries()) {
        await this.#send(this.#item(t5, request, part, text), Number(t5 / S), now + limitMs);
      }
    } catch {
      this.#close();
      this.#resumeAt = performance.now() + PAUSE_MS;
      return false;
    }
    return true;
  }

  // PutItem's body; its keys are those of `lines_pk` and `lines_sk` in the stack's `layout`.
  #item(t5, request, part, lines) {
    const shard = String((t5 / 1_000n) % SHARDS).padStart(2, '0');
    const item = {
      pk: { S: `lines#${this.#trial}#${shard}` },
      sk: { S: `${String(t5).padStart(20, '0')}#${request}#${String(part).padStart(2, '0')}` },
      lines: { S: lines },
      expires_at: { N: String(t5 / S + KEPT_S) },
    };
    return Buffer.from(JSON.stringify({ TableName: this.#url.pathname.slice(1), Item: item }));
  }

  // Once more where the connection was an old one, which the other side may have closed meanwhile.
  async #send(body, atS, until) {
    if (performance.now() - this.#usedAt > IDLE_MS) this.#close();
    const old = this.#agent !== null;
    this.#agent ??= new this.#protocol.Agent({ keepAlive: true, maxSockets: 1 });
    try {
      await this.#exchange(body, atS, until);
    } catch (error) {
      if (!old || error.refused || performance.now() >= until) throw error;
      this.#close();
      this.#agent = new this.#protocol.Agent({ keepAlive: true, maxSockets: 1 });
      await this.#exchange(body, atS, until);
    }
    this.#usedAt = performance.now();
  }

  #exchange(body, atS, until) {
    const { hostname, port, host } = this.#url;
    const headers = signedHeaders(host, this.#region, this.#credentials, body, atS);
    const options = { method: 'POST', hostname, port, path: '/', agent: this.#agent };
    return new Promise((resolve, reject) => {
      const asked = this.#protocol.request({ ...options, headers: { ...headers, 'content-length': body.length } });
      const late = setTimeout(() => asked.destroy(new Error('no answer')), until - performance.now());
      const settle = (step) => (value) => {
        clearTimeout(late);
        step(value);
      };
      asked.on('error', settle(reject));
      asked.on('response', (answer) => {
        answer.resume();
        answer.on('error', settle(reject));
        const { statusCode: status } = answer;
        const refusal = Object.assign(new Error(`the results table answers ${status}`), { refused: true });
        answer.on('end', settle(() => (status === 200 ? resolve() : reject(refusal))));
      });
      asked.end(body);
    });
  }

  #close() {
    this.#agent?.destroy();
    this.#agent = null;
  }
}
