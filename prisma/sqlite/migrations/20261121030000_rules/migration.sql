-- AlterTable
ALTER TABLE "rate_limit_rule" ADD COLUMN "changed_by" TEXT NOT NULL DEFAULT '';
ALTER TABLE "rate_limit_rule" ADD COLUMN "cost" INTEGER NOT NULL DEFAULT 1;
ALTER TABLE "rate_limit_rule" ADD COLUMN "counts" TEXT NOT NULL DEFAULT 'requests';
ALTER TABLE "rate_limit_rule" ADD COLUMN "ends_at" DATETIME;
ALTER TABLE "rate_limit_rule" ADD COLUMN "refusal_message" TEXT NOT NULL DEFAULT '';
ALTER TABLE "rate_limit_rule" ADD COLUMN "refusal_status" INTEGER NOT NULL DEFAULT 429;
ALTER TABLE "rate_limit_rule" ADD COLUMN "starts_at" DATETIME;
ALTER TABLE "rate_limit_rule" ADD COLUMN "condition" TEXT NOT NULL DEFAULT '';

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

-- The one row.
INSERT INTO "rate_limit_revision" ("id", "revision") VALUES (1, 0);

-- The history of rules and overrides, and the revision by which other processes notice a change.
--
-- Row triggers record every change. They read its source and actor from "changed_by": each write of this package sets it
-- to 12 characters that never come again, the source, a colon, and the actor. So a value that an update leaves unchanged
-- is that of an earlier write, and the update is raw SQL. A deleted row cannot carry them: the client writes them into
-- the recorded change afterwards, in the same transaction where there is one.
--
-- Every recorded change counts up the revision; an update that changes nothing does neither.
CREATE TRIGGER "rate_limit_revision_bump" AFTER INSERT ON "rate_limit_change"
BEGIN
    UPDATE "rate_limit_revision" SET "revision" = "revision" + 1 WHERE "id" = 1;
END;

CREATE TRIGGER "rate_limit_rule_recorded_insert" AFTER INSERT ON "rate_limit_rule"
BEGIN
    INSERT INTO "rate_limit_change" ("actor", "source", "entity", "row_id", "name", "action", "before", "after")
    VALUES (
        CASE WHEN NEW."changed_by" <> '' THEN substr(NEW."changed_by", instr(NEW."changed_by", ':') + 1) ELSE '' END,
        CASE WHEN NEW."changed_by" <> '' THEN substr(NEW."changed_by", 13, instr(NEW."changed_by", ':') - 13) ELSE 'sql' END,
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
            'block', json(CASE WHEN NEW."block" THEN 'true' ELSE 'false' END),
            'refusalStatus', NEW."refusal_status",
            'refusalMessage', NEW."refusal_message",
            'isActive', json(CASE WHEN NEW."is_active" THEN 'true' ELSE 'false' END),
            'startsAt', CASE typeof(NEW."starts_at") WHEN 'text' THEN CAST(ROUND((julianday(NEW."starts_at") - 2440587.5) * 86400000) AS INTEGER) ELSE NEW."starts_at" END,
            'endsAt', CASE typeof(NEW."ends_at") WHEN 'text' THEN CAST(ROUND((julianday(NEW."ends_at") - 2440587.5) * 86400000) AS INTEGER) ELSE NEW."ends_at" END,
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
    OR OLD."block" IS NOT NEW."block"
    OR OLD."refusal_status" IS NOT NEW."refusal_status"
    OR OLD."refusal_message" IS NOT NEW."refusal_message"
    OR OLD."is_active" IS NOT NEW."is_active"
    OR CASE typeof(OLD."starts_at") WHEN 'text' THEN CAST(ROUND((julianday(OLD."starts_at") - 2440587.5) * 86400000) AS INTEGER) ELSE OLD."starts_at" END IS NOT CASE typeof(NEW."starts_at") WHEN 'text' THEN CAST(ROUND((julianday(NEW."starts_at") - 2440587.5) * 86400000) AS INTEGER) ELSE NEW."starts_at" END
    OR CASE typeof(OLD."ends_at") WHEN 'text' THEN CAST(ROUND((julianday(OLD."ends_at") - 2440587.5) * 86400000) AS INTEGER) ELSE OLD."ends_at" END IS NOT CASE typeof(NEW."ends_at") WHEN 'text' THEN CAST(ROUND((julianday(NEW."ends_at") - 2440587.5) * 86400000) AS INTEGER) ELSE NEW."ends_at" END
    OR OLD."priority" IS NOT NEW."priority"
BEGIN
    INSERT INTO "rate_limit_change" ("actor", "source", "entity", "row_id", "name", "action", "before", "after")
    VALUES (
        CASE WHEN NEW."changed_by" NOT IN ('', OLD."changed_by") THEN substr(NEW."changed_by", instr(NEW."changed_by", ':') + 1) ELSE '' END,
        CASE WHEN NEW."changed_by" NOT IN ('', OLD."changed_by") THEN substr(NEW."changed_by", 13, instr(NEW."changed_by", ':') - 13) ELSE 'sql' END,
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
            'block', json(CASE WHEN OLD."block" THEN 'true' ELSE 'false' END),
            'refusalStatus', OLD."refusal_status",
            'refusalMessage', OLD."refusal_message",
            'isActive', json(CASE WHEN OLD."is_active" THEN 'true' ELSE 'false' END),
            'startsAt', CASE typeof(OLD."starts_at") WHEN 'text' THEN CAST(ROUND((julianday(OLD."starts_at") - 2440587.5) * 86400000) AS INTEGER) ELSE OLD."starts_at" END,
            'endsAt', CASE typeof(OLD."ends_at") WHEN 'text' THEN CAST(ROUND((julianday(OLD."ends_at") - 2440587.5) * 86400000) AS INTEGER) ELSE OLD."ends_at" END,
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
            'block', json(CASE WHEN NEW."block" THEN 'true' ELSE 'false' END),
            'refusalStatus', NEW."refusal_status",
            'refusalMessage', NEW."refusal_message",
            'isActive', json(CASE WHEN NEW."is_active" THEN 'true' ELSE 'false' END),
            'startsAt', CASE typeof(NEW."starts_at") WHEN 'text' THEN CAST(ROUND((julianday(NEW."starts_at") - 2440587.5) * 86400000) AS INTEGER) ELSE NEW."starts_at" END,
            'endsAt', CASE typeof(NEW."ends_at") WHEN 'text' THEN CAST(ROUND((julianday(NEW."ends_at") - 2440587.5) * 86400000) AS INTEGER) ELSE NEW."ends_at" END,
            'priority', NEW."priority"
        )
    );
END;

CREATE TRIGGER "rate_limit_rule_recorded_delete" AFTER DELETE ON "rate_limit_rule"
BEGIN
    INSERT INTO "rate_limit_change" ("actor", "source", "entity", "row_id", "name", "action", "before", "after")
    VALUES (
        '',
        'sql',
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
            'block', json(CASE WHEN OLD."block" THEN 'true' ELSE 'false' END),
            'refusalStatus', OLD."refusal_status",
            'refusalMessage', OLD."refusal_message",
            'isActive', json(CASE WHEN OLD."is_active" THEN 'true' ELSE 'false' END),
            'startsAt', CASE typeof(OLD."starts_at") WHEN 'text' THEN CAST(ROUND((julianday(OLD."starts_at") - 2440587.5) * 86400000) AS INTEGER) ELSE OLD."starts_at" END,
            'endsAt', CASE typeof(OLD."ends_at") WHEN 'text' THEN CAST(ROUND((julianday(OLD."ends_at") - 2440587.5) * 86400000) AS INTEGER) ELSE OLD."ends_at" END,
            'priority', OLD."priority"
        ),
        NULL
    );
END;

CREATE TRIGGER "rate_limit_override_recorded_insert" AFTER INSERT ON "rate_limit_override"
BEGIN
    INSERT INTO "rate_limit_change" ("actor", "source", "entity", "row_id", "name", "action", "before", "after")
    VALUES (
        CASE WHEN NEW."changed_by" <> '' THEN substr(NEW."changed_by", instr(NEW."changed_by", ':') + 1) ELSE '' END,
        CASE WHEN NEW."changed_by" <> '' THEN substr(NEW."changed_by", 13, instr(NEW."changed_by", ':') - 13) ELSE 'sql' END,
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
    INSERT INTO "rate_limit_change" ("actor", "source", "entity", "row_id", "name", "action", "before", "after")
    VALUES (
        CASE WHEN NEW."changed_by" NOT IN ('', OLD."changed_by") THEN substr(NEW."changed_by", instr(NEW."changed_by", ':') + 1) ELSE '' END,
        CASE WHEN NEW."changed_by" NOT IN ('', OLD."changed_by") THEN substr(NEW."changed_by", 13, instr(NEW."changed_by", ':') - 13) ELSE 'sql' END,
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
BEGIN
    INSERT INTO "rate_limit_change" ("actor", "source", "entity", "row_id", "name", "action", "before", "after")
    VALUES (
        '',
        'sql',
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
