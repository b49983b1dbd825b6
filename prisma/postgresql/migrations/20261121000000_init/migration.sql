-- CreateTable
CREATE TABLE "rate_limit_event" (
    "id" BIGSERIAL NOT NULL,
    "timestamp" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "key" VARCHAR(255) NOT NULL,
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
    "outcome" VARCHAR(20) NOT NULL DEFAULT '',

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

    CONSTRAINT "rate_limit_rule_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "rate_limit_counter" (
    "key" VARCHAR(255) NOT NULL,
    "count" BIGINT NOT NULL DEFAULT 0,
    "window_start" TIMESTAMPTZ(3) NOT NULL,
    "window_end" TIMESTAMPTZ(3) NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "windows" TEXT,

    CONSTRAINT "rate_limit_counter_pkey" PRIMARY KEY ("key")
);

-- CreateTable
CREATE TABLE "rate_limit_staff_session" (
    "id_hash" VARCHAR(64) NOT NULL,
    "account" VARCHAR(100) NOT NULL,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "rate_limit_staff_session_pkey" PRIMARY KEY ("id_hash")
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

