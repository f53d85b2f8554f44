// The subjects of the matrix whose clients answer questions, and whose roots the gateway forwards. To run one:
// `-t matrix/questions`.
import { describePairs } from '../../support/matrix.ts'
import { changingRoots } from './capabilities.ts'
import { errors } from './errors.ts'
import { answersOf, questions } from './questions.ts'

describePairs({ client: () => ({ answers: answersOf('Ada') }), upstream: { roots: 'client' } }, [
  questions,
  errors,
  changingRoots('client'),
])
