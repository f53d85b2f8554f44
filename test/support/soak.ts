/**
 * Repetitions. The ordinary run makes each assertion once: one batch of what is repeated, and variants in which each pair
 * of values occurs. `npm run test:soak` repeats them, and makes all variants. The tests that differ are those of the
 * files that import this one.
 *
 * What looks random follows from seeds. A seed is printed, and can be set by its variable in the environment.
 */
import { env, stdout } from 'node:process'

/** Whether this is the run of all repetitions. */
export const isSoak = env['SOAK'] !== undefined

/** How often something is repeated: in the ordinary run, and in that of all repetitions. */
export function repetitions(once: number, soak: number): number {
  return isSoak ? soak : once
}

/** All of several variants, or those of the ordinary run. */
export function variantsOf<Variant>(
  all: readonly Variant[],
  isOrdinary: (variant: Variant, index: number) => boolean,
): readonly Variant[] {
  return isSoak ? all : all.filter(isOrdinary)
}

/** The seed of a test: what the environment says, or the usual one. */
export function seedOf(variable: string, usual: number): number {
  const seed = Number(env[variable] ?? usual)
  stdout.write(`${variable}=${seed}\n`)
  return seed
}
