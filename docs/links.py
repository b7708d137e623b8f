"""Links inside the built documentation: every file and every anchor that a page points to exists.

python docs/links.py docs/_build/html
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """Targets of a page's links and pictures, and the anchors that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if value and name in ("href", "src"):
                self.links.add(value)
            elif value and name in ("id", "name"):
                self.anchors.add(value)


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html")}
    broken = sorted({f"{path.relative_to(folder)}: {link}" for path in pages for link in missing(path, pages)})
    print(f"{len(pages)} pages, {len(broken)} broken links inside", *broken, sep="\n")
    sys.exit(bool(broken))


def missing(path: Path, pages: dict[Path, Page]) -> list[str]:
    """Links of a page to files or anchors that do not exist."""
    found = []
    for link in pages[path].links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc or path.name in ("genindex.html", "search.html"):
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        lost = parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors
        if lost or not target.exists():
            found.append(link)
    return found


if __name__ == "__main__":
    main()
