import type { SagaEnding } from './saga-client.ts'
import type { World } from './saga-field.ts'
import { before, filesOf, type PlannedStep } from './saga-plan.ts'
import { isObject, type Json, objectAt } from './server/json.ts'

/** What is wrong with how a transaction ended, given how the world is; nothing where all is well. */
export function faultsOfSaga(ending: SagaEnding, status: Json, world: World): readonly string[] {
  const { plan, told, wrong } = ending
  const found = [...wrong, ...untrue(ending, status)]
  const now = String(status['status'])
  if (!['committed', 'rolled_back', 'partially_rolled_back'].includes(now)) found.push(`it is ${now}`)
  // What a rollback left over, as a server was away, is undone once that is back.
  const isDoneSince = told === 'partially_rolled_back' && now === 'rolled_back'
  if (told !== undefined && told !== now && !isDoneSince)
    found.push(`its client was told ${told}, and it is ${now}`)
  if (status['needs_attention'] !== mustBeSeen(ending, status)) found.push('attention is wrong')
  const about = { ...ending, status, world }
  for (const step of plan.steps) found.push(...faultsOfStep(step, about))
  for (const file of filesOf(plan.id)) found.push(...faultsOfFile(file, about))
  return found.map((each) => `${plan.id} (${plan.end}, ${now}): ${each}`)
}

/** Whether an operator has to look: something is not undone, or was committed and may not be done. */
function mustBeSeen({ plan }: SagaEnding, status: Json): boolean {
  if (status['status'] !== 'committed') return status['status'] === 'partially_rolled_back'
  const reads = new Set(plan.steps.flatMap(({ id, tool }) => (isRead(tool) ? [id] : [])))
  return stepsOf(status).some((step) => {
    return objectAt(step, 'error')['code'] === 'OUTCOME_UNKNOWN' && !reads.has(String(step['step_id']))
  })
}

function isRead(tool: string): boolean {
  return tool.includes('read')
}

interface About extends SagaEnding {
  readonly status: Json
  readonly world: World
}

/** What the client was told of steps and is not so. */
function untrue({ done }: SagaEnding, status: Json): readonly string[] {
  const ok = new Set(stepsOf(status).flatMap((each) => (each['status'] === 'ok' ? [each['step_id']] : [])))
  return done.filter((id) => !ok.has(id)).map((id) => `${id} was answered, and is not known to be done`)
}

/** What may be there of a step: it must be, it must not be, or it is unknown, and reported as such. */
type Presence = 'there' | 'gone' | 'either'

function presenceOf({ id }: PlannedStep, { status }: About): Presence {
  const step = stepsOf(status).find((each) => each['step_id'] === id)
  if (!step) return 'gone'
  const isUnknown = objectAt(step, 'error')['code'] === 'OUTCOME_UNKNOWN'
  if (status['status'] === 'committed')
    return isUnknown ? 'either' : step['status'] === 'ok' ? 'there' : 'gone'
  const undone = compensationsOf(status).find((each) => each['step_id'] === id)
  const error = undone && isObject(undone['error']) ? undone['error'] : undefined
  if (!error) return 'gone'
  const isRefused = undone?.['status'] === 'compensation_failed' && error['code'] === 'UPSTREAM_ERROR'
  return isRefused && !isUnknown ? 'there' : 'either'
}

function faultsOfStep(step: PlannedStep, about: About): readonly string[] {
  const membership = presenceOf(step, about)
  const { change } = step
  const found = isThere(change, about.world)
  if (found === undefined || membership === 'either') return []
  if (found === (membership === 'there')) return []
  return [
    `what ${step.id} (${step.tool}) did is ${found ? 'still there' : 'gone'}: ${JSON.stringify(change)}`,
  ]
}

/** Whether what a step made is there whole; files that are written are looked at together. */
function isThere(change: PlannedStep['change'], world: World): boolean | undefined {
  switch (change.kind) {
    case 'moved':
      return world.file(change.to) === before(change.from) && world.file(change.from) === undefined
    case 'entities':
      return change.names.some((name) => world.entities.has(name))
    case 'relation':
      return world.relations.has(change.name)
    case 'effect':
      return world.effects.has(change.key)
    case 'written':
    case 'none':
      return undefined
  }
}

function faultsOfFile(file: string, about: About): readonly string[] {
  const { plan, status, world } = about
  const moves = plan.steps.filter(({ change }) => change.kind === 'moved' && change.from === file)
  const now = world.file(file)
  if (moves.some((step) => presenceOf(step, about) !== 'gone')) return []
  let allowed = new Set([before(file)])
  for (const step of plan.steps) {
    const { change } = step
    if (change.kind !== 'written' || change.file !== file) continue
    const membership = presenceOf(step, about)
    if (membership === 'there' && status['status'] === 'committed') allowed = new Set([change.content])
    else if (membership !== 'gone') allowed.add(change.content)
  }
  if (now !== undefined && allowed.has(now)) return []
  return [`${file} holds ${JSON.stringify(now)}, and not one of ${JSON.stringify([...allowed])}`]
}

function stepsOf(status: Json): readonly Json[] {
  return listOf(status['steps'])
}

function compensationsOf(status: Json): readonly Json[] {
  return listOf(status['steps_compensated'])
}

function listOf(value: unknown): readonly Json[] {
  return Array.isArray(value) ? value.filter(isObject) : []
}
