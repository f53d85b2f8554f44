/** Spellings of resources in `file:///srv/private/` that some servers take for the plain one. */
export const otherSpellings = [
  'file:/srv/private/x',
  'file:srv/private/x',
  'file://localhost/srv/private/x',
  'file://elsewhere/srv/private/x',
  'file:////srv/private/x',
  'File:/SRV/Private/x',
  'db+file:///srv/private/x',
  'git+db+file:/srv/private/x',
  'file:///srv/public/..;/private/x',
  'file:///srv/public/..;a=b/private/x',
  'file:///srv/.;/private;v=1/x',
  'file:///srv/public/%2e%2e;/private/x',
  'file:///srv/public/..%3b/private/x',
  'file:\\\\\\srv\\private\\x',
  'file:///srv/public\\..\\private/x',
  'file:%2f%2f%2fsrv%2fprivate%2fx',
  'file:///srv/%2570rivate/x',
  'file:///srv/private/x?download=1',
  'file:///srv/private/x#top',
]

/** Those that can be read in unforeseeable ways. */
export const illFormed = [
  'file:///srv/%zz/../private/x',
  'file:///srv/public/%',
  'file:///srv/public/%2',
  'file:///srv/%c0%ae%c0%ae/private/x',
  'file:///srv/%70%ff%72ivate/x',
  'file:///srv/public/x%00.txt',
  'file:///srv/public/x%0a',
  'file:///srv/public/\u0007',
  `file:///srv/public/%${'25'.repeat(8)}2e`,
]
