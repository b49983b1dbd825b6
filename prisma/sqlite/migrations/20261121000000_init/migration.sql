-- CreateTable
CREATE TABLE "rate_limit_event" (
    "id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    "timestamp" DATETIME NOT NULL DEFAULT (CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
    "key" TEXT NOT NULL,
    "rule_name" TEXT NOT NULL DEFAULT '',
    "path" TEXT NOT NULL,
    "method" TEXT NOT NULL,
    "allowed" BOOLEAN NOT NULL,
    "count" BIGINT NOT NULL,
    "limit" INTEGER NOT NULL,
    "ip_address" TEXT,
    "user_id" BIGINT,
    "client_ip" TEXT,
    "client" TEXT NOT NULL DEFAULT '',
    "policy" TEXT NOT NULL DEFAULT '',
    "outcome" TEXT NOT NULL DEFAULT '',
    "rules" TEXT NOT NULL DEFAULT '',
    "weight" INTEGER NOT NULL DEFAULT 1 CHECK (typeof("weight") = 'integer' AND "weight" BETWEEN 1 AND 2147483647)
);

-- CreateTable
-- The number of the last event of each process that is in the log: a batch whose answer was lost is not written twice.
CREATE TABLE "rate_limit_event_batch" (
    "writer" TEXT NOT NULL PRIMARY KEY,
    "last_event" BIGINT NOT NULL,
    "written_at" DATETIME NOT NULL
) WITHOUT ROWID;

-- CreateTable
CREATE TABLE "rate_limit_rule" (
    "id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    "name" TEXT NOT NULL,
    "description" TEXT NOT NULL DEFAULT '',
    "path_pattern" TEXT NOT NULL,
    "method" TEXT NOT NULL DEFAULT 'ALL',
    "rate" TEXT NOT NULL,
    "key" TEXT NOT NULL DEFAULT 'ip',
    "algorithm" TEXT NOT NULL DEFAULT 'fixed_window',
    "block" BOOLEAN NOT NULL DEFAULT true,
    "is_active" BOOLEAN NOT NULL DEFAULT true,
    "priority" INTEGER NOT NULL DEFAULT 0,
    "created_at" DATETIME NOT NULL DEFAULT (CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
    "updated_at" DATETIME NOT NULL DEFAULT (CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
    "ban_after" INTEGER NOT NULL DEFAULT 0,
    "ban_for" TEXT NOT NULL DEFAULT '',
    "changed_by" TEXT NOT NULL DEFAULT '',
    "cost" INTEGER NOT NULL DEFAULT 1,
    "counts" TEXT NOT NULL DEFAULT 'requests',
    "ends_at" DATETIME,
    "refusal_message" TEXT NOT NULL DEFAULT '',
    "refusal_status" INTEGER NOT NULL DEFAULT 429,
    "starts_at" DATETIME,
    "condition" TEXT NOT NULL DEFAULT '',
    "group_name" TEXT NOT NULL DEFAULT '',
    "reserve" INTEGER NOT NULL DEFAULT 0,
    "notice_at" TEXT NOT NULL DEFAULT '',
    "unit" TEXT NOT NULL DEFAULT 'requests'
);

-- CreateTable
CREATE TABLE "rate_limit_counter" (
    "key" TEXT NOT NULL PRIMARY KEY,
    "count" BIGINT NOT NULL DEFAULT 0,
    "window_start" DATETIME NOT NULL,
    "window_end" DATETIME NOT NULL,
    "created_at" DATETIME NOT NULL DEFAULT (CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
    "updated_at" DATETIME NOT NULL DEFAULT (CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
    "windows" TEXT
);

-- CreateTable
CREATE TABLE "rate_limit_staff_session" (
    "id_hash" TEXT NOT NULL PRIMARY KEY,
    "account" TEXT NOT NULL,
    "expires_at" DATETIME NOT NULL
);

-- CreateTable
CREATE TABLE "rate_limit_token" (
    "name" TEXT NOT NULL PRIMARY KEY,
    "token_hash" TEXT NOT NULL,
    "role" TEXT NOT NULL,
    "created_at" DATETIME NOT NULL,
    "expires_at" DATETIME,
    "last_used_at" DATETIME
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


-- Reports compare timestamps as whole milliseconds since the epoch. A text that raw SQL wrote
-- (CURRENT_TIMESTAMP, ISO 8601) is converted, so that it is counted in the window it belongs to.
CREATE TRIGGER "rate_limit_event_timestamp_insert" AFTER INSERT ON "rate_limit_event"
WHEN typeof(NEW."timestamp") = 'text' AND julianday(NEW."timestamp") IS NOT NULL
BEGIN
    UPDATE "rate_limit_event"
    SET "timestamp" = CAST(ROUND((julianday(NEW."timestamp") - 2440587.5) * 86400000) AS INTEGER)
    WHERE "id" = NEW."id";
END;

CREATE TRIGGER "rate_limit_event_timestamp_update" AFTER UPDATE OF "timestamp" ON "rate_limit_event"
WHEN typeof(NEW."timestamp") = 'text' AND julianday(NEW."timestamp") IS NOT NULL
BEGIN
    UPDATE "rate_limit_event"
    SET "timestamp" = CAST(ROUND((julianday(NEW."timestamp") - 2440587.5) * 86400000) AS INTEGER)
    WHERE "id" = NEW."id";
END;

-- CreateTable
CREATE TABLE "rate_limit_sliding_window" (
    "key" TEXT NOT NULL PRIMARY KEY,
    "used" BIGINT NOT NULL,
    "asked" INTEGER NOT NULL,
    "cost" BIGINT NOT NULL,
    "expires_at" DATETIME NOT NULL,
    "created_at" DATETIME NOT NULL DEFAULT (CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
    "updated_at" DATETIME NOT NULL DEFAULT (CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
    "windows" TEXT NOT NULL
);

-- CreateTable
CREATE TABLE "rate_limit_token_bucket" (
    "key" TEXT NOT NULL PRIMARY KEY,
    "used" BIGINT NOT NULL,
    "asked" INTEGER NOT NULL,
    "cost" BIGINT NOT NULL,
    "expires_at" DATETIME NOT NULL,
    "created_at" DATETIME NOT NULL DEFAULT (CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
    "updated_at" DATETIME NOT NULL DEFAULT (CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
    "windows" TEXT NOT NULL
);

-- CreateTable
CREATE TABLE "rate_limit_leaky_bucket" (
    "key" TEXT NOT NULL PRIMARY KEY,
    "used" BIGINT NOT NULL,
    "asked" INTEGER NOT NULL,
    "cost" BIGINT NOT NULL,
    "expires_at" DATETIME NOT NULL,
    "created_at" DATETIME NOT NULL DEFAULT (CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
    "updated_at" DATETIME NOT NULL DEFAULT (CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
    "windows" TEXT NOT NULL
);

-- CreateTable
CREATE TABLE "rate_limit_concurrency" (
    "key" TEXT NOT NULL PRIMARY KEY,
    "period_ms" BIGINT NOT NULL,
    "used" BIGINT NOT NULL,
    "granted" BIGINT NOT NULL,
    "first_ms" BIGINT NOT NULL,
    "last_ms" BIGINT NOT NULL,
    "permits" TEXT NOT NULL,
    "expires_at" DATETIME NOT NULL,
    "created_at" DATETIME NOT NULL DEFAULT (CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
    "updated_at" DATETIME NOT NULL DEFAULT (CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER))
);

-- CreateIndex
CREATE INDEX "rate_limit_sliding_window_expires_at_idx" ON "rate_limit_sliding_window"("expires_at");

-- CreateIndex
CREATE INDEX "rate_limit_token_bucket_expires_at_idx" ON "rate_limit_token_bucket"("expires_at");

-- CreateIndex
CREATE INDEX "rate_limit_leaky_bucket_expires_at_idx" ON "rate_limit_leaky_bucket"("expires_at");

-- CreateIndex
CREATE INDEX "rate_limit_concurrency_expires_at_idx" ON "rate_limit_concurrency"("expires_at");

-- CreateTable
CREATE TABLE "rate_limit_override" (
    "id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    "client" TEXT NOT NULL,
    "effect" TEXT NOT NULL,
    "algorithm" TEXT NOT NULL DEFAULT 'fixed_window',
    "path_pattern" TEXT NOT NULL DEFAULT '',
    "expires_at" DATETIME,
    "note" TEXT NOT NULL DEFAULT '',
    "created_at" DATETIME NOT NULL DEFAULT (CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
    "updated_at" DATETIME NOT NULL DEFAULT (CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
    "changed_by" TEXT NOT NULL DEFAULT ''
);

-- CreateTable
CREATE TABLE "rate_limit_change" (
    "id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    "changed_at" DATETIME NOT NULL DEFAULT (CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
    "actor" TEXT NOT NULL DEFAULT '',
    "source" TEXT NOT NULL,
    "entity" TEXT NOT NULL,
    "row_id" BIGINT NOT NULL,
    "name" TEXT NOT NULL,
    "action" TEXT NOT NULL,
    "action_id" TEXT NOT NULL DEFAULT '',
    "before" TEXT,
    "after" TEXT
);

-- CreateTable
CREATE TABLE "rate_limit_revision" (
    "id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    "revision" BIGINT NOT NULL DEFAULT 0
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
CREATE TRIGGER "rate_limit_revision_bump" AFTER INSERT ON "rate_limit_change"
BEGIN
    UPDATE "rate_limit_revision" SET "revision" = "revision" + 1 WHERE "id" = 1;
END;

CREATE TRIGGER "rate_limit_rule_recorded_insert" AFTER INSERT ON "rate_limit_rule"
BEGIN
    INSERT INTO "rate_limit_change" ("actor", "source", "action_id", "entity", "row_id", "name", "action", "before", "after")
    VALUES (
        CASE WHEN NEW."changed_by" <> '' THEN substr(NEW."changed_by", instr(NEW."changed_by", ':') + 1) ELSE '' END,
        CASE WHEN NEW."changed_by" <> '' THEN substr(NEW."changed_by", 17, instr(NEW."changed_by", ':') - 17) ELSE 'sql' END,
        CASE WHEN NEW."changed_by" <> '' THEN substr(NEW."changed_by", 1, 12) ELSE '' END,
        'rule', NEW."id", NEW."name", 'create',
        NULL,
        json_object(
            'name', NEW."name",
            'description', NEW."description",
            'pathPattern', NEW."path_pattern",
            'method', NEW."method",
            'condition', NEW."condition",
            'rate', NEW."rate",
            'key', NEW."key",
            'algorithm', NEW."algorithm",
            'counts', NEW."counts",
            'cost', NEW."cost",
            'unit', NEW."unit",
            'reserve', NEW."reserve",
            'noticeAt', NEW."notice_at",
            'block', json(CASE WHEN NEW."block" THEN 'true' ELSE 'false' END),
            'refusalStatus', NEW."refusal_status",
            'refusalMessage', NEW."refusal_message",
            'banAfter', NEW."ban_after",
            'banFor', NEW."ban_for",
            'isActive', json(CASE WHEN NEW."is_active" THEN 'true' ELSE 'false' END),
            'startsAt', CASE typeof(NEW."starts_at") WHEN 'text' THEN CAST(ROUND((julianday(NEW."starts_at") - 2440587.5) * 86400000) AS INTEGER) ELSE NEW."starts_at" END,
            'endsAt', CASE typeof(NEW."ends_at") WHEN 'text' THEN CAST(ROUND((julianday(NEW."ends_at") - 2440587.5) * 86400000) AS INTEGER) ELSE NEW."ends_at" END,
            'group', NEW."group_name",
            'priority', NEW."priority"
        )
    );
END;

CREATE TRIGGER "rate_limit_rule_recorded_update" AFTER UPDATE ON "rate_limit_rule"
WHEN OLD."name" IS NOT NEW."name"
    OR OLD."description" IS NOT NEW."description"
    OR OLD."path_pattern" IS NOT NEW."path_pattern"
    OR OLD."method" IS NOT NEW."method"
    OR OLD."condition" IS NOT NEW."condition"
    OR OLD."rate" IS NOT NEW."rate"
    OR OLD."key" IS NOT NEW."key"
    OR OLD."algorithm" IS NOT NEW."algorithm"
    OR OLD."counts" IS NOT NEW."counts"
    OR OLD."cost" IS NOT NEW."cost"
    OR OLD."unit" IS NOT NEW."unit"
    OR OLD."reserve" IS NOT NEW."reserve"
    OR OLD."notice_at" IS NOT NEW."notice_at"
    OR OLD."block" IS NOT NEW."block"
    OR OLD."refusal_status" IS NOT NEW."refusal_status"
    OR OLD."refusal_message" IS NOT NEW."refusal_message"
    OR OLD."ban_after" IS NOT NEW."ban_after"
    OR OLD."ban_for" IS NOT NEW."ban_for"
    OR OLD."is_active" IS NOT NEW."is_active"
    OR CASE typeof(OLD."starts_at") WHEN 'text' THEN CAST(ROUND((julianday(OLD."starts_at") - 2440587.5) * 86400000) AS INTEGER) ELSE OLD."starts_at" END IS NOT CASE typeof(NEW."starts_at") WHEN 'text' THEN CAST(ROUND((julianday(NEW."starts_at") - 2440587.5) * 86400000) AS INTEGER) ELSE NEW."starts_at" END
    OR CASE typeof(OLD."ends_at") WHEN 'text' THEN CAST(ROUND((julianday(OLD."ends_at") - 2440587.5) * 86400000) AS INTEGER) ELSE OLD."ends_at" END IS NOT CASE typeof(NEW."ends_at") WHEN 'text' THEN CAST(ROUND((julianday(NEW."ends_at") - 2440587.5) * 86400000) AS INTEGER) ELSE NEW."ends_at" END
    OR OLD."group_name" IS NOT NEW."group_name"
    OR OLD."priority" IS NOT NEW."priority"
BEGIN
    INSERT INTO "rate_limit_change" ("actor", "source", "action_id", "entity", "row_id", "name", "action", "before", "after")
    VALUES (
        CASE WHEN NEW."changed_by" NOT IN ('', OLD."changed_by") THEN substr(NEW."changed_by", instr(NEW."changed_by", ':') + 1) ELSE '' END,
        CASE WHEN NEW."changed_by" NOT IN ('', OLD."changed_by") THEN substr(NEW."changed_by", 17, instr(NEW."changed_by", ':') - 17) ELSE 'sql' END,
        CASE WHEN NEW."changed_by" NOT IN ('', OLD."changed_by") THEN substr(NEW."changed_by", 1, 12) ELSE '' END,
        'rule', NEW."id", NEW."name", 'update',
        json_object(
            'name', OLD."name",
            'description', OLD."description",
            'pathPattern', OLD."path_pattern",
            'method', OLD."method",
            'condition', OLD."condition",
            'rate', OLD."rate",
            'key', OLD."key",
            'algorithm', OLD."algorithm",
            'counts', OLD."counts",
            'cost', OLD."cost",
            'unit', OLD."unit",
            'reserve', OLD."reserve",
            'noticeAt', OLD."notice_at",
            'block', json(CASE WHEN OLD."block" THEN 'true' ELSE 'false' END),
            'refusalStatus', OLD."refusal_status",
            'refusalMessage', OLD."refusal_message",
            'banAfter', OLD."ban_after",
            'banFor', OLD."ban_for",
            'isActive', json(CASE WHEN OLD."is_active" THEN 'true' ELSE 'false' END),
            'startsAt', CASE typeof(OLD."starts_at") WHEN 'text' THEN CAST(ROUND((julianday(OLD."starts_at") - 2440587.5) * 86400000) AS INTEGER) ELSE OLD."starts_at" END,
            'endsAt', CASE typeof(OLD."ends_at") WHEN 'text' THEN CAST(ROUND((julianday(OLD."ends_at") - 2440587.5) * 86400000) AS INTEGER) ELSE OLD."ends_at" END,
            'group', OLD."group_name",
            'priority', OLD."priority"
        ),
        json_object(
            'name', NEW."name",
            'description', NEW."description",
            'pathPattern', NEW."path_pattern",
            'method', NEW."method",
            'condition', NEW."condition",
            'rate', NEW."rate",
            'key', NEW."key",
            'algorithm', NEW."algorithm",
            'counts', NEW."counts",
            'cost', NEW."cost",
            'unit', NEW."unit",
            'reserve', NEW."reserve",
            'noticeAt', NEW."notice_at",
            'block', json(CASE WHEN NEW."block" THEN 'true' ELSE 'false' END),
            'refusalStatus', NEW."refusal_status",
            'refusalMessage', NEW."refusal_message",
            'banAfter', NEW."ban_after",
            'banFor', NEW."ban_for",
            'isActive', json(CASE WHEN NEW."is_active" THEN 'true' ELSE 'false' END),
            'startsAt', CASE typeof(NEW."starts_at") WHEN 'text' THEN CAST(ROUND((julianday(NEW."starts_at") - 2440587.5) * 86400000) AS INTEGER) ELSE NEW."starts_at" END,
            'endsAt', CASE typeof(NEW."ends_at") WHEN 'text' THEN CAST(ROUND((julianday(NEW."ends_at") - 2440587.5) * 86400000) AS INTEGER) ELSE NEW."ends_at" END,
            'group', NEW."group_name",
            'priority', NEW."priority"
        )
    );
END;

CREATE TRIGGER "rate_limit_rule_recorded_delete" AFTER DELETE ON "rate_limit_rule"
BEGIN
    INSERT INTO "rate_limit_change" ("actor", "source", "action_id", "entity", "row_id", "name", "action", "before", "after")
    VALUES (
        '',
        'sql',
        '',
        'rule', OLD."id", OLD."name", 'delete',
        json_object(
            'name', OLD."name",
            'description', OLD."description",
            'pathPattern', OLD."path_pattern",
            'method', OLD."method",
            'condition', OLD."condition",
            'rate', OLD."rate",
            'key', OLD."key",
            'algorithm', OLD."algorithm",
            'counts', OLD."counts",
            'cost', OLD."cost",
            'unit', OLD."unit",
            'reserve', OLD."reserve",
            'noticeAt', OLD."notice_at",
            'block', json(CASE WHEN OLD."block" THEN 'true' ELSE 'false' END),
            'refusalStatus', OLD."refusal_status",
            'refusalMessage', OLD."refusal_message",
            'banAfter', OLD."ban_after",
            'banFor', OLD."ban_for",
            'isActive', json(CASE WHEN OLD."is_active" THEN 'true' ELSE 'false' END),
            'startsAt', CASE typeof(OLD."starts_at") WHEN 'text' THEN CAST(ROUND((julianday(OLD."starts_at") - 2440587.5) * 86400000) AS INTEGER) ELSE OLD."starts_at" END,
            'endsAt', CASE typeof(OLD."ends_at") WHEN 'text' THEN CAST(ROUND((julianday(OLD."ends_at") - 2440587.5) * 86400000) AS INTEGER) ELSE OLD."ends_at" END,
            'group', OLD."group_name",
            'priority', OLD."priority"
        ),
        NULL
    );
END;

CREATE TRIGGER "rate_limit_override_recorded_insert" AFTER INSERT ON "rate_limit_override"
BEGIN
    INSERT INTO "rate_limit_change" ("actor", "source", "action_id", "entity", "row_id", "name", "action", "before", "after")
    VALUES (
        CASE WHEN NEW."changed_by" <> '' THEN substr(NEW."changed_by", instr(NEW."changed_by", ':') + 1) ELSE '' END,
        CASE WHEN NEW."changed_by" <> '' THEN substr(NEW."changed_by", 17, instr(NEW."changed_by", ':') - 17) ELSE 'sql' END,
        CASE WHEN NEW."changed_by" <> '' THEN substr(NEW."changed_by", 1, 12) ELSE '' END,
        'override', NEW."id", NEW."client", 'create',
        NULL,
        json_object(
            'client', NEW."client",
            'effect', NEW."effect",
            'algorithm', NEW."algorithm",
            'pathPattern', NEW."path_pattern",
            'expiresAt', CASE typeof(NEW."expires_at") WHEN 'text' THEN CAST(ROUND((julianday(NEW."expires_at") - 2440587.5) * 86400000) AS INTEGER) ELSE NEW."expires_at" END,
            'note', NEW."note"
        )
    );
END;

CREATE TRIGGER "rate_limit_override_recorded_update" AFTER UPDATE ON "rate_limit_override"
WHEN OLD."client" IS NOT NEW."client"
    OR OLD."effect" IS NOT NEW."effect"
    OR OLD."algorithm" IS NOT NEW."algorithm"
    OR OLD."path_pattern" IS NOT NEW."path_pattern"
    OR CASE typeof(OLD."expires_at") WHEN 'text' THEN CAST(ROUND((julianday(OLD."expires_at") - 2440587.5) * 86400000) AS INTEGER) ELSE OLD."expires_at" END IS NOT CASE typeof(NEW."expires_at") WHEN 'text' THEN CAST(ROUND((julianday(NEW."expires_at") - 2440587.5) * 86400000) AS INTEGER) ELSE NEW."expires_at" END
    OR OLD."note" IS NOT NEW."note"
BEGIN
    INSERT INTO "rate_limit_change" ("actor", "source", "action_id", "entity", "row_id", "name", "action", "before", "after")
    VALUES (
        CASE WHEN NEW."changed_by" NOT IN ('', OLD."changed_by") THEN substr(NEW."changed_by", instr(NEW."changed_by", ':') + 1) ELSE '' END,
        CASE WHEN NEW."changed_by" NOT IN ('', OLD."changed_by") THEN substr(NEW."changed_by", 17, instr(NEW."changed_by", ':') - 17) ELSE 'sql' END,
        CASE WHEN NEW."changed_by" NOT IN ('', OLD."changed_by") THEN substr(NEW."changed_by", 1, 12) ELSE '' END,
        'override', NEW."id", NEW."client", 'update',
        json_object(
            'client', OLD."client",
            'effect', OLD."effect",
            'algorithm', OLD."algorithm",
            'pathPattern', OLD."path_pattern",
            'expiresAt', CASE typeof(OLD."expires_at") WHEN 'text' THEN CAST(ROUND((julianday(OLD."expires_at") - 2440587.5) * 86400000) AS INTEGER) ELSE OLD."expires_at" END,
            'note', OLD."note"
        ),
        json_object(
            'client', NEW."client",
            'effect', NEW."effect",
            'algorithm', NEW."algorithm",
            'pathPattern', NEW."path_pattern",
            'expiresAt', CASE typeof(NEW."expires_at") WHEN 'text' THEN CAST(ROUND((julianday(NEW."expires_at") - 2440587.5) * 86400000) AS INTEGER) ELSE NEW."expires_at" END,
            'note', NEW."note"
        )
    );
END;

CREATE TRIGGER "rate_limit_override_recorded_delete" AFTER DELETE ON "rate_limit_override"
WHEN OLD."changed_by" <> 'expired'
BEGIN
    INSERT INTO "rate_limit_change" ("actor", "source", "action_id", "entity", "row_id", "name", "action", "before", "after")
    VALUES (
        '',
        'sql',
        '',
        'override', OLD."id", OLD."client", 'delete',
        json_object(
            'client', OLD."client",
            'effect', OLD."effect",
            'algorithm', OLD."algorithm",
            'pathPattern', OLD."path_pattern",
            'expiresAt', CASE typeof(OLD."expires_at") WHEN 'text' THEN CAST(ROUND((julianday(OLD."expires_at") - 2440587.5) * 86400000) AS INTEGER) ELSE OLD."expires_at" END,
            'note', OLD."note"
        ),
        NULL
    );
END;

-- As in the event table: a text that raw SQL wrote becomes milliseconds, so that it is compared as a moment. The
-- triggers above take both spellings for the same.
CREATE TRIGGER "rate_limit_override_expires_at_insert" AFTER INSERT ON "rate_limit_override"
WHEN typeof(NEW."expires_at") = 'text' AND julianday(NEW."expires_at") IS NOT NULL
BEGIN
    UPDATE "rate_limit_override"
    SET "expires_at" = CAST(ROUND((julianday(NEW."expires_at") - 2440587.5) * 86400000) AS INTEGER)
    WHERE "id" = NEW."id";
END;

CREATE TRIGGER "rate_limit_override_expires_at_update" AFTER UPDATE OF "expires_at" ON "rate_limit_override"
WHEN typeof(NEW."expires_at") = 'text' AND julianday(NEW."expires_at") IS NOT NULL
BEGIN
    UPDATE "rate_limit_override"
    SET "expires_at" = CAST(ROUND((julianday(NEW."expires_at") - 2440587.5) * 86400000) AS INTEGER)
    WHERE "id" = NEW."id";
END;

CREATE TRIGGER "rate_limit_rule_starts_at_insert" AFTER INSERT ON "rate_limit_rule"
WHEN typeof(NEW."starts_at") = 'text' AND julianday(NEW."starts_at") IS NOT NULL
BEGIN
    UPDATE "rate_limit_rule"
    SET "starts_at" = CAST(ROUND((julianday(NEW."starts_at") - 2440587.5) * 86400000) AS INTEGER)
    WHERE "id" = NEW."id";
END;

CREATE TRIGGER "rate_limit_rule_starts_at_update" AFTER UPDATE OF "starts_at" ON "rate_limit_rule"
WHEN typeof(NEW."starts_at") = 'text' AND julianday(NEW."starts_at") IS NOT NULL
BEGIN
    UPDATE "rate_limit_rule"
    SET "starts_at" = CAST(ROUND((julianday(NEW."starts_at") - 2440587.5) * 86400000) AS INTEGER)
    WHERE "id" = NEW."id";
END;

CREATE TRIGGER "rate_limit_rule_ends_at_insert" AFTER INSERT ON "rate_limit_rule"
WHEN typeof(NEW."ends_at") = 'text' AND julianday(NEW."ends_at") IS NOT NULL
BEGIN
    UPDATE "rate_limit_rule"
    SET "ends_at" = CAST(ROUND((julianday(NEW."ends_at") - 2440587.5) * 86400000) AS INTEGER)
    WHERE "id" = NEW."id";
END;

CREATE TRIGGER "rate_limit_rule_ends_at_update" AFTER UPDATE OF "ends_at" ON "rate_limit_rule"
WHEN typeof(NEW."ends_at") = 'text' AND julianday(NEW."ends_at") IS NOT NULL
BEGIN
    UPDATE "rate_limit_rule"
    SET "ends_at" = CAST(ROUND((julianday(NEW."ends_at") - 2440587.5) * 86400000) AS INTEGER)
    WHERE "id" = NEW."id";
END;

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
-- The requests to which rules applied beside the one that decided: how many of them were refused or would have been, and
-- how many the rule itself refused. Paths as above.
CREATE TABLE "rate_limit_rule_rollup" (
    "span" INTEGER NOT NULL,
    "bucket" BIGINT NOT NULL,
    "path" TEXT NOT NULL,
    "rule_name" TEXT NOT NULL,
    "method" TEXT NOT NULL,
    "total" BIGINT NOT NULL,
    "blocked" BIGINT NOT NULL,
    "would_block" BIGINT NOT NULL,
    "refused" BIGINT NOT NULL,

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
-- All requests of each client, by what decided. A bucket that is over keeps its 500 busiest clients and those of the table
-- above; days are counted from the hours that are over.
CREATE TABLE "rate_limit_request_rollup" (
    "span" INTEGER NOT NULL,
    "bucket" BIGINT NOT NULL,
    "client" TEXT NOT NULL,
    "policy" TEXT NOT NULL,
    "requests" BIGINT NOT NULL,

    PRIMARY KEY ("span", "bucket", "client", "policy")
) WITHOUT ROWID;

-- CreateTable
-- The keys of events that do not tell their clients, by day: a rule of a group may count by another kind than the rest. The
-- log has no index of clients, and reports find the events of one by these keys, too.
CREATE TABLE "rate_limit_client_key" (
    "client" TEXT NOT NULL,
    "day" BIGINT NOT NULL,
    "key" TEXT NOT NULL,

    PRIMARY KEY ("client", "day", "key")
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

-- CreateTable
-- The hours that are to be counted again.
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

-- CreateTable
-- What each client used of a unit, by policy: `span` is `day` or `month`, and `period` such a day or month in UTC, as
-- 2026-11-30 or 2026-11. Servers add every charge to both. `requests` has each request once a day.
CREATE TABLE "rate_limit_usage" (
    "span" TEXT NOT NULL,
    "period" TEXT NOT NULL,
    "unit" TEXT NOT NULL,
    "client" TEXT NOT NULL,
    "policy" TEXT NOT NULL,
    "amount" BIGINT NOT NULL,
    "requests" BIGINT NOT NULL,

    PRIMARY KEY ("span", "period", "unit", "client", "policy")
) WITHOUT ROWID;

-- CreateIndex
CREATE INDEX "rate_limit_usage_client_idx" ON "rate_limit_usage"("client", "span", "period");

-- CreateTable
CREATE TABLE "rate_limit_alert" (
    "watch" TEXT NOT NULL,
    "key" TEXT NOT NULL,
    "count" BIGINT NOT NULL DEFAULT 0,
    "notified_at" DATETIME,
    "resolved_at" DATETIME,
    "claim" TEXT NOT NULL DEFAULT '',
    "claimed_until" DATETIME,
    "expires_at" DATETIME NOT NULL,

    PRIMARY KEY ("watch", "key")
);

-- CreateTable
CREATE TABLE "rate_limit_notice" (
    "id" TEXT NOT NULL PRIMARY KEY,
    "client" TEXT NOT NULL,
    "notice" TEXT NOT NULL,
    "noticed_at" DATETIME NOT NULL,
    "expires_at" DATETIME NOT NULL
);

-- CreateTable
CREATE TABLE "rate_limit_alert_run" (
    "channel" TEXT NOT NULL,
    "kind" TEXT NOT NULL,
    "ran_at" DATETIME NOT NULL,
    "sent_at" DATETIME,
    "told" INTEGER NOT NULL DEFAULT 0,
    "error" TEXT,

    PRIMARY KEY ("channel", "kind")
);

-- CreateTable
CREATE TABLE "rate_limit_list" (
    "source" TEXT NOT NULL PRIMARY KEY,
    "version" TEXT NOT NULL,
    "parts" INTEGER NOT NULL,
    "etag" TEXT,
    "last_modified" TEXT,
    "checked_at" DATETIME NOT NULL
);

-- CreateTable
CREATE TABLE "rate_limit_list_part" (
    "version" TEXT NOT NULL,
    "part" INTEGER NOT NULL,
    "source" TEXT NOT NULL,
    "text" TEXT NOT NULL,

    PRIMARY KEY ("version", "part")
);

-- CreateTable
CREATE TABLE "rate_limit_job" (
    "name" TEXT NOT NULL PRIMARY KEY,
    "due_at" DATETIME NOT NULL,
    "holder" TEXT NOT NULL,
    "lease_until" DATETIME NOT NULL,
    "started_at" DATETIME NOT NULL,
    "finished_at" DATETIME,
    "error" TEXT
);

-- CreateIndex
CREATE INDEX "rate_limit_list_part_source_idx" ON "rate_limit_list_part"("source");

-- CreateIndex
CREATE INDEX "rate_limit_alert_expires_at_idx" ON "rate_limit_alert"("expires_at");

-- CreateIndex
CREATE INDEX "rate_limit_notice_noticed_at_idx" ON "rate_limit_notice"("noticed_at");

-- CreateIndex
CREATE INDEX "rate_limit_notice_expires_at_idx" ON "rate_limit_notice"("expires_at");
