// The contrast of every text in view with what is behind it, as WCAG 2.2 defines it.
const channel = (value) => {
  const c = value / 255;
  return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
};
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const parse = (text) => { const [r, g, b, a] = text.match(/[\d.]+/g).map(Number); return [r, g, b, a ?? 1]; };
const over = (top, below) => [0, 1, 2].map((n) => top[n] * top[3] + below[n] * (1 - top[3]));
const behind = (element) => {
  const layers = [];
  for (let layer = element; layer; layer = layer.parentElement) {
    const colour = parse(getComputedStyle(layer).backgroundColor);
    if (colour[3] > 0) layers.unshift(colour);
    if (colour[3] === 1) break;
  }
  return layers.reduce((below, top) => over(top, below), [255, 255, 255]);
};
const contrasts = [];
for (const element of document.querySelectorAll("body *")) {
  const own = [...element.childNodes].filter((node) => node.nodeType === 3);
  const text = own.map((node) => node.data.trim()).join("");
  if (!text || ["SCRIPT", "STYLE", "TITLE", "title", "NOSCRIPT"].includes(element.tagName)) continue;
  if (!element.checkVisibility({ visibilityProperty: true })) continue;
  if (element.getBoundingClientRect().width < 2) continue;
  const style = getComputedStyle(element);
  const back = behind(element);
  const ink = parse(element instanceof SVGElement ? style.fill : style.color);
  const [a, b] = [light(over(ink, back)), light(back)];
  const name = element.className.baseVal ?? element.className;
  contrasts.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), text.slice(0, 40), name]);
}
return contrasts;
