/** The command line was wrong: exit status 2. The message names what was wrong and what to give instead. */
export class UsageError extends Error {}
