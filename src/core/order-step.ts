/** What an operator ordered at the command line about a transaction. */
export interface OrderStep {
  /** `undo` makes a transaction of its own, of what is undone. */
  readonly order: 'undo' | 'rollback' | 'ack'
  readonly by: string
  /** The id of the transaction, and whose it is. */
  readonly transaction: string
  readonly caller: string
}
