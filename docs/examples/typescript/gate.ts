// Gates a call from TypeScript: `npm ci && node gate.ts CHARGE AMOUNT`, with Placet running and TEMPORAL_ADDRESS set.
import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { Client, Connection } from '@temporalio/client';
import { NativeConnection, Worker } from '@temporalio/worker';
import * as activities from './activities.ts';

const address = process.env.TEMPORAL_ADDRESS ?? 'localhost:7233';
const taskQueue = process.env.TASK_QUEUE ?? 'billing';
const [charge = 'ch_1', amount = '4900'] = process.argv.slice(2);

const connection = await NativeConnection.connect({ address });
const worker = await Worker.create({
  connection,
  taskQueue,
  activities,
  workflowsPath: fileURLToPath(new URL('./workflows.ts', import.meta.url)),
});
const client = new Client({ connection: await Connection.connect({ address }) });
const answer = await worker.runUntil(
  client.workflow.execute('refundCustomer', {
    taskQueue,
    workflowId: `refund-${randomUUID()}`,
    args: [charge, Number(amount)],
  }),
);
console.log(JSON.stringify(answer));
await connection.close();
process.exit(0);
