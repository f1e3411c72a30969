"""Takes the picture of a report page that stands in the README: its upper part, as a browser shows it.

usage: report_picture.py INDEX.HTML PICTURE.PNG
"""
import os, sys, tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from devtools import Browser

source, picture = sys.argv[1:]
with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, Browser(folder) as browser:
    page = browser.page(944, 868)
    page.open("file://" + os.path.abspath(source))
    assert not page.value("[...document.querySelectorAll('.card b')].filter(b => b.textContent === '–').length"), "an empty card"
    assert page.value("document.querySelectorAll('section svg').length >= 3"), "charts are missing"
    page.picture(picture)
    assert not page.complaints, page.complaints
print(picture)
