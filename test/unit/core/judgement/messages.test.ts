import { expect, test } from 'vitest'
import { classify } from '../../../../src/core/judgement/classify.ts'
import { serverSettings } from '../../../support/server-settings.ts'

function riskOf(name: string, description: string): string {
  const definition = { name, description, inputSchema: { type: 'object' } }
  return classify(definition, serverSettings({ trust: false })).risk
}

test.each([
  ['countdown', 'Emit one progress + one log notification per step; observes cancellation.', 'safe'],
  ['long_operation', "Emit progress, close this call's SSE stream, emit more progress, then return.", 'safe'],
  ['restricted', 'A tool that always rejects the caller at the protocol level.', 'safe'],
  ['add_note', 'Add a note and announce it via `notifications/resources/list_changed`.', 'reversible'],
  ['add_note', 'Add a note, then send notifications/resources/updated.', 'reversible'],
])('%s: "%s" is judged without the messages of the call', (name, description, risk) => {
  expect(riskOf(name, description)).toBe(risk)
})

test.each([
  ['finish', 'Emit progress, then delete all records.'],
  ['finish', 'Emit progress. Deletes all records.'],
  ['finish', 'Delete all records; observes cancellation.'],
  ['delete_note', 'Emit progress.'],
  ['post', 'Send progress emails to all customers.'],
  ['tell', 'Announce the release in #general and send notifications/resources/updated.'],
  ['push', 'Send a message by POST /notifications/send.'],
  ['customers', 'Send all customers their weekly progress.'],
  ['bookings', 'Support cancellation of a booking and refund it.'],
  ['stop', 'Close the video stream.'],
  ['stop', 'Close the live event stream.'],
  ['refuse', 'Reject the merge request.'],
])('%s: "%s" is judged by what else it does', (name, description) => {
  expect(riskOf(name, description)).toBe('destructive')
})
