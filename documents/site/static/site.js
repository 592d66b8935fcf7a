// Each result of a search shows a piece of its page. A browser does not let a page from disk read others.
DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = location.protocol !== "file:";
