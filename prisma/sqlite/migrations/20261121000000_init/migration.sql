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
    "outcome" TEXT NOT NULL DEFAULT ''
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
    "updated_at" DATETIME NOT NULL DEFAULT (CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER))
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

-- CreateIndex
CREATE INDEX "rate_limit_event_timestamp_idx" ON "rate_limit_event"("timestamp");

-- CreateIndex
CREATE INDEX "rate_limit_event_key_timestamp_idx" ON "rate_limit_event"("key", "timestamp");

-- CreateIndex
CREATE INDEX "rate_limit_event_allowed_timestamp_outcome_idx" ON "rate_limit_event"("allowed", "timestamp", "outcome");

-- CreateIndex
CREATE UNIQUE INDEX "rate_limit_rule_name_key" ON "rate_limit_rule"("name");

-- CreateIndex
CREATE INDEX "rate_limit_counter_window_end_idx" ON "rate_limit_counter"("window_end");

-- CreateIndex
CREATE INDEX "rate_limit_staff_session_expires_at_idx" ON "rate_limit_staff_session"("expires_at");


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
