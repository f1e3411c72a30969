"""Looks at a report page in a browser: nothing is cut off on a phone, a click enlarges, sorts and finds, a print fits A4.

usage: browse_report.py INDEX.HTML FOLDER
"""
import os, re, sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from devtools import Browser

TOO_WIDE = """[...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1 &&
    !e.closest('svg')).map(e => e.tagName + ' ' + e.className + ' ' + e.textContent.slice(0, 40))"""


def look(page, url):
    page.open(url)
    for width in (320, 390, 768, 1280):
        page.size(width, 900, is_phone=width < 700)
        assert page.value("document.documentElement.scrollWidth <= innerWidth"), f"{width} px: the page scrolls sideways"
        cut = page.value(TOO_WIDE)
        assert not cut, (width, cut[:5])
    assert not page.value("[...document.querySelectorAll('.card b')].filter(b => b.textContent === '–').length"), "an empty card"
    page.click("button.zoom")
    assert page.value("document.getElementById('large').open && document.querySelector('#large img').naturalWidth > 0")
    page.key("Escape")
    assert not page.value("document.getElementById('large').open")
    page.click("#slides th:nth-child(5) ~ th.n button")
    scores = page.value("[...document.querySelectorAll('#slides tbody tr')].map(r => r.querySelector('td.n').dataset.k).filter(k => k).map(Number)")
    assert len(scores) > 1 and scores == sorted(scores), scores
    page.click("#find")
    page.type("no such slide")
    assert page.value("[...document.querySelectorAll('#slides tbody tr')].every(r => r.hidden)")
    assert page.value("[...document.querySelectorAll('#slides a[href^=\"#\"]')].every(a => document.querySelector(a.getAttribute('href')))")
    assert all(request.startswith(("file:", "data:", "about:")) for request in page.requests), page.requests
    assert not page.complaints, page.complaints


def main():
    url, folder = "file://" + os.path.abspath(sys.argv[1]), sys.argv[2]
    with Browser(os.path.join(folder, "browser")) as browser:
        page = browser.page()
        look(page, url)
        page.open(url)
        page.print(os.path.join(folder, "page.pdf"))
    pdf = open(os.path.join(folder, "page.pdf"), "rb").read()
    sizes = [[float(n) for n in box.split()] for box in re.findall(rb"/MediaBox\s*\[([^]]*)\]", pdf)]
    assert sizes and all(abs(w - 595) < 2 and abs(h - 842) < 2 for _, _, w, h in sizes), sizes
    print(len(sizes), "pages of A4")


main()
