/** Reads `.env` in the working directory, where there is one. What the environment already holds wins. */
export function loadEnvironmentFile(): void {
  try {
    process.loadEnvFile()
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error
  }
}
