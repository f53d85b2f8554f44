import type { Assertion, Level, Verdict } from './assertion.ts'
import { notInThisRelease, ownersToSay } from './verdict.ts'

/** Rules that ask for something this release does not do, or that only people can keep. */
export const later: readonly Assertion[] = [
  ...soon('the documents under use://, project:// and doc://', [
    ['C011', 'must', 'It is documented which profile the server keeps.'],
    ['C022', 'should', 'project://version says the version.'],
    ['C069', 'must', 'Unusual ways to prove who one is are documented.'],
    ['C084', 'must', 'The claims that are read are documented.'],
    ['C165', 'should', 'The briefing and the instructions for agents are resources too.'],
    ['C166', 'must', 'Unusual headers are documented under use://http-headers.'],
    ['C167', 'should', 'use://auth says how to prove who one is.'],
    ['C168', 'should', 'project://version is there.'],
    ['C169', 'may', 'doc://readme is there.'],
  ]),
  ...soon('versions of what is offered, and what changed between them', [
    ['C016', 'must', 'What is offered has a version of its own.'],
    ['C017', 'must', 'A change that breaks callers raises the first number of the version.'],
    ['C018', 'must', 'An addition raises the second number of the version.'],
    ['C019', 'must', 'Without a change only the third number is raised.'],
    ['C212', 'must', 'It is known what callers rely on, and compared with what was.'],
    ['C213', 'must', 'Additions and longer texts are told apart from breaks.'],
    ['C217', 'must', 'Who uses something hears of its change.'],
    ['C218', 'must', 'Changes are written up in a changelog.'],
  ]),
  ...soon('briefings for agents', [
    ['C153', 'should', 'There is a prompt agent_brief.'],
    ['C154', 'should', 'There is a prompt agent_prompt.'],
    ['C155', 'should', 'The briefing says when to choose the server, and when not.'],
    ['C156', 'should', 'The briefing is short.'],
    ['C157', 'should', 'The instructions go through each tool, its limits and examples.'],
  ]),
  ...soon('descriptions that the gateway completes', [
    ['C134', 'must', 'A tool that changes something says how risky it is: low, medium or high.'],
    ['C136', 'may', 'The risk stands in the annotations too.'],
    ['C137', 'must', 'The risk can be read in the description.'],
  ]),
  ...owners('completing descriptions', [
    [
      'C138',
      'must',
      'How a call can be repeated safely is documented.',
      'whether its tools take a key for that',
    ],
    ['C139', 'must', 'When to try again is documented.', 'after which failures a call may be made again'],
    [
      'C140',
      'must',
      'What happens to a call that takes too long is documented.',
      'what is left of such a call',
    ],
    ['C141', 'must', 'What is recorded of a call is documented.', 'what the server records'],
    [
      'C142',
      'must',
      'Whether a call needs approval is documented.',
      'which of its tools somebody must approve',
    ],
  ]),
  ...owners('masking personal data', [
    [
      'C176',
      'must',
      'Personal data in results is handled by a policy.',
      'which of its results hold personal data',
    ],
    ['C231', 'forbidden', 'No answer holds more personal data than the policy allows.', 'what the policy is'],
  ]),
  ...owners('announcing what will go', [
    [
      'C214',
      'must',
      'What will go says so, and until when it stays.',
      'which of its tools will go, and when',
    ],
    ['C215', 'must', 'What will go is announced in the changelog.', 'which of its tools will go, and when'],
    ['C216', 'must', 'Nothing goes before its time.', 'how long what it drops was announced'],
  ]),
  {
    id: 'C219',
    level: 'must',
    text: 'The README says what is offered and within which limits.',
    check: () => ownersToSay('what its README says'),
  },
]

type Row = readonly [id: string, level: Level, text: string]

function soon(what: string, rows: readonly Row[]): Assertion[] {
  return rows.map((row) => ruled(row, notInThisRelease(what)))
}

/** Rules the gateway could only help with, later. */
function owners(help: string, rows: readonly (readonly [...Row, asks: string])[]): Assertion[] {
  const { evidence: why } = notInThisRelease(help)
  return rows.map(([id, level, text, asks]) => {
    const asked = ownersToSay(asks)
    return ruled([id, level, text], { ...asked, evidence: [...why, ...asked.evidence] })
  })
}

function ruled([id, level, text]: Row, verdict: Verdict): Assertion {
  return { id, level, text, check: () => verdict }
}
