-- Texts in the indexes of counters, of the log and of its sums are compared by their bytes: by the rules of a language,
-- this takes up to three times as long.

-- CreateTable
CREATE TABLE "rate_limit_event" (
    "id" BIGSERIAL NOT NULL,
    "timestamp" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "key" VARCHAR(255) COLLATE "C" NOT NULL,
    "rule_name" VARCHAR(100) NOT NULL DEFAULT '',
    "path" VARCHAR(500) NOT NULL,
    "method" VARCHAR(10) NOT NULL,
    "allowed" BOOLEAN NOT NULL,
    "count" BIGINT NOT NULL,
    "limit" INTEGER NOT NULL,
    "ip_address" VARCHAR(45),
    "user_id" BIGINT,
    "client_ip" VARCHAR(64),
    "client" VARCHAR(255) NOT NULL DEFAULT '',
    "policy" VARCHAR(255) NOT NULL DEFAULT '',
    "outcome" VARCHAR(20) COLLATE "C" NOT NULL DEFAULT '',
    "rules" VARCHAR(815) NOT NULL DEFAULT '',
    "weight" INTEGER NOT NULL DEFAULT 1 CHECK ("weight" >= 1),

    CONSTRAINT "rate_limit_event_pkey" PRIMARY KEY ("id")
);

-- CreateTable
-- The number of the last event of each process that is in the log: a batch whose answer was lost is not written twice.
-- A row has room beside it, for its next version.
CREATE TABLE "rate_limit_event_batch" (
    "writer" VARCHAR(36) NOT NULL,
    "last_event" BIGINT NOT NULL,
    "written_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "rate_limit_event_batch_pkey" PRIMARY KEY ("writer")
) WITH (fillfactor = 20);

-- CreateTable
CREATE TABLE "rate_limit_rule" (
    "id" BIGSERIAL NOT NULL,
    "name" VARCHAR(100) NOT NULL,
    "description" TEXT NOT NULL DEFAULT '',
    "path_pattern" VARCHAR(255) NOT NULL,
    "method" VARCHAR(255) NOT NULL DEFAULT 'ALL',
    "rate" VARCHAR(255) NOT NULL,
    "key" VARCHAR(255) NOT NULL DEFAULT 'ip',
    "algorithm" VARCHAR(20) NOT NULL DEFAULT 'fixed_window',
    "block" BOOLEAN NOT NULL DEFAULT true,
    "is_active" BOOLEAN NOT NULL DEFAULT true,
    "priority" INTEGER NOT NULL DEFAULT 0,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "ban_after" INTEGER NOT NULL DEFAULT 0,
    "ban_for" VARCHAR(10) NOT NULL DEFAULT '',
    "changed_by" VARCHAR(255) NOT NULL DEFAULT '',
    "condition" VARCHAR(1000) NOT NULL DEFAULT '',
    "cost" INTEGER NOT NULL DEFAULT 1,
    "counts" VARCHAR(255) NOT NULL DEFAULT 'requests',
    "ends_at" TIMESTAMPTZ(3),
    "group_name" VARCHAR(30) NOT NULL DEFAULT '',
    "refusal_message" VARCHAR(500) NOT NULL DEFAULT '',
    "refusal_status" INTEGER NOT NULL DEFAULT 429,
    "reserve" INTEGER NOT NULL DEFAULT 0,
    "notice_at" VARCHAR(20) NOT NULL DEFAULT '',
    "starts_at" TIMESTAMPTZ(3),
    "unit" VARCHAR(30) NOT NULL DEFAULT 'requests',

    CONSTRAINT "rate_limit_rule_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "rate_limit_counter" (
    "key" VARCHAR(255) COLLATE "C" NOT NULL,
    "count" BIGINT NOT NULL DEFAULT 0,
    "window_start" TIMESTAMPTZ(3) NOT NULL,
    "window_end" TIMESTAMPTZ(3) NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "windows" BIGINT[],

    CONSTRAINT "rate_limit_counter_pkey" PRIMARY KEY ("key")
);

-- CreateTable
CREATE TABLE "rate_limit_staff_session" (
    "id_hash" VARCHAR(64) NOT NULL,
    "account" VARCHAR(100) NOT NULL,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "rate_limit_staff_session_pkey" PRIMARY KEY ("id_hash")
);

-- CreateTable
CREATE TABLE "rate_limit_token" (
    "name" VARCHAR(100) NOT NULL,
    "token_hash" VARCHAR(64) NOT NULL,
    "role" VARCHAR(10) NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL,
    "expires_at" TIMESTAMPTZ(3),
    "last_used_at" TIMESTAMPTZ(3),

    CONSTRAINT "rate_limit_token_pkey" PRIMARY KEY ("name")
);

-- CreateIndex
CREATE INDEX "rate_limit_event_timestamp_idx" ON "rate_limit_event"("timestamp");

-- CreateIndex
CREATE INDEX "rate_limit_event_key_timestamp_idx" ON "rate_limit_event"("key", "timestamp");

-- CreateIndex
CREATE INDEX "rate_limit_event_allowed_timestamp_outcome_weight_idx" ON "rate_limit_event"("allowed", "timestamp", "outcome", "weight");

-- CreateIndex
CREATE UNIQUE INDEX "rate_limit_rule_name_key" ON "rate_limit_rule"("name");

-- CreateIndex
CREATE INDEX "rate_limit_counter_window_end_idx" ON "rate_limit_counter"("window_end");

-- CreateIndex
CREATE INDEX "rate_limit_staff_session_expires_at_idx" ON "rate_limit_staff_session"("expires_at");

-- CreateIndex
CREATE UNIQUE INDEX "rate_limit_token_token_hash_key" ON "rate_limit_token"("token_hash");

-- CreateTable
CREATE TABLE "rate_limit_sliding_window" (
    "key" VARCHAR(255) COLLATE "C" NOT NULL,
    "used" BIGINT NOT NULL,
    "asked" INTEGER NOT NULL,
    "cost" BIGINT NOT NULL,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "windows" BIGINT[],

    CONSTRAINT "rate_limit_sliding_window_pkey" PRIMARY KEY ("key")
);

-- CreateTable
CREATE TABLE "rate_limit_token_bucket" (
    "key" VARCHAR(255) COLLATE "C" NOT NULL,
    "used" BIGINT NOT NULL,
    "asked" INTEGER NOT NULL,
    "cost" BIGINT NOT NULL,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "windows" BIGINT[],

    CONSTRAINT "rate_limit_token_bucket_pkey" PRIMARY KEY ("key")
);

-- CreateTable
CREATE TABLE "rate_limit_leaky_bucket" (
    "key" VARCHAR(255) COLLATE "C" NOT NULL,
    "used" BIGINT NOT NULL,
    "asked" INTEGER NOT NULL,
    "cost" BIGINT NOT NULL,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "windows" BIGINT[],

    CONSTRAINT "rate_limit_leaky_bucket_pkey" PRIMARY KEY ("key")
);

-- CreateTable
CREATE TABLE "rate_limit_concurrency" (
    "key" VARCHAR(255) COLLATE "C" NOT NULL,
    "period_ms" BIGINT NOT NULL,
    "used" BIGINT NOT NULL,
    "granted" BIGINT NOT NULL,
    "first_ms" BIGINT NOT NULL,
    "last_ms" BIGINT NOT NULL,
    "permits" TEXT NOT NULL,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "rate_limit_concurrency_pkey" PRIMARY KEY ("key")
);

-- CreateIndex
CREATE INDEX "rate_limit_sliding_window_expires_at_idx" ON "rate_limit_sliding_window"("expires_at");

-- CreateIndex
CREATE INDEX "rate_limit_token_bucket_expires_at_idx" ON "rate_limit_token_bucket"("expires_at");

-- CreateIndex
CREATE INDEX "rate_limit_leaky_bucket_expires_at_idx" ON "rate_limit_leaky_bucket"("expires_at");

-- CreateIndex
CREATE INDEX "rate_limit_concurrency_expires_at_idx" ON "rate_limit_concurrency"("expires_at");

-- What follows advances counters that list their windows, by the rules of `limiter/`: from the stored numbers and the
-- asked ones, the cost of a check (of fixed windows that of all), and the time, to the numbers to store. The second asked
-- number is that of the checks, -1 where they count in any case, with one cost. `windows-text.ts` has the form. Stored numbers of another form, or too large to calculate with, which only other statements can have written, are
-- none: they would fail all other counters. So is a window that begins more than an hour and more than its period after
-- now, as `latestStartMs` says.

CREATE FUNCTION "rate_limit_fixed_windows"(stored BIGINT[], asked BIGINT[], cost BIGINT, now_ms BIGINT)
RETURNS BIGINT[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    was BIGINT[] := CASE WHEN cardinality(stored) % 4 = 2 AND 9007199254740991 >= ALL (stored) AND -9007199254740991 <= ALL (stored)
        THEN stored END;
    became BIGINT[] := asked;
    admitted BIGINT := asked[2];
    each BIGINT := cost / greatest(1, asked[2]);
    counted BIGINT := CASE WHEN admitted < 0 THEN cost ELSE 0 END;
    most BIGINT := 0;
    old INTEGER;
BEGIN
    FOR place IN 3 .. cardinality(became) BY 4 LOOP
        old := place;
        IF was[old] IS DISTINCT FROM became[place] THEN
            old := (SELECT n FROM generate_series(3, cardinality(was), 4) AS n WHERE was[n] = became[place]);
        END IF;
        became[place + 2] := counted;
        IF was[old + 1] BETWEEN became[place + 1] AND now_ms + greatest(3600000, became[place]) THEN
            became[place + 1] := was[old + 1];
            -- The largest safe integer: an overflow would fail the statement.
            became[place + 2] := least(9007199254740991, was[old + 2] + counted);
        END IF;
        most := greatest(most, became[place + 2]);
        IF admitted > 0 THEN
            admitted := least(admitted, greatest(0, (became[place + 3] - became[place + 2]) / each));
        END IF;
    END LOOP;
    IF admitted > 0 THEN
        FOR place IN 3 .. cardinality(became) BY 4 LOOP
            became[place + 2] := became[place + 2] + admitted * each;
        END LOOP;
        most := most + admitted * each;
    END IF;
    became[1] := most;
    became[2] := admitted;
    RETURN became;
END
$$;

CREATE FUNCTION "rate_limit_sliding_windows"(stored BIGINT[], asked BIGINT[], cost BIGINT, now_ms BIGINT)
RETURNS BIGINT[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    was BIGINT[] := CASE WHEN cardinality(stored) % 6 = 2 AND 100000000000000 >= ALL (stored) AND -100000000000000 <= ALL (stored)
        THEN stored END;
    became BIGINT[] := asked;
    admitted BIGINT := asked[2];
    most BIGINT := 0;
    old INTEGER;
    period BIGINT;
    previous BIGINT;
    overlap BIGINT;
    rest BIGINT;
BEGIN
    FOR place IN 3 .. cardinality(became) BY 6 LOOP
        period := became[place];
        old := place;
        IF was[old] IS DISTINCT FROM period THEN
            old := (SELECT n FROM generate_series(3, cardinality(was), 6) AS n WHERE was[n] = period);
        END IF;
        became[place + 4] := 0;
        IF was[old + 1] BETWEEN became[place + 1] AND now_ms + greatest(3600000, period) THEN
            became[place + 1] := was[old + 1];
            became[place + 2] := greatest(was[old + 2], now_ms);
            became[place + 3] := was[old + 3];
            became[place + 4] := was[old + 4];
        ELSIF was[old + 1] + period = became[place + 1] THEN
            became[place + 3] := was[old + 4];
        END IF;
        -- As in `productSql`.
        previous := became[place + 3];
        overlap := became[place + 1] + period - became[place + 2];
        rest := previous / 65536 * overlap % period * 65536 + previous % 65536 * overlap;
        CONTINUE WHEN admitted <= 0;
        admitted := least(admitted, greatest(0, (became[place + 5] - became[place + 4]
            - previous / 65536 * overlap / period * 65536 - (rest + period - 1) / period) / cost));
    END LOOP;
    FOR place IN 3 .. cardinality(became) BY 6 LOOP
        became[place + 4] := least(8589934591, became[place + 4] + abs(admitted) * cost);
        most := greatest(most, became[place + 4]);
    END LOOP;
    became[1] := most;
    became[2] := admitted;
    RETURN became;
END
$$;

CREATE FUNCTION "rate_limit_buckets"(stored BIGINT[], asked BIGINT[], cost BIGINT, now_ms BIGINT)
RETURNS BIGINT[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    was BIGINT[] := CASE WHEN cardinality(stored) % 6 = 2 AND 100000000000000 >= ALL (stored) AND -100000000000000 <= ALL (stored)
        THEN stored END;
    became BIGINT[] := asked;
    limits BIGINT[] := became;
    admitted BIGINT := asked[2];
    most BIGINT := 0;
    old INTEGER;
    period BIGINT;
    elapsed BIGINT;
    drain BIGINT;
    rest BIGINT;
    used BIGINT;
    fraction BIGINT;
    taken BIGINT;
    amount BIGINT;
BEGIN
    FOR place IN 3 .. cardinality(became) BY 6 LOOP
        period := became[place];
        old := place;
        IF was[old] IS DISTINCT FROM period THEN
            old := (SELECT n FROM generate_series(3, cardinality(was), 6) AS n WHERE was[n] = period);
        END IF;
        used := 0;
        fraction := 0;
        taken := 0;
        IF was[old + 1] <= now_ms + greatest(3600000, period) THEN
            elapsed := greatest(0, now_ms - was[old + 1]);
            drain := least(2147483647, greatest(0, was[old + 2]));
            used := was[old + 3];
            IF elapsed >= period THEN
                -- What is above the limit drains over several periods.
                used := used - least(elapsed / period, used / greatest(1, drain) + 1) * drain;
                elapsed := elapsed % period;
            END IF;
            -- As in `productSql`.
            rest := drain / 65536 * elapsed % period * 65536 + drain % 65536 * elapsed;
            used := used - drain / 65536 * elapsed / period * 65536 - rest / period;
            fraction := was[old + 4] - rest % period;
            IF fraction < 0 THEN
                used := used - 1;
                fraction := fraction + period;
            END IF;
            IF used < 0 THEN
                used := 0;
                fraction := 0;
            END IF;
            became[place + 1] := greatest(now_ms, was[old + 1]);
            became[place + 2] := drain;
            taken := was[old + 5];
        END IF;
        became[place + 3] := used;
        became[place + 4] := fraction;
        became[place + 5] := taken;
        CONTINUE WHEN admitted <= 0;
        admitted := least(admitted, greatest(0, (limits[place + 2] - used - least(1, fraction)) / cost));
    END LOOP;
    amount := abs(admitted) * cost;
    FOR place IN 3 .. cardinality(became) BY 6 LOOP
        drain := limits[place + 2];
        used := became[place + 3] + amount;
        IF amount > 0 OR became[place + 2] < drain THEN
            became[place + 2] := drain;
        END IF;
        IF admitted < 0 AND amount > 0 THEN
            -- As in `mostUsed`.
            used := least(used, 8589934591, drain * least(used / drain + 1, 315360000000 / became[place] + 1));
        END IF;
        became[place + 3] := used;
        became[place + 5] := (became[place + 5] + amount) % 70368744177664;
        most := greatest(most, became[place + 3]);
    END LOOP;
    became[1] := most;
    became[2] := admitted;
    RETURN became;
END
$$;

-- The moment until which the buckets of a counter last.
CREATE FUNCTION "rate_limit_buckets_last"(stored BIGINT[]) RETURNS BIGINT LANGUAGE sql IMMUTABLE AS $$
    SELECT max(stored[place + 1] + greatest(stored[place],
        ceil((stored[place + 3]::float8 * stored[place] + stored[place + 4]) / greatest(1, stored[place + 2]))))::bigint
    FROM generate_series(3, cardinality(stored), 6) AS place
$$;

-- What follows gives back, by the rules of `settleWindows`: from the stored numbers and those of `settledNumbers`, five for
-- each time that a window gets back, to the numbers to store.

CREATE FUNCTION "rate_limit_settle_fixed_windows"(stored BIGINT[], settled BIGINT[])
RETURNS BIGINT[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    became BIGINT[] := stored;
    most BIGINT := 0;
BEGIN
    FOR place IN 3 .. cardinality(became) BY 4 LOOP
        FOR mark IN 3 .. cardinality(settled) BY 5 LOOP
            IF became[place] = settled[mark - 1] AND became[place + 1] = settled[mark] THEN
                became[place + 2] := greatest(0, became[place + 2] - settled[mark - 2]);
            END IF;
        END LOOP;
        most := greatest(most, became[place + 2]);
    END LOOP;
    became[1] := most;
    RETURN became;
END
$$;

CREATE FUNCTION "rate_limit_settle_sliding_windows"(stored BIGINT[], settled BIGINT[])
RETURNS BIGINT[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    became BIGINT[] := stored;
    most BIGINT := 0;
    cell INTEGER;
BEGIN
    IF (100000000000000 >= ALL (stored) AND -100000000000000 <= ALL (stored)) IS NOT TRUE THEN
        RETURN stored;
    END IF;
    FOR place IN 3 .. cardinality(became) BY 6 LOOP
        FOR mark IN 3 .. cardinality(settled) BY 5 LOOP
            CONTINUE WHEN became[place] IS DISTINCT FROM settled[mark - 1];
            -- The previous cell, or the current one.
            cell := place + CASE settled[mark] - became[place + 1]
                WHEN became[place] THEN 3 WHEN 2 * became[place] THEN 4 END;
            CONTINUE WHEN cell IS NULL;
            became[cell] := greatest(0, became[cell] - settled[mark - 2]);
        END LOOP;
        most := greatest(most, became[place + 4]);
    END LOOP;
    became[1] := most;
    RETURN became;
END
$$;

CREATE FUNCTION "rate_limit_settle_buckets"(stored BIGINT[], settled BIGINT[])
RETURNS BIGINT[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    became BIGINT[] := stored;
    most BIGINT := 0;
    period BIGINT;
    used BIGINT;
    fraction BIGINT;
    since BIGINT;
    elapsed BIGINT;
    drained BIGINT;
    rest BIGINT;
BEGIN
    IF (100000000000000 >= ALL (stored) AND -100000000000000 <= ALL (stored)) IS NOT TRUE THEN
        RETURN stored;
    END IF;
    FOR place IN 3 .. cardinality(became) BY 6 LOOP
        period := became[place];
        FOR mark IN 3 .. cardinality(settled) BY 5 LOOP
            CONTINUE WHEN period IS DISTINCT FROM settled[mark - 1];
            used := became[place + 3] - settled[mark - 2];
            since := (became[place + 5] - settled[mark] + 70368744177664) % 70368744177664;
            IF used >= since THEN
                became[place + 3] := used;
                CONTINUE;
            END IF;
            CONTINUE WHEN became[place + 2] IS DISTINCT FROM settled[mark + 2];
            -- As in `productSql`.
            elapsed := greatest(0, became[place + 1] - settled[mark + 1]);
            drained := least(elapsed / period, settled[mark - 2] / greatest(1, settled[mark + 2]) + 1) * settled[mark + 2];
            elapsed := elapsed % period;
            rest := settled[mark + 2] / 65536 * elapsed % period * 65536 + settled[mark + 2] % 65536 * elapsed;
            drained := drained + settled[mark + 2] / 65536 * elapsed / period * 65536 + rest / period;
            CONTINUE WHEN drained >= settled[mark - 2];
            fraction := became[place + 4] + rest % period;
            used := used + drained + CASE WHEN fraction < period THEN 0 ELSE 1 END;
            became[place + 3] := greatest(0, used);
            became[place + 4] := CASE WHEN used < 0 THEN 0 ELSE fraction % period END;
        END LOOP;
        most := greatest(most, became[place + 3]);
    END LOOP;
    became[1] := most;
    RETURN became;
END
$$;

-- CreateTable
CREATE TABLE "rate_limit_override" (
    "id" BIGSERIAL NOT NULL,
    "client" VARCHAR(255) NOT NULL,
    "effect" VARCHAR(255) NOT NULL,
    "algorithm" VARCHAR(20) NOT NULL DEFAULT 'fixed_window',
    "path_pattern" VARCHAR(255) NOT NULL DEFAULT '',
    "expires_at" TIMESTAMPTZ(3),
    "note" TEXT NOT NULL DEFAULT '',
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "changed_by" VARCHAR(255) NOT NULL DEFAULT '',

    CONSTRAINT "rate_limit_override_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "rate_limit_change" (
    "id" BIGSERIAL NOT NULL,
    "changed_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "actor" VARCHAR(255) NOT NULL DEFAULT '',
    "source" VARCHAR(10) NOT NULL,
    "entity" VARCHAR(10) NOT NULL,
    "row_id" BIGINT NOT NULL,
    "name" VARCHAR(255) NOT NULL,
    "action" VARCHAR(10) NOT NULL,
    "action_id" VARCHAR(12) NOT NULL DEFAULT '',
    "before" TEXT,
    "after" TEXT,

    CONSTRAINT "rate_limit_change_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "rate_limit_revision" (
    "id" INTEGER NOT NULL,
    "revision" BIGINT NOT NULL DEFAULT 0,

    CONSTRAINT "rate_limit_revision_pkey" PRIMARY KEY ("id")
);

-- CreateIndex
CREATE INDEX "rate_limit_override_expires_at_idx" ON "rate_limit_override"("expires_at");

-- CreateIndex
CREATE UNIQUE INDEX "rate_limit_override_client_path_pattern_key" ON "rate_limit_override"("client", "path_pattern");

-- CreateIndex
CREATE INDEX "rate_limit_change_entity_name_idx" ON "rate_limit_change"("entity", "name");

-- CreateIndex
CREATE INDEX "rate_limit_change_entity_row_id_idx" ON "rate_limit_change"("entity", "row_id");

-- CreateIndex
CREATE INDEX "rate_limit_change_action_id_idx" ON "rate_limit_change"("action_id");

-- The one row.
INSERT INTO "rate_limit_revision" ("id", "revision") VALUES (1, 0);

-- The history of rules and overrides, and the revision by which other processes notice a change.
--
-- Row triggers record every change. They read its action, source and actor from "changed_by": each write of this package
-- sets it to the 12 characters of the action's id, four that make it unlike any other write, the source, a colon, and the
-- actor. So a value that an update leaves unchanged is that of an earlier write, and the update is raw SQL. A deleted row
-- cannot carry them: the client writes them into the recorded change afterwards, in the same transaction where there is
-- one.
--
-- Every recorded change counts up the revision; an update that changes nothing does neither.
--
-- The deletion of a ban that has long expired is not recorded: its "changed_by" is 'expired' then.

-- At the end of the transaction, when it has all its other locks, so that writers that meet at the one row cannot
-- deadlock; and once per transaction, whatever it changed.
CREATE FUNCTION "rate_limit_revision_bump"() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE "rate_limit_revision" SET "revision" = "revision" + 1
    WHERE "id" = 1 AND xmin <> pg_current_xact_id()::xid;
    RETURN NULL;
END
$$;

CREATE CONSTRAINT TRIGGER "rate_limit_revision_bump" AFTER INSERT ON "rate_limit_change"
DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION "rate_limit_revision_bump"();

-- STRICT keeps it from being inlined into its callers, where the row would become JSON once per field.
CREATE FUNCTION "rate_limit_rule_json"(entry JSONB) RETURNS TEXT LANGUAGE sql STABLE STRICT AS $$
    SELECT json_build_object(
        'name', entry -> 'name',
        'description', entry -> 'description',
        'pathPattern', entry -> 'path_pattern',
        'method', entry -> 'method',
        'condition', entry -> 'condition',
        'rate', entry -> 'rate',
        'key', entry -> 'key',
        'algorithm', entry -> 'algorithm',
        'counts', entry -> 'counts',
        'cost', entry -> 'cost',
        'unit', entry -> 'unit',
        'reserve', entry -> 'reserve',
        'noticeAt', entry -> 'notice_at',
        'block', entry -> 'block',
        'refusalStatus', entry -> 'refusal_status',
        'refusalMessage', entry -> 'refusal_message',
        'banAfter', entry -> 'ban_after',
        'banFor', entry -> 'ban_for',
        'isActive', entry -> 'is_active',
        'startsAt', round(extract(epoch FROM (entry ->> 'starts_at')::timestamptz) * 1000)::bigint,
        'endsAt', round(extract(epoch FROM (entry ->> 'ends_at')::timestamptz) * 1000)::bigint,
        'group', entry -> 'group_name',
        'priority', entry -> 'priority'
    )::text
$$;

CREATE FUNCTION "rate_limit_rule_record"() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    before TEXT;
    after TEXT;
    by_client BOOLEAN := FALSE;
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        INSERT INTO "rate_limit_change" ("source", "entity", "row_id", "name", "action", "before")
        SELECT 'sql', 'rule', entry."id", entry."name", 'delete', "rate_limit_rule_json"(to_jsonb(entry))
        FROM "rate_limit_rule" AS entry ORDER BY entry."id";
        RETURN NULL;
    END IF;
    IF TG_OP = 'DELETE' THEN
        INSERT INTO "rate_limit_change" ("source", "entity", "row_id", "name", "action", "before")
        VALUES ('sql', 'rule', OLD."id", OLD."name", 'delete', "rate_limit_rule_json"(to_jsonb(OLD)));
        RETURN NULL;
    END IF;
    after := "rate_limit_rule_json"(to_jsonb(NEW));
    IF TG_OP = 'INSERT' THEN
        by_client := NEW."changed_by" <> '';
    ELSE
        before := "rate_limit_rule_json"(to_jsonb(OLD));
        IF before = after THEN
            RETURN NULL;
        END IF;
        by_client := NEW."changed_by" NOT IN ('', OLD."changed_by");
    END IF;
    INSERT INTO "rate_limit_change" ("actor", "source", "action_id", "entity", "row_id", "name", "action", "before", "after")
    VALUES (
        CASE WHEN by_client THEN substr(NEW."changed_by", strpos(NEW."changed_by", ':') + 1) ELSE '' END,
        CASE WHEN by_client THEN split_part(substr(NEW."changed_by", 17), ':', 1) ELSE 'sql' END,
        CASE WHEN by_client THEN substr(NEW."changed_by", 1, 12) ELSE '' END,
        'rule', NEW."id", NEW."name", CASE TG_OP WHEN 'INSERT' THEN 'create' ELSE 'update' END, before, after
    );
    RETURN NULL;
END
$$;

CREATE TRIGGER "rate_limit_rule_recorded" AFTER INSERT OR UPDATE OR DELETE ON "rate_limit_rule"
FOR EACH ROW EXECUTE FUNCTION "rate_limit_rule_record"();

CREATE TRIGGER "rate_limit_rule_recorded_truncate" BEFORE TRUNCATE ON "rate_limit_rule"
FOR EACH STATEMENT EXECUTE FUNCTION "rate_limit_rule_record"();

CREATE FUNCTION "rate_limit_override_json"(entry JSONB) RETURNS TEXT LANGUAGE sql STABLE STRICT AS $$
    SELECT json_build_object(
        'client', entry -> 'client',
        'effect', entry -> 'effect',
        'algorithm', entry -> 'algorithm',
        'pathPattern', entry -> 'path_pattern',
        'expiresAt', round(extract(epoch FROM (entry ->> 'expires_at')::timestamptz) * 1000)::bigint,
        'note', entry -> 'note'
    )::text
$$;

CREATE FUNCTION "rate_limit_override_record"() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    before TEXT;
    after TEXT;
    by_client BOOLEAN := FALSE;
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        INSERT INTO "rate_limit_change" ("source", "entity", "row_id", "name", "action", "before")
        SELECT 'sql', 'override', entry."id", entry."client", 'delete', "rate_limit_override_json"(to_jsonb(entry))
        FROM "rate_limit_override" AS entry ORDER BY entry."id";
        RETURN NULL;
    END IF;
    IF TG_OP = 'DELETE' THEN
        IF OLD."changed_by" = 'expired' THEN
            RETURN NULL;
        END IF;
        INSERT INTO "rate_limit_change" ("source", "entity", "row_id", "name", "action", "before")
        VALUES ('sql', 'override', OLD."id", OLD."client", 'delete', "rate_limit_override_json"(to_jsonb(OLD)));
        RETURN NULL;
    END IF;
    after := "rate_limit_override_json"(to_jsonb(NEW));
    IF TG_OP = 'INSERT' THEN
        by_client := NEW."changed_by" <> '';
    ELSE
        before := "rate_limit_override_json"(to_jsonb(OLD));
        IF before = after THEN
            RETURN NULL;
        END IF;
        by_client := NEW."changed_by" NOT IN ('', OLD."changed_by");
    END IF;
    INSERT INTO "rate_limit_change" ("actor", "source", "action_id", "entity", "row_id", "name", "action", "before", "after")
    VALUES (
        CASE WHEN by_client THEN substr(NEW."changed_by", strpos(NEW."changed_by", ':') + 1) ELSE '' END,
        CASE WHEN by_client THEN split_part(substr(NEW."changed_by", 17), ':', 1) ELSE 'sql' END,
        CASE WHEN by_client THEN substr(NEW."changed_by", 1, 12) ELSE '' END,
        'override', NEW."id", NEW."client", CASE TG_OP WHEN 'INSERT' THEN 'create' ELSE 'update' END, before, after
    );
    RETURN NULL;
END
$$;

CREATE TRIGGER "rate_limit_override_recorded" AFTER INSERT OR UPDATE OR DELETE ON "rate_limit_override"
FOR EACH ROW EXECUTE FUNCTION "rate_limit_override_record"();

CREATE TRIGGER "rate_limit_override_recorded_truncate" BEFORE TRUNCATE ON "rate_limit_override"
FOR EACH STATEMENT EXECUTE FUNCTION "rate_limit_override_record"();

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
-- The requests to which rules applied beside the one that decided: how many of them were refused or would have been, and
-- how many the rule itself refused. Paths as above.
CREATE TABLE "rate_limit_rule_rollup" (
    "span" INTEGER NOT NULL,
    "bucket" BIGINT NOT NULL,
    "path" VARCHAR(500) COLLATE "C" NOT NULL,
    "rule_name" VARCHAR(100) COLLATE "C" NOT NULL,
    "method" VARCHAR(10) COLLATE "C" NOT NULL,
    "total" BIGINT NOT NULL,
    "blocked" BIGINT NOT NULL,
    "would_block" BIGINT NOT NULL,
    "refused" BIGINT NOT NULL,

    CONSTRAINT "rate_limit_rule_rollup_pkey" PRIMARY KEY ("span", "bucket", "path", "rule_name", "method")
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
-- All requests of each client, by what decided. A bucket that is over keeps its 500 busiest clients and those of the table
-- above; days are counted from the hours that are over.
CREATE TABLE "rate_limit_request_rollup" (
    "span" INTEGER NOT NULL,
    "bucket" BIGINT NOT NULL,
    "client" VARCHAR(255) COLLATE "C" NOT NULL,
    "policy" VARCHAR(255) COLLATE "C" NOT NULL,
    "requests" BIGINT NOT NULL,

    CONSTRAINT "rate_limit_request_rollup_pkey" PRIMARY KEY ("span", "bucket", "client", "policy")
);

-- CreateTable
-- The keys of events that do not tell their clients, by day: a rule of a group may count by another kind than the rest. The
-- log has no index of clients, and reports find the events of one by these keys, too.
CREATE TABLE "rate_limit_client_key" (
    "client" VARCHAR(255) COLLATE "C" NOT NULL,
    "day" BIGINT NOT NULL,
    "key" VARCHAR(255) COLLATE "C" NOT NULL,

    CONSTRAINT "rate_limit_client_key_pkey" PRIMARY KEY ("client", "day", "key")
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

-- Events up to this id are in the rollups, but for those of hours that have a mark: these are read from the log. While an
-- hour is counted again, its events since that moment are not yet counted. "recounts" grows with each step of that: with
-- the trend, which grows with the watermark, it tells a process whether the sums of some hours are still as it read them.
-- Buckets of one minute are complete from "minutes_from" on. Before "busiest_until", in hours, only the busiest clients are
-- kept, and days are counted from them; "late" grows whenever that is undone.
CREATE TABLE "rate_limit_watermark" (
    "id" INTEGER NOT NULL PRIMARY KEY,
    "event_id" BIGINT NOT NULL,
    "recounts" BIGINT NOT NULL DEFAULT 0,
    "minutes_from" BIGINT NOT NULL DEFAULT 0,
    "busiest_until" BIGINT NOT NULL DEFAULT 0,
    "late" BIGINT NOT NULL DEFAULT 0
);
INSERT INTO "rate_limit_watermark" ("id", "event_id") VALUES (1, 0);

-- How far the watermark may get before the present fold is committed. A sequence shows that to every transaction, also to
-- one that keeps to an older snapshot.
CREATE SEQUENCE "rate_limit_watermark_ahead" MINVALUE 0;

-- CreateTable
-- The hours that are to be counted again. Marks are only added by writers, of whom none waits for another one: so an hour
-- may have several alike. Under a publication, rows of a table can be deleted by its primary key, or by all of its columns.
CREATE TABLE "rate_limit_rollup_mark" ("hour" BIGINT NOT NULL, "since" BIGINT NOT NULL);
ALTER TABLE "rate_limit_rollup_mark" REPLICA IDENTITY FULL;

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
        DELETE FROM "rate_limit_rule_rollup";
        DELETE FROM "rate_limit_blocked_rollup";
        DELETE FROM "rate_limit_client_rollup";
        DELETE FROM "rate_limit_request_rollup";
        DELETE FROM "rate_limit_client_key";
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

-- CreateTable
-- What each client used of a unit, by policy: `span` is `day` or `month`, and `period` such a day or month in UTC, as
-- 2026-11-30 or 2026-11. Servers add every charge to both. `requests` has each request once a day.
-- A page has room for the next versions of its rows.
CREATE TABLE "rate_limit_usage" (
    "span" VARCHAR(5) COLLATE "C" NOT NULL,
    "period" VARCHAR(10) COLLATE "C" NOT NULL,
    "unit" VARCHAR(30) COLLATE "C" NOT NULL,
    "client" VARCHAR(255) COLLATE "C" NOT NULL,
    "policy" VARCHAR(255) COLLATE "C" NOT NULL,
    "amount" BIGINT NOT NULL,
    "requests" BIGINT NOT NULL,

    CONSTRAINT "rate_limit_usage_pkey" PRIMARY KEY ("span", "period", "unit", "client", "policy")
) WITH (fillfactor = 80);

-- CreateIndex
CREATE INDEX "rate_limit_usage_client_idx" ON "rate_limit_usage"("client", "span", "period");

-- CreateTable
CREATE TABLE "rate_limit_alert" (
    "watch" VARCHAR(80) NOT NULL,
    "key" VARCHAR(255) NOT NULL,
    "count" BIGINT NOT NULL DEFAULT 0,
    "notified_at" TIMESTAMPTZ(3),
    "resolved_at" TIMESTAMPTZ(3),
    "claim" VARCHAR(36) NOT NULL DEFAULT '',
    "claimed_until" TIMESTAMPTZ(3),
    "expires_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "rate_limit_alert_pkey" PRIMARY KEY ("watch","key")
);

-- CreateTable
CREATE TABLE "rate_limit_notice" (
    "id" VARCHAR(64) NOT NULL,
    "client" VARCHAR(255) NOT NULL,
    "notice" TEXT NOT NULL,
    "noticed_at" TIMESTAMPTZ(3) NOT NULL,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "rate_limit_notice_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "rate_limit_alert_run" (
    "channel" VARCHAR(80) NOT NULL,
    "kind" VARCHAR(20) NOT NULL,
    "ran_at" TIMESTAMPTZ(3) NOT NULL,
    "sent_at" TIMESTAMPTZ(3),
    "told" INTEGER NOT NULL DEFAULT 0,
    "error" TEXT,

    CONSTRAINT "rate_limit_alert_run_pkey" PRIMARY KEY ("channel","kind")
);

-- CreateTable
CREATE TABLE "rate_limit_list" (
    "source" VARCHAR(64) NOT NULL,
    "version" VARCHAR(36) NOT NULL,
    "parts" INTEGER NOT NULL,
    "etag" TEXT,
    "last_modified" TEXT,
    "checked_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "rate_limit_list_pkey" PRIMARY KEY ("source")
);

-- CreateTable
CREATE TABLE "rate_limit_list_part" (
    "version" VARCHAR(36) NOT NULL,
    "part" INTEGER NOT NULL,
    "source" VARCHAR(64) NOT NULL,
    "text" TEXT NOT NULL,

    CONSTRAINT "rate_limit_list_part_pkey" PRIMARY KEY ("version","part")
);

-- CreateTable
CREATE TABLE "rate_limit_job" (
    "name" VARCHAR(100) NOT NULL,
    "due_at" TIMESTAMPTZ(3) NOT NULL,
    "holder" VARCHAR(36) NOT NULL,
    "lease_until" TIMESTAMPTZ(3) NOT NULL,
    "started_at" TIMESTAMPTZ(3) NOT NULL,
    "finished_at" TIMESTAMPTZ(3),
    "error" TEXT,

    CONSTRAINT "rate_limit_job_pkey" PRIMARY KEY ("name")
);

-- CreateIndex
CREATE INDEX "rate_limit_list_part_source_idx" ON "rate_limit_list_part"("source");

-- CreateIndex
CREATE INDEX "rate_limit_alert_expires_at_idx" ON "rate_limit_alert"("expires_at");

-- CreateIndex
CREATE INDEX "rate_limit_notice_noticed_at_idx" ON "rate_limit_notice"("noticed_at");

-- CreateIndex
CREATE INDEX "rate_limit_notice_expires_at_idx" ON "rate_limit_notice"("expires_at");
