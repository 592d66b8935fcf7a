// Draws the diagrams of a page in the colours of its theme, and again when the theme changes.
const diagrams = [...document.querySelectorAll("div.mermaid pre")].map((block) => ({ block, text: block.textContent }));
const prefersDark = matchMedia("(prefers-color-scheme: dark)");

const draw = async () => {
  const chosen = document.body.dataset.theme;
  const dark = chosen === "dark" || (chosen !== "light" && prefersDark.matches);
  const size = { useMaxWidth: false };
  mermaid.initialize({
    startOnLoad: false, theme: dark ? "dark" : "neutral", flowchart: size, sequence: size, state: size,
  });
  for (const [number, { block, text }] of diagrams.entries()) {
    const { svg } = await mermaid.render(`diagram-${number}`, text);
    block.innerHTML = svg;
  }
};

draw();
prefersDark.addEventListener("change", draw);
new MutationObserver(draw).observe(document.body, { attributeFilter: ["data-theme"] });
