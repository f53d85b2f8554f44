/** The commands that consist of others, as values: what help and the manual say of each group. */
import type { Command } from './command.ts'

/** What is known of a group of commands besides its commands. */
type Group = Pick<Command, 'summary' | 'about' | 'exitCodes' | 'page'>

/** The commands that consist of others. */
export const groups: Readonly<Record<string, Group>> = {
  export: { summary: 'print the registry entry of a server', about: 'It is not marked as verified.' },
  approvals: {
    summary: 'list calls that wait for approval; show, approve or deny one; test who is told',
    about: `Works on the store that running gateways share. To approve, a terminal is needed: it shows the call, and asks for a code.
    The first 6 or more characters of an id are enough if they are unique.`,
    page: 'safe-actions.md',
  },
  fleet: {
    summary: 'list the gateways that share the store; have one of them end',
    about: `Gateways that serve clients over HTTP tell each other through the store that they run. The first 6 or more characters of
    an id are enough if they are unique.`,
    exitCodes: '0 success, 1 there is no such gateway, or it has not ended in time',
    page: 'operating.md#several-gateways-with-one-store',
  },
  tx: {
    summary: 'list transactions; show, roll back or acknowledge one',
    about: `Transactions are printed with their steps, the compensation of each, and what could not be undone. A rollback is done
    by a running gateway with the same store, or in this process if none is running.`,
    page: 'safe-actions.md',
  },
  ops: {
    summary: 'list operations, the tool calls that last; show or cancel one',
    about: `Operations are tool calls that take over a second, and tasks. They are printed with name, state, server and tool, caller,
    age, and whether the caller sees a task; of what the caller sent and gets, only sizes. A cancelled operation ends: its
    outcome is not kept, and its gateway stops a task within seconds. A client that still waits for its response gets it. What
    the server did until then stays done. The log of the gateway contains the name of an operation as \`operation\`.`,
    exitCodes: '0 success, 1 there is no such operation, or it has ended already',
    page: 'long-running-calls.md',
  },
  events: {
    summary: 'list the types of events; print events, manage subscriptions',
    about: `list connects to the servers and prints the types of events that clients with every right have, what each comes from,
    how it is delivered, and how many events of it are in the store.

    tail prints the events in the store, oldest first, and says where events are missing. Secrets and masked data are not in the
    store; other data is, as servers and callers sent it. On a line, long data is cut: --json prints all of it, one object on
    each line.

    subscriptions prints who subscribes to what, where events are delivered to (of URLs, origin and path), how many may be
    waiting, when it expires, and the last failure. After drop, running gateways stop the deliveries within seconds. The
    subscriber is not notified, and can subscribe again if it still has the right.

    redeliver has running gateways deliver events again: all, those of one subscription, or one event. The first 10 or more
    characters of the id of a subscription are enough if they are unique.`,
    exitCodes: `0 success, 1 a server cannot be asked, there is no such subscription or dead letter, or its subscription has ended`,
    page: 'events-reference.md#on-the-command-line',
  },
  refs: {
    summary: 'list data that is kept for callers; show, save, add or delete some',
    about: `Data that gateways keep for callers is named ref://ID. The first 6 or more characters of an id are enough if they are
    unique.`,
    exitCodes: '0 success, 1 there is no such reference, or no room for the file',
    page: 'references.md#on-the-command-line',
  },
  audit: { summary: 'detect removed or altered lines in an audit log', page: 'guard.md' },
  store: {
    summary: 'describe, export or import the store; accept one that lost data',
    about: 'Works on the store of the configuration, even while a gateway uses it.',
    page: 'operating.md',
  },
}
