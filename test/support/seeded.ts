/** The seeded numbers of simulations, for tests. */
export { seeded, type Seeded } from '../../src/testkit/simulate/random.ts'
