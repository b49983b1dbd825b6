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
CREATE INDEX "rate_limit_alert_expires_at_idx" ON "rate_limit_alert"("expires_at");

