/** Returns the message of Microsoft Teams that shows an adaptive card. */
export function teamsCard(parts: { readonly body: readonly object[]; readonly actions?: readonly object[] }): object {
  return {
    type: 'message',
    attachments: [
      {
        contentType: 'application/vnd.microsoft.card.adaptive',
        contentUrl: null,
        content: {
          $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
          type: 'AdaptiveCard',
          version: '1.4',
          ...parts,
        },
      },
    ],
  }
}
