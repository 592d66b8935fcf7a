// Each result of a search shows a piece of its page. A browser does not let a page from disk read others.
DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = location.protocol !== "file:";

// Each picture is a link to itself, as on a phone its text is small.
document.addEventListener("DOMContentLoaded", () => {
  for (const picture of document.querySelectorAll("article img")) {
    const link = Object.assign(document.createElement("a"), { href: picture.src, target: "_blank" });
    picture.replaceWith(link);
    link.append(picture);
  }
});
