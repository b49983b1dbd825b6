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
    "path" VARCHAR(500) COLLATE "C" NOT NULL,
    "rule_name" VARCHAR(100) COLLATE "C" NOT NULL,
    "method" VARCHAR(10) COLLATE "C" NOT NULL,
    "total" BIGINT NOT NULL,
    "blocked" BIGINT NOT NULL,
    "would_block" BIGINT NOT NULL,
    "denied" BIGINT NOT NULL,

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
-- The requests of each client that were not plainly allowed, by what decided.
CREATE TABLE "rate_limit_client_rollup" (
    "span" INTEGER NOT NULL,
    "bucket" BIGINT NOT NULL,
    "client" VARCHAR(255) COLLATE "C" NOT NULL,
    "policy" VARCHAR(255) COLLATE "C" NOT NULL,
    "over_limit" BIGINT NOT NULL,
    "would_block" BIGINT NOT NULL,
    "denied" BIGINT NOT NULL,
    "unavailable" BIGINT NOT NULL,

    CONSTRAINT "rate_limit_client_rollup_pkey" PRIMARY KEY ("span", "bucket", "client", "policy")
);

-- CreateTable
-- What was logged in each hour, kept when the events are deleted.
CREATE TABLE "rate_limit_trend" (
    "hour" BIGINT NOT NULL,
    "total" BIGINT NOT NULL,
    "blocked" BIGINT NOT NULL,
    "would_block" BIGINT NOT NULL,
    "denied" BIGINT NOT NULL,

    CONSTRAINT "rate_limit_trend_pkey" PRIMARY KEY ("hour")
);

-- CreateIndex
CREATE INDEX "rate_limit_blocked_rollup_span_bucket_blocked_idx" ON "rate_limit_blocked_rollup"("span", "bucket", "blocked");

-- Events up to this id are in the rollups, but for those of hours that have a mark: these are read from the log. While an
-- hour is counted again, its events since that moment are not yet counted. "recounts" grows with each step of that: with
-- the trend, which grows with the watermark, it tells a process whether the sums of some hours are still as it read them.
CREATE TABLE "rate_limit_watermark" (
    "id" INTEGER NOT NULL PRIMARY KEY,
    "event_id" BIGINT NOT NULL,
    "recounts" BIGINT NOT NULL DEFAULT 0
);
INSERT INTO "rate_limit_watermark" VALUES (1, 0, 0);

-- How far the watermark may get before the present fold is committed. A sequence shows that to every transaction, also to
-- one that keeps to an older snapshot.
CREATE SEQUENCE "rate_limit_watermark_ahead" MINVALUE 0;

-- Marks are only added by writers, of whom none waits for another one.
CREATE TABLE "rate_limit_rollup_mark" ("hour" BIGINT NOT NULL, "since" BIGINT NOT NULL);

-- The minutes since the epoch; -1440 before it. Infinity stands with all that is later than the year 9999.
CREATE FUNCTION "rate_limit_minute"(moment TIMESTAMPTZ) RETURNS BIGINT LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN moment < to_timestamp(0) THEN -1440
        ELSE LEAST(4223371680, floor(date_part('epoch', moment) / 60))::bigint END
$$;

-- Ids become visible out of order. So a transaction that inserts holds a shared lock, before it takes ids; whatever moves
-- the watermark waits until none does, and then knows all ids below those to come. What nevertheless comes to lie at or
-- below the watermark was given its id, or the sequence was reset: it marks its hour. So does all that is changed.
CREATE FUNCTION "rate_limit_event_changed"() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_WHEN = 'BEFORE' THEN
        PERFORM pg_advisory_xact_lock_shared((72707370::bigint << 32) | TG_RELID::bigint);
    ELSIF TG_OP = 'INSERT' THEN
        INSERT INTO "rate_limit_rollup_mark" SELECT "hour", "hour" * 3600000 FROM (
            SELECT DISTINCT "rate_limit_minute"("timestamp") / 60 AS "hour" FROM new_events
            WHERE "id" <= (SELECT GREATEST(last_value, "event_id") FROM "rate_limit_watermark_ahead", "rate_limit_watermark")
        ) AS marked;
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO "rate_limit_rollup_mark" SELECT "hour", "hour" * 3600000 FROM (
            SELECT DISTINCT "rate_limit_minute"("timestamp") / 60 AS "hour" FROM old_events
        ) AS marked;
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO "rate_limit_rollup_mark" SELECT "hour", "hour" * 3600000 FROM (
            SELECT "rate_limit_minute"("timestamp") / 60 AS "hour" FROM old_events
            UNION SELECT "rate_limit_minute"("timestamp") / 60 FROM new_events
        ) AS marked;
    ELSE
        -- TRUNCATE takes the events of all transactions; one that keeps to its snapshot could not take all sums of them.
        IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
            RAISE EXCEPTION 'rate_limit_event can be truncated in READ COMMITTED transactions alone'
                USING ERRCODE = 'invalid_transaction_state', HINT = 'Use DELETE, or begin with ISOLATION LEVEL READ COMMITTED.';
        END IF;
        UPDATE "rate_limit_watermark" SET "event_id" = 0, "recounts" = "recounts" + 1;
        PERFORM setval('rate_limit_watermark_ahead', 0);
        DELETE FROM "rate_limit_rollup_mark";
        DELETE FROM "rate_limit_traffic_rollup";
        DELETE FROM "rate_limit_blocked_rollup";
        DELETE FROM "rate_limit_client_rollup";
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER "rate_limit_event_rollup_lock" BEFORE INSERT ON "rate_limit_event"
FOR EACH STATEMENT EXECUTE FUNCTION "rate_limit_event_changed"();

CREATE TRIGGER "rate_limit_event_rollup_insert" AFTER INSERT ON "rate_limit_event"
REFERENCING NEW TABLE AS new_events FOR EACH STATEMENT EXECUTE FUNCTION "rate_limit_event_changed"();

CREATE TRIGGER "rate_limit_event_rollup_update" AFTER UPDATE ON "rate_limit_event"
REFERENCING OLD TABLE AS old_events NEW TABLE AS new_events
FOR EACH STATEMENT EXECUTE FUNCTION "rate_limit_event_changed"();

CREATE TRIGGER "rate_limit_event_rollup_delete" AFTER DELETE ON "rate_limit_event"
REFERENCING OLD TABLE AS old_events FOR EACH STATEMENT EXECUTE FUNCTION "rate_limit_event_changed"();

CREATE TRIGGER "rate_limit_event_rollup_truncate" AFTER TRUNCATE ON "rate_limit_event"
FOR EACH STATEMENT EXECUTE FUNCTION "rate_limit_event_changed"();
