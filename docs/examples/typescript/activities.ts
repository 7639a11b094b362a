/** The call that a person has to allow. Placet runs it, once, with exactly the arguments that were approved. */
export async function refund(charge: { charge: string; amount: number }): Promise<{ refund: string }> {
  return { refund: `re_${charge.charge}` };
}
