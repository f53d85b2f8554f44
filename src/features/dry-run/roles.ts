/**
 * What each feature does in a dry run. A dry run keeps nothing and calls no server, so a feature takes part only if it is
 * listed here; the order is that of the chain.
 */

/**
 * `same`: its middleware decides and keeps nothing. `own`: it has middleware for dry runs, `FeatureInstance.dryRun`.
 * `absent`: it is not in the chain, because it only keeps, sends or changes what a server returned.
 */
type Role = 'same' | 'own' | 'absent'

/** The role of each feature, by name. */
export const dryRunRoles: Readonly<Record<string, Role>> = {
  quota: 'absent',
  manifest: 'absent',
  dashdash: 'absent',
  help: 'absent',
  skills: 'absent',
  agent_profile: 'absent',
  conformance: 'absent',
  gateway_proof: 'absent',
  dry_run: 'absent',
  progress: 'own', // only for calls of 2025-11-25 that request a task: their answer is the task
  limits: 'same',
  errors: 'same', // a refusal has the form that the real call would get
  inject_arguments: 'same',
  contract: 'same', // a call of a tool that was replaced goes to its successor, as a dry run
  concurrency: 'same',
  receipts: 'same', // a receipt says that it is of a dry run
  usage: 'absent', // nothing was used
  stream: 'own', // there are no pages
  rate_limit: 'same', // a dry run is a call, so it counts
  state: 'own', // the session is read, and stays as it is
  references: 'own', // the data is read; no file and no URL is made of it
  permissions: 'own',
  intent: 'same',
  misplaced_values: 'same',
  validate: 'same',
  multimodal: 'same',
  idempotency: 'own',
  transactions: 'own',
  cost: 'own',
  confirm: 'own',
  events: 'absent',
  provenance: 'absent', // the result has no source
  result_limit: 'absent',
  structured_text: 'absent',
  mask: 'absent', // the report masks the arguments
  undo: 'own',
  retry: 'absent',
  complete: 'absent',
  breaker: 'own', // reads the state of the server, and is no attempt
  discovery: 'absent', // suggests tools for unknown names above the chain
}
