import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'
import { ALERT_SETTINGS, CHANNELS } from '../../src/operations/alerts/channels/channels.js'
import { variableFor } from '../../src/plugin/settings/environment.js'
import type { CommandContext, CommandResult } from './support/command.js'
import { Command, Help, Option } from './support/commander.js'
import { batchSize, define, defineOnDatabase, since, until } from './support/define.js'
import { integer } from './support/option-values.js'

/** The largest integer of the databases' `integer` columns: practically no limit. */
const MAX_INTEGER = 2_147_483_647
/** A hundred years: dates stay within the range of the databases. */
const MAX_DAYS = 36_500

/** Returns the names of the settings of a table. */
function namesOf<Table extends object>(table: Table): Extract<keyof Table, string>[] {
  const names: Extract<keyof Table, string>[] = []
  for (const name in table) names.push(name)
  return names
}

/** Runs a command with its arguments and options, prints its result, and keeps the exit status. */
export type Perform = <Arguments extends unknown[]>(
  command: CommandUnknownOpts,
  module: Promise<{ run(...args: [...Arguments, CommandContext]): Promise<CommandResult> }>,
  ...args: Arguments
) => Promise<void>

/**
 * Creates the command line: every command with its options and its help. A command's module and its imports are loaded
 * when the command runs; help and wrong usage are answered without them.
 *
 * A program keeps what it parsed, so that each call of `ratelimit` creates its own.
 */
export function createProgram(perform: Perform): CommandUnknownOpts {
  const program = new Command('ratelimit')
    .description('Works on the rules, events and counters of fastify-smart-ratelimit.')
    .version(version(), '--version', 'print the version')
    .helpOption('-h, --help', 'show this help')
    .helpCommand('help [command]', 'show the help of a command')
    .configureHelp({
      // The option "sortOptions" compares by locale: loading that takes longer than the rest of the help.
      visibleOptions: (command) =>
        new Help()
          .visibleOptions(command)
          .toSorted((one, other) => (one.attributeName() < other.attributeName() ? -1 : 1)),
      subcommandTerm: (command) => command.name(),
    })
    .addHelpText('after', '\nSettings come from the environment, and from .env in the working directory.')

  defineOnDatabase(program, 'alerts', {
    summary: 'Report the keys of the log with the most refused requests',
    about: [
      'Finds the keys of the log that were refused at least --threshold times within the last --days days, and reports them through each channel that is set. A client has a key for each rule that refused it. Run it from a scheduler. Without a threshold it does nothing.',
      `Every run reports them all again, unless ${variableFor('alertCooldown')} says for how long a key is not reported twice (or until it was refused twice as often).`,
      'With --incidents it reports the incidents of the last day instead, each once, as servers with `schedule.alerts` do by themselves.',
      'If one channel fails, the others still send. The failing channel is named on stderr, and the exit status is 1.',
    ],
    example: 'ratelimit alerts --threshold 100 --days 1 --dry-run',
    settings: namesOf(ALERT_SETTINGS),
  })
    .option(
      '--threshold <int>',
      `refused requests that make an offender (default: ${variableFor('alertThreshold')})`,
      integer('refused requests', 1, MAX_INTEGER),
    )
    .option('--days <int>', 'how far back to look', integer('days', 1, MAX_DAYS), 1)
    .addOption(since(['days']))
    .addOption(until(['days']))
    .addOption(new Option('--incidents', 'report incidents instead of keys').conflicts(['threshold', 'days']))
    .option('--dry-run', 'list the offenders or incidents, send nothing')
    .action((options, command) => perform(command, import('./alerts.js'), options))

  defineOnDatabase(program, 'cleanup', {
    summary: 'Delete rate-limit counters that expired',
    about: [
      'Deletes the counters, sliding-window entries, token buckets and leaky buckets that expired more than --stale-days ago. Expired counters have no effect, whatever their age: the days are only a grace period. Events and rules are not touched (see prune-events).',
    ],
    example: 'ratelimit cleanup --dry-run --verbose',
  })
    .addOption(batchSize())
    .option('--stale-days <int>', 'days to keep a counter after it expired', integer('days', 0, MAX_DAYS), 7)
    .option('--dry-run', 'print what would be deleted, delete nothing')
    .option('--verbose', 'also print how many were found')
    .action((options, command) => perform(command, import('./cleanup.js'), options))

  const counters = program
    .command('counters')
    .summary('Reset the counters of a client')
    .description('The counters of clients.')

  defineOnDatabase(counters, 'reset', {
    summary: 'Reset all counters of a client',
    about: [
      'Forgets what a client has used of the default limit, of prefixes, rules and overrides. All servers obey within two seconds. Overrides, bans and events stay.',
      "It knows the rules of the database and the settings of the environment. Counters of limits in the app's own code (limit(), config of routes) are known only to the app: see counters.html of its dashboard, or POST counters/reset of its API.",
    ],
    example: 'ratelimit counters reset user:1007',
    settings: ['enabled', 'useDynamicRules', 'middleware', 'redis', 'namespace', 'ipv6Subnet', 'privacy', 'hashSecret'],
  })
    .argument('<client>', 'an address, with or without ip: before it, user:<id>, or another client as the log has it')
    .action((client, options, command) =>
      perform(
        command,
        import('./counters.js').then(({ reset: run }) => ({ run })),
        client,
        options,
      ),
    )

  define(program, 'demo', {
    summary: 'Start a shop with invented traffic, to try the dashboard on',
    about: [
      'Starts an app on this machine with a week of invented requests, and four incidents that are going on: a network of addresses that scrapes, a client that guesses passwords, a customer over its limit, and a rule whose rate was set too low. It prints the addresses, an account for each role, and an API token.',
      'Its database is a temporary file, which is removed at the end. Ctrl-C ends it. It takes no settings from the environment.',
    ],
    example: 'npx fastify-smart-ratelimit demo',
  })
    .option('--port <int>', 'the port; 0 is any free one', integer('port', 0, 65_535), 3_000)
    .action((options, command) => perform(command, import('./demo.js'), options))

  defineOnDatabase(program, 'erase', {
    summary: 'Delete what is stored about one client',
    about: [
      'Deletes the events of a client, its counters, also those in Redis, its usage, its alerts, overrides and bans, and counts the sums of its hours again, so that reports stay exact for all others. In the history of overrides its name is replaced. It lists what has to be kept. Where addresses are stored as pseudonyms, it finds the pseudonym of the address.',
      'It works in batches beside running servers. When it is interrupted, what was deleted stays deleted: run it again. Servers that are refusing the client, or count in memory, forget it within its window. Mails that were sent, the log of the app and backups are not touched.',
    ],
    example: 'ratelimit erase --client ip:203.0.113.7 --dry-run',
    settings: ['redis', 'eventSpool', 'privacy', 'hashSecret', 'ipv6Subnet'],
  })
    .requiredOption('--client <client>', 'ip:203.0.113.7, user:<id>, or a client as the reports spell it')
    .option('--namespace <name>', 'namespace of the counters in Redis, where the app has one')
    .addOption(batchSize())
    .option('--dry-run', 'print what would be deleted, delete nothing')
    .action((options, command) => perform(command, import('./erase.js'), options))

  defineOnDatabase(program, 'explain', {
    summary: 'Show which limits apply to a request, and why',
    about: [
      'Lists the limits that would apply to a request, in the order in which they are tried, why the others do not apply, and what its client has used. Nothing is sent or counted.',
      "It knows the rules and overrides of the database and the settings of the environment. Limits in the app's own code (options of the plugin, limit(), config of routes) are known only to the app: see explain.html of its dashboard, or app.smartRateLimit.explain().",
    ],
    example: 'ratelimit explain --method POST --path /login --ip 203.0.113.7 --user 7',
    settings: ['enabled', 'useDynamicRules', 'middleware', 'redis', 'namespace', 'ipv6Subnet', 'privacy', 'hashSecret'],
  })
    .option('--method <name>', 'method of the request', 'GET')
    .requiredOption('--path <path>', 'path of the request, with or without a query')
    .option('--ip <address>', "the client's address")
    .option('--user <id>', "the user's id")
    .action((options, command) => perform(command, import('./explain.js'), options))

  define(program, 'hash-password', {
    summary: 'Hash a staff password',
    about: [
      'Reads a password from standard input, or asks for it on a terminal without showing it, and prints the hash that staffAccounts({ accounts }) takes.',
      'The hash has dollar signs: put it into single quotes in a shell. There is no option for the password: every user of the machine can see arguments, and the shell keeps them in its history.',
    ],
    example: 'ratelimit hash-password < password.txt',
  }).action((_options, command) => perform(command, import('./hash-password.js')))

  defineOnDatabase(program, 'health', {
    summary: 'Check the database, Redis, the rules and the mail server',
    about: [
      'Checks whether the database answers, is migrated and accepts writes, whether the rules can be read, how old the last event is, how the jobs of the scheduler ended, whether Redis accepts writes where it is set, and whether the mail server accepts a sign-in where mails are to be sent. Nothing is sent, and nothing written but counters called "health", and the migrations that a SQLite file lacks, as whenever it is opened.',
      'The exit status is 1 where something fails. Every check takes five seconds at most.',
    ],
    example: 'ratelimit health',
    settings: ['redis', ...CHANNELS.flatMap((channel) => ('probe' in channel ? namesOf(channel.settings) : []))],
  }).action((options, command) => perform(command, import('./health.js'), options))

  defineOnDatabase(program, 'migrate', {
    summary: "Bring the database's tables to this version",
    about: [
      'Applies the migrations that the database lacks; run it before a new version of the server starts. Concurrent runs are safe. A SQLite file migrates itself when it is opened.',
      'On PostgreSQL everything lives in a schema of its own, which is created where there is none: the user of the URL needs the right to do that.',
    ],
    example: 'RATELIMIT_DATABASE_URL=postgresql://user@localhost/app ratelimit migrate',
  })
    .option('--partitioned', 'make the event log a partitioned table (PostgreSQL)')
    .action((options, command) => perform(command, import('./migrate.js'), options))

  const override = program
    .command('override')
    .summary('Block a client, exempt it, or give it its own rate: add, list, remove')
    .description('Overrides of single clients, which take precedence over every rule.')

  defineOnDatabase(override, 'add', {
    summary: 'Block a client, exempt it, or give it its own rate',
    about: [
      `Servers that use rules (${variableFor('useDynamicRules')}) obey within two seconds. An override takes precedence over every rule; an override of the same client and path is replaced.`,
      'If several apply to a request, deny wins over allow, and allow over a rate. Then a user wins over an address, and an address over a network.',
    ],
    example: 'ratelimit override add 203.0.113.7 deny --for 2h --note scraper',
  })
    .argument('<client>', 'an address, a network such as 10.0.0.0/8, or user:<id>')
    .argument('<effect>', 'deny, allow, or a rate such as 20/m')
    .option('--path <pattern>', 'regular expression (RE2) that a path must contain')
    .addOption(new Option('--for <time>', 'duration of the override: 30m, 2h, 7d; at most 366d').conflicts('until'))
    .option('--until <moment>', 'expiry of the override: 2027-01-31T12:00:00Z')
    .option('--note <text>', 'why')
    .option('--algorithm <name>', 'how a rate counts (default: fixed_window)')
    .action((client, effect, options, command) =>
      perform(
        command,
        import('./override.js').then(({ add: run }) => ({ run })),
        client,
        effect,
        options,
      ),
    )

  defineOnDatabase(override, 'list', {
    summary: 'List the overrides of single clients',
    about: [
      'Lists the overrides that have not expired, by client. Servers leave out those that are marked as invalid: raw SQL wrote them.',
    ],
    example: 'ratelimit override list --all',
  })
    .option('--all', 'include those that have expired')
    .action((options, command) =>
      perform(
        command,
        import('./override.js').then(({ list: run }) => ({ run })),
        options,
      ),
    )

  defineOnDatabase(override, 'remove', {
    summary: 'Remove the override of a client',
    about: ['Removes one override: the one for every path or, with --path, the one with exactly this pattern.'],
    example: 'ratelimit override remove 203.0.113.7',
  })
    .argument('<client>', 'the client, as override list shows it, or an address or network without ip:')
    .option('--path <pattern>', 'the pattern of the override')
    .action((client, options, command) =>
      perform(
        command,
        import('./override.js').then(({ remove: run }) => ({ run })),
        client,
        options,
      ),
    )

  defineOnDatabase(program, 'preview', {
    summary: 'Show what a rule would have refused',
    about: [
      'Replays the event log of the last --hours through a rule that is not in force, as if it were active among the rules that are. Nothing is written.',
      'The rule is a JSON file with the fields of a rule, { "name": "api", "pathPattern": "^/api/", "rate": "20/m" }, or a stored rule, with another rate if one is given. It replaces the stored rule of its name. Rules that begin or end decide the requests of their time.',
      'Paths are read as by a router with default options. In an app, app.smartRateLimit.rules.preview() uses the options of that app.',
    ],
    example: 'ratelimit preview --name api --rate 10/m --hours 48',
  })
    .addOption(new Option('--file <file>', 'file with the rule as JSON; - for standard input').conflicts('name'))
    .option('--name <rule>', 'name of a rule in the table, instead of a file')
    .option('--rate <rate>', 'rate to try instead of that of the rule')
    .option('--hours <int>', 'how far back to look', integer('hours', 1, 720), 24)
    .action((options, command) => perform(command, import('./preview.js'), options))

  defineOnDatabase(program, 'prune-events', {
    summary: 'Delete old events',
    about: [
      'Deletes the events that are older than --older-than-days, the oldest first and --batch-size at a time, so that a running server does not notice, and from the history who ignored incidents of that time. When it is interrupted, what was deleted stays deleted. Only this command and the option `schedule` of servers prune the event log: run it every day, unless they do.',
    ],
    example: 'ratelimit prune-events --older-than-days 90',
  })
    .option('--older-than-days <int>', 'days to keep an event; 0 deletes all', integer('days', 0, MAX_DAYS), 30)
    .addOption(batchSize())
    .option('--dry-run', 'print what would be deleted, delete nothing')
    .action((options, command) => perform(command, import('./prune-events.js'), options))

  defineOnDatabase(program, 'reload-rules', {
    summary: 'Reload the rules and count the active ones',
    about: [
      'Reads the rule table and validates every active rule. Invalid rules are listed on stderr; servers leave them out.',
      'All servers of this database reload their rules within two seconds. After a change of a rule, also one by SQL, they reload them without this command.',
    ],
    example: 'ratelimit reload-rules',
  }).action((options, command) => perform(command, import('./reload-rules.js'), options))

  defineOnDatabase(program, 'report', {
    summary: 'Print a report of the log: as text, JSON or CSV',
    about: [
      'Prints a report by the name that it has in the API, such as summary or rule-hits; a wrong name lists them all. Its options are those of the API (docs/reference/api.md), each with --set.',
      'A list is printed as a table, with --csv as CSV, and another report as JSON.',
    ],
    example: 'ratelimit report rule-hits --set days=30 --csv > rules.csv',
    settings: ['privacy', 'hashSecret', 'ipv6Subnet'],
  })
    .argument('<name>', 'the name of the report: rule-hits')
    .option('--set <option...>', 'an option and its value: days=7, limit=20, client=user:7')
    .addOption(new Option('--csv', 'print a list as CSV').conflicts('json'))
    .action((name, options, command) => perform(command, import('./report.js'), name, options))

  const rules = program
    .command('rules')
    .summary('Keep the rules and overrides as a JSON file: export, import')
    .description('The rules and overrides as a JSON file.')

  defineOnDatabase(rules, 'export', {
    summary: 'Print all rules and overrides as a JSON file',
    about: [
      'Prints all rules, active or not, and all overrides that have not expired, for rules import. The same rules make the same file, so that it can be kept under version control. Its JSON Schema is fastify-smart-ratelimit/rules.schema.json.',
      'With --json the document is one line.',
    ],
    example: 'ratelimit rules export > rules.json',
  }).action((options, command) =>
    perform(
      command,
      import('./rules.js').then(({ exportFile: run }) => ({ run })),
      options,
    ),
  )

  defineOnDatabase(rules, 'import', {
    summary: 'Replace the rules and overrides with those of a JSON file',
    about: [
      'Creates, updates and deletes rules and overrides so that they equal the file, which rules export made. An invalid file changes nothing. Servers obey within two seconds. Run it with --dry-run first: rules that the file does not contain are deleted. With --keep they stay.',
      'A file without "rules" leaves the rules alone, one without "overrides" the overrides. Overrides of the file that have expired are left out. Another name is another rule: a rename is a deletion and a creation.',
      'Every invalid place of the file is listed on stderr; the exit status is then 1, and nothing is written.',
    ],
    example: 'ratelimit rules import rules.json --dry-run',
  })
    .argument('<file>', 'the file; - reads it from standard input')
    .option('--dry-run', 'print what would change, write nothing')
    .option('--keep', 'delete nothing')
    .action((file, options, command) =>
      perform(
        command,
        import('./rules.js').then(({ importFile: run }) => ({ run })),
        file,
        options,
      ),
    )

  defineOnDatabase(program, 'tail', {
    summary: 'Print the latest events of the log',
    about: [
      'Prints the latest events, the oldest first: the time, the outcome (allowed, over_limit, would_be, denied, unavailable), the client, the policy that decided, the request, and the count with its limit. Filters look at the latest million events. With --json every event is one line of JSON.',
      'With --follow it goes on with new events, which servers write within some seconds, until it is interrupted: each second it sorts the new ones by time.',
    ],
    example: 'ratelimit tail --follow --refused --client 203.0.113.0/24',
  })
    .option('--lines <int>', 'how many earlier events to print first', integer('lines', 0, 10_000), 20)
    .option('--follow', 'go on with new events')
    .option('--client <client>', 'only events of an address, a network, user:<id> or a key of the log')
    .option('--policy <name>', 'only events decided by a rule, a prefix, default, override, deny-list, …')
    .option('--path <prefix>', 'only events whose path begins with this')
    .option('--refused', 'only refused requests')
    .action((options, command) => perform(command, import('./tail.js'), options))

  const token = program
    .command('token')
    .summary('Let pipelines and tools use the API: create, list, revoke')
    .description('API tokens.')

  defineOnDatabase(token, 'create', {
    summary: 'Create an API token',
    about: [
      'Prints a token once: the database has only its SHA-256. Its name is the actor of what it changes in the history.',
      'A viewer reads; an operator also writes overrides, resets counters, and enables and disables rules; an admin may do everything. A checker asks for decisions about requests, and does nothing else.',
    ],
    example: 'ratelimit token create --name ci --role operator --for 90d',
  })
    .requiredOption('--name <name>', 'name of the token, once')
    .requiredOption('--role <role>', 'viewer, operator, admin or checker')
    .option('--for <time>', 'how long it is valid: 12h, 90d; at most 366d (default: without end)')
    .action((options, command) =>
      perform(
        command,
        import('./token.js').then(({ create: run }) => ({ run })),
        options,
      ),
    )

  defineOnDatabase(token, 'list', {
    summary: 'List the API tokens',
    about: ['Lists all tokens by name, also expired ones, with their last use, to the minute. No list shows a token.'],
    example: 'ratelimit token list',
  }).action((options, command) =>
    perform(
      command,
      import('./token.js').then(({ list: run }) => ({ run })),
      options,
    ),
  )

  defineOnDatabase(token, 'revoke', {
    summary: 'Revoke an API token',
    about: ['Deletes a token: the next request with it is refused. The history keeps its name.'],
    example: 'ratelimit token revoke ci',
  })
    .argument('<name>', 'name of the token')
    .action((name, options, command) =>
      perform(
        command,
        import('./token.js').then(({ revoke: run }) => ({ run })),
        name,
        options,
      ),
    )

  defineOnDatabase(program, 'top', {
    summary: 'List the clients with the most refusals or requests',
    about: [
      'Lists clients over all rules, with their requests that were over a limit (refused, or only counted) and denied (by the deny list, an override or a ban), and the policies that decided.',
      'With --follow it reads them again every five seconds, until it is interrupted; a terminal shows the latest list.',
    ],
    example: 'ratelimit top --within 15m --follow',
  })
    .option('--within <time>', 'how far back to look: 15m, 1h, 7d', '1h')
    .addOption(since(['within']))
    .addOption(until(['within']))
    .addOption(
      new Option('--by <measure>', 'the order: by refused and denied requests, or by all requests')
        .choices(['refused', 'requests'])
        .default('refused'),
    )
    .option('--limit <int>', 'how many clients to list', integer('clients', 1, 1_000), 20)
    .option('--follow', 'read them again every five seconds')
    .action((options, command) => perform(command, import('./top.js'), options))

  defineOnDatabase(program, 'usage', {
    summary: 'List what clients used of a unit, such as tokens',
    about: [
      'Lists the usage that servers keep (`usage`) of the present month, of --month, or from --since to --until, in whole days of UTC: by client, those with the highest amount first, or by day or month.',
      'With --csv it prints all rows, clients by their names, for an invoice.',
    ],
    example: 'ratelimit usage --unit tokens --month 2026-11 --csv > invoice.csv',
    settings: ['privacy', 'hashSecret', 'ipv6Subnet'],
  })
    .requiredOption('--unit <name>', 'the unit: tokens')
    .addOption(new Option('--month <month>', 'a month in UTC: 2026-11').conflicts(['since', 'until']))
    .addOption(since(['month']))
    .addOption(until(['month']))
    .option('--client <client>', 'only of this client: 203.0.113.7, user:7')
    .addOption(new Option('--by <name>', 'what a line is of').choices(['client', 'day', 'month']).default('client'))
    .option('--limit <int>', 'how many lines', integer('lines', 1, 100_000), 100)
    .addOption(new Option('--csv', 'print all as CSV').conflicts('json'))
    .action((options, command) => perform(command, import('./usage.js'), options))

  defineOnDatabase(program, 'verify-rollups', {
    summary: 'Recount the sums of the event log',
    about: [
      'Reports add up counts by hour and day, which servers keep. This command counts all of them again, an hour at a time; reports are exact meanwhile, and slower. Run it after a restore, or after the triggers on the events were disabled; reports need it at no other time.',
    ],
    example: 'ratelimit verify-rollups',
  }).action((options, command) => perform(command, import('./verify-rollups.js'), options))

  return program
}

function version(): string {
  return JSON.parse(readFileSync(join(PACKAGE_ROOT, 'package.json'), 'utf8')).version
}
