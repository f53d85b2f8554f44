/**
 * The order of test files: first those that wait longest, for processes that are killed and for what takes its time, so that
 * others compute beside them and none of them is alone at the end. Within that, the order of vitest: the slowest of the last
 * run first, or the largest.
 */
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Files that take about a minute and more, and mostly wait. */
const waiting =
  /\/(crash|sagas)\/|\/(chaos|uploads|lost|lost-redis|restart|shutdown|languages)(\.long)?\.test\.ts$/

/** Sorts test files; vitest creates it. */
export class WaitingFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    const isWaiting = ({ moduleId }: TestSpecification): boolean => waiting.test(moduleId)
    return [...sorted.filter(isWaiting), ...sorted.filter((file) => !isWaiting(file))]
  }
}
