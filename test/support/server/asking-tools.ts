import { type Call, pause, type Question } from './call.ts'
import type { Json } from './json.ts'
import { formQuestion, rootsQuestion, samplingQuestion, spokenQuestion, urlQuestion } from './questions.ts'
import { numberIn, stringIn, textResult, type Tool } from './tool.ts'

/** The tools that ask the client; each replies with the answers it got, as JSON. */
export const askingTools: Readonly<Record<string, Tool>> = {
  ask_form: {
    description: 'Asks for a form',
    properties: {
      state: { type: 'boolean', description: 'False: ask without a request state' },
      message: { type: 'string', description: 'What to ask' },
      waits: { type: 'boolean', description: 'False: reply without waiting for the answer' },
    },
    fits: (traits) => traits.elicitation,
    run: (call, args) => {
      const question = formQuestion(call.world.traits, stringIn(args, 'message', 'What is your name?'))
      const asked = ask(call, { answer: question })
      if (args['waits'] !== false) return asked
      // No client may be left to answer, which is no fault.
      asked.catch(() => undefined)
      return pause(call, 100).then(() => textResult('did not wait'))
    },
  },
  ask_url: {
    description: 'Asks for a visit to a URL',
    fits: (traits) => traits.urlElicitation,
    run: (call) => ask(call, { answer: urlQuestion(call.world.traits) }),
  },
  ask_sampling: {
    description: 'Asks the model of the client',
    run: (call) => ask(call, { answer: samplingQuestion('What is the capital of France?') }),
  },
  ask_spoken: {
    description: 'Asks the model of the client with a sound',
    fits: (traits) => traits.audio,
    run: (call) => ask(call, { answer: spokenQuestion() }),
  },
  ask_roots: {
    description: 'Asks for the roots',
    run: (call) => ask(call, { answer: rootsQuestion() }),
  },
  ask_two: {
    description: 'Asks for two forms at once',
    fits: (traits) => traits.elicitation,
    run: (call) => {
      const { traits } = call.world
      return ask(call, { first: formQuestion(traits, 'First?'), second: formQuestion(traits, 'Second?') })
    },
  },
  ask_parallel: {
    description: 'Asks for a form, the model and the roots at once',
    fits: (traits) => traits.elicitation,
    run: (call) =>
      ask(call, {
        form: formQuestion(call.world.traits, 'Form?'),
        sampling: samplingQuestion('Sample?'),
        roots: rootsQuestion(),
      }),
  },
  ask_rounds: {
    description: 'Asks n times in a row',
    properties: { n: { type: 'integer' } },
    fits: (traits) => traits.elicitation,
    run: async (call, args) => {
      const answers: Record<string, unknown> = {}
      for (let round = 1; round <= numberIn(args, 'n', 2); round++) {
        const question = formQuestion(call.world.traits, `Round ${round}?`)
        Object.assign(answers, await call.ask({ [`round_${round}`]: question }))
      }
      return textResult(JSON.stringify(answers))
    },
  },
  ask_later: {
    description: 'Asks for nothing, but to be called again with its state',
    fits: (traits) => traits.modern,
    run: (call) => ask(call, {}),
  },
}

async function ask(call: Call, questions: Readonly<Record<string, Question>>): Promise<Json> {
  return textResult(JSON.stringify(await call.ask(questions)))
}
