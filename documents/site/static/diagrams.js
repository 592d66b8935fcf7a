// Draws the diagrams of a page. Each fits the page, and is a link to itself, where a large one can be zoomed.
mermaid.initialize({ startOnLoad: false, theme: "neutral" });

const draw = async () => {
  for (const [number, block] of document.querySelectorAll("div.mermaid pre").entries()) {
    const { svg } = await mermaid.render(`diagram-${number}`, block.textContent);
    const link = Object.assign(document.createElement("a"), { innerHTML: svg, target: "_blank" });
    const picture = new XMLSerializer().serializeToString(link.firstChild);
    link.href = URL.createObjectURL(new Blob([picture], { type: "image/svg+xml" }));
    link.ariaLabel = "Open the diagram by itself";
    block.replaceChildren(link);
  }
};

draw();
