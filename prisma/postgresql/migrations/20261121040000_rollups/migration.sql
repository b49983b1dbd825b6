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
    "path" VARCHAR(500) COLLATE "C" NOT NULL,
    "rule_name" VARCHAR(100) COLLATE "C" NOT NULL,
    "method" VARCHAR(10) COLLATE "C" NOT NULL,
    "total" BIGINT NOT NULL,
    "blocked" BIGINT NOT NULL,
    "would_block" BIGINT NOT NULL,

    CONSTRAINT "rate_limit_traffic_rollup_pkey" PRIMARY KEY ("span", "bucket", "path", "rule_name", "method")
) WITH (fillfactor = 70);

-- CreateTable
-- The refused requests of each key.
CREATE TABLE "rate_limit_blocked_rollup" (
    "span" INTEGER NOT NULL,
    "bucket" BIGINT NOT NULL,
    "key" VARCHAR(255) COLLATE "C" NOT NULL,
    "blocked" BIGINT NOT NULL,

    CONSTRAINT "rate_limit_blocked_rollup_pkey" PRIMARY KEY ("span", "bucket", "key")
);

-- CreateTable
-- What was logged in each hour, kept when the events are deleted.
CREATE TABLE "rate_limit_trend" (
    "hour" BIGINT NOT NULL,
    "total" BIGINT NOT NULL,
    "blocked" BIGINT NOT NULL,
    "would_block" BIGINT NOT NULL,

    CONSTRAINT "rate_limit_trend_pkey" PRIMARY KEY ("hour")
);

-- CreateIndex
CREATE INDEX "rate_limit_blocked_rollup_span_bucket_blocked_idx" ON "rate_limit_blocked_rollup"("span", "bucket", "blocked");

-- How the rollups are kept. Triggers append every change of the event log to the table of deltas, whoever makes it, one
-- statement's worth at a time; some 1,024 of them are folded into the rollups at once. Appending waits for nobody and
-- locks nothing, so that writers, which would meet at the rows of the present hour, neither wait for each other nor
-- deadlock; folding is done by one at a time, in the order of the keys. Reports read the deltas too, and so are exact at
-- any moment.

-- "key" is that of refused requests. A deletion does not take from the trend.
CREATE TABLE "rate_limit_rollup_delta" (
    "hour" BIGINT NOT NULL,
    "key" VARCHAR(255) COLLATE "C",
    "path" VARCHAR(500) COLLATE "C" NOT NULL,
    "rule_name" VARCHAR(100) COLLATE "C" NOT NULL,
    "method" VARCHAR(10) COLLATE "C" NOT NULL,
    "total" BIGINT NOT NULL,
    "blocked" BIGINT NOT NULL,
    "would_block" BIGINT NOT NULL,
    "is_deletion" BOOLEAN NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);

-- Infinity sorts after all moments, here as in the event table.
CREATE FUNCTION "rate_limit_hour"(moment TIMESTAMPTZ) RETURNS BIGINT LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN isfinite(moment) THEN floor(date_part('epoch', moment) / 3600)::bigint
        WHEN moment > to_timestamp(0) THEN 1000000000000
        ELSE -1
    END
$$;

-- Folds the deltas into the rollups. Where another transaction is about it, it leaves them to that one, or waits for it and
-- folds all there are. Otherwise it takes no more than a writer of events can wait for, should many have piled up: those
-- that add events first, so that what takes from them finds where they were added.
CREATE FUNCTION "rate_limit_rollup_fold"(waits BOOLEAN) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    turn BIGINT := (72707370::bigint << 32) | 'rate_limit_rollup_delta'::regclass::oid::bigint;
    emptied BIGINT[];
BEGIN
    -- A transaction that keeps to an older snapshot could not delete what others have folded meanwhile.
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RETURN;
    END IF;
    IF waits THEN
        PERFORM pg_advisory_xact_lock(turn);
    ELSIF NOT pg_try_advisory_xact_lock(turn) THEN
        RETURN;
    END IF;

    WITH taken AS (
        DELETE FROM "rate_limit_rollup_delta" WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM "rate_limit_rollup_delta"
            ORDER BY "total" > 0 DESC LIMIT CASE WHEN NOT waits THEN 16384 END
        )) RETURNING *
    ), hours AS (
        SELECT "hour", "path", "rule_name", "method",
            SUM("total") AS "total", SUM("blocked") AS "blocked", SUM("would_block") AS "would_block"
        FROM taken GROUP BY 1, 2, 3, 4
    ), added AS (
        SELECT spans."span", hours."hour" / spans."span" AS "bucket", hours."path", hours."rule_name", hours."method",
            SUM(hours."total") AS "total", SUM(hours."blocked") AS "blocked", SUM(hours."would_block") AS "would_block"
        FROM hours CROSS JOIN (VALUES (1), (24)) AS spans("span") GROUP BY 1, 2, 3, 4, 5
    ), marked AS (
        SELECT added.*, rollup."path" IS NOT NULL AS "known"
        FROM added LEFT JOIN "rate_limit_traffic_rollup" AS rollup USING ("span", "bucket", "path", "rule_name", "method")
    ), present AS (
        SELECT "span", "bucket", COUNT(*) AS "combinations"
        FROM (SELECT DISTINCT "span", "bucket" FROM added) AS buckets
        JOIN "rate_limit_traffic_rollup" USING ("span", "bucket")
        WHERE "path" <> '' GROUP BY 1, 2
    ), placed AS (
        -- The busiest of the new combinations take the room that is left.
        SELECT marked.*, ROW_NUMBER() OVER (
            PARTITION BY "span", "bucket", "known" ORDER BY "total" DESC, "path", "rule_name", "method"
        ) AS "place"
        FROM marked
    ), traffic AS (
        INSERT INTO "rate_limit_traffic_rollup" AS rollup
        SELECT "span", "bucket",
            CASE
                WHEN "known" OR "place" <= 256 - COALESCE("combinations", 0) AND "total" > 0 THEN "path" ELSE ''
            END,
            "rule_name", "method", SUM("total"), SUM("blocked"), SUM("would_block")
        FROM placed LEFT JOIN present USING ("span", "bucket")
        GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5
        ON CONFLICT ("span", "bucket", "path", "rule_name", "method") DO UPDATE SET
            "total" = rollup."total" + excluded."total",
            "blocked" = rollup."blocked" + excluded."blocked",
            "would_block" = rollup."would_block" + excluded."would_block"
    ), keys AS (
        INSERT INTO "rate_limit_blocked_rollup" AS rollup
        SELECT spans."span", "hour" / spans."span", "key", SUM("blocked")
        FROM (SELECT "hour", "key", SUM("blocked") AS "blocked" FROM taken WHERE "key" IS NOT NULL GROUP BY 1, 2) AS by_key
        CROSS JOIN (VALUES (1), (24)) AS spans("span")
        GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
        ON CONFLICT ("span", "bucket", "key") DO UPDATE SET "blocked" = rollup."blocked" + excluded."blocked"
    ), trend AS (
        INSERT INTO "rate_limit_trend" AS trend
        SELECT "hour", SUM("total"), SUM("blocked"), SUM("would_block") FROM taken WHERE NOT "is_deletion"
        GROUP BY 1 ORDER BY 1
        ON CONFLICT ("hour") DO UPDATE SET
            "total" = trend."total" + excluded."total",
            "blocked" = trend."blocked" + excluded."blocked",
            "would_block" = trend."would_block" + excluded."would_block"
    )
    SELECT array_agg(DISTINCT "hour") INTO emptied FROM taken WHERE "total" < 0;

    IF emptied IS NULL THEN
        RETURN;
    END IF;
    DELETE FROM "rate_limit_traffic_rollup" AS gone
    USING (
        SELECT DISTINCT spans."span", hours."hour" / spans."span" AS "bucket"
        FROM unnest(emptied) AS hours("hour") CROSS JOIN (VALUES (1), (24)) AS spans("span")
    ) AS touched
    WHERE gone."span" = touched."span" AND gone."bucket" = touched."bucket" AND NOT EXISTS (
        SELECT 1 FROM "rate_limit_traffic_rollup" AS rollup
        WHERE rollup."span" = touched."span" AND rollup."bucket" = touched."bucket" AND rollup."total" <> 0
    );
    DELETE FROM "rate_limit_blocked_rollup" AS gone
    USING (
        SELECT DISTINCT spans."span", hours."hour" / spans."span" AS "bucket"
        FROM unnest(emptied) AS hours("hour") CROSS JOIN (VALUES (1), (24)) AS spans("span")
    ) AS touched
    WHERE gone."span" = touched."span" AND gone."bucket" = touched."bucket" AND gone."blocked" = 0;
    DELETE FROM "rate_limit_trend" WHERE "hour" = ANY (emptied) AND "total" = 0;
END
$$;

CREATE FUNCTION "rate_limit_event_rollup"() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    appended BIGINT;
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        -- TRUNCATE takes the events of all transactions; one that keeps to its snapshot could not take all deltas of them.
        IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
            RAISE EXCEPTION 'rate_limit_event can be truncated in READ COMMITTED transactions alone'
                USING ERRCODE = 'invalid_transaction_state', HINT = 'Use DELETE, or begin with ISOLATION LEVEL READ COMMITTED.';
        END IF;
        -- The trend keeps what the deltas have for it.
        PERFORM "rate_limit_rollup_fold"(true);
        DELETE FROM "rate_limit_rollup_delta";
        DELETE FROM "rate_limit_traffic_rollup";
        DELETE FROM "rate_limit_blocked_rollup";
        RETURN NULL;
    ELSIF TG_OP = 'INSERT' THEN
        INSERT INTO "rate_limit_rollup_delta"
        SELECT * FROM (
            SELECT "rate_limit_hour"("timestamp") AS "hour", CASE WHEN NOT "allowed" THEN "key" END,
                "path", "rule_name", "method", COUNT(*),
                COUNT(*) FILTER (WHERE NOT "allowed"), COUNT(*) FILTER (WHERE "allowed" AND "count" > "limit"), false
            FROM new_events GROUP BY 1, 2, 3, 4, 5
        ) AS inserted WHERE "hour" >= 0;
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO "rate_limit_rollup_delta"
        SELECT * FROM (
            SELECT "rate_limit_hour"("timestamp") AS "hour", CASE WHEN NOT "allowed" THEN "key" END,
                "path", "rule_name", "method", -COUNT(*),
                -COUNT(*) FILTER (WHERE NOT "allowed"), -COUNT(*) FILTER (WHERE "allowed" AND "count" > "limit"), true
            FROM old_events GROUP BY 1, 2, 3, 4, 5
        ) AS deleted WHERE "hour" >= 0;
    ELSE
        INSERT INTO "rate_limit_rollup_delta"
        SELECT * FROM (
            SELECT "rate_limit_hour"("timestamp") AS "hour", CASE WHEN NOT "allowed" THEN "key" END AS "key",
                "path", "rule_name", "method", SUM("sign") AS "total",
                COALESCE(SUM("sign") FILTER (WHERE NOT "allowed"), 0) AS "blocked",
                COALESCE(SUM("sign") FILTER (WHERE "allowed" AND "count" > "limit"), 0) AS "would_block", false
            FROM (SELECT *, -1 AS "sign" FROM old_events UNION ALL SELECT *, 1 FROM new_events) AS changed
            GROUP BY 1, 2, 3, 4, 5
        ) AS updated WHERE "hour" >= 0 AND ("total" <> 0 OR "blocked" <> 0 OR "would_block" <> 0);
    END IF;
    GET DIAGNOSTICS appended = ROW_COUNT;
    -- Once in 1,024 on average: a count of the deltas would have to be kept somewhere, and waited for.
    IF random() < appended / 1024.0 THEN
        PERFORM "rate_limit_rollup_fold"(false);
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER "rate_limit_event_rollup_insert" AFTER INSERT ON "rate_limit_event"
REFERENCING NEW TABLE AS new_events FOR EACH STATEMENT EXECUTE FUNCTION "rate_limit_event_rollup"();

CREATE TRIGGER "rate_limit_event_rollup_update" AFTER UPDATE ON "rate_limit_event"
REFERENCING OLD TABLE AS old_events NEW TABLE AS new_events
FOR EACH STATEMENT EXECUTE FUNCTION "rate_limit_event_rollup"();

CREATE TRIGGER "rate_limit_event_rollup_delete" AFTER DELETE ON "rate_limit_event"
REFERENCING OLD TABLE AS old_events FOR EACH STATEMENT EXECUTE FUNCTION "rate_limit_event_rollup"();

CREATE TRIGGER "rate_limit_event_rollup_truncate" AFTER TRUNCATE ON "rate_limit_event"
FOR EACH STATEMENT EXECUTE FUNCTION "rate_limit_event_rollup"();

-- The events there are already.
LOCK TABLE "rate_limit_event" IN SHARE ROW EXCLUSIVE MODE;
INSERT INTO "rate_limit_rollup_delta"
SELECT * FROM (
    SELECT "rate_limit_hour"("timestamp") AS "hour", CASE WHEN NOT "allowed" THEN "key" END,
        "path", "rule_name", "method", COUNT(*),
        COUNT(*) FILTER (WHERE NOT "allowed"), COUNT(*) FILTER (WHERE "allowed" AND "count" > "limit"), false
    FROM "rate_limit_event" GROUP BY 1, 2, 3, 4, 5
) AS inserted WHERE "hour" >= 0;
SELECT "rate_limit_rollup_fold"(true);
