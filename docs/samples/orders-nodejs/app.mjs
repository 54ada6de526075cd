// Orders from a stream: each that can be charged is, and the others come again.

import { setTimeout } from "node:timers/promises";

const CHARGE_MS = 1000 * Number(process.env.CHARGE_S ?? "0.005");
const DECLINED = BigInt(process.env.DECLINED ?? "100");
const declined = new Set();

/** Charge a batch of orders in order; from the first that fails on, the batch comes again. */
export const handler = async (event) => {
  for (const { dynamodb } of event.Records) {
    if (!(await charge(dynamodb.SequenceNumber))) {
      return { batchItemFailures: [{ itemIdentifier: dynamodb.SequenceNumber }] };
    }
  }
  return { batchItemFailures: [] };
};

/** Take as long as a payment service; it declines one of DECLINED orders, at the first try only. */
const charge = async (number) => {
  await setTimeout(CHARGE_MS);
  if (BigInt(number) % DECLINED !== 0n || declined.has(number)) return true;
  declined.add(number);
  return false;
};
