// The entry for the bundler of a host's own AdminJS.
import './panel.js'

export default window.AdminJS.UserComponents.RateLimitInList
