/** What each check of a server test is about, as a sentence about what has to be true. */

/** A form of what follows the subject in an id, and its sentence; `what` is the rest, `of` the name of the subject. */
type Form = readonly [pattern: RegExp, sentence: (of: string, what: string) => string]

const ofTools: readonly Form[] = [
  [/^valid$/, (of) => `Valid arguments for ${of} can be made from its input schema.`],
  [/^valid\/required$/, (of) => `${of} answers a call with only the required arguments.`],
  [/^valid\/all$/, (of) => `${of} answers a call with all of its arguments.`],
  [/^valid\/example-/, (of) => `${of} answers the call of an example.`],
  [/^valid\/(.+)$/, (of, what) => `${of} answers a call with ${what}.`],
  [/^missing\/(.+)$/, (of, what) => `${of} refuses a call without the argument ${what}.`],
  [/^wrong-type\/arguments$/, (of) => `${of} refuses arguments that are a list.`],
  [/^wrong-type\/(.+)\/null$/, (of, what) => `${of} refuses null for ${what}.`],
  [/^wrong-type\/(.+?)(?:\/item)?$/, (of, what) => `${of} refuses a value of another type for ${what}.`],
  [/^boundary\/(.+)\/([^/]+)$/, (of, what) => `${of} keeps to the limits that its schema sets for ${what}.`],
  [/^extra\//, (of) => `${of} refuses an argument that its schema does not allow.`],
  [/^hostile\/prototype$/, (of) => `${of} is not harmed by arguments named __proto__ and constructor.`],
  [
    /^hostile\/(.+)\/([^/]+)$/,
    (of, what) => `${of} answers a hostile text in ${what}, and does not execute it.`,
  ],
  [/^example-(\d+)$/, (of, what) => `Example ${what} of ${of} gives the result that it shows.`],
  [/^output-schema$/, (of) => `The structured content of ${of} fits its output schema.`],
  [/^structured-text$/, (of) => `The text of ${of} says the same as its structured content.`],
  [/^error-text$/, (of) => `Errors of ${of} reveal nothing of its inside.`],
  [/^latency$/, (of) => `${of} answers quickly.`],
  [/^repeat$/, (of) => `The same call of ${of} has the same result.`],
  [/^survives$/, (of) => `The server goes on after the calls of ${of}.`],
  [/^success$/, (of) => `A valid call of ${of} succeeds.`],
  [/\/undo$/, (of) => `The call of ${of} can be undone.`],
  [/^(?:calls|writes|left-out)$/, (of) => `${of} is called.`],
]

const ofOthers: Readonly<Record<string, readonly Form[]>> = {
  list: [
    [/^pages$/, (of) => `The pages of the list of ${of} end.`],
    [/^entries$/, (of) => `Each entry of the list of ${of} has its required members.`],
    [/^unique$/, (of) => `Nothing is twice in the list of ${of}.`],
    [/^left-out$/, () => 'Every listed tool is called.'],
    [/^names$/, () => 'Names of tools have 1 to 128 characters of A-Z, a-z, 0-9, "_", "-" and ".".'],
  ],
  prompt: [
    [/^get$/, (of) => `The prompt ${of} can be got.`],
    [/^missing\/(.+)$/, (of, what) => `The prompt ${of} is refused without its argument ${what}.`],
    [/^error-text$/, (of) => `Errors of the prompt ${of} reveal nothing of the server's inside.`],
  ],
  resource: [[/^read$/, (of) => `The resource ${of} can be read.`]],
  unknown: [
    [/^refused$/, (of) => `An unknown ${of} is refused with the right code.`],
    [/^error-text$/, (of) => `The error for an unknown ${of} reveals nothing of the server's inside.`],
  ],
  capability: [[/./, (of) => `The declared capability ${of} is implemented.`]],
  malformed: [
    [/^refused$/, (of) => `A malformed message (${of}) is refused or ignored.`],
    [/^survives$/, (of) => `The server goes on after a malformed message (${of}).`],
  ],
}

const whole: Readonly<Record<string, string>> = {
  'protocol/discovery': 'The server says its name, version, revision and capabilities.',
  'protocol/ping': 'The server answers ping.',
  'protocol/messages': 'Everything that the server sends is a message of JSON-RPC.',
  'protocol/response-ids': 'Each response answers one request, once.',
  'protocol/requests': 'The server requests nothing that the client did not declare.',
  'protocol/notifications': 'Notifications are of capabilities that the server declared.',
  'server/tested': 'The server is tested.',
  'server/available': 'The server can be reached during the whole test.',
}

/** The sentence for a check, whose id begins with its subject, such as `tool/get_weather`. */
export function sentenceOf(subject: string, id: string): string {
  const own = Object.hasOwn(whole, id) ? whole[id] : undefined
  if (own !== undefined) return own
  const slash = subject.indexOf('/')
  const [kind, of, rest] = [subject.slice(0, slash), subject.slice(slash + 1), id.slice(subject.length + 1)]
  const forms = kind === 'tool' ? ofTools : Object.hasOwn(ofOthers, kind) ? ofOthers[kind] : undefined
  for (const [pattern, sentence] of forms ?? []) {
    const found = pattern.exec(rest)
    if (found) return sentence(of, found[1] ?? '')
  }
  return `The server passes the check ${id}.`
}
