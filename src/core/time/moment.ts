/** How long ago something was, for what must not be believed longer than others believe it. */
import { world } from '../world.ts'

/** A time on both clocks. The monotonic one stands still while the machine sleeps, and the wall clock may be set back. */
export interface Moment {
  readonly monotonic: number
  readonly wall: number
}

export function moment(): Moment {
  return { monotonic: world.monotonic(), wall: world.now() }
}

/** How long ago it was by the clock that went further, in milliseconds. */
export function elapsedSince({ monotonic, wall }: Moment): number {
  return Math.max(world.monotonic() - monotonic, world.now() - wall)
}
