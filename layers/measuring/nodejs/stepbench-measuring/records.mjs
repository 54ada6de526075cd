// What the lines of a measured invocation hold, and their format (docs/your-function.md); `records.py` beside, for
// Node.js. Only identities of events leave here, and what AWS itself adds to a record.

export const FEW_RECORDS = 16;
const CHUNK_RECORDS = 500;
const CHUNK_BYTES = 200_000; // CloudWatch Logs takes 256 kB a line
const IDENTITY_CHARS = 40;
const EVENT_CHARS = 64;
const POSTGRESQL = 'stepbench:postgresql';

const textOf = (value) => {
  const found = Object.values(value)[0];
  return typeof found === 'string' ? found : '';
};

const READ = {
  'aws:s3': ({ s3: { object }, eventName, eventTime = '' }) => [object.key, eventName, eventTime, object.versionId ?? ''],
  'aws:dynamodb': ({ dynamodb: change, eventName }, identity) => {
    const attribute = identity && change.NewImage?.[identity];
    const text = attribute ? [...textOf(attribute)].slice(0, IDENTITY_CHARS).join('') : '';
    const created = change.ApproximateCreationDateTime ?? 0;
    return [eventName, Object.values(change.Keys).map(textOf), text, created, change.SequenceNumber ?? ''];
  },
  [POSTGRESQL]: ({ event, t3_us: t3 }) => [String(event).slice(0, EVENT_CHARS), Math.trunc(Number(t3)) || 0],
};

// What names the event of a record; nothing of one that cannot be read, whose place stays.
function named(source, record, identity) {
  try {
    return READ[source](record, identity);
  } catch {
    return [];
  }
}

// What an event's source is called, and what names the event of each of its records; '' and none of another. It is read
// before the handler, which may change what it was given.
export function delivered(event, identity) {
  if (event?.source === POSTGRESQL) return [POSTGRESQL, [named(POSTGRESQL, event, identity)]];
  const records = event?.Records;
  const source = Array.isArray(records) ? records[0]?.eventSource : undefined;
  return Object.hasOwn(READ, source) ? [source, records.map((record) => named(source, record, identity))] : ['', []];
}

// Records as JSON arrays, one a line, and before each how many are in it; the last may be empty.
export function chunks(records) {
  const lines = [];
  let chunk = [];
  let bytes = 0;
  const close = () => lines.push([chunk.length, `[${chunk.join(',')}]`]);
  for (const record of records) {
    const text = JSON.stringify(record);
    const size = Buffer.byteLength(text) + 1;
    if (chunk.length === CHUNK_RECORDS || (chunk.length && bytes + size > CHUNK_BYTES)) {
      close();
      [chunk, bytes] = [[], 0];
    }
    chunk.push(text);
    bytes += size;
  }
  close();
  return lines;
}

// The identifiers of a partial batch response; null if it is none, '' for one that is no text. Of very many, only those
// that decide: AWS delivers again from the first, and all if one is of no record.
export function failedItems(result, records) {
  const items = result?.batchItemFailures;
  if (result === null || typeof result !== 'object' || !('batchItemFailures' in result)) return null;
  if (items === null || items === undefined) return [];
  if (!Array.isArray(items)) return [''];
  const texts = items.map((item) => (typeof item?.itemIdentifier === 'string' ? item.itemIdentifier : ''));
  if (texts.length > CHUNK_RECORDS) {
    const place = new Map(records.map((record, index) => [record.at(-1), index]));
    texts.sort((one, other) => (place.get(one) ?? -1) - (place.get(other) ?? -1));
  }
  return texts.slice(0, CHUNK_RECORDS);
}

// One line; times are BigInt, which JSON.stringify does not take, and `records` is JSON already.
export function line(name, fields, records) {
  const parts = Object.entries(fields).map(
    ([key, value]) => `"${key}":${typeof value === 'bigint' ? value : JSON.stringify(value)}`,
  );
  return `{"${name}":{${[...parts, `"records":${records}`].join(',')}}}\n`;
}
