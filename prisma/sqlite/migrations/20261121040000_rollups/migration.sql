-- Rollups of the event log: what the reports add up instead of reading every event.
--
-- Buckets are whole hours and days in UTC: "span" is 1 or 24, and "bucket" counts so many hours since the epoch. Texts
-- are compared by their bytes.

-- CreateTable
-- All requests. Of the paths that clients can make up, a bucket has the first 256 combinations of path, rule and method;
-- further ones are counted with the empty path. A combination that has a row is counted there and nowhere else, so that
-- a deleted event is taken from where it was added: rows stay, at zero, until the bucket is empty.
CREATE TABLE "rate_limit_traffic_rollup" (
    "span" INTEGER NOT NULL,
    "bucket" BIGINT NOT NULL,
    "path" TEXT NOT NULL,
    "rule_name" TEXT NOT NULL,
    "method" TEXT NOT NULL,
    "total" BIGINT NOT NULL,
    "blocked" BIGINT NOT NULL,
    "would_block" BIGINT NOT NULL,

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
-- What was logged in each hour, kept when the events are deleted.
CREATE TABLE "rate_limit_trend" (
    "hour" BIGINT NOT NULL PRIMARY KEY,
    "total" BIGINT NOT NULL,
    "blocked" BIGINT NOT NULL,
    "would_block" BIGINT NOT NULL
);

-- CreateIndex
-- Of days alone: an hour has few enough keys to read them all, and every fold would pay for its part of the index.
CREATE INDEX "rate_limit_blocked_rollup_span_bucket_blocked_idx" ON "rate_limit_blocked_rollup"("span", "bucket", "blocked")
WHERE "span" = 24;

-- How the rollups are kept. Triggers append every change of the event log to the table of deltas, whoever makes it;
-- 4,096 of them at a time are folded into the rollups, since adding each by itself would double what an event costs.
-- Reports read the deltas too, and so are exact at any moment.

-- "key" is that of a refused request. A deletion does not take from the trend.
CREATE TABLE "rate_limit_rollup_delta" (
    "id" INTEGER NOT NULL PRIMARY KEY,
    "timestamp" DATETIME NOT NULL,
    "key" TEXT,
    "path" TEXT NOT NULL,
    "rule_name" TEXT NOT NULL,
    "method" TEXT NOT NULL,
    "total" BIGINT NOT NULL,
    "blocked" BIGINT NOT NULL,
    "would_block" BIGINT NOT NULL,
    "is_deletion" BOOLEAN NOT NULL,
    -- What is no number sorts after all numbers, here as in the event table. No report reaches before the epoch.
    "hour" BIGINT GENERATED ALWAYS AS (
        CASE
            WHEN typeof("timestamp") NOT IN ('integer', 'real') THEN 1000000000000
            WHEN "timestamp" < 0 THEN -1
            ELSE CAST("timestamp" AS INTEGER) / 3600000
        END
    ) STORED
);

-- The deltas, added up: by path, rule and method where "key" is null, else by key.
CREATE TABLE "rate_limit_rollup_stage" (
    "hour" BIGINT NOT NULL,
    "key" TEXT,
    "path" TEXT NOT NULL,
    "rule_name" TEXT NOT NULL,
    "method" TEXT NOT NULL,
    "total" BIGINT NOT NULL,
    "blocked" BIGINT NOT NULL,
    "would_block" BIGINT NOT NULL,
    "is_deletion" BOOLEAN NOT NULL
);

-- A row written here folds the deltas into the rollups, and is gone.
CREATE TABLE "rate_limit_rollup_fold" ("id" INTEGER NOT NULL PRIMARY KEY);

CREATE TRIGGER "rate_limit_rollup_fold" AFTER INSERT ON "rate_limit_rollup_fold"
BEGIN
    INSERT INTO "rate_limit_rollup_stage"
    SELECT "hour", NULL, "path", "rule_name", "method", SUM("total"), SUM("blocked"), SUM("would_block"), "is_deletion"
    FROM "rate_limit_rollup_delta" WHERE "hour" >= 0
    GROUP BY "path", "hour", "rule_name", "method", "is_deletion";

    INSERT INTO "rate_limit_rollup_stage"
    SELECT "hour", "key", '', '', '', 0, SUM("blocked"), 0, 0
    FROM "rate_limit_rollup_delta" WHERE "hour" >= 0 AND "key" IS NOT NULL
    GROUP BY "key", "hour";

    -- The busiest of the new combinations take the room that is left.
    INSERT INTO "rate_limit_traffic_rollup"
    SELECT "span", "bucket", CASE WHEN "known" OR "place" <= "room" AND "total" > 0 THEN "path" ELSE '' END AS "folded",
        "rule_name", "method", SUM("total"), SUM("blocked"), SUM("would_block")
    FROM (
        SELECT added.*, 256 - IFNULL(present."combinations", 0) AS "room",
            ROW_NUMBER() OVER (
                PARTITION BY added."span", added."bucket", added."known"
                ORDER BY added."total" DESC, added."path", added."rule_name", added."method"
            ) AS "place"
        FROM (
            SELECT spans."span", stage."hour" / spans."span" AS "bucket", stage."path", stage."rule_name", stage."method",
                SUM(stage."total") AS "total", SUM(stage."blocked") AS "blocked", SUM(stage."would_block") AS "would_block",
                EXISTS (
                    SELECT 1 FROM "rate_limit_traffic_rollup" AS rollup
                    WHERE rollup."span" = spans."span" AND rollup."bucket" = stage."hour" / spans."span"
                        AND rollup."path" = stage."path" AND rollup."rule_name" = stage."rule_name"
                        AND rollup."method" = stage."method"
                ) AS "known"
            FROM "rate_limit_rollup_stage" AS stage
            CROSS JOIN (SELECT 1 AS "span" UNION ALL SELECT 24) AS spans
            WHERE stage."key" IS NULL
            GROUP BY 1, 2, 3, 4, 5
        ) AS added
        LEFT JOIN (
            SELECT "span", "bucket", COUNT(*) AS "combinations" FROM "rate_limit_traffic_rollup"
            WHERE "span" = 1 AND "bucket" IN (SELECT "hour" FROM "rate_limit_rollup_stage") AND "path" <> ''
            GROUP BY "bucket"
            UNION ALL
            SELECT "span", "bucket", COUNT(*) FROM "rate_limit_traffic_rollup"
            WHERE "span" = 24 AND "bucket" IN (SELECT "hour" / 24 FROM "rate_limit_rollup_stage") AND "path" <> ''
            GROUP BY "bucket"
        ) AS present ON present."span" = added."span" AND present."bucket" = added."bucket"
    )
    WHERE true
    GROUP BY "span", "bucket", "folded", "rule_name", "method"
    ON CONFLICT ("span", "bucket", "path", "rule_name", "method") DO UPDATE SET
        "total" = "total" + excluded."total",
        "blocked" = "blocked" + excluded."blocked",
        "would_block" = "would_block" + excluded."would_block";

    INSERT INTO "rate_limit_blocked_rollup"
    SELECT spans."span", stage."hour" / spans."span", stage."key", SUM(stage."blocked")
    FROM "rate_limit_rollup_stage" AS stage
    CROSS JOIN (SELECT 1 AS "span" UNION ALL SELECT 24) AS spans
    WHERE stage."key" IS NOT NULL
    GROUP BY 1, 2, 3
    ON CONFLICT ("span", "bucket", "key") DO UPDATE SET "blocked" = "blocked" + excluded."blocked";

    INSERT INTO "rate_limit_trend"
    SELECT "hour", SUM("total"), SUM("blocked"), SUM("would_block")
    FROM "rate_limit_rollup_stage" WHERE "key" IS NULL AND NOT "is_deletion"
    GROUP BY "hour"
    ON CONFLICT ("hour") DO UPDATE SET
        "total" = "total" + excluded."total",
        "blocked" = "blocked" + excluded."blocked",
        "would_block" = "would_block" + excluded."would_block";

    DELETE FROM "rate_limit_traffic_rollup"
    WHERE (
        "span" = 1 AND "bucket" IN (SELECT "hour" FROM "rate_limit_rollup_stage" WHERE "total" < 0)
        OR "span" = 24 AND "bucket" IN (SELECT "hour" / 24 FROM "rate_limit_rollup_stage" WHERE "total" < 0)
    ) AND NOT EXISTS (
        SELECT 1 FROM "rate_limit_traffic_rollup" AS rollup
        WHERE rollup."span" = "rate_limit_traffic_rollup"."span" AND rollup."bucket" = "rate_limit_traffic_rollup"."bucket"
            AND rollup."total" <> 0
    );

    DELETE FROM "rate_limit_blocked_rollup"
    WHERE "span" = 1 AND "blocked" = 0
        AND "bucket" IN (SELECT "hour" FROM "rate_limit_rollup_stage" WHERE "key" IS NOT NULL);

    DELETE FROM "rate_limit_blocked_rollup"
    WHERE "span" = 24 AND "blocked" = 0
        AND "bucket" IN (SELECT "hour" / 24 FROM "rate_limit_rollup_stage" WHERE "key" IS NOT NULL);

    DELETE FROM "rate_limit_trend"
    WHERE "total" = 0 AND "hour" IN (SELECT "hour" FROM "rate_limit_rollup_stage");

    DELETE FROM "rate_limit_rollup_delta";
    DELETE FROM "rate_limit_rollup_stage";
    DELETE FROM "rate_limit_rollup_fold";
END;

CREATE TRIGGER "rate_limit_rollup_delta_fold" AFTER INSERT ON "rate_limit_rollup_delta" WHEN NEW."id" >= 4096
BEGIN
    INSERT INTO "rate_limit_rollup_fold" VALUES (1);
END;

CREATE TRIGGER "rate_limit_event_rollup_insert" AFTER INSERT ON "rate_limit_event"
BEGIN
    INSERT INTO "rate_limit_rollup_delta"
        ("timestamp", "key", "path", "rule_name", "method", "total", "blocked", "would_block", "is_deletion")
    VALUES (
        NEW."timestamp", CASE WHEN NEW."allowed" = 0 THEN NEW."key" END, NEW."path", NEW."rule_name", NEW."method",
        1, NEW."allowed" = 0, NEW."allowed" <> 0 AND NEW."count" > NEW."limit", 0
    );
END;

CREATE TRIGGER "rate_limit_event_rollup_update" AFTER UPDATE ON "rate_limit_event"
WHEN OLD."timestamp" IS NOT NEW."timestamp"
    OR OLD."key" IS NOT NEW."key"
    OR OLD."path" IS NOT NEW."path"
    OR OLD."rule_name" IS NOT NEW."rule_name"
    OR OLD."method" IS NOT NEW."method"
    OR OLD."allowed" IS NOT NEW."allowed"
    OR OLD."count" IS NOT NEW."count"
    OR OLD."limit" IS NOT NEW."limit"
BEGIN
    INSERT INTO "rate_limit_rollup_delta"
        ("timestamp", "key", "path", "rule_name", "method", "total", "blocked", "would_block", "is_deletion")
    VALUES (
        OLD."timestamp", CASE WHEN OLD."allowed" = 0 THEN OLD."key" END, OLD."path", OLD."rule_name", OLD."method",
        -1, -(OLD."allowed" = 0), -(OLD."allowed" <> 0 AND OLD."count" > OLD."limit"), 0
    ), (
        NEW."timestamp", CASE WHEN NEW."allowed" = 0 THEN NEW."key" END, NEW."path", NEW."rule_name", NEW."method",
        1, NEW."allowed" = 0, NEW."allowed" <> 0 AND NEW."count" > NEW."limit", 0
    );
END;

CREATE TRIGGER "rate_limit_event_rollup_delete" AFTER DELETE ON "rate_limit_event"
BEGIN
    INSERT INTO "rate_limit_rollup_delta"
        ("timestamp", "key", "path", "rule_name", "method", "total", "blocked", "would_block", "is_deletion")
    VALUES (
        OLD."timestamp", CASE WHEN OLD."allowed" = 0 THEN OLD."key" END, OLD."path", OLD."rule_name", OLD."method",
        -1, -(OLD."allowed" = 0), -(OLD."allowed" <> 0 AND OLD."count" > OLD."limit"), 1
    );
    DELETE FROM "rate_limit_event_replaced" WHERE "id" = OLD."id";
END;

-- REPLACE deletes the row that is in the way of a new or moved one, and fires no trigger for it (but where somebody turned
-- recursive_triggers on). So that row is noted before, and taken off when the other is in its place: with IGNORE and
-- ON CONFLICT it stays. A note is dropped when its row goes any other way.
CREATE TABLE "rate_limit_event_replaced" (
    "id" INTEGER NOT NULL PRIMARY KEY,
    "timestamp" DATETIME NOT NULL,
    "key" TEXT,
    "path" TEXT NOT NULL,
    "rule_name" TEXT NOT NULL,
    "method" TEXT NOT NULL,
    "blocked" BIGINT NOT NULL,
    "would_block" BIGINT NOT NULL
);

-- Before it is there, a row that was given no id has -1.
CREATE TRIGGER "rate_limit_event_replaced_before" BEFORE INSERT ON "rate_limit_event" WHEN NEW."id" <> -1
BEGIN
    DELETE FROM "rate_limit_event_replaced";
    INSERT INTO "rate_limit_event_replaced"
    SELECT "id", "timestamp", CASE WHEN "allowed" = 0 THEN "key" END, "path", "rule_name", "method",
        "allowed" = 0, "allowed" <> 0 AND "count" > "limit"
    FROM "rate_limit_event" WHERE "id" = NEW."id";
END;

CREATE TRIGGER "rate_limit_event_replaced_after" AFTER INSERT ON "rate_limit_event"
WHEN EXISTS (SELECT 1 FROM "rate_limit_event_replaced" WHERE "id" = NEW."id")
BEGIN
    INSERT INTO "rate_limit_rollup_delta"
        ("timestamp", "key", "path", "rule_name", "method", "total", "blocked", "would_block", "is_deletion")
    SELECT "timestamp", "key", "path", "rule_name", "method", -1, -"blocked", -"would_block", 1
    FROM "rate_limit_event_replaced" WHERE "id" = NEW."id";
    DELETE FROM "rate_limit_event_replaced";
END;

CREATE TRIGGER "rate_limit_event_moved_before" BEFORE UPDATE ON "rate_limit_event" WHEN NEW."id" <> OLD."id"
BEGIN
    DELETE FROM "rate_limit_event_replaced";
    INSERT INTO "rate_limit_event_replaced"
    SELECT "id", "timestamp", CASE WHEN "allowed" = 0 THEN "key" END, "path", "rule_name", "method",
        "allowed" = 0, "allowed" <> 0 AND "count" > "limit"
    FROM "rate_limit_event" WHERE "id" = NEW."id";
END;

CREATE TRIGGER "rate_limit_event_moved_after" AFTER UPDATE ON "rate_limit_event"
WHEN NEW."id" <> OLD."id" AND EXISTS (SELECT 1 FROM "rate_limit_event_replaced" WHERE "id" = NEW."id")
BEGIN
    INSERT INTO "rate_limit_rollup_delta"
        ("timestamp", "key", "path", "rule_name", "method", "total", "blocked", "would_block", "is_deletion")
    SELECT "timestamp", "key", "path", "rule_name", "method", -1, -"blocked", -"would_block", 1
    FROM "rate_limit_event_replaced" WHERE "id" = NEW."id";
    DELETE FROM "rate_limit_event_replaced";
END;

-- The events there are already.
INSERT INTO "rate_limit_rollup_delta"
    ("timestamp", "key", "path", "rule_name", "method", "total", "blocked", "would_block", "is_deletion")
SELECT "timestamp", CASE WHEN "allowed" = 0 THEN "key" END, "path", "rule_name", "method",
    1, "allowed" = 0, "allowed" <> 0 AND "count" > "limit", 0
FROM "rate_limit_event";
