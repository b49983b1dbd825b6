/** The default theme, with the picture of the dashboard on the front page. */
import DefaultTheme from 'vitepress/theme'
import { h } from 'vue'
import light from '../../images/dashboard.png'
import dark from '../../images/dashboard-dark.png'
import './style.css'

function drawPicture() {
  const alt = 'The dashboard: what goes on, requests over time, and the clients that were refused the most'
  const images = [h('img', { class: 'light-only', src: light, alt }), h('img', { class: 'dark-only', src: dark, alt })]
  return h('a', { class: 'front-picture', href: '/guides/dashboard' }, images)
}

// biome-ignore lint/style/noDefaultExport: VitePress reads it from there.
export default {
  extends: DefaultTheme,
  Layout: () => h(DefaultTheme.Layout, null, { 'home-hero-after': drawPicture }),
}
