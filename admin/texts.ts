/** Texts of the panel in place of AdminJS's own. */
export const TEXTS = {
  labels: { navigation: 'Rate limits', dashboard: 'Overview' },
  pages: { exchange: 'Import and export' },
  messages: {
    successfullyCreated: 'Saved.',
    successfullyUpdated: 'Saved.',
    successfullyDeleted: 'Deleted.',
    thereWereValidationErrors: 'Not saved: see the fields marked below.',
    errorFetchingRecords:
      'The list cannot be loaded: the server does not answer, or you are signed out. Reload the page.',
    errorFetchingRecord: 'This row cannot be read: the server does not answer, or you are signed out. Reload the page.',
    noRecords: 'Nothing here',
  },
}
