/** Settings of references in unit tests: results over 1 KB are kept for 15 minutes. */
export const referenceSettings = {
  over: 1000,
  ttl: 900_000,
  argument: 10_000_000,
  total: 100_000_000,
  urls: false,
  url_ttl: 300_000,
}
