-- Rollups of the event log: what the reports add up instead of reading every event. `src/rollups/` counts them; here is
-- only what has to be noticed whatever writes to the log.
--
-- "span" is the length of a bucket in minutes: 1, 60 or 1440, in UTC; "bucket" counts so many of them since the epoch.
-- Texts are compared by their bytes.

-- CreateTable
-- All requests. Of the paths that clients can make up, a bucket has 256 combinations of path, rule and method; further
-- ones are counted with the empty path. A combination that has a row is counted there and nowhere else.
CREATE TABLE "rate_limit_traffic_rollup" (
    "span" INTEGER NOT NULL,
    "bucket" BIGINT NOT NULL,
    "path" TEXT NOT NULL,
    "rule_name" TEXT NOT NULL,
    "method" TEXT NOT NULL,
    "total" BIGINT NOT NULL,
    "blocked" BIGINT NOT NULL,
    "would_block" BIGINT NOT NULL,
    "denied" BIGINT NOT NULL,

    PRIMARY KEY ("span", "bucket", "path", "rule_name", "method")
) WITHOUT ROWID;

-- CreateTable
-- The refused requests of each key.
CREATE TABLE "rate_limit_blocked_rollup" (
    "span" INTEGER NOT NULL,
    "bucket" BIGINT NOT NULL,
    "key" TEXT NOT NULL,
    "blocked" BIGINT NOT NULL,

    PRIMARY KEY ("span", "bucket", "key")
) WITHOUT ROWID;

-- CreateTable
-- The requests of each client that were not plainly allowed, by what decided.
CREATE TABLE "rate_limit_client_rollup" (
    "span" INTEGER NOT NULL,
    "bucket" BIGINT NOT NULL,
    "client" TEXT NOT NULL,
    "policy" TEXT NOT NULL,
    "over_limit" BIGINT NOT NULL,
    "would_block" BIGINT NOT NULL,
    "denied" BIGINT NOT NULL,
    "unavailable" BIGINT NOT NULL,

    PRIMARY KEY ("span", "bucket", "client", "policy")
) WITHOUT ROWID;

-- CreateTable
-- What was logged in each hour, kept when the events are deleted.
CREATE TABLE "rate_limit_trend" (
    "hour" BIGINT NOT NULL PRIMARY KEY,
    "total" BIGINT NOT NULL,
    "blocked" BIGINT NOT NULL,
    "would_block" BIGINT NOT NULL,
    "denied" BIGINT NOT NULL
);

-- CreateIndex
-- Of days alone: an hour has few enough keys to read them all, and every fold would pay for its part of the index.
CREATE INDEX "rate_limit_blocked_rollup_span_bucket_blocked_idx" ON "rate_limit_blocked_rollup"("span", "bucket", "blocked")
WHERE "span" = 1440;

-- Events up to this id are in the rollups, but for those of hours that have a mark: these are read from the log. While an
-- hour is counted again, its events since that moment are not yet counted. "recounts" grows with each step of that: with
-- the trend, which grows with the watermark, it tells a process whether the sums of some hours are still as it read them.
CREATE TABLE "rate_limit_watermark" (
    "id" INTEGER NOT NULL PRIMARY KEY,
    "event_id" BIGINT NOT NULL,
    "recounts" BIGINT NOT NULL DEFAULT 0
);
INSERT INTO "rate_limit_watermark" VALUES (1, 0, 0);

CREATE TABLE "rate_limit_rollup_mark" ("hour" BIGINT NOT NULL, "since" BIGINT NOT NULL, PRIMARY KEY ("hour", "since"));

-- A timestamp written here marks its hour. The minute of a timestamp is here as the dialect has it: what is no number
-- sorts after all numbers, and stands with all that is later than the year 9999. OR IGNORE would not do, since a trigger
-- takes over the conflict clause of the statement that fires it.
CREATE VIEW "rate_limit_rollup_marking" AS SELECT NULL AS "timestamp";

CREATE TRIGGER "rate_limit_rollup_marking_insert" INSTEAD OF INSERT ON "rate_limit_rollup_marking"
BEGIN
    INSERT INTO "rate_limit_rollup_mark"
    SELECT "hour", "hour" * 3600000 FROM (
        SELECT CASE
            WHEN typeof(NEW."timestamp") NOT IN ('integer', 'real') THEN 4223371680
            WHEN NEW."timestamp" < 0 THEN -1440
            ELSE MIN(4223371680, CAST(NEW."timestamp" AS INTEGER) / 60000)
        END / 60 AS "hour"
    ) AS marked WHERE NOT EXISTS (
        SELECT 1 FROM "rate_limit_rollup_mark" AS known
        WHERE known."hour" = marked."hour" AND known."since" = marked."hour" * 3600000
    );
END;

-- Ids of the log's own are above the watermark. A row of another id may have taken the place of one that was counted:
-- REPLACE deletes that one and fires no trigger for it, so that any hour may have lost it. A BEFORE INSERT trigger could
-- look, but makes SQLite read each row of a batch twice.
CREATE TRIGGER "rate_limit_event_rollup_insert" AFTER INSERT ON "rate_limit_event"
WHEN NEW."id" <= (SELECT "event_id" FROM "rate_limit_watermark")
BEGIN
    INSERT INTO "rate_limit_rollup_marking"
    SELECT NEW."timestamp" UNION ALL SELECT "hour" * 3600000 FROM "rate_limit_trend";
END;

CREATE TRIGGER "rate_limit_event_rollup_update" AFTER UPDATE ON "rate_limit_event"
WHEN MIN(OLD."id", NEW."id") <= (SELECT "event_id" FROM "rate_limit_watermark")
BEGIN
    INSERT INTO "rate_limit_rollup_marking"
    SELECT OLD."timestamp" UNION ALL SELECT NEW."timestamp"
    UNION ALL SELECT "hour" * 3600000 FROM "rate_limit_trend" WHERE NEW."id" <> OLD."id";
END;

-- The watermark is the id of a row, so that the ids of a log whose sequence was reset are above it again.
CREATE TRIGGER "rate_limit_event_rollup_delete" AFTER DELETE ON "rate_limit_event"
WHEN OLD."id" <= (SELECT "event_id" FROM "rate_limit_watermark")
BEGIN
    INSERT INTO "rate_limit_rollup_marking" VALUES (OLD."timestamp");
    UPDATE "rate_limit_watermark"
    SET "event_id" = COALESCE((SELECT MAX("id") FROM "rate_limit_event" WHERE "id" < OLD."id"), 0)
    WHERE "event_id" = OLD."id";
END;
