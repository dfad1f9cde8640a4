#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The reference as people read it: reference.py FOLDER-WITH-HTML. No link is dead, it is about the
public interface only, it is below 20 MB, and lists that are written once are told whole."""
import html
import os
import pathlib
import re
import sys
import urllib.parse

SOURCE = pathlib.Path(os.environ["ACRE_SOURCE"])
BYTES_MAX = 20_000_000


def dead_links(pages):
    """Links to files or places of files that are not there."""
    names = {page.resolve(): set(re.findall(r'(?:id|name)="([^"]+)"', text))
             for page, text in pages.items()}
    for page, text in pages.items():
        for link in re.findall(r'(?:href|src)="([^"]+)"', text):
            if re.match(r"[a-z]+:|//", link):
                continue
            file, _, place = urllib.parse.unquote(link).partition("#")
            target = (page.parent / file).resolve() if file else page.resolve()
            if not target.exists() or (place and place not in names.get(target, {place})):
                yield f"{page.name}: {link}"


def items():
    """The sentence of every item of every list in the public headers."""
    for header in sorted((SOURCE / "include/acre").glob("*.h")):
        text = header.read_text(encoding="utf-8").replace("\\\n", " ")
        for item in re.findall(r'\bX\((\w+[^()"]*,\s*(?:"[^"]*"\s*)+)\)', text):
            yield header.name, item.split(",")[0].strip(), "".join(re.findall(r'"([^"]*)"', item))


def plain(page):
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", "", page)))


def main():
    folder = pathlib.Path(sys.argv[1])
    pages = {page: page.read_text(encoding="utf-8", errors="replace")
             for page in folder.rglob("*.html")}
    wrong = [f"dead link: {link}" for link in sorted(set(dead_links(pages)))]
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    if size > BYTES_MAX:
        wrong.append(f"{size} bytes are more than {BYTES_MAX}")
    for page in pages:
        if re.search(r"_8c(pp)?(_source)?\.html$", page.name):
            wrong.append(f"{page.name} is about a file that is not public")
    text = " ".join(plain(page) for page in pages.values())
    told = 0
    for header, name, sentence in items():
        told += 1
        if re.sub(r"\s+", " ", sentence) not in text:
            wrong.append(f"{header}: the text of {name} is not whole: {sentence}")
    if told < 50:
        wrong.append(f"only {told} items of lists were found")
    for line in wrong:
        print("FAIL", line)
    print(f"{len(pages)} pages, {size / 1e6:.1f} MB, {told} items of lists, {len(wrong)} faults")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
