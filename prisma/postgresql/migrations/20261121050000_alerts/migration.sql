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
CREATE INDEX "rate_limit_alert_expires_at_idx" ON "rate_limit_alert"("expires_at");

