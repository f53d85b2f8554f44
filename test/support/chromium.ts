import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Browser, chromium, type Page } from 'playwright-core'
import { needs } from './needs.ts'

/** The browser that tests start. */
export const chromiumProgram = process.env['CHROMIUM'] ?? '/usr/bin/chromium'

/** The options of tests that need a browser. */
export const needsChromium = needs({
  program: chromiumProgram,
  get: 'apt-get install chromium, or CHROMIUM=PATH',
})

/** Starts a headless browser. */
export function startChromium(): Promise<Browser> {
  return chromium.launch({ executablePath: chromiumProgram, headless: true, args: ['--no-sandbox'] })
}

/** How a page looks on its screen. */
export interface Measured {
  /** How much wider it is than the screen, in pixels. */
  readonly overflow: number
  /** The smallest size of its letters, and the heights of its buttons, in pixels. */
  readonly size: number
  readonly heights: readonly number[]
  /** How many texts there are, and those that hardly differ from what is behind them (WCAG 2.2, 1.4.3). */
  readonly texts: number
  readonly faint: readonly string[]
}

/** Measures a page that may run scripts. */
export function measured(page: Page): Promise<Measured> {
  return page.evaluate(readFileSync(join(import.meta.dirname, 'measure-page.js'), 'utf8'))
}
