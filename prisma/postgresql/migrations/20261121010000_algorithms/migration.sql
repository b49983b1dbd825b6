-- CreateTable
CREATE TABLE "rate_limit_sliding_window" (
    "key" VARCHAR(255) NOT NULL,
    "period_ms" BIGINT NOT NULL,
    "cell_start_ms" BIGINT NOT NULL,
    "previous_count" BIGINT NOT NULL,
    "current_count" BIGINT NOT NULL,
    "limit" BIGINT NOT NULL,
    "checked_ms" BIGINT NOT NULL,
    "asked" INTEGER NOT NULL,
    "admitted" INTEGER NOT NULL,
    "cost" BIGINT NOT NULL,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "windows" TEXT,

    CONSTRAINT "rate_limit_sliding_window_pkey" PRIMARY KEY ("key")
);

-- CreateTable
CREATE TABLE "rate_limit_token_bucket" (
    "key" VARCHAR(255) NOT NULL,
    "period_ms" BIGINT NOT NULL,
    "drain_limit" BIGINT NOT NULL,
    "used" BIGINT NOT NULL,
    "fraction" BIGINT NOT NULL,
    "checked_ms" BIGINT NOT NULL,
    "asked" INTEGER NOT NULL,
    "admitted" INTEGER NOT NULL,
    "cost" BIGINT NOT NULL,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "windows" TEXT,

    CONSTRAINT "rate_limit_token_bucket_pkey" PRIMARY KEY ("key")
);

-- CreateTable
CREATE TABLE "rate_limit_leaky_bucket" (
    "key" VARCHAR(255) NOT NULL,
    "period_ms" BIGINT NOT NULL,
    "drain_limit" BIGINT NOT NULL,
    "used" BIGINT NOT NULL,
    "fraction" BIGINT NOT NULL,
    "checked_ms" BIGINT NOT NULL,
    "asked" INTEGER NOT NULL,
    "admitted" INTEGER NOT NULL,
    "cost" BIGINT NOT NULL,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "windows" TEXT,

    CONSTRAINT "rate_limit_leaky_bucket_pkey" PRIMARY KEY ("key")
);

-- CreateIndex
CREATE INDEX "rate_limit_sliding_window_expires_at_idx" ON "rate_limit_sliding_window"("expires_at");

-- CreateIndex
CREATE INDEX "rate_limit_token_bucket_expires_at_idx" ON "rate_limit_token_bucket"("expires_at");

-- CreateIndex
CREATE INDEX "rate_limit_leaky_bucket_expires_at_idx" ON "rate_limit_leaky_bucket"("expires_at");

