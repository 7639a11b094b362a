import { ChildWorkflowCancellationType, executeChild, ParentClosePolicy, workflowInfo } from '@temporalio/workflow';

/** What Placet answers; `result` is what the activity returned. */
export interface Answer {
  approval_id: string;
  status: 'approved' | 'declined' | 'expired' | 'cancelled' | 'auto' | 'pending';
  outcome: 'none' | 'sending' | 'sent' | 'not_sent' | 'unknown';
  result: { refund: string } | null;
  error: string | null;
  note: string | null;
  text: string;
}

/** Asks a person before it refunds: the child workflow is Placet's, the activity and its task queue are ours. */
export async function refundCustomer(charge: string, amount: number): Promise<Answer> {
  return await executeChild('ApprovalWorkflow', {
    taskQueue: 'placet',
    workflowId: `${workflowInfo().workflowId}-approval`,
    parentClosePolicy: ParentClosePolicy.REQUEST_CANCEL,
    cancellationType: ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
    args: [
      {
        agent: 'billing',
        tool: 'stripe.refund',
        arguments: { charge, amount, currency: 'GBP' },
        presentation: {
          title: 'Refund a duplicate charge',
          lines: [
            ['Amount', '/amount', 'money:/currency'],
            ['Charge', '/charge'],
          ],
        },
        effect: 'money',
        reasoning: 'The customer was charged twice.',
        run: { activity: 'refund', task_queue: workflowInfo().taskQueue, start_to_close_s: 60 },
      },
    ],
  });
}
