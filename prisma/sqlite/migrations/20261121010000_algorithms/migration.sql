-- CreateTable
CREATE TABLE "rate_limit_sliding_window" (
    "key" TEXT NOT NULL PRIMARY KEY,
    "period_ms" BIGINT NOT NULL,
    "cell_start_ms" BIGINT NOT NULL,
    "previous_count" BIGINT NOT NULL,
    "current_count" BIGINT NOT NULL,
    "limit" BIGINT NOT NULL,
    "checked_ms" BIGINT NOT NULL,
    "asked" INTEGER NOT NULL,
    "admitted" INTEGER NOT NULL,
    "cost" BIGINT NOT NULL,
    "expires_at" DATETIME NOT NULL,
    "created_at" DATETIME NOT NULL DEFAULT (CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
    "updated_at" DATETIME NOT NULL DEFAULT (CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
    "windows" TEXT
);

-- CreateTable
CREATE TABLE "rate_limit_token_bucket" (
    "key" TEXT NOT NULL PRIMARY KEY,
    "period_ms" BIGINT NOT NULL,
    "drain_limit" BIGINT NOT NULL,
    "used" BIGINT NOT NULL,
    "fraction" BIGINT NOT NULL,
    "checked_ms" BIGINT NOT NULL,
    "asked" INTEGER NOT NULL,
    "admitted" INTEGER NOT NULL,
    "cost" BIGINT NOT NULL,
    "expires_at" DATETIME NOT NULL,
    "created_at" DATETIME NOT NULL DEFAULT (CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
    "updated_at" DATETIME NOT NULL DEFAULT (CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
    "windows" TEXT
);

-- CreateTable
CREATE TABLE "rate_limit_leaky_bucket" (
    "key" TEXT NOT NULL PRIMARY KEY,
    "period_ms" BIGINT NOT NULL,
    "drain_limit" BIGINT NOT NULL,
    "used" BIGINT NOT NULL,
    "fraction" BIGINT NOT NULL,
    "checked_ms" BIGINT NOT NULL,
    "asked" INTEGER NOT NULL,
    "admitted" INTEGER NOT NULL,
    "cost" BIGINT NOT NULL,
    "expires_at" DATETIME NOT NULL,
    "created_at" DATETIME NOT NULL DEFAULT (CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
    "updated_at" DATETIME NOT NULL DEFAULT (CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
    "windows" TEXT
);

-- CreateIndex
CREATE INDEX "rate_limit_sliding_window_expires_at_idx" ON "rate_limit_sliding_window"("expires_at");

-- CreateIndex
CREATE INDEX "rate_limit_token_bucket_expires_at_idx" ON "rate_limit_token_bucket"("expires_at");

-- CreateIndex
CREATE INDEX "rate_limit_leaky_bucket_expires_at_idx" ON "rate_limit_leaky_bucket"("expires_at");

