-- AlterTable
ALTER TABLE "rate_limit_rule" ADD COLUMN     "changed_by" VARCHAR(255) NOT NULL DEFAULT '',
ADD COLUMN     "condition" VARCHAR(1000) NOT NULL DEFAULT '',
ADD COLUMN     "cost" INTEGER NOT NULL DEFAULT 1,
ADD COLUMN     "counts" VARCHAR(255) NOT NULL DEFAULT 'requests',
ADD COLUMN     "ends_at" TIMESTAMPTZ(3),
ADD COLUMN     "refusal_message" VARCHAR(500) NOT NULL DEFAULT '',
ADD COLUMN     "refusal_status" INTEGER NOT NULL DEFAULT 429,
ADD COLUMN     "starts_at" TIMESTAMPTZ(3);

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

CREATE FUNCTION "rate_limit_rule_json"(entry JSONB) RETURNS TEXT LANGUAGE sql STABLE AS $$
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
        'block', entry -> 'block',
        'refusalStatus', entry -> 'refusal_status',
        'refusalMessage', entry -> 'refusal_message',
        'isActive', entry -> 'is_active',
        'startsAt', round(extract(epoch FROM (entry ->> 'starts_at')::timestamptz) * 1000)::bigint,
        'endsAt', round(extract(epoch FROM (entry ->> 'ends_at')::timestamptz) * 1000)::bigint,
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
    INSERT INTO "rate_limit_change" ("actor", "source", "entity", "row_id", "name", "action", "before", "after")
    VALUES (
        CASE WHEN by_client THEN substr(NEW."changed_by", strpos(NEW."changed_by", ':') + 1) ELSE '' END,
        CASE WHEN by_client THEN split_part(substr(NEW."changed_by", 13), ':', 1) ELSE 'sql' END,
        'rule', NEW."id", NEW."name", CASE TG_OP WHEN 'INSERT' THEN 'create' ELSE 'update' END, before, after
    );
    RETURN NULL;
END
$$;

CREATE TRIGGER "rate_limit_rule_recorded" AFTER INSERT OR UPDATE OR DELETE ON "rate_limit_rule"
FOR EACH ROW EXECUTE FUNCTION "rate_limit_rule_record"();

CREATE TRIGGER "rate_limit_rule_recorded_truncate" BEFORE TRUNCATE ON "rate_limit_rule"
FOR EACH STATEMENT EXECUTE FUNCTION "rate_limit_rule_record"();

CREATE FUNCTION "rate_limit_override_json"(entry JSONB) RETURNS TEXT LANGUAGE sql STABLE AS $$
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
    INSERT INTO "rate_limit_change" ("actor", "source", "entity", "row_id", "name", "action", "before", "after")
    VALUES (
        CASE WHEN by_client THEN substr(NEW."changed_by", strpos(NEW."changed_by", ':') + 1) ELSE '' END,
        CASE WHEN by_client THEN split_part(substr(NEW."changed_by", 13), ':', 1) ELSE 'sql' END,
        'override', NEW."id", NEW."client", CASE TG_OP WHEN 'INSERT' THEN 'create' ELSE 'update' END, before, after
    );
    RETURN NULL;
END
$$;

CREATE TRIGGER "rate_limit_override_recorded" AFTER INSERT OR UPDATE OR DELETE ON "rate_limit_override"
FOR EACH ROW EXECUTE FUNCTION "rate_limit_override_record"();

CREATE TRIGGER "rate_limit_override_recorded_truncate" BEFORE TRUNCATE ON "rate_limit_override"
FOR EACH STATEMENT EXECUTE FUNCTION "rate_limit_override_record"();
